# shellcheck shell=bash
# A small TAP printer for test scripts: source it, call `check NAME COMMAND...` or `skip NAME REASON`, end with `done_testing`.
# shellcheck disable=SC2034  # variables for the scripts that source this
root=${ROWFOLD_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
build=${ROWFOLD_BUILD:-$root/build}
scratch=$(mktemp -d)
# Twice, for a program that a test killed may just be writing its last file.
trap 'rm -rf "$scratch" 2>/dev/null || { sleep 1; rm -rf "$scratch"; } || true' EXIT
tap_count=0 tap_failed=0

# Python as the scripts use it, which is for its own library alone: the interpreter behind what may be a version manager's script, and without
# the search for packages, which together take ten times as long as Python's start.
python=$(python3 -c 'import sys; print(sys.executable)')
python3() { "$python" -S "$@"; }
export python
export -f python3

# check NAME COMMAND...: passes when the command succeeds; its output is shown when it does not.
check() {
    local name=$1 output
    shift
    tap_count=$((tap_count + 1))
    if output=$("$@" 2>&1 </dev/null); then
        echo "ok $tap_count - $name"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $name"
        printf '# %s\n' "command: $*"
        head -n 40 <<<"$output" | sed 's/^/# /'
    fi
}
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}
# exits CODE PATTERN COMMAND...: succeeds when the command ends with CODE and prints something that matches PATTERN.
exits() {
    local want=$1 pattern=$2 rc=0 output
    shift 2
    output=$("$@" 2>&1 </dev/null) || rc=$?
    if [ "$rc" != "$want" ] || ! grep -qE -- "$pattern" <<<"$output"; then
        printf 'wanted exit %s and /%s/, got exit %s and:\n%s\n' "$want" "$pattern" "$rc" "$output"
        return 1
    fi
}
# holds EXPRESSION COMMAND...: stdout is one JSON document d for which Python's EXPRESSION is true; it may ask for the exit code rc too, and for
# e, what on stderr is JSON, line by line
holds() {
    local expression=$1 rc=0
    shift
    "$@" >"$scratch/holds.out" 2>"$scratch/holds.err" </dev/null || rc=$?
    RC=$rc python3 -c 'import json, os, sys
rc, out, err = int(os.environ["RC"]), open(sys.argv[2]).read(), open(sys.argv[3], errors="replace").read()
try:
    d = json.loads(out)
except ValueError as why:
    sys.exit("not JSON (exit %d, %s): %s\n%s" % (rc, why, out[:1500], err))
e = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
sys.exit(0 if eval(sys.argv[1]) else "false: %s (exit %d) of %s\n%s" % (sys.argv[1], rc, json.dumps(d)[:1500], err[:1500]))' \
        "$expression" "$scratch/holds.out" "$scratch/holds.err"
}
done_testing() {
    echo "1..$tap_count"
    exit $((tap_failed > 0))
}
