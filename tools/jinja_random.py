"""Random templates and variables for comparing Jinja interpreters: a grammar over every statement, operator, filter, test
and method that chat templates can use. Expressions are drawn by the type that is wanted, and now and then by a wrong
one, so that most templates render and the others fail as they should."""
import random

WORDS = ["user", "assistant", "system", "tool", "Hello World", "", " ", "a", "x<y & 'z'", 'say "hi"', "naïve café",
         "Straße", "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001f600\U0001f44d\U0001f3fd", "line one\nline two\n\n  three", "  pad\t", "1", "42", "3.5",
         "-7", "a,b,,c", "ΣΊΣΥΦΟΣ", "İstanbul", "ﬁn", "tab\tx\r\ny", "{{ no }}", "%s %d", "{} {0}", "<think>\nhm\n</think>\n\nyes",
         "snake_case-name", "TITLE case", "\u00a0nbsp\u2003", "\x1cfs", "0x1F", "1_000", "ǆ", "e\u0301", "null", "True"]
KEYS = ["role", "content", "name", "type", "text", "arguments", "function", "id", "items", "keys", "get", "values"]
ATTRIBUTES = ["role", "content", "name", "type", "text", "function", "missing", "a", "b"]
VARIABLES = ["messages", "tools", "s", "t", "n", "m", "x", "l", "d", "flag", "nothing", "words", "undef"]


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.locals = []
        self.namespaces = []
        self.macros = []
        self.loops = 0
        self.budget = 0

    # ---- variables

    def json(self, depth=0):
        r = self.r
        kind = r.randrange(10 if depth < 3 else 6)
        if kind < 3:
            return r.choice(WORDS)
        if kind == 3:
            return r.choice([0, 1, -1, 2, 7, 10, 100, 12345678901, -3])
        if kind == 4:
            return r.choice([0.5, 2.0, -1.25, 1e20, 3.14159, 1e-7, 0.1, 100.0, 2.5])
        if kind == 5:
            return r.choice([True, False, None])
        if kind < 8:
            return [self.json(depth + 1) for _ in range(r.randrange(4))]
        return {r.choice(KEYS): self.json(depth + 1) for _ in range(r.randrange(4))}

    def message(self):
        r = self.r
        m = {"role": r.choice(["user", "assistant", "system", "tool"])}
        if r.random() < 0.9:
            m["content"] = r.choice([r.choice(WORDS), r.choice(WORDS), None,
                                     [{"type": "text", "text": r.choice(WORDS)}, {"type": "image"}]])
        if r.random() < 0.2:
            m["tool_calls"] = [{"type": "function", "function": {"name": r.choice(WORDS), "arguments": self.json(1)}}]
        if r.random() < 0.2:
            m["reasoning_content"] = r.choice(WORDS)
        return m

    def variables(self):
        r = self.r
        v = {"messages": [self.message() for _ in range(r.randrange(5))], "s": r.choice(WORDS), "t": r.choice(WORDS),
             "n": r.choice([0, 1, 2, 3, 5, -2, 17]), "m": r.choice([1, 2, 3, 10]), "x": r.choice([0.5, 2.0, -1.5, 3.25, 1e3]),
             "l": [r.choice([1, 2, 3, -1, 0, 5]) for _ in range(r.randrange(5))],
             "words": [r.choice(WORDS) for _ in range(r.randrange(5))],
             "d": {r.choice(KEYS): self.json(1) for _ in range(r.randrange(4))}, "flag": r.random() < 0.5, "nothing": None,
             "tools": r.choice([None, [{"type": "function", "function": {"name": "f", "parameters": self.json(1)}}]]),
             "add_generation_prompt": r.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>"}
        if r.random() < 0.3:
            v["any"] = self.json()
        return v

    # ---- expressions

    def pick(self, *choices):
        """One of (weight, function)."""
        return self.r.choices([f for _, f in choices], [w for w, _ in choices])[0]()

    def expr(self, depth=0):
        return self.pick((5, lambda: self.text(depth)), (3, lambda: self.number(depth)), (2, lambda: self.truth(depth)),
                         (3, lambda: self.list(depth)), (2, lambda: self.dict(depth)), (2, lambda: self.name()),
                         (1, lambda: self.attribute(depth)), (1, lambda: self.condition(depth, self.expr)))

    def name(self):
        return self.r.choice(self.locals + VARIABLES + ["any"]) if self.r.random() < 0.9 else self.r.choice(VARIABLES)

    def quote(self, text):
        q = self.r.choice("'\"")
        out = ""
        for c in text:
            if c == q or c == "\\":
                out += "\\" + c
            elif c == "\n" and self.r.random() < 0.7:
                out += "\\n"
            elif ord(c) > 126 and self.r.random() < 0.2:
                out += f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
            else:
                out += c
        return q + out + q

    def attribute(self, depth):
        r = self.r
        base = r.choice(["messages[0]", "messages[-1]", "d", "tools[0].function", self.name(), "messages[%s]" % self.number(depth + 2)])
        return base + r.choice([".%s" % r.choice(ATTRIBUTES), "['%s']" % r.choice(ATTRIBUTES), "[%s]" % self.text(depth + 2),
                                "|attr('%s')" % r.choice(ATTRIBUTES), ".get('%s')" % r.choice(ATTRIBUTES),
                                ".get('%s', %s)" % (r.choice(ATTRIBUTES), self.text(depth + 2))])

    def condition(self, depth, branch):
        if depth > 4:
            return branch(depth + 1)
        other = " else " + branch(depth + 1) if self.r.random() < 0.8 else ""
        return f"({branch(depth + 1)} if {self.truth(depth + 1)}{other})"

    def wrong(self):
        return self.r.random() < 0.03

    def text(self, depth=0):
        r = self.r
        if self.wrong():
            return self.expr(depth + 1)
        if depth > 4 or r.random() < 0.3:
            return r.choice([self.quote(r.choice(WORDS)), "s", "t", "messages[0].content|string", "words|join", "s", "t"])
        d = depth + 1
        T, N, E, L = self.text, self.number, self.expr, self.list
        return self.pick(
            (3, lambda: f"{T(d)} ~ {E(d)}"), (3, lambda: f"({T(d)} + {T(d)})"), (1, lambda: f"({T(d)} * {r.randrange(4)})"),
            (2, lambda: f"({T(d)})[{self.slice(d)}]"), (1, lambda: f"({T(d)})[{r.randrange(-3, 3)}]"),
            (8, lambda: f"({T(d)}){self.method(d)}"), (8, lambda: f"({T(d)})|{self.text_filter(d)}"),
            (2, lambda: f"({E(d)})|tojson{self.json_args()}"), (2, lambda: f"({E(d)})|string"),
            (2, lambda: f"({L(d)})|join{r.choice(['', '(%s)' % T(d)])}"), (1, lambda: f"({L(d)})|join(',', attribute='role')"),
            (1, lambda: f"({self.quote(r.choice(['%s', '%5s|', '%-4s|', '%r', '%.2s', '%%', 'a%sb']))} % {T(d)})"),
            (1, lambda: f"('%s:%s' % ({E(d)}, {E(d)}))"),
            (1, lambda: f"('{r.choice(['%d', '%5d', '%-5d|', '%05d', '%+d', '%x', '%i'])}' % {N(d)})"),
            (1, lambda: f"('{r.choice(['%.2f', '%e', '%g', '%10.3f', '%+.1f', '%.0f'])}' % {N(d)})"),
            (1, lambda: f"'{r.choice(['{}', '{0}-{0}', '{!r}', '{:>6}', '{:<6}|', '{:^7}', '{:*^9}'])}'.format({T(d)})"),
            (1, lambda: f"'{r.choice(['{:d}', '{:5}', '{:,}', '{:x}', '{:+d}', '{:05d}', '{:b}'])}'.format({N(d)}|int)"),
            (1, lambda: f"'{r.choice(['{:.2f}', '{:e}', '{:g}', '{:10.3f}', '{:,.1f}', '{:%}', '{:.3}'])}'.format({N(d)}|float)"),
            (1, lambda: f"'{{a}}{{b[0]}}'.format(a={T(d)}, b={L(d)})"), (1, lambda: self.condition(d, T)),
            (2, lambda: self.call(d)), (1, lambda: f"({E(d)})|default({T(d)}{r.choice(['', ', true'])})"),
            (1, lambda: f"{self.quote(r.choice(WORDS))} {self.quote(r.choice(WORDS))}"),
            (1, lambda: f"({L(d)})|{r.choice(['first', 'last', 'min', 'max'])}"), (1, lambda: f"({N(d)})|filesizeformat"),
            (1, lambda: f"({self.dict(d)})|{r.choice(['urlencode', 'xmlattr', 'xmlattr(false)'])}"))

    def json_args(self):
        return self.r.choice(["", "", "", "(indent=2)", "(indent=4)", "(ensure_ascii=true)", "(sort_keys=true)", "(indent=0)",
                              "(separators=(',', ':'))", "(indent='\t')", "(false, 2)", "(ensure_ascii=false, indent=none)"])

    def slice(self, depth):
        r = self.r

        def part():
            return r.choice(["", "", str(r.randrange(-4, 6)), self.number(depth + 2) if r.random() < 0.3 else "1"])

        return part() + ":" + part() + r.choice(["", "", "", ":-1", ":2", ":-2", ":1"])

    def method(self, depth):
        r = self.r
        T = lambda: self.text(depth + 2)
        chars = lambda: self.quote(r.choice(["ab", " \n", "<>", "é😀", "x", "\n", "o", "l", " "]))
        return "." + self.pick(
            (4, lambda: r.choice(["upper", "lower", "title", "capitalize", "swapcase", "strip", "lstrip", "rstrip",
                                  "casefold"]) + "()"),
            (2, lambda: f"{r.choice(['strip', 'lstrip', 'rstrip'])}({chars()})"),
            (2, lambda: f"replace({chars()}, {T()})"), (1, lambda: f"replace({T()}, {T()}, {r.randrange(-1, 3)})"),
            (2, lambda: f"split({chars()})[{r.choice(['0', '-1'])}]"), (1, lambda: f"rsplit({chars()}, 1)[{r.choice(['0', '-1'])}]"),
            (1, lambda: f"join({self.strings(depth + 1)})"), (1, lambda: f"partition({chars()})[{r.randrange(3)}]"),
            (1, lambda: f"rpartition({chars()})|last"), (1, lambda: f"removeprefix({T()})"), (1, lambda: f"removesuffix({T()})"),
            (1, lambda: f"center({r.randrange(12)})"), (1, lambda: f"ljust({r.randrange(12)}, '*')"),
            (1, lambda: f"rjust({r.randrange(12)}, '.')"), (1, lambda: f"zfill({r.randrange(8)})"),
            (1, lambda: f"expandtabs({r.choice(['', '4', '2'])})"), (1, lambda: "splitlines()|join('|')"))

    def text_filter(self, depth):
        r = self.r
        T = lambda: self.text(depth + 2)
        return self.pick(
            (5, lambda: r.choice(["upper", "lower", "title", "capitalize", "trim", "string", "e", "escape", "forceescape", "safe",
                                  "reverse", "urlencode", "list|string", "first", "last"])),
            (1, lambda: f"trim({self.quote(r.choice(['x', 'ab', ' ']))})"), (2, lambda: f"replace({T()}, {T()})"),
            (1, lambda: f"replace({T()}, {T()}, {r.randrange(3)})"),
            (2, lambda: f"indent({r.choice(['', '2', 'width=3', '2, true', '2, true, true', 'first=true', chr(39) + '> ' + chr(39)])})"),
            (1, lambda: f"truncate({r.choice(['5', '8, true', '6, false, chr'.replace('chr', chr(39) + '..' + chr(39)), '4, true, chr, 0'.replace('chr', chr(39) + '~' + chr(39)), ''])})"),
            (1, lambda: f"center({r.randrange(14)})"), (1, lambda: f"default({T()})"), (1, lambda: f"format({T()})"))

    def number(self, depth=0):
        r = self.r
        if self.wrong():
            return self.expr(depth + 1)
        if depth > 4 or r.random() < 0.3:
            return r.choice(["n", "m", "x", str(r.randrange(-3, 12)), str(r.choice([0.5, 2.5, 1e3, 1.0, 0.1])), "l|length", "m",
                             "loop.index" if self.loops else "m"])
        d = depth + 1
        N, T, L = self.number, self.text, self.list
        return self.pick(
            (6, lambda: f"({N(d)} {r.choice(['+', '-', '*', '/', '//', '%'])} {N(d)})"), (1, lambda: f"({N(d)} ** {r.randrange(-1, 3)})"),
            (1, lambda: f"-{N(d)}"), (1, lambda: f"+{N(d)}"), (3, lambda: f"({T(d)})|length"), (2, lambda: f"({L(d)})|length"),
            (2, lambda: f"({N(d)})|{r.choice(['int', 'float', 'abs', 'round', 'round(1)', 'round(-1)', 'round(2)', 'string|int'])}"),
            (1, lambda: f"({N(d)})|round({r.randrange(3)}, '{r.choice(['ceil', 'floor', 'common'])}')"),
            (2, lambda: f"({T(d)})|{r.choice(['int', 'float', 'int(7)', 'float(1.5)', 'int(0, 16)', 'wordcount', 'count'])}"),
            (2, lambda: f"({self.numbers(d)})|{r.choice(['sum', 'max', 'min', 'first', 'last', 'count'])}"),
            (1, lambda: f"({T(d)}).{r.choice(['find', 'rfind', 'count'])}({T(d)})"), (1, lambda: self.condition(d, N)),
            (1, lambda: "loop." + r.choice(["index", "index0", "revindex", "revindex0", "length", "depth"]) if self.loops else "m"),
            (1, lambda: self.r.choice(self.namespaces) + ".i" if self.namespaces else "n"), (1, lambda: "messages|length"))

    def truth(self, depth=0):
        r = self.r
        if self.wrong():
            return self.expr(depth + 1)
        if depth > 4 or r.random() < 0.15:
            return r.choice(["flag", "true", "false", "True", "not flag", "n", "s", "l", "nothing", "add_generation_prompt",
                             "undef", "undef is defined", "tools"])
        d = depth + 1
        T, N, E, L, B = self.text, self.number, self.expr, self.list, self.truth
        return self.pick(
            (2, lambda: f"({B(d)} {r.choice(['and', 'or'])} {B(d)})"), (1, lambda: f"not {B(d)}"),
            (3, lambda: f"({N(d)} {r.choice(['==', '!=', '<', '>', '<=', '>='])} {N(d)})"),
            (2, lambda: f"({T(d)} {r.choice(['==', '!=', '<', '>'])} {T(d)})"), (2, lambda: f"({E(d)} == {E(d)})"),
            (2, lambda: f"({T(d)} {r.choice(['in', 'not in'])} {T(d)})"), (2, lambda: f"({E(d)} {r.choice(['in', 'not in'])} {L(d)})"),
            (1, lambda: f"({N(d)} < {N(d)} <= {N(d)})"),
            (4, lambda: f"({E(d)}) is {r.choice(['', 'not '])}" + r.choice(
                ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence",
                 "iterable", "true", "false", "callable", "escaped"])),
            (1, lambda: f"({N(d)})|int is {r.choice(['odd', 'even', 'divisibleby 3', 'divisibleby(2)'])}"),
            (1, lambda: f"({T(d)}) is {r.choice(['lower', 'upper'])}"), (1, lambda: f"({E(d)}) is {r.choice(['eq', 'ne', 'equalto', 'sameas'])}({E(d)})"),
            (1, lambda: f"({N(d)}) is {r.choice(['gt', 'lt', 'ge', 'le', 'greaterthan', 'lessthan'])} {r.randrange(5)}"),
            (2, lambda: f"({T(d)}).{r.choice(['startswith', 'endswith'])}({T(d)})"),
            (1, lambda: f"({T(d)}).{r.choice(['isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'isnumeric', 'isdecimal', 'istitle', 'isascii', 'isidentifier', 'isprintable'])}()"),
            (1, lambda: "loop." + r.choice(["first", "last"]) if self.loops else "flag"),
            (1, lambda: f"loop.changed({E(d)})" if self.loops else "flag"), (1, lambda: f"'{r.choice(['upper', 'nope', 'tojson'])}' is filter"))

    def strings(self, depth):
        r = self.r
        return r.choice(["words", f"[{self.text(depth + 2)}, {self.text(depth + 2)}]", f"({self.text(depth + 2)}).split()",
                         f"({self.list(depth + 2)})|map('string')", "d", f"({self.text(depth + 2)})|list"])

    def numbers(self, depth):
        r = self.r
        return r.choice(["l", "range(%d)" % r.randrange(6), "[%s, %s]" % (self.number(depth + 2), self.number(depth + 2)),
                         "l|map('abs')", "l|reject('odd')", "words|map('length')", "range(%d, %d, %d)" % (r.randrange(5), r.randrange(9), r.choice([1, 2, -1]))])

    def list(self, depth=0):
        r = self.r
        if self.wrong():
            return self.expr(depth + 1)
        if depth > 4 or r.random() < 0.3:
            return r.choice(["l", "words", "messages", "[]", "[1, 2, 3]", "('a', 'b')", "range(3)", "d", "tools or []", "(1,)"])
        d = depth + 1
        T, N, E, L = self.text, self.number, self.expr, self.list
        return self.pick(
            (2, lambda: f"[{', '.join(E(d) for _ in range(r.randrange(4)))}]"), (1, lambda: f"({E(d)}, {E(d)})"),
            (1, lambda: f"(({L(d)})|list + ({L(d)})|list)"), (2, lambda: f"(({L(d)})|list)[{self.slice(d)}]"),
            (2, lambda: f"({T(d)}).{r.choice(['split()', 'split(chr)'.replace('chr', chr(39) + r.choice([',', ' ', 'a']) + chr(39)), 'splitlines()', 'rsplit(none, 1)', 'splitlines(true)', 'split(maxsplit=1)', 'partition(chr)'.replace('chr', chr(39) + 'l' + chr(39))])}"),
            (1, lambda: f"({T(d)})|list"), (2, lambda: f"({L(d)})|list"), (1, lambda: f"({L(d)})|reverse|list"),
            (2, lambda: f"({r.choice([self.numbers, self.strings])(d)})|sort{r.choice(['', '(reverse=true)', '(true, true)', '(case_sensitive=true)'])}"),
            (1, lambda: f"({self.strings(d)})|unique{r.choice(['', '(true)'])}|list"),
            (2, lambda: f"({L(d)})|map('{r.choice(['string', 'tojson', 'length', 'upper', 'trim', 'default', 'first', 'e'])}')|list"),
            (2, lambda: f"messages|map(attribute='{r.choice(['role', 'content', 'content.0.type', 'missing'])}'{r.choice(['', ', default=' + self.quote('z')])})|list"),
            (2, lambda: f"messages|{r.choice(['selectattr', 'rejectattr'])}('{r.choice(ATTRIBUTES)}'{r.choice(['', ', ' + self.quote('equalto') + ', ' + self.quote('user'), ', ' + self.quote('defined'), ', ' + self.quote('string'), ', ' + self.quote('in') + ', [' + self.quote('user') + ']'])})|list"),
            (1, lambda: f"({L(d)})|{r.choice(['select', 'reject'])}{r.choice(['', '(%sstring%s)' % (chr(39), chr(39)), '(%snone%s)' % (chr(39), chr(39)), '(%sin%s, l)' % (chr(39), chr(39))])}|list"),
            (1, lambda: f"({L(d)})|{r.choice(['batch', 'slice'])}({r.randrange(1, 4)}{r.choice(['', ', 0'])})|list"),
            (1, lambda: f"messages|groupby('role')|{r.choice(['list', 'map(attribute=chr)|list'.replace('chr', chr(39) + 'grouper' + chr(39))])}"),
            (1, lambda: f"({self.dict(d)})|{r.choice(['items|list', 'dictsort', 'dictsort(true)', 'list', 'dictsort(by=chr)'.replace('chr', chr(39) + 'value' + chr(39)), 'dictsort(reverse=true)'])}"),
            (1, lambda: f"({self.dict(d)}).{r.choice(['items', 'keys', 'values'])}()|list"), (1, lambda: self.condition(d, L)),
            (1, lambda: f"({L(d)})|list * {r.randrange(3)}"), (1, lambda: f"({L(d)})|default([])"))

    def dict(self, depth=0):
        r = self.r
        if self.wrong():
            return self.expr(depth + 1)
        if depth > 3 or r.random() < 0.4:
            return r.choice(["d", "messages[0]", "{}", "{'a': 1, 'b': 'x'}", "tools[0].function"])
        d = depth + 1
        return self.pick(
            (3, lambda: "{" + ", ".join(f"{r.choice([self.quote(r.choice(KEYS)), self.text(d), str(r.randrange(4)), 'none', '1.0', 'true', '(1, 2)'])}: {self.expr(d)}" for _ in range(r.randrange(4))) + "}"),
            (1, lambda: f"dict({self.dict(d)}, a={self.expr(d)})"), (1, lambda: f"dict(b={self.expr(d)})"),
            (1, lambda: f"{self.dict(d)}.copy()"), (1, lambda: "dict(words|map('list')|map('batch', 2)|map('first')|select)" if r.random() < 0.1 else "d"),
            (1, lambda: self.condition(d, self.dict)))

    def call(self, depth):
        if not self.macros:
            return "s"
        name, params = self.r.choice(self.macros)
        args = []
        for p in params[:self.r.randrange(len(params) + 1)]:
            args.append((f"{p}=" if args and "=" in args[-1].split("(")[0] or self.r.random() < 0.3 else "") + self.expr(depth + 2))
        # Positional arguments come first.
        args.sort(key=lambda a: any(a.startswith(p + "=") for p in params))
        return f"{name}({', '.join(args)})"

    # ---- statements

    def tag(self, inside):
        r = self.r
        left = r.choice(["{%", "{%", "{%-", "{%-", "{%+"])
        right = r.choice(["%}", "%}", "-%}", "-%}", "+%}"])
        return f"{left} {inside} {right}" + r.choice(["", "", "\n", "\n\n", "\n  "])

    def data(self):
        r = self.r
        return r.choice(["", "\n", " ", "  \n  ", "text", "<|im_start|>", "\n\n", "a\tb ", "é😀", "} % { ", "{ ", "x\n   "]) + \
            r.choice(["", "", "", "{# note #}", "{#- note -#}\n", "{% raw %}{{ raw }}{% endraw %}", "{%- raw -%} r {%- endraw +%}\n"])

    def output(self):
        r = self.r
        return r.choice(["{{", "{{", "{{-", "{{+"]) + " " + self.expr() + " " + r.choice(["}}", "}}", "-}}"])

    def fresh(self, kind="v"):
        return f"{kind}{self.r.randrange(4)}"

    def scoped(self, build):
        kept = list(self.locals), list(self.namespaces), list(self.macros), self.loops
        out = build()
        self.locals, self.namespaces, self.macros, self.loops = kept
        return out

    def body(self, depth):
        self.budget -= 1
        n = 1 if depth > 3 or self.budget < 0 else self.r.randrange(1, 4)
        return "".join(self.statement(depth + 1) for _ in range(n))

    def statement(self, depth=0):
        if depth > 4 or self.budget < 0:
            return self.data() + self.output()
        return self.data() + self.pick(
            (6, self.output), (4, self.set), (4, lambda: self.if_(depth)), (4, lambda: self.for_(depth)), (2, self.namespace),
            (2, self.set_attribute), (1, lambda: self.set_block(depth)), (1, lambda: self.macro(depth)), (1, lambda: self.call_block(depth)),
            (1, lambda: self.filter_block(depth)), (1, lambda: self.with_(depth)), (1, lambda: self.generation(depth)),
            (1, self.jump), (1, self.raise_), (1, lambda: self.tag("print " + self.expr() + ", " + self.expr(1))))

    def set(self):
        if self.r.random() < 0.15:
            a, b = self.fresh(), self.fresh()
            out = self.tag(f"set {a}, {b} = {self.r.choice([self.expr(1) + ', ' + self.expr(1), '[%s, %s]' % (self.expr(1), self.expr(1)), self.list()])}")
            self.locals += [a, b]
            return out
        name = self.fresh()
        out = self.tag(f"set {name} = {self.expr()}")
        self.locals.append(name)
        return out

    def namespace(self):
        name = self.fresh("ns")
        out = self.tag(f"set {name} = namespace(i={self.r.randrange(5)}, {self.r.choice(['t=%s' % self.text(2), 'l=[]', 'found=false'])})")
        self.namespaces.append(name)
        return out

    def set_attribute(self):
        if not self.namespaces:
            return self.namespace()
        name = self.r.choice(self.namespaces)
        return self.tag(self.r.choice([f"set {name}.i = {name}.i + 1", f"set {name}.t = {self.text(1)}", f"set {name}.{self.r.choice('ab')} = {self.expr(1)}"]))

    def set_block(self, depth):
        name = self.fresh()
        out = self.tag(f"set {name}{self.r.choice(['', '', ' | upper', ' | trim | length'])}") + self.scoped(lambda: self.body(depth)) + self.tag("endset")
        self.locals.append(name)
        return out

    def if_(self, depth):
        out = self.tag(f"if {self.truth()}") + self.body(depth)
        while self.r.random() < 0.25:
            out += self.tag(f"elif {self.truth()}") + self.body(depth)
        if self.r.random() < 0.5:
            out += self.tag("else") + self.body(depth)
        return out + self.tag("endif")

    def for_(self, depth):
        r = self.r
        target = self.fresh("i")
        recursive = r.random() < 0.08
        pairs = not recursive and r.random() < 0.15
        source = f"({self.dict(1)}).items()" if pairs else self.list(1)
        if pairs:
            target = f"{target}, {self.fresh('k')}"

        def build():
            test = ""
            self.locals += target.split(", ")
            if r.random() < 0.2:
                test = f" if {self.truth(2)}"
            self.loops += 1
            inner = self.body(depth)
            if recursive:
                inner += "{% if loop.depth < 3 %}{{ loop([1, 2]) }}{% endif %}"
            elif r.random() < 0.3:
                inner += "{% if " + self.truth(2) + " %}{% " + r.choice(["break", "continue"]) + " %}{% endif %}" + self.data()
            return self.tag(f"for {target} in {source}{test}{' recursive' if recursive else ''}") + inner

        out = self.scoped(build)
        if r.random() < 0.2:
            out += self.tag("else") + self.scoped(lambda: self.body(depth))
        return out + self.tag("endfor")

    def macro(self, depth):
        r = self.r
        name = self.fresh("f")
        params = [f"p{i}" for i in range(r.randrange(3))]
        defaults = r.randrange(len(params) + 1)
        signature = ", ".join(p + (f"={self.expr(2)}" if i >= len(params) - defaults else "") for i, p in enumerate(params))

        def build():
            self.locals += params
            self.loops = 0
            self.macros = []
            extra = r.choice(["", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller is defined }}"])
            return self.body(depth) + extra

        out = self.tag(f"macro {name}({signature})") + self.scoped(build) + self.tag("endmacro")
        self.macros.append((name, params))
        return out

    def call_block(self, depth):
        if not self.macros:
            return self.macro(depth)
        name, params = self.r.choice(self.macros)
        return self.tag(f"call {name}({', '.join(self.expr(3) for _ in params)})") + self.scoped(lambda: self.function_body(depth)) + self.tag("endcall")

    def function_body(self, depth):
        self.loops = 0
        return self.body(depth)

    def filter_block(self, depth):
        return self.tag(f"filter {self.r.choice(['upper', 'trim', 'replace(%s, %s)' % (self.text(3), self.text(3)), 'indent(2)', 'title'])}") + \
            self.scoped(lambda: self.body(depth)) + self.tag("endfilter")

    def with_(self, depth):
        name = self.fresh()

        def build():
            head = self.tag(f"with {name} = {self.expr(1)}")
            self.locals.append(name)
            return head + self.body(depth)

        return self.scoped(build) + self.tag("endwith")

    def generation(self, depth):
        return self.tag("generation") + self.scoped(lambda: self.function_body(depth)) + self.tag("endgeneration")

    def jump(self):
        return "{% if " + self.truth() + " %}{% " + self.r.choice(["break", "continue"]) + " %}{% endif %}" if self.loops else self.output()

    def raise_(self):
        return "{% if " + self.truth() + " and flag %}{{ raise_exception(" + self.text(2) + ") }}{% endif %}" if self.r.random() < 0.3 else self.output()

    def template(self):
        self.budget = 12
        return "".join(self.statement() for _ in range(self.r.randrange(1, 7))) + self.data()


def case(seed):
    """The template and the variables of a number."""
    g = Grammar(seed)
    return g.template(), g.variables()
