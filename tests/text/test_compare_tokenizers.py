#!/usr/bin/env python3
"""weir's tokenizers give what the published libraries give: the quick part of tools/compare_tokenizers.py.

Exit status 77 means skipped: the packages or the tokenizers are not in the store folder; `make test` puts them there.
"""
import os
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True
import get_tokenizers  # noqa: E402
import python_env  # noqa: E402


def main():
    missing = [name for name, entry in get_tokenizers.TOKENIZERS.items()
               if entry[4] and not get_tokenizers.path_of(name).is_file()]
    if missing or not python_env.is_complete():
        print(f"not in the store: {' '.join(missing) or 'the Python packages'} (tools/get_tokenizers.py, tools/python_env.py)")
        return 77
    command = [str(python_env.interpreter()), str(TOOLS / "compare_tokenizers.py"), "--quick"]
    return subprocess.run(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
