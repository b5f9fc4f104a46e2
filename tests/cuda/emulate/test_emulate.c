/* Proves the emulation of CUDA threads itself: what lanes, barriers and tensor cores do is compared with plain C, and
 * each kind of misuse must stop with its message. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/emulate/selftest.h"

void wr_emulate_launch(const char *kernel, uint32_t blocks, uint32_t threads, size_t shared_bytes, const void *params);
void wr_emulate_launch_cluster(const char *kernel, uint32_t blocks, uint32_t cluster_blocks, uint32_t threads,
                               size_t shared_bytes, const void *params);
void wr_emulate_order(int order);

static const int orders[] = {0, 1, 7, 12345};

static uint32_t seed = 1;
static uint32_t random_u32(void) { return seed = seed * 1664525u + 1013904223u, seed >> 8; }

/* ---- lanes and barriers ---- */

static void test_lanes_exchange_what_the_manual_says(void **state) {
    (void)state;
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        uint32_t out[16][64];
        memset(out, 0, sizeof(out));
        wr_emulate_order(orders[o]);
        wr_emulate_launch("selftest_lanes", 1, 64, 0, &(selftest_params){.out = out});
        for (uint32_t id = 0; id < 64; id++) {
            const uint32_t lane = id % 32, warp = id - lane, v = 100 + id, base = warp + 100;
            assert_int_equal(out[0][id], base + 5);
            assert_int_equal(out[1][id], base + (lane ^ 3));
            assert_int_equal(out[2][id], lane < 2 ? v : v - 2);
            assert_int_equal(out[3][id], lane > 29 ? v : v + 2);
            assert_int_equal(out[4][id], base + lane / 8 * 8 + 5);
            assert_int_equal(out[5][id], lane % 8 > 4 ? v : v + 3);
            assert_int_equal(out[6][id], 0x49249249u);
            assert_int_equal(out[7][id], warp == 32);
            assert_int_equal(out[8][id], warp == 0);
            assert_int_equal(out[9][id], base + (lane ^ 1));
            assert_int_equal(out[10][id], 4 * (base + (lane ^ 16)) + 1);
            assert_int_equal(out[11][id], lane < 8 ? base + (lane ^ 1) : 0xFFFFFF00u);
            assert_int_equal(out[12][id], 32 * base + 31 * 16);
            assert_int_equal(out[13][id], lane < 16 ? 0xFFFFu : 0);
        }
    }
    wr_emulate_order(0);
}

static void test_blocks_sum_through_shared_memory_and_a_counter(void **state) {
    (void)state;
    enum { N = 5000, BLOCKS = 3 };
    static uint32_t a[N], out[1 + BLOCKS];
    uint32_t sum = 0, counter = 0;
    for (int i = 0; i < N; i++) sum += a[i] = random_u32();
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        counter = 0;
        out[0] = 0;
        wr_emulate_order(orders[o]);
        wr_emulate_launch("selftest_sum", BLOCKS, 256, 0,
                          &(selftest_params){.a = a, .out = out, .counter = &counter, .n = N});
        assert_int_equal(out[0], sum);
    }
    wr_emulate_order(0);
}

enum { LAUNCHERS = 4, PIECE = 3000 };

typedef struct launcher {
    uint32_t a[PIECE], out[4], counter, sum;
} launcher;

static void *launch_often(void *data) {
    launcher *l = data;
    for (int i = 0; i < 10; i++) {
        l->counter = l->out[0] = 0;
        wr_emulate_launch("selftest_sum", 3, 256, 0,
                          &(selftest_params){.a = l->a, .out = l->out, .counter = &l->counter, .n = PIECE});
        if (l->out[0] != l->sum) return "wrong";
    }
    return NULL;
}

static void test_several_threads_launch_at_once(void **state) {
    (void)state;
    static launcher launchers[LAUNCHERS];
    pthread_t threads[LAUNCHERS];
    for (int t = 0; t < LAUNCHERS; t++) {
        for (int i = 0; i < PIECE; i++) launchers[t].sum += launchers[t].a[i] = random_u32();
        assert_int_equal(pthread_create(&threads[t], NULL, launch_often, &launchers[t]), 0);
    }
    for (int t = 0; t < LAUNCHERS; t++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[t], &wrong), 0);
        assert_null(wrong);
    }
}

