#!/usr/bin/env bash
# What the command remembers: trials, resuming, wisdom carried from one store to another, recall.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=${ROWFOLD_CACHE:-$scratch/cache}
unset ROWFOLD_STORE
mkdir -p "$HOME"
cd "$scratch"
soft=$root/kernels/softmax.row
store=$XDG_DATA_HOME/rowfold/trials.db
rf() { "$rowfold" "$@"; }
tune() { rf tune "$soft" softmax --shape rows=8,n=300 --budget-candidates 3 --isa portable -q --receipt r.json "$@"; }

# ---- nothing is there yet ----
check 'no trials' exits 0 'nothing is remembered' rf trials
check 'no wisdom' exits 0 'there is no wisdom' rf wisdom
check 'no wisdom to export' exits 0 '^$' sh -c "'$rowfold' wisdom export; echo"
check 'looking makes no file' test ! -e "$store"
check 'an estimate makes no file' sh -c "'$rowfold' emit '$soft' --shape n=300 -o e.c -q && test ! -e '$store'"
check 'tune --no-store makes no file' sh -c "'$rowfold' tune '$soft' softmax --shape rows=8,n=300 --budget-candidates 1 --isa portable -q --no-store --receipt r.json && test ! -e '$store'"
check 'recall of nothing is an estimate' tune --effort recall
check 'and the receipt says so' holds 'd["recall"]["how"] == "estimate"' cat r.json

# ---- trials ----
check 'tune remembers' holds 'd["timed"] == 3 and d["recorded"] == 7 and d["resumed"] == 0' tune --json
check 'in the data folder' test -f "$store"
check 'trials lists them' exits 0 'confirmed .*accepted' rf trials
check 'trials as JSON' holds 'len(d["trials"]) == 7 and {t["stage"] for t in d["trials"]} == {"short", "final", "confirmed"} and all(t["status"] == "accepted" and t["samples_ns"] and len(t["unit_sha256"]) == 64 for t in d["trials"])' rf trials --json
check 'a limit' holds 'len(d["trials"]) == 2' rf trials --limit 2 --json
check 'a filter' holds 'len(d["trials"]) == 7' rf trials kernel=softmax shape=rows=8,n=300 --json --limit 0
check 'a filter that nothing passes' exits 0 'nothing is remembered that the filter' rf trials layernorm
check 'a filter that is none' exits 2 'store.filter' rf trials colour=red
check 'resume runs nothing twice' holds 'd["resumed"] == 3' tune --resume --json
check 'and says so' exits 0 '3 of them before' tune --resume
check 'the receipt counts' holds 'd["store"]["resumed"] == 3 and d["store"]["note"] == ""' cat r.json
check 'no-store and resume' exits 2 'command.option' tune --no-store --resume

# A search that is killed: what it had finished is there, and the next one goes on.
killed() {
    rf tune "$soft" softmax --shape rows=64,n=700 --isa portable -q --store k.db --receipt k.json >/dev/null 2>&1 &
    local pid=$! n=0
    for _ in $(seq 200); do
        n=$(sqlite3 k.db 'select count(*) from trial' 2>/dev/null || echo 0)
        [ "$n" -lt 3 ] || break
        sleep 0.05
    done
    kill -9 "$pid" && ! wait "$pid"
    n=$(rf trials --store k.db --limit 0 --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["trials"]))')
    [ "$n" -ge 3 ] || { echo "$n trials"; return 1; }
    holds "d['resumed'] >= min($n, 8)" rf tune "$soft" softmax --shape rows=64,n=700 --isa portable -q --store k.db --receipt k.json --resume --budget-candidates 8 --json
}
if command -v sqlite3 >/dev/null; then check 'killed and resumed' killed; else skip 'killed and resumed' 'sqlite3 is not installed'; fi

# ---- a store that cannot be used costs no result ----
printf 'not a database, but long enough to be looked at in earnest by anyone who comes along' >bad.db
check 'a file that is no store: the result is printed' exits 0 'store.not_ours' sh -c "'$rowfold' tune '$soft' softmax --shape rows=8,n=300 --budget-candidates 1 --isa portable --store bad.db --receipt r.json 2>&1 | grep -e '^plan' -e store.not_ours"
check 'but resuming from it is an error' exits 6 'store.not_ours' tune --store bad.db --resume
check 'and so is listing it' exits 6 'store.not_ours' rf trials --store bad.db
check 'ROWFOLD_STORE is the default' exits 6 'store.not_ours' env ROWFOLD_STORE=bad.db "$rowfold" trials
check 'no folder for it can be made' exits 0 'nothing is remembered: cannot make the folder of .*: ' env XDG_DATA_HOME=/proc "$rowfold" tune "$soft" softmax --shape rows=8,n=300 --budget-candidates 1 --isa portable --receipt r.json
check 'no place at all' exits 6 'store.nowhere' env -u XDG_DATA_HOME -u HOME "$rowfold" trials

