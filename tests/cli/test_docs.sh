#!/usr/bin/env bash
# The man page, the completions and the README say the same about the command's subcommands and options as the command does.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
subcommands="run plan emit tune bench catalog replay report trials wisdom devices calibrate explain check"

if command -v mandoc >/dev/null; then
    check 'man page is clean' mandoc -Tlint -Wwarning "$root/man/rowfold.1"
    check "the auditor's man page is clean" mandoc -Tlint -Wwarning "$root/man/rowfold-audit.1"
else
    skip 'man page is clean' 'mandoc is not installed'
fi
for sub in $subcommands; do
    check "man page describes $sub" grep -qE "^\.It (Cm|Ic) $sub|^\.Ss $sub" "$root/man/rowfold.1"
    check "zsh completion knows $sub" grep -qE "^ *'$sub:" "$root/completions/_rowfold"
done
# shellcheck source=/dev/null
. "$root/completions/rowfold.bash"
complete_first() { # what bash offers after `rowfold <word>`
    COMP_WORDS=(rowfold "$1") COMP_CWORD=1 COMPREPLY=()
    _rowfold
    printf '%s\n' "${COMPREPLY[@]}"
}
offers_all() {
    local sub offered
    offered=$(complete_first '') # whole: a pipe that grep leaves early would fail
    for sub in $subcommands; do grep -qx "$sub" <<<"$offered" || { echo "$sub is not offered"; return 1; }; done
}
check 'bash completion offers every subcommand' offers_all
check 'bash completion narrows' test "$(complete_first tu)" = tune
if command -v zsh >/dev/null; then
    check 'zsh completion parses' zsh -n "$root/completions/_rowfold"
else
    skip 'zsh completion parses' 'zsh is not installed'
fi
# Every option that a completion offers is in the man page: an option renamed in one place shows here.
options_described() {
    local option bad=0
    for option in $(grep -ohE -- '--[a-z][a-z-]+' "$root/completions/rowfold.bash" "$root/completions/_rowfold" | sort -u); do
        grep -qE -- "Fl Fl ${option#--}( |$)" "$root/man/rowfold.1" || { echo "$option"; bad=1; }
    done
    return $bad
}
check 'every completed option is in the man page' options_described
# Each mistake of docs/measuring.md has a test that is there: FILE: NAME in the last column.
mistakes_tested() {
    local file name bad=0
    while IFS=: read -r file name; do
        grep -qF -- "${name# }" "$(find "$root/tests" -name "$file")" || { echo "$file:$name"; bad=1; }
    done < <(mistakes)
    return $bad
}
mistakes() { sed -n '/^| mistake /,/^$/p' "$root/docs/measuring.md" | grep -oE '`(test_[a-z]+\.(c|sh)|tamper\.py): [^`]+`' | tr -d '`'; }
check 'every mistake in measuring has a test' test "$(sed -n '/^| mistake /,/^$/p' "$root/docs/measuring.md" | grep -c '`')" = \
    "$(($(sed -n '/^| mistake /,/^$/p' "$root/docs/measuring.md" | grep -c '^|') - 2))"
check 'which is there' mistakes_tested
if [ -x "${ROWFOLD:-}" ]; then
    check 'the command prints its help' exits 0 'tune' "$ROWFOLD" --help
    in_help() {
        local sub bad=0
        for sub in $subcommands; do "$ROWFOLD" --help | grep -qw "$sub" || { echo "$sub"; bad=1; }; done
        return $bad
    }
    check 'its help names every subcommand' in_help
    # The command's own table is the source: what its help lists is what the completions offer and the man page describes.
    options_of() { "$ROWFOLD" "$1" --help | sed -nE 's/^  (-., )?--([a-z-]+).*/--\2/p' | sort; }
    offered() { # what bash offers after `rowfold SUB --`
        COMP_WORDS=(rowfold "$1" --) COMP_CWORD=2 COMPREPLY=()
        _rowfold
        printf '%s\n' "${COMPREPLY[@]}" | sort
    }
    zsh_offers() { sed -n "/^    $1)/,/;;/p" "$root/completions/_rowfold" | grep -oE "'\*?--[a-z-]+" | tr -d "'*" | sort; }
    same() { diff <(options_of "$1") <("$2" "$1"); }
    described() {
        local option bad=0
        for option in $(options_of "$1"); do
            grep -qE -- "^\.It .*Fl Fl ${option#--}( |\$)" "$root/man/rowfold.1" || { echo "$option"; bad=1; }
        done
        return $bad
    }
    for sub in $subcommands; do
        check "$sub has options" test -n "$(options_of "$sub")"
        check "bash completion offers the options of $sub" same "$sub" offered
        check "zsh completion offers the options of $sub" same "$sub" zsh_offers
        check "man page describes the options of $sub" described "$sub"
    done
    # Commands that texts show: their subcommands take the options, and the suites are shipped. Lines that end with a backslash go on.
    shown() {
        cat "$root"/README.md "$root"/docs/*.md "$root"/peers/README.md "$root"/results/*/about.txt |
            sed -e ':more' -e '/\\$/{N; s/\\\n */ /; b more' -e '}' | grep -oE '\<rowfold +(run|plan|emit|tune|bench|catalog|replay|report|trials|wisdom|calibrate|devices|explain|check) [^`|#]*'
    }
    taken() {
        local sub rest option bad=0
        while read -r _ sub rest; do
            for option in $(grep -oE -- '(^| )--[a-z][a-z-]*' <<<"$rest"); do
                options_of "$sub" | grep -qx -- "$option" || { echo "$sub $option"; bad=1; }
            done
        done < <(shown)
        return $bad
    }
    check 'texts show commands' test "$(shown | wc -l)" -gt 30
    check 'with options that there are' taken
    suites_shipped() {
        local suite bad=0
        for suite in $(shown | sed -nE 's/^rowfold +(bench|catalog +freeze) +([a-z0-9-]+).*/\2/p' | grep -v '^-' | sort -u); do
            [ -e "$root/suites/$suite.suite" ] || { echo "$suite"; bad=1; }
        done
        return $bad
    }
    check 'of suites that there are' suites_shipped
else
    skip 'the command prints its help' 'this build has no command'
fi
done_testing