static void test_bulk_copies_feed_a_pipeline_of_mbarriers(void **state) {
    (void)state;
    enum { N = 64 * 9 };
    static uint32_t _Alignas(16) a[N];
    uint32_t out[9];
    for (int i = 0; i < N; i++) a[i] = random_u32();
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        memset(out, 0, sizeof(out));
        wr_emulate_order(orders[o]);
        wr_emulate_launch("selftest_pipeline", 1, 96, 1024, &(selftest_params){.a = a, .out = out, .n = N});
        for (int i = 0; i < 9; i++) {
            uint32_t sum = 0;
            for (int j = 0; j < 64; j++) sum += a[64 * i + j];
            assert_int_equal(out[i], sum);
        }
    }
    wr_emulate_order(0);
}

/* ---- tensor cores: the products of plain loops ---- */

static float bf16_value(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Values of both signs over 2^-8 .. 2^7. */
static void fill(uint16_t *x, int n) {
    for (int i = 0; i < n; i++) x[i] = (uint16_t)((random_u32() & 0x807F) | (119 + random_u32() % 16) << 7);
}

/* The meaning stated in emulate.h. b(n, k) = b[n * n_stride + k * k_stride]. */
static void product(const uint16_t *a, const uint16_t *b, int m, int n, int k, int n_stride, int k_stride, float *c) {
    for (int r = 0; r < m; r++)
        for (int j = 0; j < n; j++) {
            float total = 0;
            for (int k0 = 0; k0 < k; k0 += 16) {
                double s = 0;
                for (int i = k0; i < k0 + 16; i++)
                    s += (double)bf16_value(a[r * k + i]) * (double)bf16_value(b[j * n_stride + i * k_stride]);
                total = (float)((double)total + s);
            }
            c[r * n + j] = total;
        }
}

/* Which of the values, [count] from 0 upwards, is nearest to |x + tail|; of two the even one. The tail is less than
 * x's last bit and decides only when x alone lies in the middle. */
static uint32_t nearest(__float128 x, __float128 tail, const __float128 *values, uint32_t count) {
    uint32_t low = 0, high = count - 1;
    const __float128 m = x < 0 ? -x : x;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (values[middle] <= m)
            low = middle;
        else
            high = middle;
    }
    const __float128 below = m - values[low], above = values[high] - m;
    if (below != above) return below < above ? low : high;
    if (tail != 0) return (tail < 0) == (x > 0) ? low : high;
    return low % 2 == 0 ? low : high;
}

static float f32_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void test_blocks_of_a_cluster_pass_values_through_shared_memory(void **state) {
    (void)state;
    enum { BLOCKS = 8, THREADS = 64 };
    static float out[BLOCKS * THREADS];
    for (int cluster = 1; cluster <= 8; cluster *= 2)
        for (size_t o = 0; o < 4; o++)
            for (int rounds = 0; rounds <= 5; rounds++) {
                memset(out, 0xFF, sizeof out);
                wr_emulate_order(orders[o]);
                wr_emulate_launch_cluster("selftest_cluster", BLOCKS, (uint32_t)cluster, THREADS, 1040,
                                          &(selftest_params){.out = out, .n = rounds, .k = cluster});
                for (int i = 0; i < BLOCKS * THREADS; i++) {
                    int block = i / THREADS, first = block / cluster * cluster;
                    int from = first + (block - first + 8 * cluster - rounds) % cluster;
                    assert_true(out[i] == (float)(100 * from + i % THREADS));
                }
            }
    wr_emulate_order(0);
}

