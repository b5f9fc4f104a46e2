#!/usr/bin/env python3
"""Writes src/text/jinja/case_table.h: what Unicode says about case and digits beyond the simple mappings and the
general categories that utf8proc knows. The facts are those of Python's own tables, since jinja2's filters are
compared with it.

    python3 tools/make_case_table.py
"""
import unicodedata
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "src" / "text" / "jinja" / "case_table.h"
CHARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def mappings(name, change):
    """Characters that become several."""
    rows = [(ord(c), [ord(k) for k in change(c)]) for c in CHARS if len(change(c)) > 1]
    lines = ", ".join(f"{{0x{c:X}, {{{', '.join(f'0x{k:X}' for k in to)}}}}}" for c, to in rows)
    return f"static const wr_jspecial_case {name}[] = {{{lines}}};\n"


def ranges(name, holds):
    """Code points for which something holds, as first and last."""
    found = []
    for c in CHARS:
        if not holds(c):
            continue
        if found and found[-1][1] == ord(c) - 1:
            found[-1][1] = ord(c)
        else:
            found.append([ord(c), ord(c)])
    lines = ", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in found)
    return f"static const wr_jcode_range {name}[] = {{{lines}}};\n"


def main():
    category = unicodedata.category
    OUT.write_text(
        "/* Made by tools/make_case_table.py. Unicode: characters whose upper, title or lower case is several characters,\n"
        " * letters with case that are not Lu or Ll, and digits and numbers that are not Nd or N*. */\n"
        "#ifndef WR_TEXT_JINJA_CASE_TABLE_H\n#define WR_TEXT_JINJA_CASE_TABLE_H\n\n#include <stdint.h>\n\n"
        "typedef struct wr_jspecial_case {\n    uint32_t from, to[3];\n} wr_jspecial_case;\n"
        "typedef struct wr_jcode_range {\n    uint32_t first, last;\n} wr_jcode_range;\n\n"
        "/* clang-format off */\n"
        + mappings("special_upper", str.upper) + mappings("special_title", str.title) + mappings("special_lower", str.lower)
        + ranges("other_lower", lambda c: c.islower() and category(c) != "Ll")
        + ranges("other_upper", lambda c: c.isupper() and category(c) != "Lu")
        + ranges("other_digit", lambda c: c.isdigit() and category(c) != "Nd")
        + ranges("other_numeric", lambda c: c.isnumeric() and category(c)[0] != "N")
        + "/* clang-format on */\n\n#endif\n")


if __name__ == "__main__":
    main()
