#!/usr/bin/env bash
# Names that the built library shows to others: fails on any that does not begin with rowfold_,
# and on a library that shows none.
# usage: check_exports.sh BUILD_FOLDER | LIBRARY...
set -euo pipefail
libraries=("$@")
if [ $# = 1 ] && [ -d "$1" ]; then
    libraries=("$1/src/librowfold.so")
    # The joined archive; a plain one (sanitizer builds) holds the inner names and is not installed by anyone.
    if [ -f "$1/src/librowfold.a" ]; then libraries+=("$1/src/librowfold.a"); fi
fi
bad=0
for library in "${libraries[@]}"; do
    case $library in
    *.a) names=$(nm -g --defined-only "$library") ;;
    *) names=$(nm -D --defined-only "$library") ;;
    esac
    # A version script defines its own node (type A), which is no name that a program can link to.
    strangers=$(awk 'NF == 3 && $2 != "A" && $3 !~ /^rowfold_/ { print $3 }' <<<"$names")
    if ! grep -q ' rowfold_' <<<"$names"; then
        printf '%s exports nothing\n' "$library"
        bad=1
    fi
    if [ -n "$strangers" ]; then
        printf '%s exports names that are not rowfold_:\n%s\n' "$library" "$strangers"
        bad=1
    fi
done
exit $bad