static void test_blocks_of_a_cluster_copy_to_all_and_store_into_each_other(void **state) {
    (void)state;
    enum { BLOCKS = 8 };
    static uint32_t in[32], out[BLOCKS][64 + 128];
    for (uint32_t i = 0; i < 32; i++) in[i] = 1000 + 7 * i;
    for (uint32_t k = 1; k <= 8; k *= 2)
        for (size_t o = 0; o < 4; o++) {
            memset(out, 0xFF, sizeof out);
            wr_emulate_order(orders[o]);
            wr_emulate_launch_cluster("selftest_cluster_copies", BLOCKS, k, 32, 1040,
                                      &(selftest_params){.a = in, .out = out, .k = (int32_t)k});
            for (uint32_t block = 0; block < BLOCKS; block++) {
                const uint32_t *got = (const uint32_t *)out + block * (8 * k + 128), before = (block + k - 1) % k;
                for (uint32_t i = 0; i < 4 * k; i++) {
                    assert_int_equal(got[i], in[i]);
                    assert_true(f32_of(got[4 * k + i]) == (float)(in[i] + before));
                }
                for (uint32_t i = 0; i < 256; i++) /* matrix, then column, then row */
                    assert_int_equal(((const uint16_t *)(got + 8 * k))[i], i / 64 * 64 + i % 8 * 8 + i / 8 % 8);
            }
        }
    wr_emulate_order(0);
}

static void test_conversions_and_fma_round_once_to_the_nearest(void **state) {
    (void)state;
    enum { N = 20000, BF16S = 0x7F80, F16S = 0x7C00 };
    static __float128 bf16s[BF16S], f16s[F16S];
    static uint32_t in[N][3], out[N][4];
    for (uint32_t i = 0; i < BF16S; i++) bf16s[i] = f32_of(i << 16);
    for (uint32_t i = 0; i < F16S; i++) {
        const int exponent = (int)(i >> 10);
        f16s[i] = (__float128)(exponent ? 1024 + i % 1024 : i) * (exponent ? 1 << (exponent - 1) : 1) / (1 << 24);
    }
    for (int i = 0; i < N; i++) {
        /* Sums in which every distance of exponents occurs, subnormal results too; a[0] lies about f16's range. */
        for (int j = 0; j < 3; j++) in[i][j] = random_u32() << 16 | (random_u32() & 0xFFFF);
        in[i][0] = (in[i][0] & 0x807F807Fu) | (100 + random_u32() % 42) << 23 | (100 + random_u32() % 42) << 7;
        in[i][1] = (in[i][1] & 0x807F807Fu) | (random_u32() % 150) << 23 | (random_u32() % 150) << 7;
        in[i][2] = (in[i][2] & 0x807F807Fu) | (random_u32() % 170) << 23 | (random_u32() % 170) << 7;
        if (i % 2) in[i][0] &= ~0x1FFFu, in[i][0] |= (random_u32() & 1) << 12; /* ties and exact values */
    }
    wr_emulate_launch("selftest_numbers", (N + 63) / 64, 64, 0, &(selftest_params){.a = in, .out = out, .n = N});
    for (int i = 0; i < N; i++) {
        for (int half = 0; half < 2; half++) {
            const int shift = 16 * half;
            const __float128 a = bf16_value((uint16_t)(in[i][0] >> shift)),
                             b = bf16_value((uint16_t)(in[i][1] >> shift)),
                             c = bf16_value((uint16_t)(in[i][2] >> shift));
            const __float128 product = a * b, sum = product + c, back = sum - product;
            const __float128 tail = (product - (sum - back)) + (c - back);
            const uint32_t got = out[i][0] >> shift & 0xFFFF;
            assert_int_equal(got & 0x7FFF, nearest(sum, tail, bf16s, BF16S));
            if (sum != 0) assert_int_equal(got >> 15, sum < 0);
        }
        const float f = f32_of(in[i][0]);
        if (f < 65504 && f > -65504) assert_int_equal(out[i][1] & 0x7FFF, nearest(f, 0, f16s, F16S));
        assert_int_equal(out[i][1] >> 15, in[i][0] >> 31);
        assert_int_equal(out[i][2] & 0x7FFF, nearest(f, 0, bf16s, BF16S));
        if (f < 65504 && f > -65504) {
            const __float128 back = f16s[out[i][1] & 0x7FFF];
            assert_true(f32_of(out[i][3]) == (float)(f < 0 ? -back : back));
        }
    }
}

