#!/usr/bin/env bash
# Each check of scripts/ passes on a small sound tree and fails on the same tree with one fault: a check that cannot fail checks nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
scripts=$root/scripts
tree=$scratch/tree

# A sound tree, made anew before each fault.
sound() {
    rm -rf "$tree"
    mkdir -p "$tree"/{src/{base,ir,plan,api},include,cli,examples,tests/unit,scripts}
    cp "$root/.clang-format" "$root/.clang-tidy" "$tree"
    printf '# small\n' >"$tree/README.md"
    printf '#ifndef ROWFOLD_H\n#define ROWFOLD_H\nint rowfold_one(void);\n#endif\n' >"$tree/include/rowfold.h"
    printf 'SLUG(S_ONE, "one.two", ERR_ARGUMENT, "Why.",\n     "Hint.")\n' >"$tree/src/base/slugs.def"
    printf 'int base_one(int a);\n' >"$tree/src/base/base.h"
    printf '#include "base.h"\n\nint base_one(int a) { return a + 1; }\n' >"$tree/src/base/first.c"
    printf '#include "../base/base.h"\n\nint ir_one(int a);\nint ir_one(int a) { return base_one(a); }\n' >"$tree/src/ir/second.c"
    printf '#include "../../include/rowfold.h"\n\n/* raises S_ONE */\nint rowfold_one(void) { return 1; }\n' >"$tree/src/api/third.c"
    printf '#include <rowfold.h>\n#include <stdio.h>\n\nint main(void) { return printf("%%d\\n", rowfold_one()) < 0; }\n' >"$tree/cli/main.c"
    printf '/* provokes one.two */\n' >"$tree/tests/unit/test_one.c"
    printf "['base/first.c', 'ir/second.c', 'api/third.c']\n" >"$tree/src/meson.build"
    printf "['main.c']\n" >"$tree/cli/meson.build"
    printf "['one']\n" >"$tree/tests/meson.build"
    # The two styles of one-line functions differ between .clang-format files; the sound tree is in whatever this one asks for.
    if command -v clang-format >/dev/null; then find "$tree" -name '*.[ch]' -exec clang-format --style=file -i {} +; fi
}
# faulty NAME PATTERN SHELL_TEXT COMMAND...: the command passes on the sound tree, and with the fault made by SHELL_TEXT (run in the tree)
# fails with exit 1 and a line that matches PATTERN.
faulty() {
    local name=$1 pattern=$2 fault=$3
    shift 3
    sound
    check "$name: sound tree passes" "$@"
    (cd "$tree" && eval "$fault")
    check "$name: fault is found" exits 1 "$pattern" "$@"
}
floors=(python3 "$scripts/check_floors.py" "$tree")
faulty 'floors, upward include' 'src/base/first.c:1: base is floor 0, ir is floor 1' \
    'printf "int x;\n" >src/ir/ir.h; sed -i "1i #include \"../ir/ir.h\"" src/base/first.c' "${floors[@]}"
faulty 'floors, sideways include' 'ir is floor 1, target is floor 1' \
    'mkdir src/target; printf "int x;\n" >src/target/target.h; sed -i "1i #include \"../target/target.h\"" src/ir/second.c' "${floors[@]}"
faulty 'floors, include by macro' 'an include must name its file' 'sed -i "1i #include WHERE" src/ir/second.c' "${floors[@]}"
faulty 'floors, include of nothing' 'no such file' 'sed -i "1i #include \"gone.h\"" src/ir/second.c' "${floors[@]}"
faulty 'floors, include outside src' 'outside src' 'sed -i "1i #include \"../../cli/main.c\"" src/ir/second.c' "${floors[@]}"
faulty 'floors, public header below api' 'for api alone' 'sed -i "1i #include <rowfold.h>" src/ir/second.c' "${floors[@]}"
faulty 'floors, unknown folder' 'not in a folder of the floor table' 'mkdir src/misc; echo "int x;" >src/misc/x.h' "${floors[@]}"
faulty 'floors, command looks inside' 'cli/main.c:1: .*neither rowfold.h' 'sed -i "1i #include \"../src/base/base.h\"" cli/main.c' "${floors[@]}"
faulty 'floors, command uses a library' '<jansson.h> is neither' 'sed -i "1i #include <jansson.h>" cli/main.c' "${floors[@]}"
faulty 'floors, long file' '801 lines' 'seq -f "/* %g */" 801 >src/ir/second.c' "${floors[@]}"
faulty 'floors, same name twice' 'same name as' 'mkdir -p src/plan; cp src/ir/second.c src/plan/second.c' "${floors[@]}"
faulty 'floors, unlisted source' 'src/ir/lost.c:1: not listed' 'echo "int lost;" >src/ir/lost.c' "${floors[@]}"
faulty 'floors, unlisted test' 'test_lost.c:1: not listed' 'echo "int lost;" >tests/unit/test_lost.c' "${floors[@]}"

