"""Texts for comparing tokenizers: the same list for the same count and seed."""
import importlib.util
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FIXED = [
    "", " ", "a", "\n", "\t", "\r\n", "\r\n\r\n", "  ", "   ", " a", "a ", " a ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x00", "\x7f",
    "Hello, world! It's 2024, isn't it? I'LL SAY WE'VE.", "don't DON'T Don'T 'tis rock'n'roll y'all'd've", "A1b2C3 ٣٤٥ ४५६ 一二三",
    "tail   ", "tail\n", "x" + " " * 17 + "y", "\t\tx\n\t y", " \n \n  \n", "a \n b", "line1\r\nline2\rline3\x0bline4\x0cline5",
    "3.14159e-10 1,000,000 0x1F ½ ² Ⅷ 四", "café cafe\u0301 naïve Ångström \u212b \u01c4 ﬁ ﬃ …", "Straße İstanbul ΣΊΣΥΦΟΣ ǅ ſ K'ſ",
    "e\u0301\u0323 e\u0323\u0301 \u1e69 s\u0323\u0307 s\u0307\u0323 \u0344 a\u0315\u0300\u05ae\u0300b", "x\u0301\u0301\u0301\u0301\u0301y", "\u0301a",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글 각 \u0958 \u09c7\u09be", "ď\u0000x\u0001\u007f", "\ufeffBOM \ufffd \U0010ffff \ue000",
    "😀😃 👨‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☺️ 1️⃣", "▁a ▁▁b", "Ġa ĊĠ", "<0x41><0xE2>", "<s>a</s> <unk> [CLS] [SEP] [UNK] [MASK]x",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|endoftext|>b", "<|im_end|", "<<|im_end|>>", "<|begin_of_text|>x",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case", "$100 €50 £3 ¥7 + - = < > | ^ ` ~", "##ing ##", "a##b", "Ⅷ ①②③ ㈱ ㍿ ｱｲｳ Ｆｕｌｌ",
    "a" * 300, "ab" * 200, "Donaudampfschifffahrtsgesellschaftskapitän" * 3, "한" * 120, "字" * 150, "ก" * 110, "!" * 130, "=" * 400, "0123456789" * 30,
    " " * 120, "\n" * 90, "\t" * 70, " \n" * 50, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b",
]

# Bytes that are no UTF-8: every maximal invalid part reads as one U+FFFD, as Python's decoder has it.
BROKEN = [b"\xc0\x80", b"a\xed\xa0\x80b", b"\xf4\x90\x80\x80", b"x\xe2\x82", b"\xe2\x82\xff\xe2", b"\xf0\x9f\x98 \xf0\x9f", b"\xff\xfe\x00ok",
          b"\x80\x80a", b"\xf8\x88\x80\x80\x80", b"caf\xe9 latin", b"\xc4", b"\xf0\x80\x80\x80", b"\xe0\x9f\xbf\xe0\xa0"]

