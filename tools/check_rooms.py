#!/usr/bin/env python3
"""Checks what the compiler does not: the room rule and a few house rules.

- A file in src/<room>/ includes only its own room, rooms above it, and weir/.
- A public header includes only public headers and the C library; an example
  too.
- In the library, heap memory comes from base/mem.h and files are opened by
  base/io.h, so that fault injection reaches them; nothing prints or exits (but WEIR_TRACE prints
  what it is asked for, to standard error).
"""
import re
import sys
from pathlib import Path

ROOMS = ["base", "file", "text", "array", "cpu", "cuda", "models", "engine", "serve", "cli"]
ROOT = Path(__file__).resolve().parent.parent

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
# Calls by name, not members, not parts of longer names.
FORBIDDEN = [
    (re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign)\s*\("),
     "heap memory goes through base/mem.h", {"base/mem.c"}),
    (re.compile(r"(?<![\w.>])(fopen|open|openat|mmap)\s*\("), "files go through base/io.h",
     {"base/io.c", "base/mem.c"}),
    (re.compile(r"(?<![\w.>])(printf|puts|putchar|fputs|fprintf|exit|abort|_exit)\s*\("),
     "the library neither prints nor exits", {"base/status.c", "base/log.c", "array/trace.c"}),
]


def without_text(source):
    """Comments and string contents blanked, lines kept."""
    return COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def line_of(source, at):
    return source.count("\n", 0, at) + 1


def sources_in(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".c", ".h", ".inc", ".def"))


def check_room_file(path, problems):
    source = path.read_text()
    inside = path.relative_to(ROOT / "src")
    room = inside.parts[0]
    if room not in ROOMS:
        problems.append(f"{path.relative_to(ROOT)}: {room} is not a room; the list stands in tools/check_rooms.py")
        return
    for match in INCLUDE.finditer(source):
        place = f"{path.relative_to(ROOT)}:{line_of(source, match.start(1))}"
        first, slash, _ = match.group(1).partition("/")
        if not slash:
            problems.append(f'{place}: include "{match.group(1)}" lacks its room')
        elif first != "weir" and (first not in ROOMS or ROOMS.index(first) > ROOMS.index(room)):
            problems.append(f'{place}: room {room} may not include "{match.group(1)}"')
    if room == "cli":
        return
    bare = without_text(source)
    for pattern, rule, excepted in FORBIDDEN:
        if str(inside) in excepted:
            continue
        for match in pattern.finditer(bare):
            problems.append(f"{path.relative_to(ROOT)}:{line_of(bare, match.start())}: {match.group(1)}: {rule}")


def check_public_file(path, problems):
    source = path.read_text()
    for match in INCLUDE.finditer(source):
        if not match.group(1).startswith("weir/"):
            place = f"{path.relative_to(ROOT)}:{line_of(source, match.start(1))}"
            problems.append(f'{place}: may include only weir/, not "{match.group(1)}"')


def main():
    problems = []
    for path in sources_in(ROOT / "src"):
        check_room_file(path, problems)
    for folder in ("include", "examples"):
        for path in sources_in(ROOT / folder):
            check_public_file(path, problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
