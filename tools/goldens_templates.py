#!/usr/bin/env python3
"""Makes tests/data/text/templates.golden.json: what jinja2, set up as `transformers` does, gives for our own templates in
tests/data/text/templates and for some of the random ones.

    $(tools/python_env.py) tools/goldens_templates.py
"""
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import jinja_random  # noqa: E402
import jinja_reference  # noqa: E402
from compare_templates import CONVERSATIONS, SPECIAL, SWITCHES  # noqa: E402

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "text"
RANDOM, LONGEST = 150, 1500
MORE = {"words": ["b", "a", "B", "\u00e9"], "n": 3, "flag": True, "d": {"a": 1}}


def cases():
    for path in sorted((DATA / "templates").glob("*.jinja")):
        template = path.read_text()
        for name in ("user", "system", "turns", "thinking", "parts", "tool call", "text arguments", "wrong order", "empty"):
            for switch in ("", "no prompt", "tools no thinking"):
                variables = {"messages": CONVERSATIONS[name], "tools": None, "documents": None, **SPECIAL, **MORE, **SWITCHES[switch]}
                yield f"{path.name}, {name}, {switch}", template, variables
    number = found = 0
    while found < RANDOM:
        template, variables = jinja_random.case(number)
        if len(template) <= LONGEST:
            found += 1
            yield f"random {number}", template, variables
        number += 1


def main():
    warnings.simplefilter("ignore")
    lines = []
    for name, template, variables in cases():
        expected = jinja_reference.render(template, variables)
        lines.append(json.dumps({"name": name, "template": template, "variables": variables, **expected}))
    text = f'{{"now":{jinja_reference.NOW},"cases":[\n' + ",\n".join(lines) + "\n]}\n"
    (DATA / "templates.golden.json").write_text(text)
    print(f"templates.golden.json: {len(lines)} cases, {len(text)} bytes")


if __name__ == "__main__":
    main()
