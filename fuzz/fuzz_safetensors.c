/* The safetensors reader on any bytes: opened from memory, every tensor's bytes read. */
#include <stdint.h>

#include "file/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_safetensors *st;
    weir_error err;
    if (wr_safetensors_open_memory(data, size, "fuzz", &st, &err) != WEIR_OK) return 0;
    volatile uint8_t sum = 0;
    for (int64_t i = 0; i < wr_safetensors_n_tensors(st); i++) {
        const wr_safetensors_tensor *t = wr_safetensors_tensor_at(st, i);
        if (wr_safetensors_tensor_find(st, t->name) != t) __builtin_trap();
        for (size_t k = 0; k < t->bytes; k++) sum = (uint8_t)(sum + t->data[k]);
    }
    wr_safetensors_close(st);
    return 0;
}
