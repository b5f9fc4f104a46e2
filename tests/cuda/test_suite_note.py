#!/usr/bin/env python3
"""tools/run_tests.py says when the CUDA backend is no part of what it tests, and why, without counting it as a failure:
over build folders that hold no more than a list of tests and CMake's cache.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NVCC = "WEIR_NVCC:FILEPATH=/usr/local/cuda/bin/nvcc\n"
NO_NVCC = "WEIR_NVCC:FILEPATH=WEIR_NVCC-NOTFOUND\n"
HEADER = "WEIR_CUDA_INCLUDE:PATH=/usr/local/cuda/include\n"
NO_HEADER = "WEIR_CUDA_INCLUDE:PATH=WEIR_CUDA_INCLUDE-NOTFOUND\n"
CASES = [(NO_NVCC, "test_base_io", "CUDA: not built (nvcc was not found); its tests did not run"),
         (NVCC + NO_HEADER, "test_base_io", "CUDA: not built (cuda.h was not found); its tests did not run"),
         (NVCC + HEADER, "test_base_io", "CUDA: its tests did not run"),
         (NVCC + HEADER, "test_cuda_norm_kernels", None)]


def main():
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        program.write_text("#!/bin/sh\nprintf '1..1\\nok 1 - it runs\\n'\n")
        program.chmod(0o755)
        for cache, name, wanted in CASES:
            (Path(folder) / "CMakeCache.txt").write_text(cache)
            (Path(folder) / "tests.tsv").write_text(f"fast\t{name}\t{program}\n")
            p = subprocess.run([sys.executable, str(ROOT / "tools" / "run_tests.py"), "--build", folder, "--only-c"],
                               capture_output=True, text=True, timeout=60)
            lines = p.stdout.splitlines()
            notes = [line for line in lines if line.startswith("CUDA: ")]
            good = p.returncode == 0 and lines[-1:] == ["1 passed, 0 failed"]
            good = good and (len(notes) == 1 and notes[0].startswith(wanted) if wanted else not notes)
            if not good:
                print(f"{cache!r}, {name}: {p}")
                faults += 1
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
