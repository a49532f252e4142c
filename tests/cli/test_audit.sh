#!/usr/bin/env bash
# The auditor's command line: what it reads, what it refuses, its exit codes, and that help and man page agree.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
auditor=$ROWFOLD_AUDIT
while read -r option; do
    check "man page describes $option" grep -q -- "Fl Fl ${option#--}" "$root/man/rowfold-audit.1"
done < <("$auditor" --help | grep -oE '^  --[a-z]+' | tr -d ' ')
echo '{"format":"rowfold-audit-9"}' >"$scratch/other.json"
echo '{' >"$scratch/cut.json"
echo '{"cases":[],"format":"rowfold-catalog-1","hash":""}' >"$scratch/empty.json"
check 'no record' exits 2 'RECORD: it is missing' "$auditor"
check 'an unknown option' exits 2 'no such option' "$auditor" --fast x.json
check 'a file that is not there' exits 2 'none.json' "$auditor" "$scratch/none.json"
check 'a folder' exits 2 'cannot be read|directory' "$auditor" "$scratch"
check 'a format of others' exits 2 'rowfold-replay-1' "$auditor" "$scratch/other.json"
check 'no JSON' exits 2 'no JSON' "$auditor" "$scratch/cut.json"
check 'a catalog that is none' exits 2 'catalog 1 is no JSON' "$auditor" "$scratch/empty.json" "$scratch/cut.json"
check 'a catalog of nothing is refuted' exits 1 'it has no cases' "$auditor" "$scratch/empty.json"
check 'as JSON' exits 1 '"format":"rowfold-audit-1"' "$auditor" --json "$scratch/empty.json"
check 'confirmed claims are listed' exits 1 'confirmed:' "$auditor" --all "$scratch/empty.json"
check 'the claims are listed' exits 0 'bootstrap' "$auditor" --claims
check 'the version' exits 0 'rowfold-audit [0-9]' "$auditor" --version
done_testing
