#!/bin/bash
# On a machine with an NVIDIA GPU, in the repository's root: is every kernel right there, and how fast is it beside the copy and PyTorch?
# usage: h200.sh [PROGRAMS [OUT]]
#   PROGRAMS  folder of cuda_device and test_*: build/tests (default; built when it is not there), or one made elsewhere
#   OUT       folder for rows.json, torch.json, table.txt, and audit-*.txt, ranged.txt of the last steps (default results/h200)
# STEPS: which of them run, in this order (default: all); PAIRS: random pairs (400); PEER_S: seconds for PyTorch (300); AUDIT_S, RANGED_S: for each of
# the last steps (240, 120); DEVICE: of those (cuda:0)
set -u
cd "$(dirname "$0")/../.." || exit 1
programs=${1:-build/tests} out=${2:-results/h200} steps=${STEPS:-random fields sanitizer table peers audits ranged} bad=0 list=tests/device/h200-plans.txt
if [ ! -x "$programs/cuda_device" ]; then
    { meson setup build >/dev/null && ninja -C build --quiet; } || { echo "no programs in $programs, and none could be built: see meson's words above"; exit 1; }
fi
programs=$(cd "$programs" && pwd) device=${DEVICE:-cuda:0}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ROWFOLD_ROOT=$PWD ROWFOLD_BUILD=${ROWFOLD_BUILD:-$PWD/build} ROWFOLD_CACHE=${ROWFOLD_CACHE:-$work/cache} CMOCKA_MESSAGE_OUTPUT=TAP
has() { case " $steps " in *" $1 "*) echo "== $1 at $SECONDS s" ;; *) return 1 ;; esac; }
field() { # a program of tests/laws on the GPU
    ROWFOLD_WORKER='' ROWFOLD_TEST_DEVICE=cuda:0 timeout 400 "$programs/test_$1" >"$work/$1" 2>&1 || { touch "$work/bad"; cat "$work/$1"; }
    echo "$1: $(grep -c '^ok' "$work/$1") passed, $(grep -c '^not ok' "$work/$1") failed"
}
if has random; then bash tests/device/cuda.sh "$programs/cuda_device" kernels '' "${PAIRS:-400}" || bad=1; fi
if has fields; then
    for t in agree field_merging field_numerics field_scheduling field_shapes layouts types; do field "$t" & done
    wait
    [ ! -e "$work/bad" ] || bad=1
fi
if has sanitizer; then
    if command -v compute-sanitizer >/dev/null; then
        for tool in memcheck racecheck; do
            compute-sanitizer --tool $tool --error-exitcode 9 "$programs/cuda_device" random 8 77 >"$work/random" 2>&1 || { bad=1; tail -n 20 "$work/random"; }
            compute-sanitizer --tool $tool --error-exitcode 9 "$programs/cuda_device" kernels kernels 5 40 >"$work/kernels" 2>&1 || { bad=1; tail -n 20 "$work/kernels"; }
            grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$work/random" "$work/kernels"
        done
    else
        echo "SKIP compute-sanitizer is not here"
    fi
fi
if has table; then
    "$programs/cuda_device" speed $list kernels "$out/rows.json" >"$work/rows" || bad=1
    grep -v '^#' "$work/rows" | cut -c1-${COLUMNS:-200}
fi
if has peers; then timeout "${PEER_S:-300}" python3 peers/torch_rows.py >"$out/torch.json" || echo "PyTorch came to no end, or is not here: $(wc -l <"$out/torch.json") lines"; fi
case " $steps " in *" table "* | *" peers "*) python3 peers/table.py "$out/rows.json" "$out/torch.json" >"$out/table.txt" || bad=1 ;; esac

# The last steps: each within its own time, and each tells its own end.
program() { # the first that is there of the command or an example: beside the test programs, or where it is built
    local at
    for at in "$programs/${1##*/}" "$ROWFOLD_BUILD/$1"; do if [ -x "$at" ]; then echo "$at" && return; fi; done
    return 1
}
limited() { # SECONDS NAME COMMAND...: into $out/NAME.txt
    local from=$SECONDS limit=$1 name=$2 rc=0
    shift 2
    timeout -k 10 "$limit" "$@" >"$out/$name.txt" 2>"$work/$name" </dev/null || rc=$?
    tail -n 4 "$out/$name.txt" | cut -c1-"${COLUMNS:-200}"
    case $rc in
    0) echo "$name: done in $((SECONDS - from)) s, $out/$name.txt" ;;
    124 | 137) bad=1 && echo "$name: came to no end in $limit s" ;;
    *) bad=1 && echo "$name: exit $rc" && tail -n 5 "$work/$name" ;;
    esac
}
audit() { # NAME SUITE: are the best plans of its cases among those that a search of the default budget tries?
    local command
    command=$(program cli/rowfold) || { echo "SKIP $1: no rowfold in $programs or $ROWFOLD_BUILD/cli" && return; }
    limited "${AUDIT_S:-240}" "$1" "$command" tune --audit-pruning "suites/$2.suite" --device "$device" --no-store --quiet
}
if has audits; then
    audit audit-12 prior-12
    audit audit-25 prior-25-register
fi
if has ranged; then
    if ranged=$(program examples/example_ranged); then
        limited "${RANGED_S:-120}" ranged "$ranged" kernels/layernorm.row layernorm 1024 4096 "$device" 0 7
    else
        echo "SKIP ranged: no example_ranged in $programs or $ROWFOLD_BUILD/examples"
    fi
fi
echo "== done at $SECONDS s: $out"
exit $bad
