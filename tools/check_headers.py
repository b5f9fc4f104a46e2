#!/usr/bin/env python3
"""Compiles every public header alone, as C17 and as C++17, warnings as errors."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = [
    ("C17", [os.environ.get("CC", "cc"), "-x", "c", "-std=c17"]),
    ("C++17", [os.environ.get("CXX", "c++"), "-x", "c++", "-std=c++17"]),
]


def main():
    headers = sorted((ROOT / "include" / "weir").glob("*.h"))
    failed = not headers
    for header in headers:
        name = f"weir/{header.name}"
        for language, command in LANGUAGES:
            # Twice, which also proves the include guard.
            source = f'#include "{name}"\n#include "{name}"\nint main(void) {{ return 0; }}\n'
            flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", str(ROOT / "include"), "-"]
            result = subprocess.run(command + flags, input=source, text=True, stderr=subprocess.PIPE)
            if result.returncode:
                failed = True
                print(f"{name} does not compile alone as {language}:\n{result.stderr}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