# ---- wisdom ----
check 'wisdom shows the best' exits 0 'softmax .*confirmed' rf wisdom
check 'wisdom as JSON' holds 'len(d["wisdom"]) == 1 and d["wisdom"][0]["stage"] == "confirmed"' rf wisdom show --json
check 'why' exits 0 'evidence .*confirmed, median' rf wisdom why softmax
check 'why as JSON' holds 'len(d["wisdom"]) == 1 and len(d["trials"]) >= 7' rf wisdom why softmax --json
check 'why what' exits 2 'command.words' rf wisdom why
check 'an unknown verb' exits 2 'show, why, export, import, forget' rf wisdom invent
check 'export to a file' rf wisdom export softmax -o w.txt
check 'export as JSON is one document with that text' sh -c "'$rowfold' wisdom export --json | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)[\"text\"] != open(\"w.txt\").read())'"
check 'export to stdout is the same' sh -c "'$rowfold' wisdom export | cmp - w.txt"
check 'import where it is known' exits 0 '0 taken, 1 known' rf wisdom import w.txt
check 'import elsewhere' exits 0 '[01] taken, 0 known' rf wisdom import w.txt --store other.db
check 'what was imported exports as it was' sh -c "'$rowfold' wisdom export --store other.db | cmp - w.txt"
sed 's/"device":"/"device":"moon /' w.txt >moon.txt
sed 's/; [0-9]* threads;/; 77 threads;/; s/"threads":[0-9]*/"threads":0/' w.txt >threads.txt
check 'for other threads: that alone is told' exits 0 'foreign: for device 77 threads; here is [0-9]+ threads .wisdom.foreign' rf wisdom import threads.txt --isa portable --store moon.db
check 'and taken with that many' exits 0 '^1 taken' rf wisdom import threads.txt --isa portable --threads 77 --store more.db
sed 's/"plan":"W=[0-9]*/"plan":"W=128/' w.txt >altered.txt
check 'another plan under the old time is refused' exits 4 'wisdom.other_source' rf wisdom import altered.txt --store other.db
check 'for another device: kept, not chosen' exits 0 '1 for other devices' rf wisdom import moon.txt --store moon.db
check 'recall does not choose it' tune --effort recall --store moon.db
check 'recall says so' holds 'd["recall"]["how"] == "estimate"' cat r.json
sed 's/= exp /= log /' w.txt >lie.txt
check 'a lie is refused' exits 4 '1 refused' rf wisdom import lie.txt --store other.db
check 'with its reason' holds 'rc == 4 and d["refused"] == 1 and d["entries"][0]["slug"] == "wisdom.field"' rf wisdom import lie.txt --store other.db --json
check 'import of a file that is not there' exits 6 'file.read' rf wisdom import nothing.txt
check 'import from standard input' exits 0 '1 known' sh -c "'$rowfold' wisdom import - <w.txt"

# ---- recall ----
check 'recall' tune --effort recall --store other.db
check 'the very problem' holds 'd["recall"]["how"] == "exact" and d["recall"]["imported"] and d["search"]["candidates"] == 1 and "times" not in d' cat r.json
plan_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["plan"])' "$1"; }
same_plan() { [ "$(plan_of r.json)" = "$(plan_of w.txt)" ]; }
check 'with the plan that was found' same_plan
ranged() { rf tune "$soft" softmax --shape "rows=8,$1" --isa portable --store ranges.db --receipt r.json -q "${@:2}"; }
check 'a kernel for a range is tuned' ranged n=1..64 --budget-candidates 2
check 'and recalled for that range' ranged n=1..64 --effort recall
check 'as the very problem' holds 'd["recall"]["how"] == "exact" and d["shape"]["n"] == {"from": 1, "to": 64}' cat r.json
check 'one for a range near it' ranged n=2..100 --effort recall
check 'is recalled from that one' holds 'd["recall"]["how"] == "nearest" and d["recall"]["shape"] == "rows=8,n=1..64"' cat r.json
check 'one for a single extent' ranged n=64 --effort recall
check 'is not' holds 'd["recall"]["how"] == "estimate"' cat r.json
check 'recall for another shape' rf emit "$soft" softmax --shape rows=8,n=400 --isa portable --effort recall -o e.c -q
check 'a near one' rf tune "$soft" softmax --shape rows=8,n=400 --isa portable --effort recall --receipt r.json -q
check 'is said to be near' holds 'd["recall"]["how"] == "nearest" and d["recall"]["shape"] == "rows=8,n=300"' cat r.json
check 'forget what' exits 2 'command.words' rf wisdom forget
check 'forget' exits 0 'wisdom of 1 problem' rf wisdom forget softmax
check 'nothing is left' exits 0 'there is no wisdom' rf wisdom
check 'but the trials are' holds 'len(d["trials"]) >= 7 and all(t["forgotten"] for t in d["trials"])' rf trials --json --limit 0
check 'forget all' exits 0 'wisdom of' rf wisdom forget all --store other.db

# ---- workers ----
check 'without a worker the result is the same, and a note says so' exits 0 'rowfold-worker was not found' \
    env ROWFOLD_WORKER=/no/such/worker "$rowfold" tune "$soft" softmax --shape rows=8,n=300 --budget-candidates 1 --isa portable --no-store --receipt r.json
check 'a worker started by hand says what it is' exits 2 'rowfold starts this program' "$(dirname "$rowfold")/rowfold-worker"
done_testing
