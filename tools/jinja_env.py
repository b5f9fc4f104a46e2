#!/usr/bin/env python3
"""The Python that has jinja2 for the comparisons with it: this one when its jinja2 is recent enough, else one in the
store folder, made with pip. Prints the path of its interpreter."""
import importlib.metadata
import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from get_models import store_folder  # noqa: E402

NEEDED = (3, 1, 6)
PACKAGES = ["jinja2==3.1.6", "markupsafe==3.0.3"]


def has_jinja2():
    try:
        versions = [importlib.metadata.version(name).split(".") for name in ("jinja2", "markupsafe")]
        return tuple(map(int, versions[0][:3])) >= NEEDED and int(versions[1][0]) >= 3
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def interpreter():
    if has_jinja2():
        return Path(sys.executable)
    folder = store_folder() / "python-jinja2"
    python, stamp = folder / "bin" / "python", folder / "packages"
    if not stamp.is_file() or stamp.read_text().split() != PACKAGES:
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        stamp.write_text("\n".join(PACKAGES) + "\n")
    return python


if __name__ == "__main__":
    print(interpreter())
