#!/usr/bin/env python3
"""Writes src/text/unicode_reference.c: the characters that Hugging Face's library does not know as what they are.

    $(tools/python_env.py) tools/make_unicode_reference.py

Its tables of categories and normal forms are older than utf8proc's. Models were trained
with what they gave, so weir gives the same. The library is asked about every character;
utf8proc, by ctypes, says what the character is.
"""
import ctypes
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent
CLASSES = ["PUNCTUATION", "MARK", "NONSPACING", "CONTROL", "FORM"]


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("combining_class", ctypes.c_int16)]


lib = ctypes.CDLL("libutf8proc.so.2")
lib.utf8proc_get_property.argtypes, lib.utf8proc_get_property.restype = [ctypes.c_int32], ctypes.POINTER(Property)
lib.utf8proc_decompose_char.argtypes = [ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_ssize_t, ctypes.c_int,
                                        ctypes.POINTER(ctypes.c_int)]
lib.utf8proc_decompose_char.restype = ctypes.c_ssize_t
STABLE, COMPAT, DECOMPOSE = 1 << 1, 1 << 2, 1 << 4
# Numbers of utf8proc_category_t.
MARKS, NONSPACING, PUNCTUATION, CONTROLS = (6, 7, 8), 6, range(12, 19), (26, 27, 29)

clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
marks, punctuation = normalizers.StripAccents(), pre_tokenizers.Punctuation()
nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
cjk = range(0xF900, 0xFB00)


def decomposes(cp):
    out, boundary = (ctypes.c_int32 * 32)(), ctypes.c_int()
    n = lib.utf8proc_decompose_char(cp, out, 32, STABLE | COMPAT | DECOMPOSE, ctypes.byref(boundary))
    return list(out[:n]) != [cp]


def unknown(cp):
    """Classes that the character has and the library does not see."""
    c, p = chr(cp), lib.utf8proc_get_property(cp).contents
    found = set()
    if p.category in PUNCTUATION and cp >= 0x80 and len(punctuation.pre_tokenize_str("a" + c + "b")) < 2:
        found.add("PUNCTUATION")
    if p.category in MARKS and marks.normalize_str("a" + c + "b") != "ab":
        found.add("MARK")
    if p.category == NONSPACING and accents.normalize_str("a" + c + "b") != "ab":
        found.add("NONSPACING")
    if p.category in CONTROLS and cp not in (9, 10, 13) and clean.normalize_str("a" + c + "b") != "ab":
        found.add("CONTROL")
    # U+0334 has combining class 1 and goes in front of every mark of a higher one.
    if p.combining_class > 1 and nfd.normalize_str(c + "\u0334")[0] != "\u0334":
        found.add("FORM")
    if decomposes(cp) and nfkd.normalize_str(c) == c:
        found.add("FORM")
    return found


def main():
    ranges = []
    for cp in range(0x110000):
        if 0xD800 <= cp < 0xE000:
            continue
        found = unknown(cp)
        if not found:
            continue
        if ranges and ranges[-1][1] == cp - 1 and ranges[-1][2] == found:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, found])
    lines = []
    for first, last, found in ranges:
        lines.append(f"    {{0x{first:X}, 0x{last:X}, {' | '.join(name for name in CLASSES if name in found)}}},")
    text = f"""/* Made by tools/make_unicode_reference.py: what Hugging Face's library, whose tables are
 * older, does not know as what it is. */
#include "text/unicode_reference.h"

enum {{
    PUNCTUATION = WR_REFERENCE_PUNCTUATION,
    MARK = WR_REFERENCE_MARK,
    NONSPACING = WR_REFERENCE_NONSPACING,
    CONTROL = WR_REFERENCE_CONTROL,
    FORM = WR_REFERENCE_FORM
}};

static const struct {{
    uint32_t first, last, classes;
}} ranges[] = {{
{chr(10).join(lines)}
}};

unsigned wr_reference_unknown(uint32_t cp) {{
    size_t low = 0, high = sizeof ranges / sizeof *ranges;
    if (cp < ranges[0].first) return 0;
    while (high - low > 1) {{
        size_t mid = low + (high - low) / 2;
        if (ranges[mid].first <= cp) {{
            low = mid;
        }} else {{
            high = mid;
        }}
    }}
    return cp <= ranges[low].last ? ranges[low].classes : 0;
}}
"""
    (ROOT / "src" / "text" / "unicode_reference.c").write_text(text)
    print(f"{len(ranges)} ranges")


if __name__ == "__main__":
    main()
