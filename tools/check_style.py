#!/usr/bin/env python3
"""Checks that clang-format would change nothing in our C files.

Exit code 77 (skipped) when there is no clang-format. The version matters:
others than 14 may disagree, and are only warned about.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["src", "include", "tests", "fuzz", "bench", "examples"]


def main():
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        print("clang-format is not installed")
        return 77
    version = re.search(r"version (\d+)", subprocess.run([tool, "--version"], capture_output=True, text=True).stdout)
    if version and version.group(1) != "14":
        print(f"clang-format {version.group(1)} formats differently from 14, which this tree uses")
        return 77
    files = sorted(str(p.relative_to(ROOT)) for folder in FOLDERS for p in (ROOT / folder).rglob("*.[ch]"))
    result = subprocess.run([tool, "--dry-run", "-Werror", "--ferror-limit=3", *files], cwd=ROOT)
    return 1 if result.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
