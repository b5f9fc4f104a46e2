#!/usr/bin/env python3
"""Makes the Python environment of the tests that compare weir with other libraries.

    tools/python_env.py          prints the path of its interpreter

It lies in the store folder (see get_models.py). Packages come from PyPI by way of
pip, in fixed versions, so that what is compared with does not move.
"""
import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from get_models import store_folder  # noqa: E402

PACKAGES = ["tokenizers==0.23.3", "sentencepiece==0.2.3", "tiktoken==0.14.0", "protobuf==7.36.2", "gguf==0.19.0"]


def interpreter():
    return store_folder() / "python" / "bin" / "python"


def is_complete():
    stamp = interpreter().parent.parent / "packages"
    return stamp.is_file() and stamp.read_text().split() == PACKAGES


def make():
    python = interpreter()
    if is_complete():
        return python
    folder = python.parent.parent
    print(f"python_env: installing {' '.join(PACKAGES)} into {folder}", file=sys.stderr, flush=True)
    if not python.is_file():
        venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
    for attempt in range(3):
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if result.returncode == 0:
            (folder / "packages").write_text("\n".join(PACKAGES) + "\n")
            return python
    raise RuntimeError(f"pip could not install the packages:\n{result.stderr.strip()}")


def main():
    try:
        print(make())
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"python_env: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
