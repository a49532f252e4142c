#!/bin/bash
# On a machine with an NVIDIA GPU, in the repository's root: is every kernel right there, and how fast is it beside the copy and PyTorch?
# usage: h200.sh [PROGRAMS [OUT]]
#   PROGRAMS  folder of cuda_device and test_*: build/tests (default; built when it is not there), or one made elsewhere
#   OUT       folder for rows.json, torch.json, table.txt (default results/h200)
# STEPS: which of them run, in this order (default: all); PAIRS: random pairs (400); PEER_S: seconds for PyTorch (300)
set -u
cd "$(dirname "$0")/../.." || exit 1
programs=${1:-build/tests} out=${2:-results/h200} steps=${STEPS:-random fields sanitizer table peers} bad=0 list=tests/device/h200-plans.txt
if [ ! -x "$programs/cuda_device" ]; then
    { meson setup build >/dev/null && ninja -C build --quiet; } || { echo "no programs in $programs, and none could be built: see meson's words above"; exit 1; }
fi
programs=$(cd "$programs" && pwd)
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
python3 peers/table.py "$out/rows.json" "$out/torch.json" >"$out/table.txt" || bad=1
echo "== done at $SECONDS s: $out/table.txt"
exit $bad
