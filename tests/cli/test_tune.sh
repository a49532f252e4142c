#!/usr/bin/env bash
# How a search is steered and watched from the command line: strategies, combinations, regimes, budgets, events, audits.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=${ROWFOLD_CACHE:-$scratch/cache} ROWFOLD_WORKER=
mkdir -p "$HOME"
cd "$scratch"
soft=$root/kernels/softmax.row
few=W=16:64,acc=1,flight=1,prefetch=0,stagger=off,threads=0,store=plain,stat=two-pass,div=exact
tune=("$rowfold" tune "$soft" softmax --shape rows=8,n=100 --no-store --receipt r.json --pin V=1 --search "$few")

"${tune[@]}" --json >once.json 2>once.events && once=0 || once=$?
once() { cat once.json; cat once.events >&2; return $once; }
check 'an event a candidate' holds 'rc == 0 and len(e) == d["timed"] + d["failed"] and [x["tried"] for x in e] == list(range(1, len(e) + 1)) and all(x["event"] == "candidate" and x["total"] >= x["tried"] and x["left_s"] >= 0 and x["refused"] == d["refused"] for x in e) and e[-1]["left_s"] == 0 and e[-1]["best_plan"].startswith("W=")' once
check 'events tell reasons' holds 'sum(int(x.split("=")[1]) for x in e[-1]["reasons"].split(",")) == d["refused"] + d["failed"] and d["refused"] > 0' "${tune[@]}" --json --search stat=two-pass/online
check 'quiet has no events' holds 'not e' "${tune[@]}" --json --quiet --budget-candidates 1
check 'finals as JSON' holds '4 < d["finals"]["finalists"] <= 8 and d["finals"]["rounds"] >= 6 and d["finals"]["detectable"] >= 0.01 and (d["finals"]["tie"] == (d["finals"]["gain"] < d["finals"]["detectable"]))' once
check 'a change is replayed afresh' holds 'd["finals"]["tie"] == (d["finals"]["replays"] == 0) and d["finals"]["vetoed"] == (d["finals"]["replays"] > 0 and d["finals"]["replayed_least"] <= 0)' once
check 'in words' eval '"${tune[@]}" --budget-candidates 2 >words'
check 'finals in words' grep -qE 'the least gain that shows is [0-9.]+%' words
check 'the clock, where it is known' grep -qE 'clock +(unknown|[0-9]+ MHz)' words
check 'random' holds 'd["timed"] == 3' "${tune[@]}" --json --strategy random --budget-candidates 3
check 'beam' holds 'd["timed"] == 5' "${tune[@]}" --json --strategy beam --budget-candidates 5
check 'exhaustive by its name' holds 'd["timed"] + d["failed"] + d["refused"] == d["candidates"] > 8' "${tune[@]}" --json --strategy exhaustive
check 'exhaustive past its budget names the size' exits 4 'points=[0-9]+ limit=3' "${tune[@]}" --strategy exhaustive --budget-candidates 3
calls() { ROWFOLD_SAMPLE_MS=$1 "${tune[@]}" --budget-candidates 1 --quiet >/dev/null && python3 -c 'import re; print(re.search("\"calls\": *([0-9]+)", open("r.json").read())[1])'; }
check 'shorter samples have fewer calls' eval '(($(calls 0.2) * 2 < $(calls 5)))'
check 'samples of no length' exits 2 "0.1 to 1000" env ROWFOLD_SAMPLE_MS=0 "${tune[@]}"
check 'no such strategy' exits 2 'search.strategy' "${tune[@]}" --strategy clever
check 'a strategy that does not go with the effort' exits 2 'search.strategy' "${tune[@]}" --strategy beam --effort exhaustive
check 'combinations' holds 'd["timed"] == 8' "$rowfold" tune "$soft" softmax --shape rows=8,n=100 --no-store --receipt r.json --pin V=1 --tune-holds reload,register --tune-W=32,64 --json
check 'combinations in the receipt' python3 -c 'import json; assert json.load(open("r.json"))["search"]["joint"] == "hold.*=reload/register,W=32/64"'
check 'combinations of what does not exist' exits 2 'plan.unknown_dimension|plan\.' "${tune[@]}" --tune-shape 1,2
check 'more combinations than allowed' exits 4 'combinations=' "${tune[@]}" --tune-W 16,32,64 --budget-candidates 2
check 'a budget for compilers' holds 'd["candidates_compile_s"] > 0 and d["timed"] < d["candidates"] - d["refused"]' env ROWFOLD_CACHE= "${tune[@]}" --json --budget-compile-seconds 0.001
check 'cold memory' holds 'd["rotated_bytes"] > 1e8 and d["time_s"] > 0' "$rowfold" tune "$soft" softmax --shape rows=64,n=4096 --no-store --receipt r.json --pin V=1 --budget-candidates 2 --regime cold --json
check 'cold in the receipt' python3 -c 'import json; assert json.load(open("r.json"))["regime"]["name"] == "cold"'
check 'no such regime' exits 2 'option.value|lukewarm' "${tune[@]}" --regime lukewarm

