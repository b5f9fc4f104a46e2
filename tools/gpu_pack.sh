#!/bin/sh
# Gathers what a machine with a card needs to run the GPU suite and the benches into one folder, gpu-pack/: the
# programs, libweir-cuda.so, the shared libraries they need (with the C library and its loader, so that another
# distribution runs them), and the tests' data. Real models are left out.
#
#   tools/gpu_pack.sh [--build build] [--to gpu-pack] [--max-mib 60] [PROGRAM ...]
#
# PROGRAMs of the build folder come in addition to the usual ones. On the other machine:
#
#   tools/gpu_suite.py --build gpu-pack        or        gpu-pack/run test_device_waiting --quick
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build to=$root/gpu-pack max_mib=60 more=
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    --to) to=$2; shift 2 ;;
    --max-mib) max_mib=$2; shift 2 ;;
    -*) echo "gpu_pack.sh: unknown option $1" >&2; exit 2 ;;
    *) more="$more $1"; shift ;;
    esac
done
build=$(cd "$build" && pwd)

case $to in
*/gpu-pack*) rm -rf "$to" ;;
*) [ ! -e "$to" ] || { echo "gpu_pack.sh: $to is there already" >&2; exit 2; } ;;
esac
mkdir -p "$to/bin" "$to/lib/libc" "$to/tree/tests/data"
to=$(cd "$to" && pwd)

take() { # a program of the build, without its symbols
    [ -f "$build/$1" ] || { echo "gpu_pack.sh: $build/$1 is not built" >&2; exit 1; }
    strip --strip-unneeded -o "$to/bin/$1" "$build/$1"
    n=$((n + 1))
}
n=0
for file in "$build"/test_device_* "$build"/test_*_device_* "$build/weir" "$build/bench_cuda"; do
    case $(basename "$file") in *.*) continue ;; esac
    [ ! -f "$file" ] || take "$(basename "$file")"
done
for name in $more libweir-cuda.so; do take "$name"; done

# The C library's own parts lie apart, and go only with its own loader. Some are named by libraries that are not here:
# the NVIDIA driver's.
is_libc() {
    case $1 in
    ld-linux* | libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so*) return 0 ;;
    libutil.so* | libmvec.so* | libgcc_s.so*) return 0 ;;
    esac
    return 1
}
for file in "$to"/bin/*; do ldd "$file"; done | grep -o '/[^ ]*' | sort -u | while read -r library; do
    name=$(basename "$library")
    case $library in "$to"/*) continue ;; esac
    if is_libc "$name"; then cp -L "$library" "$to/lib/libc/$name"; else cp -L "$library" "$to/lib/$name"; fi
done
libc_folder=$(dirname "$(ldd "$to/bin/libweir-cuda.so" | grep -o '/[^ ]*/libc\.so[^ ]*')")
for name in libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2 libutil.so.1 \
    libgcc_s.so.1; do
    [ -f "$to/lib/libc/$name" ] || [ ! -f "$libc_folder/$name" ] || cp -L "$libc_folder/$name" "$to/lib/libc/$name"
done
for file in "$to"/lib/*.so* "$to"/lib/libc/*.so*; do strip --strip-unneeded "$file" 2>/dev/null || true; done

cp -R "$root/tests/data/." "$to/tree/tests/data/"
# Where the programs were built to look for the tree.
sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" >"$to/source" 2>/dev/null ||
    echo "$root" >"$to/source"

cat >"$to/run" <<'RUN'
#!/bin/sh
# run [--system] PROGRAM [ARGUMENT ...]: a program of this folder, with the C library and the loader that lie here, or
# with --system with the machine's own; the NVIDIA driver is the machine's.
here=$(cd "$(dirname "$0")" && pwd)
system=
[ "$1" != --system ] || { system=1; shift; }
name=$1
shift
if [ -z "${WEIR_CUDA_DRIVER:-}" ]; then
    for path in $( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*x86-64.*=> //p') \
        /usr/local/nvidia/lib64/libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/lib64/libcuda.so.1; do
        [ -e "$path" ] || continue
        WEIR_CUDA_DRIVER=$path
        export WEIR_CUDA_DRIVER
        break
    done
fi
export WEIR_CUDA_LIBRARY="$here/bin/libweir-cuda.so" WEIR_TEST_DATA="$here/tree/tests/data"
source=$(cat "$here/source")
if [ -n "$source" ] && [ ! -e "$source" ]; then
    mkdir -p "$(dirname "$source")" && ln -s "$here/tree" "$source"
fi 2>/dev/null
driver_folder=$(dirname "${WEIR_CUDA_DRIVER:-/usr/local/nvidia/lib64/libcuda.so.1}")
if [ -n "$system" ]; then
    LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    exec "$here/bin/$name" "$@"
fi
unset LD_LIBRARY_PATH
# The toolkit's: NVRTC looks there for its second library.
set -- --library-path "$here/lib/libc:$here/lib:$driver_folder:/usr/local/cuda/lib64" "$here/bin/$name" "$@"
exec "$here/lib/libc/ld-linux-x86-64.so.2" "$@"
RUN
chmod +x "$to/run"

bytes=$(du -sb "$to" | cut -f1)
echo "$to: $n programs, $((bytes / 1048576)) MiB"
if [ "$bytes" -gt $((max_mib * 1048576)) ]; then
    du -ab "$to" | sort -rn | head -20 >&2
    echo "gpu_pack.sh: more than $max_mib MiB" >&2
    exit 1
fi
