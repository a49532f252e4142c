#!/usr/bin/env bash
# The command as a person or script meets it: every subcommand, its JSON, its exit codes, and what it says to bad input.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
kernels=$root/kernels
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=${ROWFOLD_CACHE:-$scratch/cache}
mkdir -p "$HOME"
# an allocation that cannot be is NULL under sanitizers too
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1
cd "$scratch"
rf() { "$rowfold" "$@"; }

# npy FILE DESCR FORTRAN SHAPE NUMBER...: the numbers in the file's own order
npy() {
    python3 - "$@" <<'P'
import struct, sys
path, descr, fortran, shape, *numbers = sys.argv[1:]
code = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "b1": "B"}[descr[1:]]
order = ">" if descr[0] == ">" else "<"
head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
head += " " * (-(len(head) + 11) % 64) + "\n"
values = [float(n) if code in "efd" else int(n) for n in numbers]
open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(order + code * len(values), *values))
P
}
# numbers FILE: header type and shape, then the numbers of a .npy file
numbers() {
    python3 - "$1" <<'P'
import ast, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<H", data[8:10])[0]
head = ast.literal_eval(data[10:10 + n].decode())
code = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i8": "q", "u1": "B", "u2": "H"}[head["descr"][1:]]
body = data[10 + n:]
values = struct.unpack("<%d%s" % (len(body) // struct.calcsize(code), code), body)
print(head["descr"], head["shape"], head["fortran_order"], *("%g" % v for v in values))
P
}
# says WANTED COMMAND...: exits 0 and stdout is exactly that
says() {
    local want=$1 got
    shift
    got=$("$@") || { echo "exit $?"; return 1; }
    [ "$got" = "$want" ] || { printf 'wanted %s\ngot    %s\n' "$want" "$got"; return 1; }
}
# silent COMMAND...: nothing on stdout, whatever the exit code
silent() { local out; out=$("$@" 2>/dev/null) || true; [ -z "$out" ] || { echo "stdout: $out"; return 1; }; }
# keeps FILE COMMAND...: the command fails, the file is as before and nothing lies beside it
keeps() {
    local file=$1 before after
    shift
    before=$(cat "$file"; ls -A "$(dirname "$file")")
    if "$@" >/dev/null 2>&1; then echo 'it succeeded'; return 1; fi
    after=$(cat "$file"; ls -A "$(dirname "$file")")
    [ "$before" = "$after" ]
}

# ---- help and version ----
version=$(sed -n "s/^project('rowfold', 'c', version: '\([^']*\)'.*/\1/p" "$root/meson.build")
check 'version' says "rowfold $version" rf --version
check 'help' exits 0 'Commands:' rf --help
check 'help without a word' exits 0 'Commands:' rf help
for sub in run plan emit tune bench catalog replay report trials wisdom devices calibrate explain check help; do
    check "help of $sub has examples" exits 0 "^  rowfold $sub" rf help "$sub"
    check "help of $sub tells the exit codes" exits 0 '130 interrupted' rf "$sub" --help
    check "help $sub and $sub --help agree" says "$(rf help "$sub")" rf "$sub" --help
done
check 'no command' exits 2 'command.unknown' rf
check 'unknown command, the near one is named' exits 2 'did you mean tune' rf tuen
check 'unknown command of help' exits 2 'command.unknown' rf help nothing
check 'unknown option, the near one is named' exits 2 'did you mean --shape' rf run x.row --shapes n=1
check 'unknown letter' exits 2 'command.option' rf run x.row -z
check 'option without its value' exits 2 'needs a value' rf run x.row --shape
check 'value for an option that takes none' exits 2 'takes no value' rf run x.row --json=yes
check 'start of several options' exits 2 'accepted: .*--set, --seed' rf run x.row --se 3
check 'start of several options, with its value' exits 2 'accepted: .*--set, --seed' rf run x.row --se=3
check 'start of one option' rf run "$kernels/softmax.row" --sha rows=2,n=4 --see=3
check 'a type given twice' exits 2 "'T' is given two types" rf check "$kernels/softmax.row" --type T=f32 --type T=bf16
check 'option given twice' exits 2 'given twice' rf run x.row --device host --device best
check 'option of another subcommand' exits 2 'has no option' rf devices --shape n=1
for bad in '--seed -1' '--seed x' '--seed 99999999999999999999' '--threads 0' '--budget-seconds 0' '--budget-seconds nan' '--effort hard'; do
    # shellcheck disable=SC2086  # an option and its value
    check "bad value: $bad" exits 2 'command.value' rf tune x.row $bad
done
printf '\0\0' >zeros.calibration
for file in /dev/null zeros.calibration; do
    check "a calibration that is none: $file" exits 2 'command.value' rf plan "$kernels/softmax.row" --shape rows=10,n=40 --calibration "$file"
done
check 'no file' exits 2 'command.words' rf run
check 'too many words' exits 2 'one word too many' rf run a b c
check 'options after words, whatever POSIX says' exits 0 'plans judged' env POSIXLY_CORRECT=1 "$rowfold" plan "$kernels/softmax.row" --shape n=16 --device preset:avx2
check 'words after --' exits 6 'file.read' rf check -- --json
check 'errors leave stdout alone' silent rf run missing.row --shape n=1
check 'an error as JSON' holds 'd["error"]["slug"] == "command.option" and rc == 2 and d["error"]["exit"] == 2' rf run --json --nope

# ---- devices, explain, check ----
check 'devices' exits 0 'preset:h200' rf devices
check 'devices has the host' exits 0 '^  host: ' rf devices
check 'devices as JSON' holds 'd["devices"][0]["name"] == "host" and any(p["name"] == "preset:m1max" and p["caps"]["stripe_slots"] == "64" for p in d["presets"])' rf devices --json
check 'devices with an instruction set' exits 0 'isa=portable' rf devices --isa portable
check 'no such instruction set' exits 2 'command.value' rf devices --isa z80
check 'explain' exits 0 'plan.stripe_exceeded: ' rf explain plan.stripe_exceeded
check 'explain one of its own' exits 0 'npy.truncated: ' rf explain npy.truncated
check 'explain as JSON' holds 'd["slug"] == "lang.syntax" and d["text"]' rf explain lang.syntax --json
check 'explain an unknown slug' exits 2 'did you mean plan.limit' rf explain plan.limits
check 'explain nothing' exits 2 'command.words' rf explain
check 'explain --list' holds 'len(d) == len({s["slug"] for s in d}) and {"plan.stripe_exceeded", "npy.type"} <= {s["slug"] for s in d} and all(s["text"] for s in d)' rf explain --list --json
explain_all() { local s; for s in $(rf explain --list | grep -v '^ '); do rf explain "$s" >/dev/null || { echo "$s"; return 1; }; done; }
check 'every slug is explained' explain_all
for file in "$kernels"/*.row; do check "check $(basename "$file")" exits 0 ': ok$' rf check "$file"; done
check 'check all as JSON' holds 'd["ok"] and len(d["kernels"]) > 10 and all(k["ok"] for k in d["kernels"])' rf check --json --type bf16 "$kernels"/softmax.row "$kernels"/reduce.row
printf 'kernel a for rows (x: in T[rows, n], y: out T[rows, n]) {\n    y = x + q\n    z = maxx(x)\n}\n' >bad.row
check 'check says line, caret and slug' exits 3 'bad.row:2:13: .*name_unknown' rf check bad.row
check 'check says several errors' exits 3 'bad.row:3:9: ' rf check bad.row
check 'check goes on to the next file' exits 3 'softmax: ok' rf check bad.row "$kernels/softmax.row"
check 'check of errors as JSON' holds 'rc == 3 and not d["ok"] and len(d["kernels"][0]["errors"]) >= 2 and d["kernels"][0]["errors"][0]["line"] == 2' rf check --json bad.row
check 'check of a missing file' exits 6 'file.read' rf check missing.row
check 'a missing file as JSON' holds 'd["error"]["slug"] == "file.read" and rc == 6' rf check --json missing.row
check 'check of a folder' exits 6 'file.read' rf check "$scratch"
check 'check of nothing' exits 3 'lang.empty' rf check /dev/null
head -c 1100000 /dev/zero | tr '\0' '#' >large.row
check 'check of a file past the limit' exits 6 'file.too_large' rf check large.row
check 'nor one as a calibration' exits 6 'calibration.*file.too_large' rf plan "$kernels/softmax.row" --shape n=256 --calibration large.row
head -c 5000 /dev/urandom >noise.row
check 'check of noise' exits 3 'noise.row:[0-9]+:[0-9]+' rf check noise.row
from_stdin() { rf check - <"$kernels/softmax.row"; }
check 'check of standard input' exits 0 '^-: softmax: ok' from_stdin

# ---- run ----
check 'run on random inputs' exits 0 'right: 4000 elements' rf run "$kernels/softmax.row" --shape rows=4,n=1000
check 'run as JSON' holds 'd["ok"] and d["verdict"]["checked"] == 300 and d["time_s"] > 0 and d["kernel"] == "log_softmax" and d["shape"] == "rows=3,n=100"' \
    rf run "$kernels/softmax.row" log_softmax --shape rows=3,n=100 --json
for fill in uniform normal wide cancel ties special; do
    check "run on $fill inputs" exits 0 'right' rf run "$kernels/layernorm.row" --shape rows=5,n=77 --fill "$fill" --seed 3
done
for type in f64 f32 f16 bf16 f8e4m3 f8e5m2; do
    check "run with $type" exits 0 'right' rf run "$kernels/softmax.row" --shape rows=3,n=65 --type "$type"
done
check 'run with a gather' exits 0 'right' rf run "$kernels/cross_entropy.row" --shape rows=9,n=33
check 'run of no rows' exits 0 'right: 0 elements' rf run "$kernels/softmax.row" --shape rows=0,n=10
check 'run of a measured plan' exits 0 'right: 320 elements' rf run "$kernels/softmax.row" --shape rows=5,n=64 --effort measure --budget-candidates 2
check 'run of a pinned plan' holds '"W=32 " in d["plan"] and "hold.x=reload" in d["plan"]' rf run "$kernels/softmax.row" --shape rows=2,n=640 --pin W=32,hold.x=reload --json
again() { local plan; plan=$(rf run "$kernels/softmax.row" --shape rows=2,n=640 --pin W=32 --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["plan"])'); holds "d['plan'] == '$plan'" rf run "$kernels/softmax.row" --shape rows=2,n=640 --plan "$plan" --json; }
check 'a printed plan can be given back' again

npy x.npy '<f4' False '(2, 4)' 0 0 0 0 1 2 3 4
check 'the shape comes from the input' exits 0 'rows=2,n=4' rf run "$kernels/reduce.row" sum --in x=x.npy --out s=s.npy
check 'the output is right' says '<f4 (2,) False 0 10' numbers s.npy
check 'out-dir is made' exits 0 'wrote +y to out/deep/y.npy' rf run "$kernels/softmax.row" --in x=x.npy --out-dir out/deep
check 'the softmax of equal numbers' exits 0 '^<f4 \(2, 4\) False 0.25 0.25 0.25 0.25 ' numbers out/deep/y.npy
check 'several outputs as JSON' holds 'd["outputs"] == {"s": "o/s.npy", "y": "z.npy"}' rf run "$kernels/layernorm.row" residual_layernorm --shape rows=2,n=8 --out-dir o --out y=z.npy --json
npy f.npy '<f4' True '(2, 4)' 1 10 2 20 3 30 4 40
check 'Fortran order' exits 0 'right' rf run "$kernels/reduce.row" sum --in x=f.npy --out s=s.npy
check 'Fortran order is summed by rows' says '<f4 (2,) False 10 100' numbers s.npy
npy h.npy '<f2' False '(1, 2)' 1.5 2.5
check 'f16' exits 0 'right' rf run "$kernels/reduce.row" sum --type T=f16,S=f64 --in x=h.npy --out s=s.npy
check 'f16 summed in f64' says '<f8 (1,) False 4' numbers s.npy
npy b.npy '<u2' False '(1, 2)' 16256 16384
check 'bf16 is read as raw u2, with a note' exits 0 'read as raw u2' rf run "$kernels/reduce.row" sum --type T=bf16,S=f32 --in x=b.npy --out s=s.npy
check 'bf16 is read right' says '<f4 (1,) False 3' numbers s.npy
npy i.npy '<i8' False '(2,)' 3 9
check 'an index input' exits 0 'right' rf run "$kernels/cross_entropy.row" --in x=x.npy --in t=i.npy --out loss=l.npy
check 'an index outside gives NaN' exits 0 '^<f4 \(2,\) False 1.38629 nan' numbers l.npy
printf 'kernel scale for rows (x: in T[rows, n], y: out T[rows, n], k: f32 = 2, const c: i32 = 1) { y = x * k + c }\n' >scale.row
check 'scalar and const' exits 0 'right' rf run scale.row --in x=x.npy --set k=3 --const c=5 --out y=y.npy
check 'scalar and const count' says '<f4 (2, 4) False 5 5 5 5 8 11 14 17' numbers y.npy
printf 'kernel twice for rows (x: inout T[rows, n]) { x = x * 2 }\n' >inout.row
check 'inout' exits 0 'right' rf run inout.row --in x=x.npy --out x=y.npy
check 'inout is run once' says '<f4 (2, 4) False 0 0 0 0 2 4 6 8' numbers y.npy
npy e.npy '<f4' False '(0, 4)'
check 'an empty input' exits 0 'right: 0' rf run "$kernels/reduce.row" sum --in x=e.npy

# ---- bad input to run ----
soft="$kernels/softmax.row"
check 'missing program' exits 6 'file.read' rf run missing.row --shape n=1
check 'unknown kernel' exits 2 'lang.kernel_unknown' rf run "$soft" sofmax --shape n=1
check 'unknown device' exits 5 'rt.no_(device|driver)' rf run "$soft" --shape rows=1,n=4 --device cuda:99
check 'unknown preset' exits 5 'device.no_preset' rf plan "$soft" --shape n=4 --device preset:abacus
check 'unknown type' exits 2 'call.unknown_type' rf run "$soft" --shape rows=1,n=4 --type f31
check 'no shape' exits 2 'shape.unknown' rf run "$soft"
check 'half a shape' exits 2 'axis n is not known' rf run "$soft" --shape rows=4
check 'shape of another axis' exits 2 'command.name' rf run "$soft" --shape rows=4,n=4,k=4
check 'shape that is no number' exits 2 'command.value' rf run "$soft" --shape rows=4,n=4x
check 'negative shape' exits 2 'command.value' rf run "$soft" --shape rows=-4,n=4
check 'two extents of one axis' exits 2 'n is 4 in --shape and 5' rf run "$soft" --shape rows=4,n=4 --shape n=5
check 'shape past memory' exits 1 'memory.exhausted' rf run "$soft" --shape rows=9000000000000000,n=4
check 'shape past this machine' exits 1 'memory.exhausted' rf run "$soft" --shape rows=400000000,n=4096
check 'shape past 64 bits' exits 1 'memory.exhausted' rf run "$soft" --shape rows=9000000000000000,n=9000000000000000
check 'shape against input, both are named' exits 2 'n is 5 in --shape and 4 in x.npy \(x\)' rf run "$soft" --in x=x.npy --shape n=5
npy w.npy '<f4' False '(5,)' 1 2 3 4 5
check 'input against input, both are named' exits 2 'n is 4 in x.npy \(x\) and 5 in w.npy \(w\)' rf run "$kernels/rmsnorm.row" --in x=x.npy --in w=w.npy
check 'input of another rank' exits 2 'npy.shape' rf run "$soft" --in x=w.npy
npy d.npy '<f8' False '(2, 4)' 0 0 0 0 1 2 3 4
check 'input of another type' exits 2 'npy.type' rf run "$soft" --in x=d.npy
check 'which is right with another type' exits 0 'right' rf run "$soft" --in x=d.npy --type f64
npy g.npy '>f4' False '(2, 4)' 0 0 0 0 1 2 3 4
check 'big endian input' exits 2 'big endian' rf run "$soft" --in x=g.npy
head -c 150 x.npy >short.npy
check 'truncated input' exits 6 'npy.truncated' rf run "$soft" --in x=short.npy
head -c 40 x.npy >header.npy
check 'input that ends in its header' exits 6 'npy.truncated' rf run "$soft" --in x=header.npy
check 'input that is no .npy' exits 6 'npy.header' rf run "$soft" --in x="$soft"
check 'input that is missing' exits 6 'file.read' rf run "$soft" --in x=none.npy
check 'input that is a folder' exits 6 'regular file' rf run "$soft" --in "x=$scratch"
check 'input for an output' exits 2 'command.name' rf run "$soft" --in y=x.npy
check 'input without a file' exits 2 'NAME=FILE' rf run "$soft" --in x
check 'output for an input' exits 2 'command.name' rf run "$soft" --in x=x.npy --out x=y.npy
check 'unknown fill' exits 2 'fill' rf run "$soft" --shape rows=1,n=4 --fill salt
echo 'kernel k for r (x: in f32[r, n], e: u8, y: out f32[r, n], z: out f32[r]) { y = x * e; z = sum(x) }' >need.row
check 'scalar without a value' exits 2 'command.value' rf run need.row --shape r=2,n=3
check 'scalar outside its type' exits 1 'launch.scalar' rf run need.row --shape r=2,n=3 --set e=300
check 'scalar that is not whole' exits 1 'launch.scalar' rf run need.row --shape r=2,n=3 --set e=2.5
check 'scalar that a double does not hold' exits 1 'launch.scalar' rf run need.row --shape r=2,n=3 --set e=9007199254740993
check 'two outputs to one file' exits 2 'command.option' rf run need.row --shape r=2,n=3 --set e=2 --out y=s.npy --out z=s.npy
check 'an output given twice' exits 2 'command.option' rf run need.row --shape r=2,n=3 --set e=2 --out y=s.npy --out y=t.npy
check 'pinned to two values' exits 2 'plan.text' rf run need.row --shape r=2,n=3 --set e=2 --pin W=16,W=32
check 'no elements, many rows' exits 0 'right' timeout 5 "$rowfold" run "$soft" --shape rows=2000000,n=0
check 'unknown scalar' exits 2 'command.name' rf run scale.row --in x=x.npy --set q=1
check 'scalar that is no number' exits 2 'command.value' rf run scale.row --in x=x.npy --set k=much
check 'unknown dimension' exits 2 'plan.unknown_dimension' rf run "$soft" --shape rows=1,n=4 --pin Q=1
check 'a pin that cannot be met' exits 4 'plan.no_shared' rf run "$soft" --shape rows=1,n=4096 --plan 'W=64 hold.x=shared hold.e=reload'
check 'the refusal as JSON' holds 'rc == 4 and d["error"]["status"] == "refused" and d["error"]["slug"]' rf run "$soft" --shape rows=1,n=4096 --pin hold.x=shared --json
check 'nothing runs on a preset' exits 5 'launch.not_built' rf run "$soft" --shape rows=1,n=4 --device preset:avx2
check 'output folder that is a file' exits 6 'file.write' rf run "$soft" --in x=x.npy --out-dir x.npy
check 'output in no folder' exits 6 'file.write' rf run "$soft" --in x=x.npy --out y=none/y.npy
check 'output that is a folder' exits 6 'file.write' rf run "$soft" --in x=x.npy --out "y=$scratch"
if [ -c /dev/full ]; then
    check 'output on a full disk' exits 6 'file.write' rf run "$soft" --in x=x.npy --out y=/dev/full
    check '/dev/full is still a device' test -c /dev/full
    check 'standard output on a full disk' exits 6 'file.stdout' bash -c '"$0" devices >/dev/full' "$rowfold"
    check 'JSON on a full disk' exits 6 'file.stdout' bash -c '"$0" devices --json >/dev/full' "$rowfold"
else
    skip 'output on a full disk' 'there is no /dev/full'
fi
mkdir kept
cp x.npy kept/y.npy
# a limit on the size of files is a disk that fills up half way
check 'a write that fails leaves the old file' keeps kept/y.npy bash -c "ulimit -f 1; exec \"\$0\" run \"\$1\" --shape rows=64,n=64 --out y=kept/y.npy" "$rowfold" "$soft"
ln -s ../x2.npy kept/link.npy
cp x.npy x2.npy
check 'an output through a link' exits 0 'right' rf run "$soft" --in x=x.npy --out y=kept/link.npy
check 'the link is still one' test -L kept/link.npy

# ---- compiler and cache ----
check 'absent compiler, by its name' exits 5 'rt.no_compiler' env ROWFOLD_CC=/none/cc ROWFOLD_CACHE="$scratch/c1" "$rowfold" run "$soft" --shape rows=1,n=12
check 'absent compiler, of a search' exits 5 'rt.no_compiler' env ROWFOLD_CC=/none/cc ROWFOLD_CACHE="$scratch/c1" "$rowfold" tune "$soft" --shape rows=1,n=12 --no-store
check 'absent compiler, by PATH' exits 5 'rt.no_compiler' env PATH=/none ROWFOLD_CACHE="$scratch/c1" "$rowfold" run "$soft" --shape rows=1,n=12
check 'no compiler that could be asked' exits 5 'cannot start .*Too many open files \[build.not_started\]' prlimit --nofile=4 "$rowfold" run "$soft" --shape rows=1,n=13
check 'no compiler that could be started' exits 5 'cannot start .*Too many open files \[build.not_started\]' env -u ROWFOLD_CC prlimit --nofile=6 "$rowfold" run "$soft" --shape rows=1,n=13
check 'nowhere to compile, of a search' exits 6 'build.io' env TMPDIR=/proc "$rowfold" tune "$soft" --shape rows=1,n=13 --no-store --budget-candidates 1
check 'no file for a worker' exits 5 'cannot be started: Too many open files' prlimit --nofile=6 "$rowfold" tune "$soft" --shape rows=1,n=13 --no-store --budget-candidates 1
check 'absent compiler as JSON' holds 'd["error"]["slug"] == "rt.no_compiler" and rc == 5' env PATH=/none:"${PATH##*:}" ROWFOLD_CC=/none/cc ROWFOLD_CACHE="$scratch/c1" "$rowfold" run "$soft" --shape rows=1,n=12 --json
check 'a preset needs no compiler' exits 0 'plans judged' env ROWFOLD_CC=/none/cc "$rowfold" plan "$soft" --shape n=12 --device preset:avx2
check 'a cache that cannot be' exits 0 'right' env ROWFOLD_CACHE=/proc/none "$rowfold" run "$soft" --shape rows=1,n=12

printf 'kernel k for rows (x: in i8[rows, n], y: out i8[rows, n]) {\n    y = x / x\n}\n' >"$scratch/two.row"
check 'two lanes of integers' exits 0 'right' rf run "$scratch/two.row" --shape rows=3,n=37 --pin W=2,V=1 # gcc 12 gets x / x wrong by itself

# ---- plan and emit ----
check 'plan' exits 0 'Candidates, best first' rf plan "$soft" --shape n=4096 --device preset:avx512
check 'plan tells the demand' exits 0 'row: global read +32768' rf plan "$soft" --shape n=4096 --device preset:avx512 --pin stat=two-pass,hold.x=reload,hold.e=register
check 'plan tells refusals' exits 0 'plan\.[a-z_]+ +hold' rf plan "$soft" --shape n=4096 --device preset:avx512
check 'plan --why explains them' exits 0 '^plan\.[a-z_]+: [A-Z]' rf plan "$soft" --shape n=4096 --device preset:avx512 --why
check 'plan --kern' exits 0 '^kern ' rf plan "$soft" --shape n=4096 --device preset:avx512 --kern
check 'plan --limit' exits 0 '\(2 of ' rf plan "$soft" --shape n=4096 --device preset:avx512 --limit 2
check 'plan as JSON' holds 'd["judged"] == len(d["candidates"]) and d["demand"]["known"] and sum(d["refusals"].values()) == d["refused"] and sum(1 for c in d["candidates"] if c.get("chosen")) == 1' \
    rf plan "$soft" --shape n=4096 --device preset:avx512 --json
check 'plan --kern as JSON' holds '"kern" in d["kern"]' rf plan "$soft" --shape n=64 --device preset:avx512 --kern --json
for policy in roofline prior service random; do
    check "plan by $policy" holds "d['policy'] == '$policy'" rf plan "$soft" --shape n=4096 --device preset:avx512 --policy "$policy" --json
done
check 'plan by an unknown policy' exits 2 'cost.unknown_policy' rf plan "$soft" --shape n=4096 --policy luck
check 'a split of short rows' exits 0 ' [1-9][0-9]* legal' rf plan "$kernels/cross_entropy.row" --shape rows=4096,n=100 --device preset:h200 --pin split=2
check 'plan of an opened space' holds 'd["judged"] > 1 and len({c["plan"].split()[0] for c in d["candidates"]}) >= 2' rf plan "$soft" --shape n=4096 --device preset:avx512 --search W=32/64/128 --json
check 'stripes that are too long, with their numbers' exits 0 'plan.stripe_exceeded +need=66 budget=64' rf plan "$soft" --shape n=8193 --device preset:m1max --summed-budget \
    --plan 'W=256 V=4 fuse=off hold.x=register'
check 'emit' exits 0 'rowfold_kernel_softmax' rf emit "$soft" --shape n=100
cc=$(command -v cc || command -v gcc || command -v clang)
compiles() { rf emit "$@" -q | "$cc" -std=gnu11 -O1 -c -x c - -o "$scratch/emitted.o"; }
check 'the source compiles on its own' compiles "$soft" --shape n=100 --isa portable
sealed() { rf emit "$soft" --shape n=4 --isa portable --standalone -o seal.c --header seal.h --receipt seal.json && python3 - <<'END'
import hashlib, json
text = open("seal.json").read().strip()
said = json.loads(text)["hash"]
assert hashlib.sha256(text.replace(f'"hash":"{said}",', "").encode()).hexdigest() == said
for name in "seal.c", "seal.h":
    assert f"receipt {said} */" in open(name).read() and "W=" in open(name).read()
END
}
check 'a C function names its plan and its receipt' sealed
altered() { sed 's/"seed":1/"seed":2/' seal.json >altered.json && rf report altered.json -o altered.html; }
check 'a receipt is what its hash says' rf report seal.json -o seal.html
check 'a receipt over the source' exits 2 'two outputs go to' rf emit "$soft" --shape n=4 -o one.c --receipt one.c
check 'an altered receipt is refused' exits 4 'record.altered' altered
emits() { rf emit "$soft" --shape n=4 --isa portable --standalone -o soft.c --header soft.h && printf '#include <stdio.h>\n#include "soft.h"\nint main(void) { float x[8] = {0, 0, 0, 0, 1, 1, 1, 1}, y[8]; rowfold_softmax(x, y, 2); for (int i = 0; i < 8; i++) printf("%%g ", (double)y[i]); return 0; }\n' >main.c && "$cc" -o soft main.c soft.c -lm && says '0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25 ' ./soft; }
check 'a program of one header and one source' emits
# A user's flags: no warnings, C and C++ alike.
clean() {
    rf emit "$soft" --shape "n=$1" --isa portable --standalone -o w.c --header w.h && "$cc" -O1 -Wall -Wextra -Werror -c w.c -o w.o || return
    cxx=$(command -v c++ || command -v g++ || command -v clang++) || return 0
    "$cxx" -x c++ -std=gnu++17 -O1 -Wall -Wextra -Werror -c w.c -o wxx.o
}
check 'a clean source' clean 37
check 'a clean source for a range' clean 1..37
shifted() { # ISA TYPE FLAGS...: masks of registers; lanes that they hide are read with the others
    rf emit "$soft" --shape rows=3,n=37 --device "preset:$1" --type "$2" --pin tail=head-shift --standalone -o h.c || return
    shift 2
    "$cc" -O1 -Wall -Wextra -Werror "$@" -c h.c -o h.o || return
    cxx=$(command -v c++ || command -v g++ || command -v clang++) || return 0
    "$cxx" -x c++ -std=gnu++17 -O1 -Wall -Wextra -Werror "$@" -c h.c -o h.o
}
if [ "$(uname -m)" = x86_64 ]; then
    avx512='-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx512cd'
    check 'masks of AVX2' shifted avx2 f32 -mavx2 -mfma
    for type in f32 bf16 f8e4m3; do
        # shellcheck disable=SC2086
        check "masks of AVX-512, $type" shifted avx512 $type $avx512 -mfma -mf16c
    done
fi
ranges() { rf emit "$soft" --shape n=1..6 --isa portable --standalone -o r.c --header r.h && printf '#include <stdio.h>\n#include "r.h"\nint main(void) { float x[10] = {0}, y[10]; int refused = rowfold_softmax(x, y, 1, 7) + rowfold_softmax(x, y, 1, 0); for (int n = 2; n < 6; n += 3) { refused += rowfold_softmax(x, y, 2, n); printf("%%g %%g ", (double)y[0], (double)y[2 * n - 1]); } printf("%%d", refused); return 0; }\n' >main.c && "$cc" -o ranges main.c r.c -lm && says '0.5 0.5 0.2 0.2 2' ./ranges; }
check 'a function for a range of extents' ranges
check 'run within a range' exits 0 'rows=4,n=77 of 1..100' rf run "$soft" --shape rows=4,n=1..100 --at n=77
check 'run at the end of a range' holds 'd["ran"] == "rows=4,n=100 of 1..100" and d["shape"] == "rows=4,n=1..100" and d["verdict"]["checked"] == 400' rf run "$soft" --shape rows=4,n=1..100 --json
check 'a plan for a range' exits 0 'half the extent, twice' rf plan "$soft" --shape rows=4,n=1..100 --device preset:h200
check 'run outside of a range' exits 2 'n is 101 in --at and 1..100 in --shape .shape.conflict' rf run "$soft" --shape rows=4,n=1..100 --at n=101
check 'an input outside of a range' exits 2 'n is 4 in x.npy .x. and 5..9 in --shape .shape.conflict' rf run "$soft" --in x=x.npy --shape n=5..9
check 'a range of one extent is that extent' exits 0 'rows=4,n=5  f32' rf run "$soft" --shape rows=4,n=5..5
check 'a range where one extent is meant' exits 2 'command.value' rf run "$soft" --shape rows=4,n=1..100 --at n=2..3
check 'a range in a suite' exits 2 'suite.line' rf bench --case "$soft softmax rows=4,n=1..100 f32"
# Stores past the caches have another spelling there.
if command -v clang >/dev/null; then
    for isa in '' '--isa avx2'; do
        for type in f32 bf16 f64; do
            # shellcheck disable=SC2086  # an option and its value, or nothing
            check "clang streams $type $isa" exits 0 'right: ' env ROWFOLD_CC=clang "$rowfold" run "$soft" --shape rows=3,n=1000 --type $type --pin W=32,store=stream $isa
        done
    done
else
    skip 'streams by clang' 'there is no clang'
fi
# Every kernel of the library; the error that names a missing axis tells which there are.
stand_alone() {
    python3 - "$rowfold" "$cc" "$kernels"/*.row <<'P'
import json, subprocess, sys
command, cc, *files = sys.argv[1:]
def ask(*words):
    r = subprocess.run([command, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(r.stdout)
seen = 0
for path in files:
    for kernel in ask("check", path)["kernels"]:
        shape, name = {"n": 48}, kernel["kernel"]
        for _ in range(10):
            d = ask("emit", path, name, "--isa", "portable", "--standalone", "-o", "e.c", "--shape", ",".join(f"{a}={n}" for a, n in shape.items()))
            error = d.get("error", {"slug": ""})
            if error["slug"] not in ("", "shape.unknown") and shape == {"n": 48}:  # it has no such axis
                shape = {}
                continue
            if error["slug"] != "shape.unknown":
                break
            shape[error["message"].split(" axis ")[1].split()[0]] = 48
        if error["slug"]:
            sys.exit(f"{path} {name}: {error}")
        if subprocess.run([cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "e.c"], stderr=subprocess.DEVNULL).returncode:
            sys.exit(f"{path} {name} does not compile")
        seen += 1
sys.exit(0 if seen > 20 else f"only {seen} kernels")
P
}
check 'every kernel stands alone' stand_alone
check 'emit as JSON' holds '"rowfold_kernel_softmax" in d["source"] and d["declarations"]' rf emit "$soft" --shape n=100 --json
check 'a machine that is not here is planned for' exits 0 'plans judged' rf plan "$soft" --shape n=100 --device preset:h200
check 'emit for Metal' exits 0 'threadgroup_position_in_grid' rf emit "$soft" --shape n=100 --device preset:m1max
cat >names.row <<'R'
kernel names for slot (rowfold_kernel_names: in f32[slot, n], OUT: out f32[slot, n], slots: f32 = 1, slots_: f32 = 2, f32x: out f32[slot, n],
                       class: in f32[n], __linux__: f32 = 3, unix: f32 = 1) {
    OUT = rowfold_kernel_names * slots + class + __linux__
    f32x = slots_ * unix - class
}
R
odd_names() { rf emit names.row --shape n=4 --isa portable --standalone -o odd.c --header odd.h && "$cc" -c odd.c -o odd.o && echo '#include "odd.h"' | "$cc" -x c -c - -o odd2.o; }
check 'parameters called like what stands in the source' odd_names
check 'C functions of what is not C' exits 5 'emit.nothing' rf emit "$soft" --shape n=100 --device preset:m1max --standalone
check 'no f64 on Metal' exits 4 'plan.no_f64' rf emit "$soft" --shape n=100 --type f64 --device preset:m1max
check 'emit of two files into one' exits 2 'two outputs go to same.c' rf emit "$soft" --shape n=100 -o same.c --header same.c
check 'emit into no folder' exits 6 'file.write' rf emit "$soft" --shape n=100 -o none/x.c

# ---- tune ----
tune=(tune "$soft" --shape rows=16,n=256 --budget-candidates 3)
check 'tune' eval 'rf "${tune[@]}" >tuned'
check 'tune tells its share of the ceiling' grep -q 'of the measured copy ceiling' tuned
check 'tune tells the verdict' grep -qE 'verdict +right: 4096 elements' tuned
check 'tune keeps a receipt' bash -c 'ls "$1"/rowfold/receipts/softmax-*.json | head -n 1 | xargs python3 -m json.tool' _ "$XDG_DATA_HOME"
check 'tune as JSON' holds 'd["timed"] == 3 and d["time_s"] > 0 and d["time_min_s"] <= d["time_s"] <= d["time_max_s"] and d["verdict"]["ok"] and d["share_of_copy"] > 0 and d["receipt"].endswith(".json") and not d["interrupted"]' rf "${tune[@]}" --json
one=("${tune[@]}")
one[-1]=1 # where it is not the search that is looked at: a candidate alone has no finals
check 'tune names its receipt' exits 0 'receipt +r.json' rf "${one[@]}" --receipt r.json
check 'which is JSON' python3 -m json.tool r.json
check 'tune of one exact plan' exits 0 '1 tried' rf tune "$soft" --shape rows=16,n=256 --effort exhaustive --plan "$(rf plan "$soft" --shape n=256 2>/dev/null | sed -n 's/^plan  *//p')"
check 'tune without rows' exits 2 'bench.rows|shape' rf tune "$soft" --shape n=256
check 'tune of no rows' exits 2 'bench.nothing' rf tune "$soft" --shape rows=0,n=4
check 'tune of rows without elements' exits 2 'bench.nothing' rf tune "$soft" --shape rows=4,n=0
check 'tune on a preset' exits 5 'device.not_here' rf tune "$soft" --shape rows=1,n=16 --device preset:h200
check 'exhaustive past its budget' exits 4 'plan.space_too_large' rf tune "$soft" --shape rows=1,n=256 --effort exhaustive --budget-candidates 2
check 'receipt that cannot be written' exits 6 'file.write' rf "${one[@]}" --receipt none/r.json
check 'receipts without a home' exits 0 'lies in this folder instead' env -u XDG_DATA_HOME -u HOME "$rowfold" "${one[@]}"
check 'receipts in a folder that cannot be' exits 0 'receipt cannot be kept in /proc' env XDG_DATA_HOME=/proc/none "$rowfold" "${one[@]}"
quiet() { local out; out=$(rf "${one[@]}" --quiet 2>&1 >/dev/null); [ -z "$out" ] || { echo "$out"; return 1; }; }
check 'quiet says nothing on stderr' quiet
long=(tune "$soft" --shape rows=64,n=1024 --effort exhaustive)
check 'Ctrl-C keeps the best so far' exits 130 'interrupted; this is the best so far' timeout --preserve-status -s INT 2 "$rowfold" "${long[@]}"
check 'Ctrl-C as JSON' holds 'rc == 130 and d["interrupted"] and d["verdict"]["ok"] and d["timed"] >= 1' timeout --preserve-status -s INT 2 "$rowfold" "${long[@]}" --json
second() {
    python3 - "$rowfold" "$soft" <<'P'
import signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "tune", sys.argv[2], "--shape", "rows=4096,n=4096"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(1)
p.send_signal(signal.SIGINT)
time.sleep(0.5)
p.send_signal(signal.SIGINT)
sent = time.time()
p.wait(timeout=20)
# by the signal, or it was about to end by itself
sys.exit(0 if p.returncode in (-signal.SIGINT, 130) and time.time() - sent < 2 else "exit %d after %.1f s" % (p.returncode, time.time() - sent))
P
}
check 'a second Ctrl-C ends it at once' second
on_terminal() { # a terminal of 100 columns, by way of Python's pty
    python3 - "$rowfold" "${one[@]}" <<'P'
import fcntl, os, pty, struct, sys, termios
out = b""
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
while True:
    try:
        piece = os.read(fd, 4096)
    except OSError:
        break
    if not piece:
        break
    out += piece
os.waitpid(pid, 0)
sys.stdout.write(out.decode().replace("\x1b", "<ESC>").replace("\r", "<CR>"))
P
}
check 'a bar on a terminal' exits 0 '<ESC>\[K\[.*1/1  best' env TERM=xterm bash -c "$(declare -f on_terminal); one=(${one[*]}); rowfold=$rowfold; on_terminal"
check 'NO_COLOR takes the colours out' exits 0 '<ESC>\[K\[#+\] 1/1' env TERM=xterm NO_COLOR=1 bash -c "$(declare -f on_terminal); one=(${one[*]}); rowfold=$rowfold; on_terminal"
no_escapes() { local out; out=$(TERM=dumb on_terminal); ! grep -q ESC <<<"$out" || { echo "$out"; return 1; }; }
check 'a dumb terminal gets plain lines' no_escapes

# ---- elsewhere, and at once ----
elsewhere() { mkdir -p far/away && cd far/away && cp "$soft" here.row && rf run here.row --shape rows=2,n=10 --out y=y.npy && test -s y.npy; }
check 'from another folder, with relative names' elsewhere
at_once() {
    local a b ra=0 rb=0
    ROWFOLD_CACHE=$scratch/both "$rowfold" "${one[@]}" --json >one.json 2>/dev/null & a=$!
    ROWFOLD_CACHE=$scratch/both "$rowfold" "${one[@]}" --json >two.json 2>/dev/null & b=$!
    wait $a || ra=$?
    wait $b || rb=$?
    [ $ra$rb = 00 ] && python3 -m json.tool one.json >/dev/null && python3 -m json.tool two.json >/dev/null
}
check 'two at once, with one cache' at_once
check 'no folder for the cache' exits 0 'neither ROWFOLD_CACHE nor XDG_CACHE_HOME nor HOME' env -u HOME -u ROWFOLD_CACHE -u XDG_CACHE_HOME "$rowfold" run "$soft" --no-store --shape rows=2,n=4
check 'a compiler that is none' exits 5 "/bin/true is neither gcc nor clang" env ROWFOLD_CC=/bin/true ROWFOLD_CACHE= "$rowfold" run "$soft" --shape rows=2,n=4
check 'a row that no policy can count' exits 4 'more than 2\^53' rf plan "$soft" --shape rows=0,n=1000000000000000000
done_testing
