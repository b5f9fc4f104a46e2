#!/bin/sh
# Installs the Debian packages that weir needs, when one is missing. Quiet and
# quick when nothing is.
set -eu

# Needed to build and test. build-essential brings g++, which compiles the CUDA kernels for their emulated tests. The
# CUDA toolkit itself is used where it is (nvcc in the PATH or in /usr/local/cuda) and never installed from here: without
# it weir is built for the CPU only.
needed="build-essential cmake ninja-build pkg-config libpcre2-dev libutf8proc-dev libjansson-dev libedit-dev
        libcmocka-dev python3 python3-pip python3-venv unzip"
# Needed for `make style` (clang-format), `make fuzz` (clang) and the emulated test of the AVX-512 kernels (libsimde).
useful="clang clang-format libclang-rt-dev ccache libsimde-dev"

if ! command -v dpkg-query >/dev/null; then
    for tool in cc cmake pkg-config python3; do
        command -v $tool >/dev/null || { echo "setup: $tool is missing; install it, and what answers to: $needed" >&2; exit 1; }
    done
    exit 0
fi

# The names among $* that are not installed.
missing_of() {
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$name"
    done
}

# shellcheck disable=SC2086
missing=$(missing_of $needed $useful)
[ -z "$missing" ] && exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root: apt-get install $missing" >&2; exit 1; }
    as_root=sudo
fi
echo "setup: installing $missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
if ! { $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
    # Perhaps only a useful one is unknown here: the needed ones decide.
    needed_missing=$(missing_of $needed)
    if [ -n "$needed_missing" ] && ! $as_root apt-get install -y -qq --no-install-recommends $needed_missing >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "setup: could not install: $needed_missing" >&2
        exit 1
    fi
    echo "setup: going on without: $(missing_of $useful)" >&2
fi
