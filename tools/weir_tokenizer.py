"""weir's tokenizers in Python, by ctypes on libweir.so."""
import ctypes as c

import libweir

ADD_SPECIAL, PARSE_SPECIAL = 1, 2
SKIP_SPECIAL = 1


class Encoding(c.Structure):
    _fields_ = [("ids", c.POINTER(c.c_int32)), ("spans", c.POINTER(c.c_size_t * 2)), ("n", c.c_size_t)]


def load():
    lib = libweir.load()
    lib.weir_tokenizer_open.argtypes = [c.c_char_p, c.POINTER(c.c_void_p), c.c_void_p]
    lib.weir_tokenizer_close.argtypes = [c.c_void_p]
    lib.weir_tokenizer_encode_new.argtypes = [c.c_void_p, c.c_char_p, c.c_size_t, c.c_uint, c.c_bool,
                                              c.POINTER(Encoding), c.c_void_p]
    lib.weir_tokenizer_encode.argtypes = [c.c_void_p, c.c_char_p, c.c_size_t, c.c_uint, c.c_void_p, c.c_size_t,
                                          c.POINTER(c.c_size_t), c.c_void_p]
    lib.weir_encoding_deinit.argtypes = [c.POINTER(Encoding)]
    lib.weir_tokenizer_decode.argtypes = [c.c_void_p, c.POINTER(c.c_int32), c.c_size_t, c.c_uint,
                                          c.POINTER(c.c_void_p), c.POINTER(c.c_size_t), c.c_void_p]
    lib.weir_text_free.argtypes = [c.c_void_p]
    lib.weir_token_decoder_init.argtypes = [c.c_void_p, c.c_void_p, c.c_uint]
    lib.weir_token_decoder_push.argtypes = [c.c_void_p, c.c_int32, c.c_char_p, c.c_size_t, c.POINTER(c.c_size_t),
                                            c.c_void_p]
    lib.weir_token_decoder_finish.argtypes = [c.c_void_p, c.c_char_p, c.c_size_t]
    lib.weir_token_decoder_finish.restype = c.c_size_t
    lib.weir_tokenizer_push_bytes_max.argtypes = [c.c_void_p]
    lib.weir_tokenizer_push_bytes_max.restype = c.c_size_t
    lib.weir_tokenizer_vocab_size.argtypes = [c.c_void_p]
    return lib


class Tokenizer:
    lib = None

    def __init__(self, path):
        Tokenizer.lib = Tokenizer.lib or load()
        self.handle, error = c.c_void_p(), libweir.Error()
        if self.lib.weir_tokenizer_open(str(path).encode(), c.byref(self.handle), c.byref(error)) != 0:
            raise RuntimeError(f"{path}: {error.message.decode()}")
        self.room = self.lib.weir_tokenizer_push_bytes_max(self.handle)
        self.buffer = c.create_string_buffer(self.room)
        self.size = self.lib.weir_tokenizer_vocab_size(self.handle)

    def close(self):
        self.lib.weir_tokenizer_close(self.handle)

    def encode(self, data, flags, spans=False):
        """ids, or (ids, [(begin, end)]) in bytes."""
        e = Encoding()
        if self.lib.weir_tokenizer_encode_new(self.handle, data, len(data), flags, spans, c.byref(e), None) != 0:
            raise RuntimeError("encode failed")
        ids = e.ids[:e.n]
        places = [tuple(e.spans[i]) for i in range(e.n)] if spans else None
        self.lib.weir_encoding_deinit(c.byref(e))
        return (ids, places) if spans else ids

    def count(self, data, flags):
        n = c.c_size_t()
        if self.lib.weir_tokenizer_encode(self.handle, data, len(data), flags, None, 0, c.byref(n), None) != 0:
            raise RuntimeError("encode failed")
        return n.value

    def decode(self, ids, flags):
        array = (c.c_int32 * len(ids))(*ids)
        text, n = c.c_void_p(), c.c_size_t()
        if self.lib.weir_tokenizer_decode(self.handle, array, len(ids), flags, c.byref(text), c.byref(n), None) != 0:
            raise RuntimeError("decode failed")
        out = c.string_at(text, n.value)
        self.lib.weir_text_free(text)
        return out

    def stream(self, ids, flags):
        """The parts that come out, one a token and one at the end."""
        decoder, n, parts = c.create_string_buffer(256), c.c_size_t(), []
        self.lib.weir_token_decoder_init(decoder, self.handle, flags)
        for i in ids:
            if self.lib.weir_token_decoder_push(decoder, i, self.buffer, self.room, c.byref(n), None) != 0:
                raise RuntimeError("push failed")
            parts.append(c.string_at(self.buffer, n.value))
        n = self.lib.weir_token_decoder_finish(decoder, self.buffer, self.room)
        return parts + [c.string_at(self.buffer, n)]
