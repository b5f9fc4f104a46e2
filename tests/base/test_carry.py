#!/usr/bin/env python3
"""tools/gpu_carry.py: files arrive whole whatever the order of their pieces, and not at all when one is damaged."""
import random
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent.parent / "tools" / "gpu_carry.py"


def carry(folder, *arguments):
    done = subprocess.run([sys.executable, str(TOOL), *arguments], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def deliver(here, there, number, spoil=False):
    """One piece, as a call brings it; what join said."""
    target = there / "gpu-carry" / number
    target.mkdir(parents=True)
    for name in ("piece", "piece.json"):
        data = bytearray((here / "gpu-carry" / number / name).read_bytes())
        if spoil and name == "piece":
            data[len(data) // 2] ^= 1
        (target / name).write_bytes(data)
    return carry(there, "join", "--to", "store")


def main():
    pick, faults = random.Random(3), []

    def expect(what, good):
        if not good:
            faults.append(what)

    with tempfile.TemporaryDirectory() as folder:
        here, there = Path(folder) / "here", Path(folder) / "there"
        here.mkdir()
        there.mkdir()
        large, small = pick.randbytes((2 << 20) + 77), b"small"
        (here / "large").write_bytes(large)
        (here / "small").write_bytes(small)
        code, said = carry(here, "split", "large", "small", "--mib", "1")
        expect("split makes four pieces", code == 0 and "4 calls" in said)
        for number in ("003", "001", "003"):  # one comes twice
            code, said = deliver(here, there, number)
        expect("two pieces are told", code == 0 and "large: 2 of 3" in said and not (there / "store" / "large").exists())
        code, said = deliver(here, there, "002", spoil=True)
        expect("a damaged piece is refused", code == 1 and "damaged" in said and not (there / "store" / "large").exists())
        carry(there, "join", "--to", "store", "--from", "nothing")
        code, said = deliver(here, there, "004")
        expect("beside a damaged piece nothing goes on", code == 1)
        for path in (there / "gpu-carry" / "002").iterdir():
            path.unlink()
        (there / "gpu-carry" / "002").rmdir()
        code, said = deliver(here, there, "002")
        store = there / "store"
        expect("both are whole", code == 0 and (store / "large").read_bytes() == large
               and (store / "small").read_bytes() == small and not list(store.glob(".pieces/*")))
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
