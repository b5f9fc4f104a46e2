#!/usr/bin/env python3
"""Random chat templates, and published ones where they have been fetched, rendered by weir and by jinja2: no difference.
The numbers of the random ones change with the day, so that a suite that is run often sees many. The whole comparison is
tools/compare_templates.py."""
import datetime
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import jinja_env  # noqa: E402
from get_models import store_folder  # noqa: E402

RANDOM = 300
PUBLISHED = 12  # templates; all of them take minutes


def main():
    build = Path(os.environ.get("WEIR_BUILD") or ROOT / "build")
    try:
        python = jinja_env.interpreter()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"jinja2 cannot be had: {error}")
        return 77
    first = datetime.date.today().toordinal() * 1000
    command = [str(python), str(ROOT / "tools" / "compare_templates.py"), "--program", str(build / "jinja_lines"),
               "--random", f"{first}:{first + RANDOM}"]
    templates = store_folder() / "templates"
    if templates.is_dir():
        command += ["--published", str(templates), "--most", str(PUBLISHED)]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