EMOJI = ["😀", "❤️", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "🇯🇵", "🏳️‍🌈", "🧑🏿‍💻", "1️⃣", "☺️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "\u200d", "\ufe0f", "🤷‍♀️", "©️", "™", "🫠", "🀄", "♟️"]
SPACES = [" ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c", " \n", "\n ", "    \n", " \t ", "\u200b"]
CONTROLS = ["\x00", "\x01", "\x08", "\x0e", "\x1b", "\x1c", "\x1f", "\x7f", "\x80", "\x8f", "\x9f", "\u200e", "\u202e", "\u2060", "\ufeff", "\ufffd", "\ufffe", "\ue000"]
# Blocks of characters, as first and last.
BLOCKS = [(0x21, 0x7e), (0xa1, 0x17f), (0x180, 0x24f), (0x250, 0x2af), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x531, 0x587), (0x591, 0x5f4),
          (0x600, 0x6ff), (0x700, 0x74f), (0x901, 0x97f), (0x981, 0x9fb), (0xa01, 0xa75), (0xb82, 0xbfa), (0xc01, 0xc7f), (0xe01, 0xe5b), (0xe81, 0xedf),
          (0xf00, 0xfda), (0x1000, 0x109f), (0x10a0, 0x10ff), (0x1100, 0x11ff), (0x1200, 0x137c), (0x13a0, 0x13f4), (0x1780, 0x17f9), (0x1e00, 0x1fff),
          (0x2000, 0x206f), (0x2070, 0x20bf), (0x2100, 0x218b), (0x2190, 0x23ff), (0x2460, 0x27bf), (0x3000, 0x30ff), (0x3105, 0x318e), (0x3200, 0x33ff),
          (0x3400, 0x4db5), (0x4e00, 0x9fa5), (0xa000, 0xa4c6), (0xac00, 0xd7a3), (0xf900, 0xfad9), (0xfb00, 0xfb06), (0xfb1d, 0xfdfb), (0xfe30, 0xffef),
          (0x10000, 0x100fa), (0x10400, 0x1044f), (0x12000, 0x1236e), (0x1d400, 0x1d7ff), (0x1f300, 0x1f64f), (0x1f680, 0x1f6c5), (0x20000, 0x2a6d6), (0x2f800, 0x2fa1d)]


def sentences(path):
    """All strings of the language module."""
    spec = importlib.util.spec_from_file_location("human_languages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = []

    def walk(value):
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)
    for key, value in vars(module).items():
        if not key.startswith("_"):
            walk(value)
    return found


def code_lines():
    lines = []
    for path in sorted((ROOT / "src").rglob("*.[ch]"))[::7] + sorted((ROOT / "tools").glob("*.py"))[:6]:
        lines += path.read_text().split("\n")
    return lines


def random_word(rng):
    first, last = rng.choice(BLOCKS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 13])))


def broken(rng, text):
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        data[at:at + rng.randint(0, 2)] = rng.choice([b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f", b"\xed\xa0\x80", b"\x80", b"\xc0\xaf", b""])
    return bytes(data)


def make(count, languages, seed=1):
    """count texts as bytes; some are no UTF-8."""
    rng = random.Random(seed)
    words = sentences(languages)
    code = code_lines()
    texts = [t.encode() for t in FIXED] + BROKEN + [t.encode() for t in words]
    while len(texts) < count:
        kind = rng.random()
        if kind < 0.25:
            text = rng.choice(SPACES).join(rng.choice(words)[:rng.choice([20, 200])] for _ in range(rng.randint(1, 3)))
        elif kind < 0.45:
            at = rng.randrange(len(code))
            text = "\n".join(code[at:at + rng.choice([1, 1, 2, 5])])
        elif kind < 0.60:
            text = "".join(random_word(rng) + (rng.choice(SPACES) if rng.random() < 0.6 else "") for _ in range(rng.randint(1, 12)))
        elif kind < 0.68:
            text = "".join(rng.choice(EMOJI + [" ", "a", "字"]) for _ in range(rng.randint(1, 12)))
        elif kind < 0.75:
            text = "".join(rng.choice(SPACES + ["a", "B", "1", ".", "é"]) for _ in range(rng.randint(1, 30)))
        elif kind < 0.80:
            text = "".join(rng.choice(CONTROLS + ["a", " ", "x1", "漢"]) for _ in range(rng.randint(1, 12)))
        elif kind < 0.84:
            text = rng.choice(["a", "ab", "é", "字", "1", "-", "😀", "the", "▁", "\u0301", "가"]) * rng.choice([50, 150, 500])
        elif kind < 0.90:
            text = "".join(chr(rng.randint(0x20, 0x7e)) for _ in range(rng.randint(1, 60)))
        elif kind < 0.95:
            text = rng.choice(words).swapcase() + rng.choice(["'s", "'LL", "'ve.", "!!!", "?\n", "  12345"])
        else:
            text = rng.choice(words)
        data = text.encode()
        texts.append(broken(rng, text) if kind > 0.97 else data)
    return texts[:count]
