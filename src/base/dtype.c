/* Owns the tables behind weir_dtype and weir_quant_mode. */
#include "base/dtype.h"

const char *weir_dtype_name(weir_dtype dtype) {
    static const char *const names[] = {
#define NAME(code, name, bytes) name,
        WEIR_DTYPE_LIST(NAME)
#undef NAME
    };
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? names[dtype] : "?";
}

size_t weir_dtype_bytes(weir_dtype dtype) {
    static const uint8_t sizes[] = {
#define BYTES(code, name, bytes) bytes,
        WEIR_DTYPE_LIST(BYTES)
#undef BYTES
    };
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? sizes[dtype] : 0;
}

static const struct {
    const char *name;
    uint16_t values, bytes;
} quants[] = {
#define ROW(code, name, values, bytes) {name, values, bytes},
    WEIR_QUANT_LIST(ROW)
#undef ROW
};

const char *weir_quant_name(weir_quant_mode mode) {
    return (unsigned)mode < WEIR_QUANT_COUNT ? quants[mode].name : "?";
}
int64_t wr_quant_block_values(weir_quant_mode mode) { return wr_quant_is_gguf(mode) ? quants[mode].values : 0; }
int64_t wr_quant_block_bytes(weir_quant_mode mode) { return wr_quant_is_gguf(mode) ? quants[mode].bytes : 0; }