static void test_mma_is_the_product_by_plain_loads_and_by_ldmatrix(void **state) {
    (void)state;
    enum { K = 64 };
    static uint16_t _Alignas(16) a[16 * K], b[8 * K];
    float want[128], got[128];
    fill(a, 16 * K);
    fill(b, 8 * K);
    for (int transposed = 0; transposed < 2; transposed++)
        for (int what = 0; what < 2; what++) {
            memset(got, 0xFF, sizeof(got));
            wr_emulate_launch(
                "selftest_mma", 1, 32, 1024,
                &(selftest_params){.a = a, .b = b, .out = got, .k = K, .what = what, .transposed = transposed});
            product(a, b, 16, 8, K, transposed ? 1 : K, transposed ? 8 : 1, want);
            assert_memory_equal(got, want, sizeof(got));
        }
}

static void test_mma_f16_is_the_product_of_small_integers(void **state) {
    (void)state;
    static const uint16_t f16_of[] = {0x0000, 0x3C00, 0x4000, 0x4200, 0xC400, 0xC500}; /* 0, 1, 2, 3, -4, -5 */
    static const int value_of[] = {0, 1, 2, 3, -4, -5};
    uint16_t a[16 * 32], b[8 * 32];
    int ia[16 * 32], ib[8 * 32];
    float got[128];
    for (int i = 0; i < 16 * 32; i++) ia[i] = (int)(random_u32() % 6), a[i] = f16_of[ia[i]];
    for (int i = 0; i < 8 * 32; i++) ib[i] = (int)(random_u32() % 6), b[i] = f16_of[ib[i]];
    wr_emulate_launch("selftest_mma", 1, 32, 1024, &(selftest_params){.a = a, .b = b, .out = got, .k = 32, .f16 = 1});
    for (int i = 0; i < 128; i++) {
        int sum = 0;
        for (int k = 0; k < 32; k++) sum += value_of[ia[i / 8 * 32 + k]] * value_of[ib[i % 8 * 32 + k]];
        assert_true(got[i] == (float)sum);
    }
}

static void test_wgmma_is_the_product_for_every_width_and_operand(void **state) {
    (void)state;
    enum { K = 128 };
    static const int widths[] = {8, 16, 32, 64, 96, 128, 256};
    static uint16_t _Alignas(16) a[64 * K], b[256 * K];
    static float want[64 * 256], got[64 * 256];
    fill(a, 64 * K);
    fill(b, 256 * K);
    for (int kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
            static const char *const names[] = {"rs", "rs_tb", "ss"};
            const int n = widths[i];
            const size_t bytes = 64 * (size_t)n * sizeof(float);
            char kernel[40];
            snprintf(kernel, sizeof(kernel), "selftest_%s_%d", names[kind], n);
            memset(got, 0xFF, bytes);
            wr_emulate_order(orders[i % 4]);
            wr_emulate_launch(kernel, 1, 128, 8192 + 4 * 8192, &(selftest_params){.a = a, .b = b, .out = got, .k = K});
            product(a, b, 64, n, K, kind == SELFTEST_RS_TB ? 1 : K, kind == SELFTEST_RS_TB ? n : 1, want);
            assert_memory_equal(got, want, bytes);
        }
    wr_emulate_order(0);
}

/* ---- misuse ---- */

/* Runs selftest_fault in a child; its words on stderr. */
static void fault(int what, int n, char *text, size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static uint16_t _Alignas(16) a[64];
        static float out[128];
        signal(SIGSEGV, SIG_DFL); /* not the handler of cmocka */
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        uint32_t blocks = what >= FAULT_CLUSTER_STUCK ? 2 : 1;
        wr_emulate_launch_cluster("selftest_fault", blocks, blocks, 128, 24640,
                                  &(selftest_params){.a = a, .out = out, .n = n, .what = what});
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while (length + 1 < size && (got = read(ends[0], text + length, size - 1 - length)) > 0) length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (what == FAULT_NONE) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (what != FAULT_NONE && !WIFSIGNALED(status)) fail_msg("fault %d went unseen: %s", what, text);
}

