"""libweir.so for scripts, by ctypes: the library of $WEIR_BUILD or build/, and its error."""
import ctypes
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 1024)]


def load(path=None):
    return ctypes.CDLL(str(path or Path(os.environ.get("WEIR_BUILD") or ROOT / "build") / "libweir.so"))
