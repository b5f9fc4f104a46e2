"""The output parser of libweir for scripts, by ctypes: parse(text, ...) gives what a client would have collected."""
import ctypes

from libweir import Error, load

CONTENT, REASONING, CALL, ARGUMENTS, CALL_END, FINISH = range(6)


class Options(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("format", "chat_template", "prompt", "tools_json")]
    _fields_.append(("reasoning", ctypes.c_int))


class Event(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("text", ctypes.c_void_p), ("text_bytes", ctypes.c_size_t),
                ("call", ctypes.c_size_t), ("name", ctypes.c_void_p), ("name_bytes", ctypes.c_size_t),
                ("id", ctypes.c_void_p), ("id_bytes", ctypes.c_size_t), ("complete", ctypes.c_bool),
                ("valid", ctypes.c_bool)]


class Result:
    """content, reasoning: bytes. calls: dicts of name, id, arguments (bytes), complete, valid. complete: bool."""

    def __init__(self):
        self.content, self.reasoning, self.calls, self.complete, self.finished = b"", b"", [], None, False

    def take(self, event):
        text = ctypes.string_at(event.text, event.text_bytes)
        call_id = ctypes.string_at(event.id, event.id_bytes)
        assert not self.finished
        if event.kind == CONTENT:
            self.content += text
        elif event.kind == REASONING:
            self.reasoning += text
        elif event.kind == CALL:
            assert event.call == len(self.calls) and (not self.calls or self.calls[-1]["ended"])
            self.calls.append({"name": ctypes.string_at(event.name, event.name_bytes), "id": call_id, "arguments": b"",
                               "complete": False, "valid": False, "ended": False})
        elif event.kind == ARGUMENTS:
            assert event.call == len(self.calls) - 1 and not self.calls[-1]["ended"]
            self.calls[-1]["arguments"] += text
        elif event.kind == CALL_END:
            assert event.call == len(self.calls) - 1 and not self.calls[-1]["ended"]
            self.calls[-1].update(complete=event.complete, valid=event.valid, ended=True)
            self.calls[-1]["id"] += call_id
        else:
            assert event.kind == FINISH and event.call == len(self.calls)
            self.complete, self.finished = event.complete, True

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return repr(vars(self))


class Library:
    def __init__(self, path=None):
        self.lib = load(path)
        self.lib.weir_output_format_name.restype = ctypes.c_char_p
        self.lib.weir_output_format_name.argtypes = [ctypes.c_size_t]
        self.lib.weir_output_format_detect.restype = ctypes.c_char_p
        self.lib.weir_output_format_detect.argtypes = [ctypes.c_char_p]

    def detect(self, template):
        return self.lib.weir_output_format_detect(template.encode()).decode()

    def formats(self):
        names, i = [], 0
        while name := self.lib.weir_output_format_name(i):
            names.append(name.decode())
            i += 1
        return names

    def parse(self, text, format=None, template=None, prompt=None, tools=None, reasoning=0, truncated=False, cuts=()):
        """text: bytes; cuts: where it is divided between calls of feed; tools: JSON text."""
        encode = lambda value: value.encode() if isinstance(value, str) else value
        error, parser = Error(), ctypes.c_void_p()
        options = Options(encode(format), encode(template), encode(prompt), encode(tools), reasoning)
        status = self.lib.weir_output_parser_new(ctypes.byref(options), ctypes.byref(parser), ctypes.byref(error))
        if status:
            raise RuntimeError(error.message.decode())
        events, n, result = ctypes.POINTER(Event)(), ctypes.c_size_t(), Result()
        at = 0
        for cut in [*cuts, len(text), None]:
            if cut is None:
                status = self.lib.weir_output_parser_finish(parser, truncated, ctypes.byref(events), ctypes.byref(n),
                                                            ctypes.byref(error))
            else:
                part = text[at:cut]
                at = cut
                status = self.lib.weir_output_parser_feed(parser, part, ctypes.c_size_t(len(part)),
                                                          ctypes.byref(events), ctypes.byref(n), ctypes.byref(error))
            if status:
                raise RuntimeError(error.message.decode())
            for i in range(n.value):
                result.take(events[i])
        self.lib.weir_output_parser_free(parser)
        return result
