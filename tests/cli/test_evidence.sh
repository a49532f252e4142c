#!/usr/bin/env bash
# Benchmarks, catalogs and replays: their records checked by a program that shares nothing with rowfold, and what is refused.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
unset ROWFOLD_WORKER
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=${ROWFOLD_CACHE:-$scratch/cache}
mkdir -p "$HOME"
cp "$root/tests/cli/evidence.py" "$scratch"
cd "$scratch"
rf() { "$rowfold" "$@"; }
sound() { python3 evidence.py "$@"; }
quick=(--samples 3 --sample-ms 1 --warmup-ms 2 --rotate-mb 4 --threads 1)
soft="$root/kernels/softmax.row softmax rows=17,n=257 f32"
norm="$root/kernels/rmsnorm.row rmsnorm rows=5,n=130 bf16"

# ---- suites ----
for suite in "$root"/suites/*.suite; do
    check "$(basename "$suite") names kernels that are there" awk -v root="$root/suites" \
        '!/^#/ && NF { f = root "/" $1; found = 0; while ((getline line < f) > 0) if (line ~ "^kernel " $2 " ") found = 1; close(f); if (!found) { print $0; bad = 1 } } END { exit bad }' "$suite"
done
check 'no suite' exits 2 'a suite is missing' rf bench
check 'no such suite' exits 6 'there is no suite' rf bench nothing
check 'a suite and a case' exits 2 'one word too many' rf bench smoke --case "$soft"
check 'a short line' exits 2 'suite.line' rf bench --case 'x.row softmax'
echo 'none.row softmax rows=4,n=4 f32' >b1.suite
check 'a suite is named by its file' exits 6 'b1.suite:1:1: none.row cannot be read' rf bench b1.suite
check 'an extent is missing' exits 2 'suite.line' rf bench --case "$root/kernels/softmax.row softmax n=4 f32"
check 'a word that says nothing' exits 2 'suite.line.*|says nothing' rf bench --case "$soft fast=yes"
check 'no regime' exits 2 'no regime stands behind' rf bench --case "$soft regimes="
check 'no such regime' exits 2 "no regime 'warm'" rf bench --case "$soft regimes=warm"
check 'a case twice' exits 2 'is there twice' rf bench --case "$soft" --case "$soft"
check 'a file that is not there' exits 6 'suite.source' rf bench --case 'missing.row softmax rows=1,n=4 f32'
check 'too many samples' exits 2 'call.argument' rf bench --case "$soft" --samples 102
check 'no such figure' exits 2 'device.batch.cold' rf bench --case "$soft" --figures device
check 'no such peer' exits 6 'no adapter of a peer' rf bench --case "$soft" --peers nobody

# ---- bench ----
check 'bench' exits 0 'of light' rf bench --case "$soft" --case "$norm" --effort estimate "${quick[@]}" -o bench.json
check 'a record that could not be written is told of before it is measured' exits 6 'file.write' timeout 2 "$rowfold" bench --case "$soft" -o missing/bench.json
check 'nor a catalog' exits 6 'Is a directory' timeout 2 "$rowfold" catalog freeze --case "$soft" -o .
check 'its record is what docs/records.md says' sound bench bench.json
check 'bench of one regime and two figures' rf bench --case "$soft regimes=cold" --effort estimate "${quick[@]}" -o cold.json --figures device.batch.cold,end_to_end.single.cold,device.batch.resident
check 'its record' sound bench cold.json
check 'bench in place' rf bench --case "$root/kernels/softmax.row softmax_inplace rows=9,n=100 f32" --effort estimate "${quick[@]}" -o inplace.json
check 'its record' sound bench inplace.json
check 'a case that fails costs itself only' exits 1 'plan.value_not_legal|plan\.' rf bench --case "$soft pin=W=33" --case "$norm" --effort estimate "${quick[@]}"
check 'a kernel that feeds on its results' exits 0 'of light' rf bench --case "$root/kernels/cross_entropy.row cross_entropy_smooth_inplace rows=8,n=100 f32" \
    --effort estimate "${quick[@]}"
check 'without a worker too' exits 0 'of light' env ROWFOLD_WORKER= "$rowfold" bench --case "$norm" --effort estimate "${quick[@]}"

# ---- peers ----
printf 'print("hello from a framework")\n' >silent_peer.py
cat >wrong_peer.py <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
out = next(p for p in r["params"] if p["direction"] == "out")
open(out["file"], "wb").write(b"\0" * (4 * out["extents"][0] * out["extents"][1]))
print(json.dumps({"peer": "wrong", "version": "1", "mode": "zeros", "allocation": "given", "configuration": "", "figures": []}))
P
peers=(--peers plain_c --peers onednn --peers ./silent_peer.py --peers ./wrong_peer.py)
check 'peers beside' exits 0 'plain_c O3' rf bench --case "$soft" --case "$norm" --effort estimate "${quick[@]}" "${peers[@]}" -o peers.json
check 'its record' sound bench peers.json
peer() { python3 -c 'import json, sys
d = json.load(open("peers.json"))
p = [[q for q in c["peers"] if q["peer"] == sys.argv[1]][0] for c in d["cases"]]
sys.exit(0 if eval(sys.argv[2]) else json.dumps(p)[:1000])' "$@"; }
check 'a peer is checked against the same definition' peer plain_c 'p[0]["check"]["ok"] and p[0]["check"]["checked"] == 17 * 257 and len(p[0]["figures"]) == 8'
check 'a case that a peer cannot run is a line' peer plain_c '"bf16" in p[1]["missing"]'
check 'one that says nothing too' peer silent '"no answer" in p[0]["missing"]'
check 'wrong outputs stand in the record' peer wrong 'p[0]["check"]["ok"] is False and p[0]["check"]["bad"] > 0'
check 'oneDNN takes as many threads as are asked for' peer onednn '"missing" in p[0] or p[0]["configuration"].endswith(", 1 threads")'
check 'a peer that is not installed is a line' exits 0 'peer numpy: not installed|numpy eager' rf bench --case "$soft" --effort estimate "${quick[@]}" --peers numpy
check 'an adapter by hand says what it is for' exits 1 'usage' python3 "$root/peers/plain_c_peer.py"

# ---- catalogs ----
freeze() { rf catalog freeze --quiet --effort estimate --threads 1 --case "$soft" --case "$norm" "$@"; }
check 'freeze' exits 0 'softmax/17x257/f32' freeze -o a.json
check 'its record' sound catalog a.json
check 'freeze another' freeze --pin acc=4 -o b.json
check 'frozen twice, chosen alike' test "$(python3 -c 'import json; print(json.load(open("a.json"))["cases"][0]["case_sha256"])')" = \
    "$(freeze --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["cases"][0]["case_sha256"])')"
check 'show' exits 0 'rmsnorm/5x130/bf16' rf catalog show a.json
check 'verify' exits 0 'as frozen' rf catalog verify a.json --threads 1
check 'a case that cannot be planned is no catalog' exits 4 'plan\.' rf catalog freeze --effort estimate --case "$soft pin=W=33" -o c.json
check 'and leaves no file' test ! -e c.json
sed 's/"V=[0-9]*/&/; s/"rows":17/"rows":18/' a.json >altered.json
check 'an altered catalog' exits 4 'record.altered' rf catalog show altered.json
sed 's/:/: /' a.json >spaced.json
check 'a catalog with a blank' exits 4 'not canonical' rf catalog show spaced.json
echo '[1]' >list.json
echo '[' >list.txt
check 'no record' exits 2 'record.syntax' rf catalog show list.json
check 'another record' exits 2 'record.format' rf catalog show bench.json
python3 evidence.py reseal a.json 'd["cases"][0]["unit"]["sha256"] = "0" * 64' >forged.json
check 'a forged source has a hash that fits' rf catalog show forged.json
check 'and is found' exits 4 'replay.source_changed' rf catalog verify forged.json --threads 1
check 'another device' exits 4 'replay.other_device' rf catalog verify a.json --threads 1 --isa portable
check 'which is another number of threads' exits 4 'frozen for 1 thread; here is 2 threads .replay.other_device' rf catalog verify a.json --threads 2
check 'what to do' exits 2 'freeze SUITE' rf catalog thaw a.json
check 'nowhere to' exits 2 'no place' rf catalog freeze smoke

