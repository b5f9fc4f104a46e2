"""JSON Schemas, and documents for each: what the proofs of constrained output are made of.

Written for these tests: a list by hand, one feature after the other, and a generator of random schemas. Documents are
drawn from the schema, then changed here and there; Python's jsonschema says which are valid.
"""
import json
import random
import re
import unicodedata
from decimal import Decimal
from fractions import Fraction

DATE_TIMES = ["2024-02-29T23:59:59Z", "1999-12-31t00:00:00.123456+05:30", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z",
              "2024-01-01 00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00"]
DATES = ["2024-02-29", "2023-02-28", "2023-02-29", "1900-02-29", "2000-02-29", "2024-04-31", "2024-4-1", "0001-01-01", "2024-00-10"]
IPV4 = ["1.2.3.4", "255.255.255.255", "256.1.1.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"]
IPV6 = ["::", "::1", "1:2:3:4:5:6:7:8", "1::8", "fe80::1:2", "::ffff:1.2.3.4", "1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7::",
        "1:2:3:4:5:6:7:8:9", ":::"]
UUIDS = ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "123e4567e89b12d3a456426614174000",
         "123e4567-e89b-12d3-a456-42661417400", "g23e4567-e89b-12d3-a456-426614174000"]

TREE = {"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["value"], "additionalProperties": False}
LINKED = {"$defs": {"node": {"type": "object", "properties": {"v": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                             "required": ["v", "next"], "additionalProperties": False}}, "$ref": "#/$defs/node"}


def closed(properties, required=None, **more):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required,
            "additionalProperties": False, **more}


def by_hand():
    S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
    yield from [True, {}, S, I, N, B, {"type": "null"}, {"type": "array"}, {"type": "object"}]
    yield from [{"type": ["string", "null"]}, {"type": ["integer", "boolean"]}, {"type": ["integer", "number"]},
                {"type": ["array", "object", "null"]}]
    # numbers
    for lo, hi in [(0, 9), (0, 10), (-5, 5), (10, 99), (7, 7), (123, 4567), (-4567, -123), (-1, 1000000), (0, 255), (-2147483648, 2147483647)]:
        yield {"type": "integer", "minimum": lo, "maximum": hi}
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        for bound in (0, -3, 42, 1.5, -0.25, 100):
            yield {"type": "number", key: bound}
        yield {"type": "integer", key: 12}
        yield {"type": "integer", key: -1.5}
    yield {"type": "number", "minimum": 0.001, "maximum": 0.0125}
    yield {"type": "number", "exclusiveMinimum": -1.25, "exclusiveMaximum": -1}
    yield {"type": "number", "minimum": 0, "maximum": 1}
    yield {"minimum": 5}
    for schema in ({"exclusiveMinimum": 0, "maximum": 0.5}, {"minimum": 1.5, "maximum": 1.6}, {"exclusiveMinimum": -1, "exclusiveMaximum": 1},
                   {"minimum": 99.9, "maximum": 100.1}, {"minimum": 1000, "multipleOf": 250}, {"minimum": -20, "maximum": 20, "multipleOf": 7},
                   {"maximum": -0.001, "multipleOf": 0.004}, {"minimum": 0, "maximum": 0}, {"exclusiveMinimum": 20, "exclusiveMaximum": 22, "multipleOf": 0.75}):
        yield {"type": "number", **schema}
    yield from [dict(I, multipleOf=0.25), dict(I, multipleOf=1.5, maximum=100), dict(I, multipleOf=12345), dict(I, multipleOf=1e6, minimum=1),
                {"enum": [100, 0.25, -3, 1e20, 0]}, {"const": 1.0}, {"const": -0.004}, {"allOf": [{"enum": [1, 2.5]}, {"enum": [1.0, 2]}]},
                {"const": [1.0, 20]}, {"allOf": [{"enum": [1, 2.0, 30]}, I]}]
    for draft in (4, 6, 7):
        yield {"$schema": f"http://json-schema.org/draft-0{draft}/schema#", "type": "integer"}
        yield {"$schema": f"http://json-schema.org/draft-0{draft}/schema#", "type": ["integer", "string"], "minimum": -2, "maximum": 40}
    for m in (1, 2, 3, 7, 10, 25, 0.5, 0.25, 1.5, 0.1):
        yield {"type": "number", "multipleOf": m}
    yield {"type": "integer", "multipleOf": 5, "minimum": 12, "maximum": 112}
    yield {"type": "integer", "exclusiveMinimum": True, "minimum": 3, "$schema": "http://json-schema.org/draft-04/schema#"}
    # strings
    for lo, hi in [(0, 0), (1, None), (0, 3), (3, 3), (2, 5), (10, 20)]:
        s = dict(S, minLength=lo)
        if hi is not None:
            s["maxLength"] = hi
        yield s
    for p in ["^a+$", "b", "^[a-z]{2,4}$", "^[0-9]{3}-[0-9]{4}$", "^(foo|bar)?baz$", "[^x]$", "^.$", "^x", "x$", "^[A-Z][a-z]*( [A-Z][a-z]*)*$",
              "^\\d+(\\.\\d\\d)?$", "^\\w+@\\w+\\.com$", "a|^b|c$", "^(a|b)*abb$", "^\\S+$", "^[^\"\\\\]*$", "^\"$", "^\\\\n$", "é", "^[à-ÿ]+$",
              "^\\u0041\\x42$", "^(?:ab){2}$", "^a{0,2}b{1,}c{2}$", "", "^$", "^\\t|\\n$", "^[\\w.-]+$", "\\/", "^\\p{L}+$", "^[😀-😎]+$"]:
        yield dict(S, pattern=p)
    yield dict(S, pattern="^[a-z]*$", minLength=2, maxLength=4)
    yield dict(S, pattern="^(ab)*$", minLength=3, maxLength=7)
    yield dict(S, pattern="^[0-9]+$", maxLength=3)
    for f in ("date", "date-time", "ipv4", "ipv6", "uuid"):
        yield dict(S, format=f)
    yield closed({"when": dict(S, format="date-time"), "id": dict(S, format="uuid")})
    # literals
    yield from [{"const": 5}, {"const": "x\"y\\z\n"}, {"const": None}, {"const": [1, {"a": "b"}]}, {"const": {}}, {"const": []}, {"const": True},
                {"const": {"a": 1, "b": [True, None]}}, {"const": 1.5}, {"const": "é😀"}]
    yield from [{"enum": ["red", "green", "blue"]}, {"enum": [1, "1", None, True, 1.25]}, {"enum": ["a", "ab", "abc", ""]},
                {"enum": [[1], [1, 2], {"k": []}, "s"]}, {"type": "string", "enum": ["x", 5, "yy"]}, {"enum": [1, 2, 3, 4], "minimum": 2, "maximum": 3},
                {"enum": ["aa", "b", "ccc"], "minLength": 2}, {"enum": ["aa", "bb"], "pattern": "^a"}, {"enum": [0, -1, 100000, 0.001]},
                {"type": "integer", "enum": [1, 2.5, 3]}, {"enum": [4, 6, 9], "multipleOf": 3}]
    # lists
    A = {"type": "array"}
    yield from [dict(A, items=I), dict(A, items=B, minItems=1), dict(A, items=I, maxItems=2), dict(A, items=S, minItems=2, maxItems=4),
                dict(A, items=I, minItems=3, maxItems=3), dict(A, prefixItems=[I, S]), dict(A, prefixItems=[I, S], items=False),
                dict(A, prefixItems=[I, S], items=B), dict(A, prefixItems=[I, S], items=False, minItems=2), dict(A, prefixItems=[I], items=I, minItems=2, maxItems=5),
                dict(A, items=False), dict(A, items=dict(A, items=I)), dict(A, maxItems=0), dict(A, items=dict(A, items=dict(A, items=B, maxItems=2), minItems=1)),
                dict(A, items={"enum": [0, 1]}, minItems=2), {"items": I, "maxItems": 2}, dict(A, prefixItems=[I, False], items=I), dict(A, maxItems=1, uniqueItems=True),
                {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [I, S], "additionalItems": False},
                {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [I, S], "additionalItems": B}]
    # objects
    yield from [closed({}), closed({"a": I}), closed({"a": I, "b": S}), closed({"a": I, "b": S, "c": B}, ["b"]), closed({"a": I, "b": I, "c": I, "d": I, "e": I}, []),
                {"type": "object", "properties": {"a": I}}, {"type": "object", "properties": {"a": I}, "required": ["a"]}, {"type": "object", "required": ["x", "y"]},
                {"type": "object", "additionalProperties": I}, {"type": "object", "properties": {"a": S}, "additionalProperties": I},
                {"type": "object", "properties": {"a": S, "ab": I, "abc": B}, "required": ["ab"]}, {"properties": {"a": I}},
                closed({"": I, "é": S, "a\"b": B, "tab\t": I}, []), {"type": "object", "properties": {"a": False, "b": I}},
                {"type": "object", "properties": {"a": False}, "additionalProperties": False}, closed({"a": I, "b": I, "c": I}, [], minProperties=2),
                closed({"a": I, "b": I, "c": I}, [], maxProperties=1), closed({"a": I, "b": I, "c": I, "d": I}, ["c"], maxProperties=2), {"type": "object", "maxProperties": 2},
                {"type": "object", "minProperties": 1}, {"type": "object", "maxProperties": 0}, {"type": "object", "properties": {"q": I}, "required": ["q"], "minProperties": 2},
                {"type": "object", "patternProperties": {"^n_": I}, "additionalProperties": False}, {"type": "object", "patternProperties": {"^n_": I}},
                {"type": "object", "patternProperties": {"^n_": I, "_s$": S}, "additionalProperties": B},
                {"type": "object", "properties": {"n_a": {"maximum": 5}}, "patternProperties": {"^n_": I}, "additionalProperties": False},
                {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}}, {"type": "object", "propertyNames": {"enum": ["p", "q"]}, "additionalProperties": I},
                {"type": "object", "propertyNames": {"maxLength": 2}, "properties": {"a": I, "long": S}},
                closed({"o": closed({"i": closed({"x": I})})}), closed({f"field_{i}": I for i in range(30)}, ["field_3", "field_17"]),
                closed({"user": closed({"name": S, "email": S}, ["name"]), "items": dict(A, items=closed({"sku": dict(S, pattern="^[A-Z]{3}[0-9]+$"), "n": dict(I, minimum=1)}))})]
    # references and recursion
    yield from [TREE, LINKED, {"definitions": {"p": dict(I, minimum=0)}, "type": "array", "items": {"$ref": "#/definitions/p"}},
                {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": S}, "$ref": "#/$defs/a"}, {"$defs": {"a/b~c": I}, "$ref": "#/$defs/a~1b~0c"},
                {"$defs": {"x": {"$anchor": "here", "type": "boolean"}}, "items": {"$ref": "#here"}, "type": "array"},
                {"$defs": {"j": {"anyOf": [{"type": ["null", "boolean", "number", "string"]}, {"type": "array", "items": {"$ref": "#/$defs/j"}}, {"type": "object", "additionalProperties": {"$ref": "#/$defs/j"}}]}}, "$ref": "#/$defs/j"},
                {"$defs": {"e": closed({"op": {"enum": ["+", "*"]}, "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}), "t": {"anyOf": [{"$ref": "#/$defs/e"}, N]}}, "$ref": "#/$defs/t"},
                closed({"a": {"$ref": "#/$defs/n"}}, [], **{"$defs": {"n": {"type": ["integer", "null"]}}}), {"$defs": {"n": I}, "$ref": "#/$defs/n", "minimum": 3}]
    # combinations
    yield from [{"anyOf": [S, I]}, {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^z"}]},
                {"anyOf": [closed({"k": {"const": "a"}, "v": I}), closed({"k": {"const": "b"}, "v": S})]}, {"anyOf": [closed({"a": I}), closed({"a": I, "b": I})]},
                {"anyOf": [{"type": "object", "properties": {"a": I}, "required": ["a"]}, {"type": "object", "properties": {"a": S, "b": B}, "required": ["b"]}]},
                {"oneOf": [S, I]}, {"oneOf": [{"const": 1}, {"const": 2}]}, {"oneOf": [dict(I, maximum=3), dict(I, minimum=10)]},
                {"oneOf": [closed({"k": {"const": "a"}, "v": I}), closed({"k": {"const": "b"}, "v": S})]}, {"oneOf": [closed({"a": I}), closed({"b": I})]},
                {"oneOf": [dict(S, maxLength=2), dict(S, minLength=5)]}, {"oneOf": [dict(S, pattern="^a"), dict(S, pattern="^b")]}, {"oneOf": [dict(A, maxItems=1), dict(A, minItems=3)]},
                {"allOf": [dict(I, minimum=3), {"maximum": 7}]}, {"allOf": [{"properties": {"a": I}, "required": ["a"]}, {"properties": {"b": S}, "required": ["b"]}], "type": "object"},
                {"allOf": [dict(S, minLength=2), dict(S, pattern="^a"), dict(S, maxLength=4)]}, {"allOf": [dict(S, pattern="a"), dict(S, pattern="b")]},
                {"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}, {"allOf": [{"anyOf": [S, I]}, {"anyOf": [I, B]}]}, {"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]},
                {"type": "object", "properties": {"t": {"enum": ["a", "b"]}}, "required": ["t"], "anyOf": [{"properties": {"t": {"const": "a"}, "x": I}, "required": ["x"]}, {"properties": {"t": {"const": "b"}}}]},
                {"allOf": [{"$ref": "#/$defs/base"}], "$defs": {"base": {"type": "object", "properties": {"id": I}, "required": ["id"]}}, "properties": {"n": S}},
                {"allOf": [dict(A, items=I), dict(A, items={"minimum": 2}, minItems=1)]}, {"allOf": [{"type": "object", "additionalProperties": I}, {"type": "object", "properties": {"q": {"minimum": 4}}}]},
                {"anyOf": [dict(A, items=I), dict(A, items=S)]}, {"anyOf": [{"type": "null"}, closed({"deep": {"anyOf": [{"type": "null"}, closed({"x": I})]}})]},
                {"anyOf": [True, False]}, {"allOf": [True, I]}, {"not": False, "type": "integer"}]
    # as generators write them
    yield {"title": "Weather", "description": "d", "type": "object", "properties": {"city": dict(S, description="c"), "unit": {"enum": ["c", "f"], "default": "c"}, "days": {"anyOf": [I, {"type": "null"}], "default": None, "title": "Days"}}, "required": ["city"]}
    yield {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"steps": {"type": "array", "items": closed({"explanation": S, "output": S})}, "final_answer": S}, "required": ["steps", "final_answer"], "additionalProperties": False}
    yield {"type": "object", "properties": {"name": {"const": "get_weather"}, "arguments": closed({"location": S, "celsius": B}, ["location"])}, "required": ["name", "arguments"], "additionalProperties": False}


def random_schema(rng, depth=0):
    """A schema of moderate size, with any of the keywords that can be enforced."""
    kind = rng.choice(["string", "integer", "number", "boolean", "null", "enum", "array", "object", "object", "array", "anyOf", "allOf"]
                      if depth < 3 else ["string", "integer", "number", "boolean", "null", "enum"])
    if kind == "string":
        s = {"type": "string"}
        if rng.random() < 0.3:
            s["minLength"] = rng.randrange(4)
        if rng.random() < 0.3:
            s["maxLength"] = s.get("minLength", 0) + rng.randrange(6)
        if rng.random() < 0.25:
            s = {"type": "string", "pattern": rng.choice(["^[a-z]+$", "^a", "b$", "^(x|yz){1,3}$", "[0-9]", "^[^a]*$", "^\\w{1,5}$"])}
        return s
    if kind in ("integer", "number"):
        s = {"type": kind}
        if rng.random() < 0.4:
            s["minimum"] = rng.randrange(-50, 50)
        if rng.random() < 0.4:
            s["maximum"] = s.get("minimum", 0) + rng.randrange(100)
        if rng.random() < 0.15:
            s["multipleOf"] = rng.choice([2, 3, 5])
        return s
    if kind == "enum":
        return {"enum": rng.sample([None, True, False, 0, 1, -7, 2.5, "", "a", "b c", "\"q\"", "é", [1], {"z": 0}], rng.randrange(1, 5))}
    if kind == "array":
        s = {"type": "array", "items": random_schema(rng, depth + 1)}
        if rng.random() < 0.3:
            s["prefixItems"] = [random_schema(rng, depth + 1) for _ in range(rng.randrange(1, 3))]
        if rng.random() < 0.3:
            s["minItems"] = rng.randrange(3)
        if rng.random() < 0.3:
            s["maxItems"] = s.get("minItems", 0) + rng.randrange(3)
        return s
    if kind == "object":
        names = rng.sample(["a", "b", "ab", "name", "name2", "x y", "é", "\"", "id", "type"], rng.randrange(5))
        s = {"type": "object", "properties": {n: random_schema(rng, depth + 1) for n in names}}
        if names and rng.random() < 0.7:
            s["required"] = rng.sample(names, rng.randrange(len(names) + 1))
        if rng.random() < 0.6:
            s["additionalProperties"] = False
        elif rng.random() < 0.4:
            s["additionalProperties"] = random_schema(rng, 3)
        if rng.random() < 0.15:
            s["patternProperties"] = {"^n": random_schema(rng, 3)}
        return s
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1) for _ in range(rng.randrange(1, 4))]}
    base = random_schema(rng, depth + 1)
    return {"allOf": [base, rng.choice([{}, {"minimum": 0}, {"maxLength": 3}, {"maxItems": 2}, {"properties": {"a": {"type": ["string", "integer"]}}}])]}


WORDS = ["", "a", "b", "ab", "abc", "x", "yz", "zed", "foo", "baz", "Hello World", "123-4567", "12.50", "me@site.com", "n_a", "é", "ßx", "😀😎", "a\"b", "c:\\d",
         "\n", "tab\t", "\u0001", "AB", "abab", "ababab", "12", "1234", "x y", "id", "/", "aaaabcc", "\\n", "\"", "ABC-1234", "QX7"]


def random_text(rng):
    if rng.random() < 0.7:
        return rng.choice(WORDS)
    return "".join(rng.choice("abcxyz019 _-é😀\"\\") for _ in range(rng.randrange(8)))


def random_number(rng):
    return rng.choice([0, 1, -1, 2, 1.0, 250.0, 1e20, 20.5, 21, 21.75, 3, 5, 7, 10, 12, 42, 99, 100, 112, 255, 256, -123, 4567, 1000000, rng.randrange(-200, 200), 0.5, 1.5, -0.25, 2.25, 0.001, 0.0125,
                       0.013, -1.125, 99.75, 100.5, round(rng.uniform(-20, 120), rng.randrange(1, 5))])


def random_value(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind < 5:
        value = [None, rng.random() < 0.5, random_number(rng), random_text(rng), rng.randrange(-5, 20)][kind]
        return value
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {random_text(rng): random_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def merged_all_of(schema, root):
    """allOf and $ref folded in, roughly: only to draw documents that have a chance to be valid."""
    out = dict(schema)
    parts = list(out.pop("allOf", []))
    if "$ref" in out:
        ref = out.pop("$ref")
        target = root
        if ref == "#here":
            target = root["$defs"]["x"]
        else:
            for step in ref[1:].split("/")[1:]:
                target = target[step.replace("~1", "/").replace("~0", "~")]
        parts.append(target)
    for part in parts:
        if not isinstance(part, dict):
            continue
        part = merged_all_of(part, root)
        for key, value in part.items():
            if key == "properties":
                out[key] = {**value, **out.get(key, {})}
            elif key == "required":
                out[key] = list(out.get(key, [])) + list(value)
            elif key not in out:
                out[key] = value
    return out


def draw(schema, root, rng, depth=0):
    """A document that often satisfies the schema."""
    if not isinstance(schema, dict):
        return random_value(rng, depth)
    schema = merged_all_of(schema, root)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branch = rng.choice(schema[key])
            rest = {k: v for k, v in schema.items() if k != key}
            return draw({"allOf": [branch, rest]} if isinstance(branch, dict) else rest, root, rng, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind is None:
        kind = ("object" if "properties" in schema or "required" in schema else "array" if "items" in schema else
                "number" if "minimum" in schema else None)
    if kind is None or depth > 8:
        return random_value(rng, depth)
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        lo, hi = schema.get("minimum", schema.get("exclusiveMinimum", -30)), schema.get("maximum", schema.get("exclusiveMaximum", 60))
        if isinstance(lo, bool):
            lo = 0
        if rng.random() < 0.3:
            return random_number(rng)
        whole = rng.randint(int(min(lo, hi)) - 1, int(max(lo, hi)) + 1)
        if "multipleOf" in schema and rng.random() < 0.8:
            m = schema["multipleOf"]
            whole = round(whole / m) * m
            return whole if whole != int(whole) else int(whole)
        return whole if kind == "integer" or rng.random() < 0.5 else round(rng.uniform(lo, max(lo, hi)), rng.randrange(1, 5))
    if kind == "string":
        if "format" in schema:
            return rng.choice({"date": DATES, "date-time": DATE_TIMES, "ipv4": IPV4, "ipv6": IPV6, "uuid": UUIDS}[schema["format"]])
        text = random_text(rng)
        lo, hi = schema.get("minLength", 0), schema.get("maxLength", 30)
        while len(text) < lo:
            text += rng.choice("abz09")
        return text[:max(hi, 0)] if rng.random() < 0.9 else text
    if kind == "array":
        prefix, items = schema.get("prefixItems", []), schema.get("items", {})
        if isinstance(items, list):
            prefix, items = items, schema.get("additionalItems", {})
        lo, hi = schema.get("minItems", 0), min(schema.get("maxItems", 5), 12)
        n = rng.randint(lo, max(lo, hi)) if depth < 5 else lo
        if items is False:
            n = min(n, len(prefix))
        return [draw(prefix[i] if i < len(prefix) else items, root, rng, depth + 1) for i in range(n)]
    out = {}
    names = list(schema.get("properties", {}))
    for name in names:
        if name in schema.get("required", []) or (rng.random() < 0.4 and depth < 5):
            out[name] = draw(schema["properties"][name], root, rng, depth + 1)
    for name in schema.get("required", []):
        if name not in out:
            out[name] = random_value(rng, depth + 1)
    extra = schema.get("additionalProperties", {})
    if (extra is not False or "patternProperties" in schema) and rng.random() < 0.5:
        for _ in range(rng.randrange(1, 3)):
            name = rng.choice(["n_1", "n_a", "q_s", "n_s", "p", "q", "zz", random_text(rng)])
            for pattern, inner in schema.get("patternProperties", {}).items():
                if re.search(pattern, name):
                    out.setdefault(name, draw(inner, root, rng, depth + 1))
            out.setdefault(name, draw(extra if isinstance(extra, dict) else {}, root, rng, depth + 1))
    items = list(out.items())
    rng.shuffle(items)
    return dict(items)


def change(value, rng):
    """The document with something changed somewhere."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        out = dict(value)
        what = rng.randrange(4)
        if what == 0:
            del out[key]
        elif what == 1:
            out[random_text(rng)] = random_value(rng, 2)
        else:
            out[key] = change(out[key], rng)
        return out
    if isinstance(value, list) and value and rng.random() < 0.8:
        out = list(value)
        i = rng.randrange(len(out))
        what = rng.randrange(4)
        if what == 0:
            del out[i]
        elif what == 1:
            out.insert(i, random_value(rng, 2))
        else:
            out[i] = change(out[i], rng)
        return out
    return random_value(rng)


def spell_number(value, rng):
    """The same number in other words: zeros behind it, its point elsewhere and an exponent for that."""
    text = format(Decimal(repr(value)), "f")
    kind = rng.randrange(8)
    if kind < 4:
        return json.dumps(value)
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    if kind == 4:
        return sign + text + ("" if "." in text else ".") + "0" * rng.randrange(1, 4)
    whole, _, fraction = text.partition(".")
    digits, point = whole + fraction, len(whole)
    shift = rng.choice([0, 1, 2, 3, -1, -2, -5, 12])  # of the point, to the right
    digits = "0" * max(0, 1 - point - shift) + digits + "0" * max(0, point + shift - len(digits), rng.randrange(-3, 3))
    point = max(point + shift, 1)
    zeros = len(digits[:point]) - len(digits[:point].lstrip("0"))
    zeros = min(zeros, point - 1)
    mantissa = digits[zeros:point] + ("." + digits[point:] if digits[point:] else "")
    exponent = ("-" if shift > 0 else rng.choice(["", "+"])) + rng.choice(["", "0"]) + str(abs(shift))
    return sign + mantissa + rng.choice("eE") + exponent


def spell(value, rng):
    """JSON text with random whitespace and random spellings of strings."""
    blank = rng.random() < 0.5

    def space():
        return rng.choice(["", "", " ", "\n", "\t ", "  "]) if blank else ""

    def string(text):
        out = json.dumps(text, ensure_ascii=rng.random() < 0.3)[1:-1]
        if rng.random() < 0.2 and text and out.isalnum():
            i = rng.randrange(len(out))
            if ord(out[i]) < 0x10000:
                out = out[:i] + f"\\u{ord(out[i]):04{rng.choice('xX')}}" + out[i + 1:]
        return '"' + out.replace("/", rng.choice(["/", "\\/"])) + '"'

    def write(v):
        if isinstance(v, str):
            return string(v)
        if isinstance(v, list):
            return "[" + space() + ("," + space()).join(write(x) + space() for x in v) + "]"
        if isinstance(v, dict):
            return "{" + space() + ("," + space()).join(string(k) + space() + ":" + space() + write(x) + space() for k, x in v.items()) + "}"
        if isinstance(v, (int, float)) and not isinstance(v, bool):
            return spell_number(v, rng)
        return json.dumps(v)
    return space() + write(value) + space()


EXPONENT_MAX = 100000  # beyond it numbers are alike: no schema here has bounds with so many digits


def exact(text):
    """The number that a JSON text with a point or an exponent stands for."""
    mantissa, _, exponent = text.lower().partition("e")
    return Decimal(f"{mantissa}e{max(-EXPONENT_MAX, min(EXPONENT_MAX, int(exponent or 0)))}")


def is_whole(number):
    return isinstance(number, int) or number == number.to_integral_value()


def is_multiple(number, of):
    of, (sign, digits, exponent) = Fraction(of), Decimal(number).as_tuple()
    whole = int("".join(map(str, digits)))
    while whole and whole % 10 == 0:
        whole, exponent = whole // 10, exponent + 1
    if exponent >= 0:
        return whole * of.denominator * pow(10, exponent, of.numerator) % of.numerator == 0
    return exponent > -2000 and (Fraction(whole) / 10 ** -exponent) % of == 0


class Judge:
    """jsonschema's verdict on a text. Expressions follow ECMA-262: $ is the very end, \\d and \\w are ASCII. Numbers are
    exact: jsonschema's own are floats, of which 47.4 is no multiple of 0.1; and drafts up to 4 know integers by their text."""

    def __init__(self, schema):
        import jsonschema

        def pattern(validator, wanted, instance, _):
            if isinstance(instance, str) and not matches(wanted, instance):
                yield jsonschema.ValidationError(f"{instance!r} does not match {wanted!r}")

        def multiple(validator, of, instance, _):
            if isinstance(instance, (int, Decimal)) and not isinstance(instance, bool) and not is_multiple(instance, of):
                yield jsonschema.ValidationError(f"{instance!r} is no multiple of {of!r}")

        def is_integer(_, instance):
            return isinstance(instance, (int, Decimal)) and not isinstance(instance, bool) and is_whole(instance)

        schema = json.loads(json.dumps(schema), parse_float=exact)
        checker = jsonschema.FormatChecker(["date", "date-time", "ipv4", "ipv6", "uuid"])
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        types = cls.TYPE_CHECKER
        if cls not in (jsonschema.Draft3Validator, jsonschema.Draft4Validator):
            types = types.redefine("integer", is_integer)
        extended = jsonschema.validators.extend(cls, {"pattern": pattern, "multipleOf": multiple}, type_checker=types)
        self.validator = extended(schema, format_checker=checker)

    def valid(self, text):
        return self.validator.is_valid(json.loads(text, parse_float=exact))


def matches(pattern, text):
    """ECMA-262's reading of an expression, as far as the schemas above need it."""
    if pattern == "^\\p{L}+$":
        return bool(text) and all(unicodedata.category(c).startswith("L") for c in text)
    return re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), text, re.ASCII)


def documents(schema, rng, n):
    """n documents as (text, valid)."""
    judge = Judge(schema)
    out = []
    for i in range(n):
        value = draw(schema, schema, rng)
        if i % 3 == 1:
            value = change(value, rng)
        elif i % 12 == 2:
            value = random_value(rng)
        text = spell(value, rng)
        out.append((text, judge.valid(text)))
    return out
