#!/usr/bin/env bash
# C files -> fails on one that clang-format would change; --fix changes it. usage: check_format.sh [--fix] [ROOT]
set -euo pipefail
mode=(--dry-run -Werror --ferror-limit=1)
if [ "${1:-}" = --fix ]; then
    mode=(-i)
    shift
fi
cd "${1:-"$(dirname "${BASH_SOURCE[0]}")/.."}"
folders=()
for d in src include cli tools examples tests; do if [ -d "$d" ]; then folders+=("$d"); fi; done
# .def tables are left alone: one row a line reads better than what a formatter makes of them.
find "${folders[@]}" -name '*.[ch]' -print0 | sort -z | xargs -0 -r clang-format --style=file "${mode[@]}" || exit 1 # xargs says 123
