#!/bin/bash
# On a machine with OpenCL devices: NVIDIA's platform is registered by file where only its library is there, then
# tests/device/cuda.c (built by meson as cuda_device) runs on every device: random programs, the kernel library, and on the
# first a list of plans to time. usage: opencl.sh PROGRAM KERNELS [LIST]
set -u
prog=$1 kernels=$2 list=${3:-} procs=$(nproc) vendors=$(mktemp -d) bad=0
cp /etc/OpenCL/vendors/*.icd "$vendors" 2>/dev/null
if ! grep -qs nvidia "$vendors"/*; then
    icd=$(find /usr/local/nvidia /usr/lib /usr/lib64 -name 'libnvidia-opencl.so*' 2>/dev/null | sort | head -1)
    [ -z "$icd" ] || echo "$icd" >"$vendors/00nvidia.icd"
fi
OCL_ICD_VENDORS=$vendors POCL_CACHE_DIR=$(mktemp -d) ROWFOLD_CACHE=''
export OCL_ICD_VENDORS POCL_CACHE_DIR ROWFOLD_CACHE
many() { # device, what, then arguments with @K for the process's number
    local tmp k what=$2
    tmp=$(mktemp -d)
    export ROWFOLD_TEST_DEVICE=$1
    shift
    for ((k = 0; k < procs; k++)); do
        timeout "${LIMIT:-60}" "$prog" "${@//@K/$k}" >"$tmp/$k" 2>&1 || echo "process $k of $what: exit $?" >>"$tmp/$k" &
    done
    wait
    grep -h -v '^ok' "$tmp"/* | sort | uniq -c | sort -rn | cut -c1-300 | head -"${SHOW:-24}"
    grep -q '^not ok' "$tmp"/* && bad=1
    sed -n 's|^\(not \)\?ok|ok|p' "$tmp"/* | awk -v w="$ROWFOLD_TEST_DEVICE $what" '{d += $3; b += $5; r += $7} END {print w ": " d " done, " b " wrong, " r " refused by the build"}'
    rm -r "$tmp"
}
for ((i = 0; i < 8; i++)); do
    ROWFOLD_TEST_DEVICE=opencl:$i "$prog" random 1 2 | grep -q SKIP && break
    many "opencl:$i" random "${PAIRS:-24}" 3@K001
    many "opencl:$i" kernels "$kernels" @K "${STEP:-47}"
done
[ -z "$list" ] || ROWFOLD_TEST_DEVICE=opencl:0 "$prog" speed "$list" "$kernels" || bad=1
rm -r "$vendors"
exit $bad