slugs=(python3 "$scripts/check_slugs.py" "$tree")
faulty 'slugs, untested' 'S_ONE .*no test mentions it' ': >tests/unit/test_one.c' "${slugs[@]}"
faulty 'slugs, named by a longer word only' 'no test mentions it' 'echo "/* one.two_more S_ONE_MORE */" >tests/unit/test_one.c' "${slugs[@]}"
faulty 'slugs, unknown' 'S_LOST is not in' 'echo "/* S_LOST */" >>src/ir/second.c' "${slugs[@]}"
faulty 'slugs, unused' 'nothing in src raises it' 'sed -i s/S_ONE/none/ src/api/third.c' "${slugs[@]}"
faulty 'slugs, twice' 'two rows' 'cat src/base/slugs.def >more; cat more >>src/base/slugs.def' "${slugs[@]}"

words=(python3 "$scripts/check_words.py" "$tree")
# Spelled in pieces, so that this file passes the check that it tests.
w=wor h=hom p=py s=issu t=tm
faulty 'words, path of a machine' 'README.md:2: a path' "echo 'see /${w}k/main' >>README.md" "${words[@]}"
faulty 'words, home folder' 'a path' "echo '/* /${h}e/me/x */' >>src/ir/second.c" "${words[@]}"
faulty 'words, scratch folder in the library' 'scratch folder' "echo '/* /${t}p/x */' >>src/ir/second.c" "${words[@]}"
faulty 'words, package host' 'a package host' "echo 'https://${p}pi.org/simple' >>README.md" "${words[@]}"
faulty 'words, how it is worked on' 'worked on' "echo 'see ${s}e 12' >>README.md" "${words[@]}"
faulty 'words, long README' '101 lines' 'seq 100 >>README.md' "${words[@]}"

cc=$(command -v cc || command -v gcc)
library() { printf '%s\n' "$1" >"$scratch/x.c" && "$cc" -shared -fPIC -o "$scratch/x.so" "$scratch/x.c"; }
exports=(bash "$scripts/check_exports.sh" "$scratch/x.so")
library 'int rowfold_one(void) { return 1; }'
check 'exports: sound library passes' "${exports[@]}"
library 'int rowfold_one(void) { return 1; } int other(void) { return 1; }'
check 'exports, stranger: fault is found' exits 1 '^other$' "${exports[@]}"
printf 'int rowfold_one(void) { return 1; } int other(void) { return 1; }\n' >"$scratch/y.c"
(cd "$scratch" && "$cc" -c y.c && ar rcs y.a y.o)
check 'exports, stranger in an archive: fault is found' exits 1 '^other$' bash "$scripts/check_exports.sh" "$scratch/y.a"
library 'static int other(void) { return 1; } int (*const rowfold_hidden)(void) __attribute__((visibility("hidden"))) = other;'
check 'exports, nothing: fault is found' exits 1 'exports nothing' "${exports[@]}"
check 'exports: a missing library is no pass' exits 1 . bash "$scripts/check_exports.sh" "$scratch/none.so"

if command -v clang-format >/dev/null; then
    faulty 'format' 'clang-format' 'echo "int   x ;" >>src/ir/second.c' bash "$scripts/check_format.sh" "$tree"
else
    skip 'format' 'clang-format is not installed'
fi
if command -v clang-tidy >/dev/null && command -v clang >/dev/null; then
    tidy=(bash "$scripts/check_tidy.sh" "$tree")
    faulty 'tidy, unchecked number' 'second.c:.*cert-err34-c' \
        'printf "#include <stdlib.h>\nint z(const char *s);\nint z(const char *s) { return atoi(s); }\n" >>src/ir/second.c' "${tidy[@]}"
    # The cache must not hide what a header changes.
    sound
    check 'tidy, cached: sound tree passes' "${tidy[@]}"
    printf 'static inline int base_two(int *p) { p = 0; return *p; }\n' >>"$tree/src/base/base.h"
    printf 'int ir_two(void);\nint ir_two(void) { return base_two(0); }\n' >>"$tree/src/base/first.c"
    check 'tidy, fault in a header after a clean run: fault is found' exits 1 'base.h' "${tidy[@]}"
else
    skip 'tidy' 'clang-tidy is not installed'
fi
if command -v cppcheck >/dev/null; then
    faulty 'cppcheck' 'second.c' 'printf "int c(void);\nint c(void) { int a[2] = {0, 0}; return a[2]; }\n" >>src/ir/second.c' \
        bash "$scripts/check_cppcheck.sh" "$tree"
else
    skip 'cppcheck' 'cppcheck is not installed'
fi
done_testing
