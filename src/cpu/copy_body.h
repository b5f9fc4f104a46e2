/* The code of cpu/copy.c, which tells the contract; included once a level. */
#include "cpu/copy.h"
#include "cpu/ref/util.h"
#include "cpu/vec_simd.h"

enum { PIECE = 512 };

/* n contiguous float elements from one type to another. */
static void convert_row(void *to, weir_dtype to_dtype, const void *from, weir_dtype from_dtype, int64_t n) {
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)n * weir_dtype_bytes(to_dtype));
    } else if (to_dtype == WEIR_DTYPE_F32) {
        row_to_f32(to, from, from_dtype, n);
    } else if (from_dtype == WEIR_DTYPE_F32) {
        if (to_dtype == WEIR_DTYPE_F16)
            row_from_f32(to, from, WEIR_DTYPE_F16, n);
        else
            row_from_f32(to, from, WEIR_DTYPE_BF16, n);
    } else {
        float piece[PIECE];
        for (int64_t i = 0; i < n; i += PIECE) {
            int64_t m = n - i < PIECE ? n - i : PIECE;
            row_to_f32(piece, (const uint16_t *)from + i, from_dtype, m);
            row_from_f32((uint16_t *)to + i, piece, to_dtype, m);
        }
    }
}

void WR_ISA(wr_kv_write)(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *pages = &step->out, *x = &step->in[1], *table = &step->in[2];
    const int32_t *row_seq = step->in[3].data, *row_pos = step->in[4].data;
    int64_t page_size = pages->shape[1], width = pages->shape[2] * pages->shape[3], n = x->shape[0], begin, end;
    if (wr_tensor_size(pages) == 0) return;
    int64_t useful = n * width / WR_COPY_LEAST + 1;
    if (thread >= useful) return;
    wr_share(n, thread, n_threads < useful ? n_threads : (int)useful, &begin, &end);
    int64_t out_bytes = (int64_t)weir_dtype_bytes(pages->dtype), in_bytes = (int64_t)weir_dtype_bytes(x->dtype);
    for (int64_t t = begin; t < end; t++) {
        int64_t seq = row_seq[t], pos = row_pos[t];
        if (seq < 0 || seq >= table->shape[0] || pos < 0 || pos / page_size >= table->shape[1]) continue;
        int64_t page = ((const int32_t *)table->data)[seq * table->shape[1] + pos / page_size];
        if (page < 0 || page >= pages->shape[0]) continue;
        convert_row((char *)pages->data + (page * page_size + pos % page_size) * width * out_bytes, pages->dtype,
                    (const char *)x->data + t * x->strides[0] * in_bytes, x->dtype, width);
    }
}
