#!/usr/bin/env bash
# Reports from the command line, and how they look: a browser at two sizes and two schemes, where there is one.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
unset ROWFOLD_WORKER
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=${ROWFOLD_CACHE:-$scratch/cache}
mkdir -p "$HOME"
cp "$root/tests/cli/evidence.py" "$root/tests/cli/page.py" "$scratch"
cd "$scratch"
rf() { "$rowfold" "$@"; }
quick=(--samples 3 --sample-ms 1 --warmup-ms 2 --rotate-mb 4 --threads 1)
soft="$root/kernels/softmax.row softmax rows=17,n=257 f32"
norm="$root/kernels/rmsnorm.row rmsnorm rows=5,n=130 bf16"

check 'a bench' exits 1 'of light' rf bench --case "$soft" --case "$norm" --case "$soft pin=W=33" --budget-candidates 4 "${quick[@]}" -o bench.json
check "a catalog" rf catalog freeze --quiet --effort estimate --threads 1 --case "$soft" --case "$norm" -o a.json
check 'a replay' rf replay a.json a.json --rounds 2 --figures device.batch.cold "${quick[@]}" -o replay.json
check 'a receipt' rf tune "$root/kernels/softmax.row" softmax --shape rows=8,n=100 --threads 1 --budget-candidates 3 -q --store t.db --receipt receipt.json
rf trials --store t.db --json >trials.json
rf tune "$root/kernels/softmax.row" softmax --shape rows=8,n=100 --threads 1 --budget-candidates 3 -q --no-store --json >search.json
all=(bench.json replay.json receipt.json trials.json search.json)

check 'a report' rf report "${all[@]}" -o report.html
check 'the same records, the same bytes' cmp report.html <(rf report "${all[@]}")
check 'it fetches nothing and runs nothing' bash -c '! grep -niE "https?:|<script|src=|href=.[^#]|url\(|@import" report.html'
check 'its tags stand right' python3 page.py tags report.html
check 'markdown' exits 0 '^\|#\||^\*\*Table 1' rf report "${all[@]}" --markdown --title 'All *five*'
check 'its title is text' exits 0 '^# All \\\*five\\\*' rf report bench.json --markdown --title 'All *five*'
check 'one JSON document' exits 0 '"records":5' rf report "${all[@]}" --json -o report.html
check 'no record' exits 2 'a record is missing' rf report
check 'a file that is not there' exits 6 'missing.json' rf report missing.json
sed 's/"samples":3/"samples":4/' bench.json >altered.json
check 'an altered record is refused' exits 4 'altered.json: .*record.altered|record.altered' rf report altered.json
check 'and leaves no page' test ! -e altered.html
check 'another file' exits 2 'record.syntax' rf report t.db

# Names as a stranger might choose them, long ones too.
python3 evidence.py reseal bench.json 'd["cases"][0]["id"] = "<script>document.title=1</script><img src=https://example.com/x>" + "w" * 300' >hostile.json
check 'a hostile record' rf report hostile.json replay.json -o hostile.html

check 'its tags stand right' python3 page.py tags hostile.html

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    skip 'how the page looks' 'no chromium here: install it to check layout at 1280x720 and 390x844'
    done_testing
fi
check 'it lies within a screen of 1280x720' python3 page.py "$browser" report.html 1280 720
check 'and of 390x844' python3 page.py "$browser" report.html 390 844
check 'in a dark scheme too' python3 page.py "$browser" report.html 390 844 dark
check 'whatever the names are' python3 page.py "$browser" hostile.html 390 844
check 'what is too wide is found' exits 1 'wider than' python3 page.py "$browser" <(echo '<!doctype html><div style="width:2000px">x</div>') 390 844
done_testing