# ---- replays ----
two=("${quick[@]}" --rounds 2)
check 'which catalog is none' exits 2 'reference: line 1.*record.syntax' rf replay list.txt a.json "${two[@]}" -o r.json
check 'or which of the two' exits 2 'candidate: line 1.*record.syntax' rf replay a.json list.txt "${two[@]}" -o r.json
check 'replay' exits 0 'not resolved|better|worse' rf replay a.json b.json "${two[@]}" -o r.json
check 'its record' sound replay r.json
check 'nothing is left of the journal' test ! -e r.json.part
check 'replay of four rounds and one figure' rf replay a.json b.json "${quick[@]}" --figures device.batch.resident -o four.json
check 'its record' sound replay four.json
check 'replay beside a peer' rf replay a.json b.json "${two[@]}" --figures end_to_end.batch.resident --peers plain_c -o beside.json
check 'its record' sound replay beside.json
check 'peers come before in half of the rounds' python3 -c 'import json
p = json.load(open("beside.json"))["peers"]
assert len(p) == 4 and sorted(q["when"] for q in p if q["case"].startswith("softmax")) == ["after", "before"], p'
check 'of a catalog with itself: controls alone' exits 0 'control' rf replay a.json a.json "${two[@]}" --figures device.batch.cold -o same.json
check 'its record' sound replay same.json
for w in 32 64; do rf catalog freeze --quiet --effort estimate --threads 1 --case "$soft pin=W=$w" -o "w$w.json" >/dev/null; done
check 'suites that differ in their pins are compared' exits 0 'softmax/17x257/f32 ' rf replay w32.json w64.json "${two[@]}" --figures device.batch.resident -o pins.json
check 'its record' sound replay pins.json
check 'a case twice with other pins has them in its name' exits 0 'softmax/17x257/f32/W=64' rf catalog freeze --effort estimate --threads 1 --case "$soft pin=W=32" --case "$soft pin=W=64" -o both.json
check 'rounds are even' exits 2 'an even number' rf replay a.json b.json "${quick[@]}" --rounds 3 -o odd.json
check 'and not too many' exits 2 'up to 10000' rf replay a.json b.json "${quick[@]}" --rounds 20000 -o odd.json
check 'a figure that is not taken' exits 2 'primary' rf replay a.json b.json --figures device.batch.cold --primary device.single.cold -o odd.json
check 'other cases' exits 4 'replay.cases_differ' rf replay a.json <(rf catalog freeze --quiet --effort estimate --threads 1 --case "$soft" --json) "${two[@]}" -o odd.json
check 'a forged source' exits 4 'replay.source_changed' rf replay forged.json b.json "${two[@]}" -o forged-replay.json
check 'an altered side' exits 4 'record.altered' rf replay a.json altered.json "${two[@]}" -o odd.json
check 'without a worker' exits 5 'replay.no_worker' env ROWFOLD_WORKER= "$rowfold" replay a.json b.json "${two[@]}" -o none.json
check 'where nothing can be written' exits 6 'record.io' rf replay a.json b.json "${two[@]}" -o a.json/r.json

