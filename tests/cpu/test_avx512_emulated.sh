#!/bin/bash
# The AVX-512 kernels give right results, and the linear family the bits of the other levels, on a machine without
# AVX-512: the tests of the kernels are linked with src/cpu/*_avx512.c compiled over an emulation of the instructions
# (tests/cpu/avx512/immintrin.h, SIMD Everywhere), and with a cpu/isa.c that finds AVX-512 wherever AVX2 is.
# Arguments: names of tests (test_linear ...) to run instead of all. WEIR_BUILD: the build folder with the libraries.
set -euo pipefail

build=${WEIR_BUILD:?set by tools/run_tests.py}
root=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "skipped: $1"; exit 77; }
[ "$(uname -m)" = x86_64 ] || skip "not an x86-64 machine"
grep -qw avx2 /proc/cpuinfo || skip "this CPU has no AVX2, which the emulation uses"
cc=${CC:-gcc}
"$cc" --version | grep -q 'Free Software' || skip "needs gcc"
echo '#include <simde/x86/avx512.h>' | "$cc" -E -xc - >/dev/null 2>&1 || skip "needs the package libsimde-dev"

tests=("$@")
[ $# -gt 0 ] || tests=(test_linear test_pack test_fast_attention test_fast_conv test_fast_elementwise test_fast_matmul
    test_fast_move test_fast_reduce test_fast_transformer test_op_table test_array_fuse test_array_goldens)

work=$build/avx512-emulated # always the same, so that ccache knows the files again
rm -rf "$work"
mkdir -p "$work/include/cpu"
# The emulated files may not be compiled for the real instructions, and need not be fast.
sed -E 's/,avx512[a-z0-9]*//g; s/"O3,/"O1,/' "$root/src/cpu/vec_simd.h" >"$work/include/cpu/vec_simd.h"
sed -E 's/\? WR_CPU_AVX512 : WR_CPU_AVX2;/? WR_CPU_AVX512 : WR_CPU_AVX512;/' "$root/src/cpu/isa.c" >"$work/isa.c"
if grep -q 'target.*avx512' "$work/include/cpu/vec_simd.h" || ! grep -q 'WR_CPU_AVX512 : WR_CPU_AVX512' "$work/isa.c"; then
    echo "src/cpu/vec_simd.h or isa.c changed; this script edits copies of them"
    exit 1
fi

command -v ccache >/dev/null && cc="ccache $cc"
flags=(-std=gnu17 -O1 -w -Wno-psabi -ffp-contract=off -fno-math-errno -fno-trapping-math -D_GNU_SOURCE= -DWR_VERSION='"test"'
    -DWR_SOURCE_DIR="\"$root\"" -DWR_BINARY_DIR="\"$build\"" -I"$root/src" -I"$root/include" -I"$root/tests")
emulated=(-mavx2 -mfma -mf16c -I"$root/tests/cpu/avx512" -I"$work/include")
# The linear family unrolls and inlines everything; into emulated instructions that would compile for many minutes.
calls=(-DUNROLL= -DNO_UNROLL= -DSIMDE_NO_INLINE)

$cc "${flags[@]}" -c "$work/isa.c" -o "$work/isa.o"
for source in "$root"/src/cpu/*_avx512.c; do
    inlining=()
    [[ $source != *linear_avx512.c ]] || inlining=("${calls[@]}")
    $cc "${emulated[@]}" "${inlining[@]}" "${flags[@]}" -c "$source" -o "$work/$(basename "$source" .c).o"
done
for source in "$root"/tests/cpu/*.c; do # what the tests share
    name=$(basename "$source" .c)
    [[ $name == test_* ]] || $cc "${flags[@]}" -c "$source" -o "$work/support_$name.o"
done

# Our objects come first, so that those in the archive are not taken.
libraries=()
for room in cpu array text file base; do
    [ ! -f "$build/libwr_$room.a" ] || libraries+=("$build/libwr_$room.a")
done
read -ra world <<<"$(pkg-config --libs jansson libpcre2-8 libutf8proc cmocka)"
failed=0
cd "$root"
for name in "${tests[@]}"; do
    $cc "${flags[@]}" "tests/cpu/$name.c" "$work"/*.o -Wl,--start-group "${libraries[@]}" -Wl,--end-group \
        "${world[@]}" -lpthread -lm -o "$work/$name"
    SECONDS=0
    if ! "$work/$name" >"$work/log" 2>&1; then
        failed=1
        echo "$name, with AVX-512 emulated:"
        grep -v -e 'RUN  ' -e '   OK ' "$work/log" || true
    fi
    [ -z "${VERBOSE:-}" ] || echo "$name: $SECONDS s, $(grep -c '   OK ' "$work/log") passed"
done
exit $failed
