"""Chat templates as `transformers` renders them, by jinja2 itself: what weir's interpreter is compared with."""
import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

NOW = 1700000000  # strftime_now's time in every comparison


class Raised(jinja2.exceptions.TemplateError):
    """What raise_exception raises, told apart from jinja2's own errors."""


class Generation(jinja2.ext.Extension):
    """{% generation %}: its body is a call block, so that what is set in it stays in it."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore")


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW).strftime(form)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, dict=Dict(), namespace=Namespace)
    return env


ENVIRONMENT = environment()


@functools.lru_cache(maxsize=16)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def render(template, variables):
    """{"text": ...}, {"raised": the template's words} or {"error": jinja2's or Python's own}."""
    try:
        return {"text": compiled(template).render(**json.loads(json.dumps(variables)))}
    except Raised as e:
        return {"raised": str(e)}
    except RecursionError:
        return {"error": "recursion", "kind": "RecursionError"}
    except Exception as e:  # whatever a template makes Python do
        return {"error": str(e), "kind": type(e).__name__}
