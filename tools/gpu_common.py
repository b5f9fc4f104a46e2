"""What the programs for a card (gpu_*.py) share: finding programs in a build
folder or in the folder of tools/gpu_pack.sh, random checkpoints, and result
files."""
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

from processes import ending, run


class Programs:
    """The programs of a folder: of a build, or of a pack with its `run`."""

    def __init__(self, folder, emulated=False, system=False):
        self.folder = Path(folder).resolve()
        self.run_script = self.folder / "run"
        self.is_pack = self.run_script.is_file()
        self.system = ["--system"] if system else []  # a pack's programs by the machine's own C library
        self.bin = self.folder / "bin" if self.is_pack else self.folder
        kept = ("WEIR_CUDA_DRIVER", "WEIR_STORE", "WEIR_TEST_DATA")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_") or k in kept}
        if not self.is_pack:
            self.env["WEIR_CUDA_LIBRARY"] = str(self.folder / "libweir-cuda.so")
        if emulated:
            self.env["WEIR_CUDA_DRIVER"] = str(self.folder / "libcuda_emulated.so")

    def has(self, name):
        return os.access(self.bin / name, os.X_OK)

    def matching(self, *patterns):
        found = {path.name for pattern in patterns for path in self.bin.glob(pattern)}
        return sorted(name for name in found if self.has(name) and (self.bin / name).is_file())

    def command(self, name, arguments):
        start = [str(self.run_script), *self.system, name] if self.is_pack else [str(self.bin / name)]
        return start + [str(a) for a in arguments]


def synthesise(programs, path, preset, mode="", bits="", group="", layers=0):
    """A random checkpoint by `weir synth`; RuntimeError when that fails. 0 and "": the preset's own, the mode's own."""
    limit_s = 300
    arguments = ["synth", preset, "-o", path, "--json"]
    for option, value in (("--quant", mode), ("--bits", bits), ("--group-size", group), ("--layers", layers)):
        arguments += [option, value] if value else []
    code, output, errors, _ = run(programs.command("weir", arguments), programs.env, limit_s)
    if code != 0:
        raise RuntimeError(f"weir synth {preset}: {ending(code, limit_s)}\n{output}{errors}")


def json_lines(text):
    """The JSON objects among the lines of a program's output."""
    found = []
    for line in text.split("\n"):
        if not line.startswith("{"):
            continue
        try:
            found.append(json.loads(line))
        except ValueError:
            print(f"not JSON: {line[:200]}", file=sys.stderr)
    return found


def machine(emulated=False):
    """Name of the card and version of its driver."""
    if emulated:
        return {"card": "emulated", "driver": "emulated"}
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        name, driver = (part.strip() for part in text.split("\n")[0].split(","))
        return {"card": name, "driver": driver}
    except (OSError, subprocess.SubprocessError, ValueError):
        return {"card": "unknown", "driver": "unknown"}


class Results:
    """A file of JSON lines, each with the machine, the commit and the date."""

    def __init__(self, path, commit, about):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.about = {**about, "commit": commit, "date": datetime.date.today().isoformat()}

    def add(self, record):
        if self.file:
            self.file.write(json.dumps({**record, **self.about}) + "\n")
            self.file.flush()


def print_table(title, head, rows):
    """Rows of text and numbers, in columns."""
    if not rows:
        return
    cells = [[f"{v:.3g}" if isinstance(v, float) and abs(v) < 1 else f"{v:.1f}" if isinstance(v, float) else str(v)
              for v in row] for row in rows]
    widths = [max(len(row[i]) for row in [head] + cells) for i in range(len(head))]
    numeric = [all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head] + cells:
        print("  " + "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric)).rstrip())