static void test_misuse_stops_with_kernel_thread_and_cause(void **state) {
    (void)state;
    static const struct {
        int what, n;
        const char *words[3];
    } cases[] = {
        {FAULT_MISSING_BARRIER,
         0,
         {"no thread can go on", "threads 0-31,64-127 wait in __syncthreads",
          "threads 32-63 wait in wr_barrier 3, where 32 of 64 are"}},
        {FAULT_DIVERGED_SHUFFLE, 0, {"no thread can go on", "__shfl_xor_sync (mask 0xffffffff)", "__syncthreads"}},
        {FAULT_MBARRIER_STUCK, 0, {"wr_bar_wait for parity 0", "in phase 0, 1 of 1 arrivals", "threads 0-127"}},
        {FAULT_NO_FENCE, 0, {"wgmma without a wr_wgmma_fence"}},
        {FAULT_OPERAND_OVERWRITTEN, 0, {"an operand in shared memory changed"}},
        {FAULT_ACCUMULATOR_WRITTEN, 0, {"accumulator 2 of lane 0 was written before the wait"}},
        {FAULT_NO_WAIT, 0, {"ends while a wgmma is in flight"}},
        {FAULT_SHARED_OVERRUN, 24640, {"bytes behind dynamic shared memory were written"}},
        {FAULT_BARRIER_OVERWRITTEN, 0, {"the mbarrier at 25600 was overwritten"}},
        {FAULT_COPY_MISALIGNED, 0, {"shared address 1032 is not 16-byte aligned"}},
        {FAULT_COPY_OUTSIDE, 24640, {"wr_cp16: 16 bytes at shared address 25664"}},
        {FAULT_BULK_UNAWAITED, 0, {"ended with a bulk copy on its way"}},
        {FAULT_PARTIAL_MMA, 0, {"wr_mma_bf16"}},
        {FAULT_WRONG_MASK, 0, {"in which the calling lane is not"}},
        {FAULT_NO_GRID_WAIT, 0, {"no thread of it called wr_grid_wait"}},
        {FAULT_STACK, 0, {"memory fault"}},
        {FAULT_CLUSTER_STUCK,
         0,
         {"block 0: no thread can go on", "threads 0-127 wait in wr_cluster_wait, where 128 threads are",
          "block 1: no thread can go on"}},
        {FAULT_CLUSTER_ENDED, 0, {"wr_cluster_bar_arrive to block 1, which has ended"}},
        {FAULT_CLUSTER_TWICE, 0, {"wr_cluster_arrive again, without wr_cluster_wait"}},
    };
    char text[4096];
    fault(FAULT_NONE, 0, text, sizeof(text));
    assert_string_equal(text, "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
#ifdef __SANITIZE_ADDRESS__
        if (cases[i].what == FAULT_STACK) continue; /* the sanitizer reports it in its own words */
#endif
        fault(cases[i].what, cases[i].n, text, sizeof(text));
        assert_non_null(strstr(text, "kernel selftest_fault"));
        for (int w = 0; w < 3 && cases[i].words[w]; w++)
            if (!strstr(text, cases[i].words[w])) fail_msg("fault %d says: %s", cases[i].what, text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_exchange_what_the_manual_says),
        cmocka_unit_test(test_blocks_sum_through_shared_memory_and_a_counter),
        cmocka_unit_test(test_several_threads_launch_at_once),
        cmocka_unit_test(test_bulk_copies_feed_a_pipeline_of_mbarriers),
        cmocka_unit_test(test_blocks_of_a_cluster_pass_values_through_shared_memory),
        cmocka_unit_test(test_blocks_of_a_cluster_copy_to_all_and_store_into_each_other),
        cmocka_unit_test(test_conversions_and_fma_round_once_to_the_nearest),
        cmocka_unit_test(test_mma_is_the_product_by_plain_loads_and_by_ldmatrix),
        cmocka_unit_test(test_mma_f16_is_the_product_of_small_integers),
        cmocka_unit_test(test_wgmma_is_the_product_for_every_width_and_operand),
        cmocka_unit_test(test_misuse_stops_with_kernel_thread_and_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