# ---- what is remembered of cold memory is not taken for resident ----
regimes() {
    local plan=(softmax --shape rows=64,n=4096 --store s.db --receipt r.json --pin V=1)
    "$rowfold" tune "$soft" "${plan[@]}" --search "$few" --budget-candidates 2 --regime cold --quiet >/dev/null || return 1
    "$rowfold" trials --store s.db --limit 0 --json >t.json || return 1
    python3 -c 'import json; t = json.load(open("t.json")); t = t["trials"] if isinstance(t, dict) else t; assert t and all(x["promises"] == "noalias,cold" for x in t), t[:1]' || return 1
    "$rowfold" wisdom export --store s.db >w || return 1
    "$rowfold" wisdom import w --store other.db | grep -q . && [ "$("$rowfold" wisdom export --store other.db | wc -l)" = "$(wc -l <w)" ]
}
check 'cold trials are kept apart' regimes

# ---- audits ----
small=(--pin V=1,acc=1,flight=1,prefetch=0,stagger=off,threads=0,store=plain,stat=two-pass,div=exact --search W=16:64 --budget-candidates 2)
check 'an audit of the staging' holds 'len(d["cases"]) == 2 and all(c["audit"]["exhaustive"]["timed"] == c["audit"]["legal"] and c["audit"]["staged"]["timed"] == 2 and 1 <= c["audit"]["place"] <= c["audit"]["legal"] and c["audit"]["pruned_by"] in ("none", "ranking", "short times", "finals") for c in d["cases"]) and d["worst_regret"] >= 0 and d["pruned_by_ranking"] == sum(c["audit"]["pruned_by"] == "ranking" for c in d["cases"])' "$rowfold" tune "$soft" softmax --audit-pruning --case rows=8,n=100 --case rows=4,n=64 "${small[@]}" --json
printf '# two cases\n%s softmax rows=8,n=100 f32\n\n%s log_softmax rows=4,n=64 bf16 pin=W=32,hold.x=reload # one plan of each\n' "$soft" "$soft" >two.suite
check 'cases from a suite' exits 0 'log_softmax +rows=4,n=64.*worst regret|worst regret' "$rowfold" tune --audit-pruning two.suite "${small[@]}"
check 'a suite with a line too short' bash -c 'echo "$1 softmax" >bad.suite; "$2" tune --audit-pruning bad.suite 2>&1 | grep -q "line 1, has 2 of 4 words"' _ "$soft" "$rowfold"
check 'an audit of nothing' exits 2 'no cases to audit' "$rowfold" tune --audit-pruning

# ---- instructions that this processor lacks ----
foreign=neon
[ "$(uname -m)" = x86_64 ] || foreign=avx512
for command in tune plan emit; do
    check "$command --isa $foreign says what does it here" exits 2 "--device preset:$foreign plans and emits.*command.value" "$rowfold" $command "$soft" softmax --shape rows=8,n=100 --isa $foreign
done
check 'and so it does' "$rowfold" emit "$soft" softmax --shape rows=8,n=100 --device preset:$foreign -o other.c
check 'no preset is told of where there is none' exits 2 'no instructions "z80".*command.value' "$rowfold" plan "$soft" softmax --shape rows=8,n=100 --isa z80
done_testing
