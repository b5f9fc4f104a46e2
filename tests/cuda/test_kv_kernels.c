/* Keys and values into their pages on the emulated card: every kernel against the CPU's reference. */
#include "array/kv.h"
#include "cuda/rows_test.h"

static const weir_dtype floats[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};

enum { TOKENS = 8 };

/* Two sequences of three pages, of five. Rows of no sequence, positions behind the table, pages that are none (9 and
 * -1), a negative position, sequence 2 of 2. */
static void fill_rows(int page_size, wr_tensor *table, wr_tensor *seqs, wr_tensor *at) {
    static const int32_t blocks[] = {4, 0, 9, 2, -1, 1};
    static const int32_t seq[TOKENS] = {0, 1, -1, 0, 1, 0, 1, 2};
    const int32_t pos[TOKENS] = {
        0, 3 * page_size - 1, 0, 2 * page_size - 1, page_size - 1, 2 * page_size + 1, page_size, -1};
    *table = TENSOR(WEIR_DTYPE_I32, 2, 3), *seqs = TENSOR(WEIR_DTYPE_I32, TOKENS), *at = TENSOR(WEIR_DTYPE_I32, TOKENS);
    memcpy(table->data, blocks, sizeof blocks), memcpy(seqs->data, seq, sizeof seq), memcpy(at->data, pos, sizeof pos);
}

/* The step's rows give the bits of the CPU's in both states, which change in no other place. */
static void check_states(wr_step *step, int n_states, double units) {
    wr_tensor before[2], want[2];
    for (int i = 0; i < n_states; i++) {
        wr_tensor *pages = &step->in[i];
        fill(pages, 8 + (uint64_t)i, 1);
        before[i] = new_tensor(pages->dtype, 0, 4, pages->shape),
        want[i] = new_tensor(pages->dtype, 0, 4, pages->shape);
        memcpy(before[i].data, pages->data, tensor_bytes(pages)),
            memcpy(want[i].data, pages->data, tensor_bytes(pages));
    }
    wr_tensor in[8];
    memcpy(in, step->in, (size_t)step->n_in * sizeof *in);
    for (int i = 0; i < n_states; i++) in[i] = want[i];
    wr_step plain = *step;
    plain.in = in;
    plain.out = want[0];
    wr_cpu_ref(step->op)(&plain, 0, 1);
    FOR_EACH_FITTING(row, wr_cuda_kv_rows(step->op), step) {
        for (int i = 0; i < n_states; i++) memcpy(step->in[i].data, before[i].data, tensor_bytes(&before[i]));
        run_row(row, step, 0);
        for (int i = 0; i < n_states; i++) {
            wr_step state = *step;
            state.out = step->in[i];
            if (units == 0)
                compare_bits(row, &state, &want[i]);
            else
                compare(row, &state, &want[i], units * unit_of(state.out.dtype) + 0x1p-22, 0x1p-22);
        }
    }
    for (int i = 0; i < n_states; i++) free_tensor(&before[i]), free_tensor(&want[i]);
}

static void check_write(weir_dtype page_type, weir_dtype type, int64_t heads, int64_t width, int shift, bool tiled) {
    int page_size = tiled ? WR_KV_TILE : 4;
    wr_tensor pages = SHIFTED(page_type, tiled ? 0 : shift, 5, page_size, heads, wr_kv_columns(tiled, width));
    wr_tensor x = SHIFTED(type, shift, TOKENS, heads, width), table, seqs, at;
    fill_rows(page_size, &table, &seqs, &at);
    fill(&x, 7, 1);
    wr_step step = {.op = WR_OP_KV_WRITE,
                    .args = &(wr_kv_args){.tiled = tiled},
                    .n_in = 5,
                    .in = (wr_tensor[]){pages, x, table, seqs, at},
                    .out = pages};
    check_states(&step, 1, 0);
    free_tensor(&pages), free_tensor(&x), free_tensor(&table), free_tensor(&seqs), free_tensor(&at);
}

static void writes_put_rows_in_their_places_and_nothing_else(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int u = 0; u < 3; u++)
            for (int tiled = 0; tiled < 2; tiled++) {
                check_write(floats[t], floats[u], 2, 64, 0, tiled);
                check_write(floats[t], floats[u], 1, 8, 1, tiled);
                check_write(floats[t], floats[u], 3, 7, 0, tiled);
                check_write(floats[t], floats[u], 2, 80, 1, tiled);
            }
}

/* k and v as columns of one wider matrix, as the model has them. */
static void check_append(weir_dtype page_type, weir_dtype type, int64_t d, int64_t e, int64_t half, bool interleaved,
                         bool tiled) {
    enum { HEADS = 2 };
    int page_size = tiled ? WR_KV_TILE : 4;
    wr_tensor keys = TENSOR(page_type, 5, page_size, HEADS, wr_kv_columns(tiled, d));
    wr_tensor values = TENSOR(page_type, 5, page_size, HEADS, wr_kv_columns(tiled, e));
    wr_tensor both = TENSOR(type, TOKENS, 8 + HEADS * (d + e)), k = both, v = both, table, seqs, at;
    wr_tensor rope = TENSOR(WEIR_DTYPE_F32, TOKENS, 2, half);
    fill_rows(page_size, &table, &seqs, &at);
    fill(&both, 7, 1), fill(&rope, 9, 1);
    int64_t row = both.strides[0];
    for (int i = 0; i < 2; i++) {
        wr_tensor *x = i ? &v : &k;
        int64_t width = i ? e : d;
        x->data = wr_at(&both, 8 + (i ? HEADS * d : 0));
        x->n_dims = 3;
        x->shape[1] = HEADS, x->shape[2] = width;
        x->strides[0] = row, x->strides[1] = width, x->strides[2] = 1;
    }
    wr_step step = {.op = WR_OP_KV_APPEND,
                    .args = &(wr_kv_args){.tiled = tiled, .has_rope = half > 0, .interleaved = interleaved},
                    .n_in = 7 + (half > 0),
                    .in = (wr_tensor[]){keys, values, k, v, table, seqs, at, rope},
                    .out = keys};
    check_states(&step, 2, half ? 2 : 0);
    free_tensor(&keys), free_tensor(&values), free_tensor(&both), free_tensor(&rope);
    free_tensor(&table), free_tensor(&seqs), free_tensor(&at);
}

static void appends_write_rotated_keys_and_values(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int u = 0; u < 3; u++)
            for (int tiled = 0; tiled < 2; tiled++) {
                check_append(floats[t], floats[u], 64, 64, 32, false, tiled);
                check_append(floats[t], floats[u], 96, 64, 16, false, tiled);
                check_append(floats[t], floats[u], 80, 80, 36, true, tiled);
                check_append(floats[t], floats[u], 24, 40, 0, false, tiled);
                check_append(floats[t], floats[u], 20, 7, 5, true, tiled);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_put_rows_in_their_places_and_nothing_else),
        cmocka_unit_test(appends_write_rotated_keys_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
