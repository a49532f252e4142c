#!/usr/bin/env bash
# What a second project gets: installs the build into a folder of its own, then compiles, links and runs a small program against it
# through pkg-config (shared and static), through CMake, and from C++.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
if [ ! -f "$root/include/rowfold.h" ]; then
    skip 'install' 'there is no include/rowfold.h'
    done_testing
fi
stage=$scratch/stage
check 'meson install' env DESTDIR="$stage" meson install -C "$build" --no-rebuild --quiet
lib=$(find "$stage" -name librowfold.so -printf '%h\n' | head -n 1)
prefix=$stage$(sed -n 's/^prefix=//p' "$lib/pkgconfig/rowfold.pc" 2>/dev/null || true)
version=$(sed -n "s/^project('rowfold', 'c', version: '\([^']*\)'.*/\1/p" "$root/meson.build")

for file in "$prefix/include/rowfold.h" "$lib/librowfold.so" "$lib/librowfold.a" "$lib/pkgconfig/rowfold.pc" \
    "$lib/cmake/rowfold/rowfold-config.cmake" "$prefix/share/man/man1/rowfold.1" "$prefix/share/man/man1/rowfold-audit.1" "$prefix/bin/rowfold-audit" "$prefix/share/bash-completion/completions/rowfold" \
    "$prefix/share/zsh/site-functions/_rowfold" "$prefix/share/rowfold/suites/smoke.suite" "$prefix/share/rowfold/kernels/softmax.row" \
    "$prefix/share/rowfold/peers/README.md"; do
    check "installs ${file#"$stage"}" test -s "$file"
done
check 'exports only rowfold_' bash "$root/scripts/check_exports.sh" "$lib/librowfold.so" "$lib/librowfold.a"

export PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage
user=$root/tests/cli/install/user.c
check 'pkg-config version' test "$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --modversion rowfold)" = "$version"
cc=$(command -v cc || command -v gcc)
# The sysroot is for our own paths; what other packages say stays as it is on this machine.
flags() { pkg-config "$@" rowfold | sed "s#-L$stage/usr/lib/#-L/usr/lib/#g"; }
# shellcheck disable=SC2046  # lists of flags
link_shared() { "$cc" -std=c99 -Wall -Wextra -pedantic -Werror -o "$scratch/shared" "$user" $(flags --cflags --libs); }
# shellcheck disable=SC2046
link_static() { "$cc" -std=c99 -o "$scratch/static" "$user" $(flags --cflags) "$lib/librowfold.a" $(flags --static --libs | sed 's/-lrowfold//'); }
check 'links to the shared library by pkg-config, as strict C99' link_shared
check 'runs' exits 0 "^rowfold $version$" env LD_LIBRARY_PATH="$lib" "$scratch/shared"
check 'links to the archive by pkg-config --static' link_static
check 'runs without the shared library' exits 0 "^rowfold $version$" "$scratch/static"
check 'the static program needs no librowfold.so' bash -c '! ldd "$1" | grep -q librowfold' _ "$scratch/static"

cxx=$(command -v c++ || command -v g++ || command -v clang++ || true)
if [ -n "$cxx" ]; then
    check 'the header is clean C++' "$cxx" -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only -x c++ "-I$prefix/include" "$user"
else
    skip 'the header is clean C++' 'no C++ compiler is installed'
fi
if command -v cmake >/dev/null; then
    with_cmake() {
        cmake -S "$root/tests/cli/install" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" -Drowfold_DIR="$lib/cmake/rowfold" &&
            cmake --build "$scratch/cmake"
    }
    check 'find_package(rowfold) in CMake' with_cmake
    check 'runs' exits 0 "^rowfold $version$" env LD_LIBRARY_PATH="$lib" "$scratch/cmake/user"
    newer() { ! cmake -S "$root/tests/cli/install" -B "$scratch/cmake2" -Drowfold_DIR="$lib/cmake/rowfold" -DWANT=99.0; }
    check 'find_package refuses a newer version than is there' newer
else
    skip 'find_package(rowfold) in CMake' 'cmake is not installed'
fi
done_testing