# Interrupted after its third measurement, then continued.
interrupted() {
    rm -rf int.json*
    # a shell lets what it starts in the background ignore SIGINT
    env --default-signal=INT "$rowfold" replay a.json b.json "${two[@]}" -o int.json >/dev/null 2>int.log &
    local pid=$! i
    for i in $(seq 600); do [ "$(wc -l 2>/dev/null <int.json.part)" -ge 5 ] 2>/dev/null && break; sleep 0.05; done
    kill -INT "$pid"
    local rc=0
    wait "$pid" || rc=$?
    [ $rc = 130 ] && grep -q record.stopped int.log && [ -s int.json.part ] && [ ! -e int.json ]
}
check 'an interrupted replay keeps what it has' interrupted
printf '{"torn' >>int.json.part
check 'other options do not continue it' exits 4 'replay.other_journal' rf replay a.json b.json "${quick[@]}" --rounds 4 -o int.json
changed() { # the journal with one of its lines changed, for as long as the replay is asked to go on
    cp int.json.part kept.part
    sed -i "$1" int.json.part
    exits 4 'replay.other_journal' rf replay a.json b.json "${two[@]}" -o int.json
    local rc=$?
    mv kept.part int.json.part
    return $rc
}
check 'a journal with a line that is none' changed '3s/.*/none/'
check 'with a line that is lost' changed 3d
check 'with a line twice' changed 3p
check 'with another measurement' changed '3s/"ordinal":0/"ordinal":1/'
check 'one process at a time' exits 6 'replay.busy' flock int.json.part "$rowfold" replay a.json b.json "${two[@]}" -o int.json
check 'it is continued' rf replay a.json b.json "${two[@]}" -o int.json
check 'its record is whole' sound replay int.json
check 'and tells of two sittings' python3 -c 'import json; s = json.load(open("int.json"))["sittings"]; assert len(s) == 2 and s[0]["measurements"] >= 3, s'

