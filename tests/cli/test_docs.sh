#!/usr/bin/env bash
# The man page, the completions and the README say the same about the command's subcommands and options as the command does.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
subcommands="run plan emit tune devices explain check"

if command -v mandoc >/dev/null; then
    check 'man page is clean' mandoc -Tlint -Wwarning "$root/man/rowfold.1"
else
    skip 'man page is clean' 'mandoc is not installed'
fi
for sub in $subcommands; do
    check "man page describes $sub" grep -qE "^\.It (Cm|Ic) $sub|^\.Ss $sub" "$root/man/rowfold.1"
    check "zsh completion knows $sub" grep -qE "^ *'$sub:" "$root/completions/_rowfold"
done
complete_first() { # what bash offers after `rowfold <word>`
    COMP_WORDS=(rowfold "$1") COMP_CWORD=1 COMPREPLY=()
    # shellcheck source=/dev/null
    . "$root/completions/rowfold.bash"
    _rowfold
    printf '%s\n' "${COMPREPLY[@]}"
}
offers_all() {
    local sub
    for sub in $subcommands; do complete_first '' | grep -qx "$sub" || { echo "$sub is not offered"; return 1; }; done
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
if [ -x "${ROWFOLD:-}" ]; then
    check 'the command prints its help' exits 0 'tune' "$ROWFOLD" --help
    in_help() {
        local sub bad=0
        for sub in $subcommands; do "$ROWFOLD" --help | grep -qw "$sub" || { echo "$sub"; bad=1; }; done
        return $bad
    }
    check 'its help names every subcommand' in_help
    options_known() { # each option of the man page's subcommands is in some help text
        local option bad=0 text
        text=$("$ROWFOLD" --help; for sub in $subcommands; do "$ROWFOLD" "$sub" --help; done)
        for option in $(grep -oE '^\.It Fl Fl [a-z-]+' "$root/man/rowfold.1" | sed 's/.* //' | sort -u); do
            grep -qE -- "--$option\b" <<<"$text" || { echo "--$option"; bad=1; }
        done
        return $bad
    }
    check 'its help names every option of the man page' options_known
else
    skip 'the command prints its help' 'this build has no command'
fi
done_testing
