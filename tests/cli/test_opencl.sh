#!/usr/bin/env bash
# The command with an OpenCL device: PoCL where nothing else is there. What needs none is asked for in any case.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=$scratch/cache POCL_CACHE_DIR=$scratch/pocl ROWFOLD_STORE=$scratch/trials.db
mkdir -p "$HOME" "$POCL_CACHE_DIR"
cd "$scratch"
soft=$root/kernels/softmax.row
rf() { "$rowfold" "$@"; }

check 'emit for any GPU' exits 0 '__kernel GROUP\([0-9]+\)' rf emit "$soft" softmax --shape rows=64,n=300 --device preset:opencl
check 'lanes meet in local memory' exits 0 'barrier\(CLK_LOCAL_MEM_FENCE\)' rf emit "$soft" softmax --shape rows=64,n=3000 --device preset:opencl
check 'emit for a CPU: one lane a row' exits 0 ' W=1 V=1 ' rf emit "$soft" softmax --shape rows=64,n=300 --device preset:pocl
check 'no f64 where there is none' exits 4 'plan.no_f64' rf plan "$soft" softmax --shape rows=64,n=300 --type f64 --device preset:opencl
check 'no loader' exits 5 'rt.no_opencl' env ROWFOLD_LIBOPENCL=/no/such/loader "$rowfold" tune "$soft" softmax --shape rows=8,n=30 --device opencl:0
# ---- the program that times plans on a device: rows with gaps between them, checked against the definition ----
strided() { echo "$1 resident=1 W=1 V=1" | sed 's/ resident/,resident/' >plans.txt && ROWFOLD_TEST_DEVICE=host "$build/tests/cuda_device" speed plans.txt "$root/kernels" rows.json; }
if [ -x "$build/tests/cuda_device" ]; then
    check 'rows apart in memory' exits 0 '^ok speed: 1 done, 0 wrong' strided 'rmsnorm rmsnorm bf16 rows=64,n=128,x.rows=384,y.rows=256'
    check 'as a case of the table' bash -c 'python3 "$1/peers/table.py" rows.json torch.json | grep -q "^rmsnorm:bf16:64x128:x.rows=384:y.rows=256:resident "' _ "$root"
    check 'elements apart' exits 0 '^ok speed: 1 done, 0 wrong' strided 'rmsnorm rmsnorm bf16 rows=64,n=128,x.n=8'
    check 'rows that lie upon each other' exits 1 'x lies upon itself: a stride of 96' strided 'rmsnorm rmsnorm bf16 rows=64,n=128,x.rows=96'
    check 'rows past all memory' exits 1 'x is too large' strided 'rmsnorm rmsnorm bf16 rows=64,n=128,x.rows=4611686018427387904'
    check 'no rows' exits 1 'extent of rows: 0' strided 'rmsnorm rmsnorm bf16 rows=0,n=128'
    check 'no word of rows' exits 1 'the extent of rows is missing' strided 'rmsnorm rmsnorm bf16 n=128'
    check 'no list' exits 1 'cannot read' env ROWFOLD_TEST_DEVICE=host "$build/tests/cuda_device" speed none.txt "$root/kernels"
    check 'no such tensor' exits 1 'call.argument: z.rows=384' strided 'rmsnorm rmsnorm bf16 rows=64,n=128,z.rows=384'
fi

if rf devices | grep -q '^  opencl:0: '; then
    tune() { rf tune "$soft" softmax --shape rows=8,n=300 --device opencl:0 --budget-candidates 2 -q --receipt r.json "$@"; }
    check 'devices have their facts' exits 0 'kind=opencl' rf devices
    check 'tune' exits 0 'verdict +right' tune
    check 'the receipt names the device' grep -q 'opencl%3A0' r.json
    check 'what was found is remembered' exits 0 '^ *[0-9]+ .*softmax' rf trials
    # the arrays are copied to the device and back: the same kernel on the host gives what differs by rounding only
    copied() {
        rf run "$soft" softmax --shape rows=8,n=300 --device opencl:0 --out y=device.npy || return 1
        rf run "$soft" softmax --shape rows=8,n=300 --device host --out y=host.npy >/dev/null || return 1
        python3 - <<'E2'
import array
def floats(path):
    return array.array('f', open(path, 'rb').read()[-8 * 300 * 4:])
x, y = floats('device.npy'), floats('host.npy')
assert all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(x, y)) and abs(sum(x) - 8) < 1e-4, (x[:4], y[:4])
E2
    }
    check 'run: arrays are copied in and out' exits 0 'verdict +right: 2400 ' copied
    check 'run: what is overwritten is kept for the check' exits 0 'verdict +right' rf run "$soft" softmax_inplace --shape rows=8,n=300 --device opencl:0
    check 'run: a tensor without elements' exits 0 'verdict +right: 0 ' rf run "$soft" softmax --shape rows=8,n=0 --device opencl:0
    for at in 1 70 300; do # of several steps, some of them behind the row's end
        check "run: $at elements of a kernel for up to 300" exits 0 'verdict +right' rf run "$soft" softmax --shape rows=8,n=1..300 --at n=$at --pin W=32,V=1,hold.x=register,hold.e=shared --device opencl:0
    done
    check 'no such device' exits 5 'rt.no_device' rf tune "$soft" softmax --shape rows=8,n=30 --device opencl:77
else
    skip 'tune on an OpenCL device' 'no OpenCL device is here'
fi
done_testing
