#!/usr/bin/env bash
# C files -> fails on what cppcheck finds. Suppressions, each with its reason: scripts/cppcheck.supp. usage: check_cppcheck.sh [ROOT]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-"$here/.."}"
cache=.cache/cppcheck
mkdir -p "$cache"
folders=()
for d in src cli tools examples; do
    if [ -n "$(find "$d" -name '*.c' -print -quit 2>/dev/null)" ]; then folders+=("$d"); fi
done
suppressions=$cache/suppressions # cppcheck wants no blanks before a comment, and older ones no comments at all
grep -v '^#' "$here/cppcheck.supp" | sed 's/[[:space:]]*#.*//; /^$/d' >"$suppressions"
cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppressions-list="$suppressions" --cppcheck-build-dir="$cache" -j "$(nproc)" -Iinclude --template=gcc "${folders[@]}"
