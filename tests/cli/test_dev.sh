#!/usr/bin/env bash
# ./dev itself: wrong usage, missing packages, and the count of results, whose last line others read.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

check 'help names every command' exits 0 'demo' "$root/dev" help
check 'unknown command: exit 2' exits 2 'no command "nonsense"' "$root/dev" nonsense
check 'unknown option of test: exit 2' exits 2 'usage' "$root/dev" test --nonsense

# A machine with nothing but the shell's own tools: ./dev names the packages and ends with 3.
bare=$scratch/bare
mkdir -p "$bare"
for tool in bash env dirname nproc id cut find grep tr cat mkdir sed tail head; do
    path=$(command -v "$tool") && ln -s "$path" "$bare/$tool"
done
bare_dev() { ROWFOLD_NO_APT=1 PATH=$bare bash "$root/dev" "$@"; }
for command in demo build test check fuzz format; do
    check "bare machine: $command names what to install" exits 3 'apt-get install .*gcc.* meson .*libjansson-dev' bare_dev "$command"
done

# The count: each kind of bad end must show.
count() {
    rm -rf "$scratch/results"
    mkdir -p "$scratch/results"
    cat >"$scratch/results/build.json"
    python3 "$root/scripts/count_tests.py" "$scratch/results"
}
counts() { # counts CODE LAST_LINE JSON
    local rc=0 output
    output=$(count <<<"$3") || rc=$?
    [ "$rc" = "$1" ] && [ "$(tail -n 1 <<<"$output")" = "$2" ] || { printf 'exit %s: %s\n' "$rc" "$output"; return 1; }
}
row() { printf '{"name": "x", "result": "%s", "returncode": %s, "stdout": "%s"}' "$1" "$2" "$3"; }
check 'count: cases' counts 0 '2 passed, 0 failed' "$(row OK 0 '1..2\nok 1 - a\nok 2 - b\n')"
check 'count: a failed case' counts 1 '1 passed, 1 failed' "$(row FAIL 1 '1..2\nok 1 - a\nnot ok 2 - b\n')"
check 'count: a skipped case' counts 0 '1 passed, 0 failed, 1 skipped' "$(row OK 0 '1..2\nok 1 - a\nok 2 - b # SKIP no device\n')"
check 'count: a program without cases' counts 0 '1 passed, 0 failed' "$(row OK 0 '')"
check 'count: a crash after the first case' counts 1 '1 passed, 1 failed' "$(row FAIL -11 '1..2\nok 1 - a\n')"
check 'count: a leak after the last case' counts 1 '1 passed, 1 failed' "$(row FAIL 23 '1..1\nok 1 - a\n')"
check 'count: a timeout' counts 1 '0 passed, 1 failed' "$(row TIMEOUT -15 '')"
check 'count: cases that never ran' counts 1 '1 passed, 2 failed' "$(row OK 0 '1..3\nok 1 - a\n')"
check 'count: two groups in one program' counts 0 '3 passed, 0 failed' "$(row OK 0 '1..2\nok 1 - a\nok 2 - b\n1..1\nok 1 - c\n')"
check 'count: a case that cmocka skipped' counts 0 '1 passed, 0 failed, 1 skipped' "$(row OK 0 '1..2\nok 1 - a\nnot ok 2 # SKIP FO_37\n')"
check 'count: a skipped program' counts 0 '0 passed, 0 failed, 1 skipped' "$(row SKIP 77 '')"
check 'count: nothing at all is no pass' exits 1 '^0 passed, 1 failed$' \
    bash -c 'mkdir "$1" && python3 "$2" "$1"' _ "$scratch/empty" "$root/scripts/count_tests.py"
done_testing
