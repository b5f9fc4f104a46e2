#!/usr/bin/env python3
"""Random chat templates, and published ones where they have been fetched, rendered by weir and by jinja2: no difference.
The numbers of the random ones change with the day, so that a suite that is run often sees many. The whole comparison is
tools/compare_templates.py.

Exit status 77 means skipped: the packages are not in the store folder; `make test` puts them there.
"""
import datetime
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import python_env  # noqa: E402
from get_models import store_folder  # noqa: E402

RANDOM = 300
PUBLISHED = 12  # templates; all of them take minutes


def main():
    build = Path(os.environ.get("WEIR_BUILD") or ROOT / "build")
    if not python_env.is_complete():
        print("the Python packages are not in the store (tools/python_env.py)")
        return 77
    first = datetime.date.today().toordinal() * 1000
    command = [str(python_env.interpreter()), str(ROOT / "tools" / "compare_templates.py"), "--program", str(build / "jinja_lines"),
               "--random", f"{first}:{first + RANDOM}"]
    templates = store_folder() / "templates"
    if templates.is_dir():
        command += ["--published", str(templates), "--most", str(PUBLISHED)]
    return subprocess.run(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
