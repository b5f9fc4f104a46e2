#!/bin/bash
# An installed weir can be used with pkg-config and with CMake, shared and
# static, its libraries show nothing but weir_*, and all of them find the CUDA
# library when there is one.
set -euo pipefail

build=${WEIR_BUILD:?set by tools/run_tests.py}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name libweir.so)")

foreign=$(nm -D --defined-only "$libdir/libweir.so" | awk '{print $NF}' | grep -v '^weir_' || true)
[ -z "$foreign" ] || { echo "libweir.so shows: $foreign"; exit 1; }
foreign=$(nm -g --defined-only "$libdir/libweir.a" | awk 'NF == 3 {print $3}' | grep -v '^weir_' || true)
[ -z "$foreign" ] || { echo "libweir.a shows: $foreign"; exit 1; }

cat >"$work/main.c" <<'C'
#include <stdio.h>
#include <string.h>
#include <weir/array.h>
/* With an argument: is the CUDA library found? There may be no card behind it. */
int main(int argc, char **argv) {
    weir_device_info info;
    weir_error err = {0};
    weir_status status = argc > 1 ? weir_device_describe(argv[1], &info, &err) : WEIR_OK;
    if (status != WEIR_OK && strstr(err.message, "libweir-cuda.so")) {
        puts(err.message);
        return 1;
    }
    puts(weir_status_text(WEIR_E_MEMORY));
    return 0;
}
C
expect() { [ "$("$@")" = "out of memory" ] || { echo "$1 printed something else"; exit 1; }; }

# The file names the prefix of the build; the copy under test lies elsewhere.
export PKG_CONFIG_PATH=$libdir/pkgconfig
config() { pkg-config --define-variable=prefix="$prefix" "$@" weir; }
# shellcheck disable=SC2046
cc "$work/main.c" -o "$work/shared" $(config --cflags --libs)
expect env LD_LIBRARY_PATH="$libdir" "$work/shared"
# shellcheck disable=SC2046
cc "$work/main.c" -o "$work/static" $(config --cflags) "$libdir/libweir.a" $(config --static --libs | sed 's/-lweir//')
expect "$work/static"

# The CUDA library lies in a folder of its own, shows one name, and is found from libweir.so, and from programs in bin.
if [ -e "$build/libweir-cuda.so" ]; then
    foreign=$(nm -D --defined-only "$libdir/weir/libweir-cuda.so" | awk '{print $NF}' | grep -v '^wr_backend_cuda$' || true)
    [ -z "$foreign" ] || { echo "libweir-cuda.so shows: $foreign"; exit 1; }
    expect env LD_LIBRARY_PATH="$libdir" "$work/shared" cuda:0
    cp "$work/static" "$prefix/bin/static"
    expect "$prefix/bin/static" cuda:0
fi

cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(weir 0.1 REQUIRED)
add_executable(user_shared main.c)
target_link_libraries(user_shared PRIVATE weir::weir)
add_executable(user_static main.c)
target_link_libraries(user_static PRIVATE weir::static)
CMAKE
cmake -S "$work" -B "$work/out" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/out" >/dev/null
expect "$work/out/user_shared"
expect "$work/out/user_static"

# With the command come its man page and completion.
if [ -x "$build/weir" ]; then
    for file in bin/weir share/man/man1/weir.1 share/bash-completion/completions/weir; do
        [ -s "$prefix/$file" ] || { echo "$file was not installed"; exit 1; }
    done
    expect_version=$("$prefix/bin/weir" version)
    [ -n "$expect_version" ] || { echo "the installed weir prints no version"; exit 1; }
    # Found through PATH, so that its own name is no path.
    devices=$(cd / && PATH="$prefix/bin:$PATH" weir version --devices)
    says="was not found"
    [ -e "$build/libweir-cuda.so" ] && says="built for"
    grep -q "$says" <<<"$devices" || { echo "the installed weir says: $devices"; exit 1; }
fi
