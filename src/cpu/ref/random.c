/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): value i comes from word i % 4 of the block with counter
 * counter + i / 4 (64 bits, the upper two words 0) and key seed. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

void wr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c[0], p1 = UINT64_C(0xCD9E8D57) * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                            (uint32_t)p0};
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u; /* the golden ratio and the square root of 3 minus 1, as in the paper */
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

static void block(const wr_random_args *a, int64_t index, uint32_t out[4]) {
    uint64_t at = a->counter + (uint64_t)index;
    uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)a->seed, (uint32_t)(a->seed >> 32)};
    wr_philox4x32(counter, key, out);
}

/* Box-Muller: words (0, 1) give values 0 and 1, words (2, 3) values 2 and 3, by the cosine and the sine. The first word
 * of a pair is moved up by one step of 2^-24, so that its logarithm is finite. */
static float normal(const uint32_t words[4], int which) {
    const uint32_t *pair = words + which / 2 * 2;
    double u = ((double)(pair[0] >> 8) + 1) * 0x1p-24, v = (double)(pair[1] >> 8) * 0x1p-24;
    double radius = sqrt(-2 * log(u)), angle = 6.283185307179586477 * v;
    return (float)(radius * (which % 2 ? sin(angle) : cos(angle)));
}

void wr_ref_random(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out;
    int64_t n = wr_tensor_size(out), begin, end;
    wr_share((n + 3) / 4, thread, n_threads, &begin, &end);
    for (int64_t b = begin; b < end; b++) {
        uint32_t words[4];
        block(step->args, b, words);
        for (int k = 0; k < 4 && 4 * b + k < n; k++) {
            if (step->op == WR_OP_RANDOM_BITS)
                wr_store_i64(out->data, out->dtype, 4 * b + k, words[k]);
            else if (step->op == WR_OP_RANDOM_UNIFORM)
                wr_store_f32(out->data, out->dtype, 4 * b + k, (float)(words[k] >> 8) * 0x1p-24f);
            else
                wr_store_f32(out->data, out->dtype, 4 * b + k, normal(words, k));
        }
    }
}
