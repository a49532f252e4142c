#!/bin/bash
# On a machine with an NVIDIA GPU: tests/device/cuda (built by meson, or named by $1) over random programs, the kernel
# library and a list of plans to time. usage: cuda.sh PROGRAM KERNELS [LIST] [PAIRS]
set -u
prog=$1 kernels=$2 list=${3:-} pairs=${4:-400} procs=$(nproc)
export ROWFOLD_CACHE=${ROWFOLD_CACHE:-$(mktemp -d)/cache}
bad=0
each=$(((pairs + procs - 1) / procs))
run() { # what, then arguments with K for the process's number
    local what=$1 tmp
    tmp=$(mktemp -d)
    shift
    for ((k = 0; k < procs; k++)); do
        "$prog" "${@//@K/$k}" >"$tmp/$k" 2>&1 || touch "$tmp/bad" &
    done
    wait
    [ "$what" = build ] || grep -h -v '^# NVIDIA\|^ok' "$tmp"/[0-9]* | head -${SHOW:-40}
    sed -n 's|^\(not \)\?ok|ok|p' "$tmp"/[0-9]* | awk -v w="$what" '{d += $3; b += $5; r += $7} END {print w ": " d " done, " b " wrong, " r " refused by the build"}'
    [ ! -e "$tmp/bad" ] || bad=1
    rm -r "$tmp"
}
if [ "$pairs" -gt 0 ]; then
    run random random "$each" 1@K0001
    run kernels kernels "$kernels" @K "$procs"
fi
if [ -n "$list" ]; then
    run build build "$list" "$kernels" @K "$procs"
    "$prog" speed "$list" "$kernels" || bad=1
fi
exit $bad
