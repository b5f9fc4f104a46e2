#!/usr/bin/env python3
"""Makes the Python environments of what compares weir with other libraries.

    tools/python_env.py [tests | masks | output | mlx]      prints the path of an interpreter; tests unless said otherwise

tests: what `make test` compares with, and most goldens are made by. masks: the libraries that tools/compare_grammar.py
measures (gigabytes, because of PyTorch). output: those that tools/compare_output.py compares with. mlx: those that goldens of models, arrays and files come from.

They lie in the store folder (see get_models.py). Packages come from PyPI by way of pip, in fixed versions, so that what
is compared with does not move.
"""
import argparse
import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from get_models import store_folder  # noqa: E402

JSON_SCHEMA = ["jsonschema==4.26.0", "rfc3339-validator==0.1.4"]
TOKENIZERS = ["tokenizers==0.23.3", "sentencepiece==0.2.3", "gguf==0.19.0"]
PACKAGES = {
    "tests": [*TOKENIZERS, "tiktoken==0.14.0", "protobuf==7.36.2", "jinja2==3.1.6", "markupsafe==3.0.3", *JSON_SCHEMA],
    "masks": ["llguidance==1.9.1", "xgrammar==0.2.9", "numpy==2.4.6", *JSON_SCHEMA],
    "output": ["openai-harmony==0.0.8", "mistral-common==1.13.1", "sentencepiece==0.2.3"],
    "mlx": [*TOKENIZERS, "mlx[cpu]==0.32.4", "mlx-lm==0.32.2", "numpy==2.4.6", "scipy==1.17.1", "safetensors==0.8.0"],
}


def folder(name="tests"):
    return store_folder() / f"python-{name}"


def interpreter(name="tests"):
    return folder(name) / "bin" / "python"


def is_complete(name="tests"):
    stamp = folder(name) / "packages"
    return stamp.is_file() and stamp.read_text().split() == PACKAGES[name]


def make(name="tests"):
    python, stamp = interpreter(name), folder(name) / "packages"
    if is_complete(name):
        return python
    print(f"python_env: installing {' '.join(PACKAGES[name])} into {folder(name)}", file=sys.stderr, flush=True)
    if not stamp.is_file():  # a first attempt may have broken off anywhere
        venv.create(folder(name), with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]]
    for attempt in range(3):
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if result.returncode == 0:
            stamp.write_text("\n".join(PACKAGES[name]) + "\n")
            return python
    raise RuntimeError(f"pip could not install the packages:\n{result.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description="Make a Python environment of other libraries.")
    parser.add_argument("name", nargs="?", choices=PACKAGES, default="tests")
    options = parser.parse_args()
    try:
        print(make(options.name))
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"python_env: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