# Ctrl-C, and the SIGTERM of a batch system: what is at hand is given up at once, what was done is kept.
# asked SIGNAL SECONDS WHEN COMMAND...: sent when the log has WHEN; it ends by itself within so many seconds
asked() {
    local signal=$1 most=$2 when=$3 rc=0 i pid from
    shift 3
    rm -f asked.log
    env --default-signal=INT,TERM "$rowfold" "$@" >/dev/null 2>asked.log &
    pid=$!
    for i in $(seq 1200); do grep -qs "$when" asked.log && break; sleep 0.05; done
    sleep 0.2
    from=$(date +%s%N)
    kill -s "$signal" "$pid"
    wait "$pid" || rc=$?
    local ms=$((($(date +%s%N) - from) / 1000000))
    [ $rc = 130 ] && [ $ms -le $((most * 1000)) ] || { echo "code $rc after $ms ms"; cat asked.log; return 1; }
}
many=(--case "$norm" --case "$soft" --case "$soft pin=W=32" --case "$soft pin=W=64")
kept() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); n = len(d["cases"]); assert not d["complete"] and 1 <= n < 4 and all("failed" not in c for c in d["cases"]), n' "$1"; }
for signal in INT TERM; do
    rm -f stopped.json
    check "bench: SIG$signal ends it soon" asked $signal 3 1/4 bench "${many[@]}" --effort estimate --samples 9 --sample-ms 15 --threads 1 -o stopped.json
    check 'the cases before are kept' kept stopped.json
    check 'and the auditor refutes nothing' exits 0 ' 0 refuted' "$build/tools/audit/rowfold-audit" stopped.json
done
printf '#!/bin/sh\necho $$ >%s/peer.pid\nexec sleep 300\n' "$scratch" >endless_peer.sh && chmod +x endless_peer.sh
check 'SIGINT while a peer runs' asked INT 3 0/1 bench --case "$soft" --effort estimate "${quick[@]}" --peers ./endless_peer.sh
peer_gone() { [ ! -e peer.pid ] || ! kill -0 "$(cat peer.pid)" 2>/dev/null; }
check 'which ends with it' peer_gone
check 'freeze: SIGINT ends it soon' asked INT 3 1/4 catalog freeze "${many[@]}" --budget-candidates 3 --threads 1 -o part.json
check 'and nothing is frozen yet' test ! -e part.json
check 'another command does not go on with it' exits 4 'replay.other_journal' rf catalog freeze "${many[@]}" --budget-candidates 3 --threads 1 --pin V=1 -o part.json
cp part.json.part changed.json.part
sed -i '2s/"plan":"W=/"plan":"V=/' changed.json.part
check 'nor does the same with a case that was changed' exits 4 'replay.other_journal' rf catalog freeze "${many[@]}" --budget-candidates 3 --threads 1 -o changed.json
continued() {
    local first
    first=$(sed -n 2p part.json.part | sed 's/.*"case_sha256":"\([0-9a-f]*\)".*/\1/')
    rf catalog freeze "${many[@]}" --budget-candidates 3 --threads 1 -o part.json >/dev/null && grep -q "$first" part.json && [ ! -e part.json.part ]
}
check 'the same command does' continued
check 'and what it froze is whole' exits 0 'as frozen' rf catalog verify part.json --threads 1

# A worker that is replaced in the middle.
replaced() {
    cp "$build/cli/rowfold-worker" worker
    ROWFOLD_WORKER=$PWD/worker "$rowfold" replay a.json b.json "${two[@]}" -o swap.json >/dev/null 2>swap.log &
    local pid=$! i rc=0
    for i in $(seq 600); do [ "$(wc -l 2>/dev/null <swap.json.part)" -ge 3 ] 2>/dev/null && break; sleep 0.05; done
    { cat worker; echo; } >other && chmod +x other && mv other worker
    wait "$pid" || rc=$?
    [ $rc = 4 ] && grep -q replay.binary_changed swap.log
}
check 'a binary that changes on the way' replaced
done_testing
