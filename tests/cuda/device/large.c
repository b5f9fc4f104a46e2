/* Arrays of more than 2^31 elements: whatever counts elements or bytes in 32 bits goes wrong in them. Most cases work
 * row by row: the card computes all rows, the CPU's reference the same few at the beginning, around element 2^31 and at
 * the end; the inputs follow from the place. The others have results that are known. A case for which the device has
 * too little memory says so. --quick: small arrays, which show that the cases themselves are right. */
#include "device.h"

#include "array/program.h"
#include "base/dtype.h"

enum { COLS = 1024, LOOKED_AT = 3 };

static device_args args;
static weir_device *cuda, *cpu;
static bool good = true;

static int64_t border(void) { return args.quick ? 1 << 14 : (int64_t)1 << 31; }
static int64_t rows_of(int64_t cols) { return border() / cols + 5; }

/* ---- inputs ---- */

static weir_array *numbers(weir_graph *g, int64_t first, int64_t n) {
    return weir_arange(g, WEIR_DTYPE_I32, (double)first, (double)(first + n), 1);
}

/* A prime, so that what lies 2^k elements away is something else. */
enum { PRIME = 1021, MIDDLE = 500 };

static int64_t integer_at(int64_t row, int64_t col) { return (row * 37 + col * 11) % PRIME; }

/* i32 [n, cols], the rows first .. first + n - 1 of integer_at. */
static weir_array *integers(weir_graph *g, int64_t first, int64_t n, int64_t cols) {
    weir_array *r = weir_mul(weir_reshape(numbers(g, first, n), 2, (int64_t[]){n, 1}), weir_scalar_i32(g, 37));
    weir_array *c = weir_mul(numbers(g, 0, cols), weir_scalar_i32(g, 11));
    return weir_remainder(weir_add(r, c), weir_scalar_i32(g, PRIME));
}

/* i32, from -500 to 520. */
static weir_array *centred(weir_graph *g, int64_t first, int64_t n, int64_t cols) {
    return weir_sub(integers(g, first, n, cols), weir_scalar_i32(g, MIDDLE));
}

/* f32, multiples of 1/64. */
static weir_array *values(weir_graph *g, int64_t first, int64_t n) {
    return weir_mul(weir_cast(centred(g, first, n, COLS), WEIR_DTYPE_F32), weir_scalar_f32(g, 1.0f / 64));
}

/* Multiples of 1/4 from -2 to 2: sums of products of two are exact in any order. */
static weir_array *factors(weir_graph *g, int64_t first, int64_t n, int64_t cols, weir_dtype dtype) {
    weir_array *x = weir_remainder(integers(g, first, n, cols), weir_scalar_i32(g, 17));
    x = weir_cast(weir_sub(x, weir_scalar_i32(g, 8)), WEIR_DTYPE_F32);
    return weir_cast(weir_mul(x, weir_scalar_f32(g, 0.25f)), dtype);
}

/* ---- cases by row: rows first .. first + n - 1 ---- */

static weir_array *elementwise(weir_graph *g, int64_t first, int64_t n) {
    weir_array *x = values(g, first, n);
    return weir_add(weir_mul(weir_silu(x), x), weir_scalar_f32(g, 0.25f));
}
static weir_array *arange(weir_graph *g, int64_t first, int64_t n) {
    weir_array *x = weir_arange(g, WEIR_DTYPE_I64, (double)(first * COLS), (double)((first + n) * COLS), 1);
    return weir_reshape(x, 2, (int64_t[]){n, COLS});
}
static weir_array *random_bits(weir_graph *g, int64_t first, int64_t n) {
    return weir_random_bits(g, 2, (int64_t[]){n, COLS}, 5, (uint64_t)first * (COLS / 4));
}
static weir_array *to_bf16(weir_graph *g, int64_t first, int64_t n) {
    return weir_cast(weir_cast(arange(g, first, n), WEIR_DTYPE_F32), WEIR_DTYPE_BF16);
}
static weir_array *to_i8(weir_graph *g, int64_t first, int64_t n) {
    return weir_cast(random_bits(g, first, n), WEIR_DTYPE_I8);
}
static weir_array *transposed(weir_graph *g, int64_t first, int64_t n) {
    weir_array *x = weir_reshape(random_bits(g, first, n), 3, (int64_t[]){n, 2, COLS / 2});
    return weir_contiguous(weir_transpose(x, (int[]){0, 2, 1}));
}
static weir_array *sum(weir_graph *g, int64_t first, int64_t n) {
    return weir_sum(values(g, first, n), 1, (int[]){1}, true);
}
static weir_array *largest(weir_graph *g, int64_t first, int64_t n) {
    return weir_max(random_bits(g, first, n), 1, (int[]){1}, true);
}
static weir_array *argmax(weir_graph *g, int64_t first, int64_t n) { return weir_argmax(random_bits(g, first, n), 1); }
static weir_array *logsumexp(weir_graph *g, int64_t first, int64_t n) {
    return weir_logsumexp(values(g, first, n), 1, (int[]){1}, true);
}
static weir_array *softmax(weir_graph *g, int64_t first, int64_t n) { return weir_softmax(values(g, first, n), 1); }
static weir_array *rms_norm(weir_graph *g, int64_t first, int64_t n) {
    return weir_rms_norm(values(g, first, n), weir_reshape(values(g, 3, 1), 1, (int64_t[]){COLS}), 1e-5f);
}
static weir_array *layer_norm(weir_graph *g, int64_t first, int64_t n) {
    weir_array *weight = weir_reshape(values(g, 3, 1), 1, (int64_t[]){COLS});
    return weir_layer_norm(values(g, first, n), weight, weight, 1e-5f);
}
static weir_array *cumsum(weir_graph *g, int64_t first, int64_t n) {
    return weir_cumsum(values(g, first, n), 1, false, false);
}
static weir_array *sort(weir_graph *g, int64_t first, int64_t n) {
    return weir_sort(random_bits(g, first, n), 1, true);
}
static weir_array *top_k(weir_graph *g, int64_t first, int64_t n) { return weir_arg_top_k(values(g, first, n), 1, 4); }
static weir_array *concat(weir_graph *g, int64_t first, int64_t n) {
    return weir_concat((weir_array *[]){values(g, first, n), values(g, first + 1, n)}, 2, 1);
}
/* In halves: the second begins behind 2^30 elements and ends behind 2^31. */
static weir_array *concat_rows(weir_graph *g, int64_t first, int64_t n) {
    int64_t half = n / 2;
    return weir_concat((weir_array *[]){values(g, first, half), values(g, first + half, n - half)}, 2, 0);
}
static weir_array *pad(weir_graph *g, int64_t first, int64_t n) {
    return weir_pad(values(g, first, n), (int64_t[]){0, 1}, (int64_t[]){0, 2}, 0.5);
}
static weir_array *some_of_512(weir_graph *g, int64_t first, int64_t n) {
    return weir_remainder(weir_mul(numbers(g, first, n), weir_scalar_i32(g, 37)), weir_scalar_i32(g, 509));
}
static weir_array *take(weir_graph *g, int64_t first, int64_t n) {
    return weir_take(values(g, 0, 512), some_of_512(g, first, n), 0);
}
static weir_array *take_along(weir_graph *g, int64_t first, int64_t n) {
    return weir_take_along(random_bits(g, first, n), integers(g, first, n, COLS), 1);
}
static weir_array *embedding(weir_graph *g, int64_t first, int64_t n) {
    wr_linear_args a = {.quant = {WEIR_QUANT_AFFINE, 64, 4},
                        .weight_dtype = WEIR_DTYPE_BF16,
                        .out_dtype = WEIR_DTYPE_F32,
                        .global_scale = 1,
                        .experts = 1,
                        .rows = 512,
                        .cols = COLS};
    int64_t groups[] = {512, COLS / 64};
    return wr_embedding(some_of_512(g, first, n), &a, weir_random_bits(g, 2, (int64_t[]){512, COLS * 4 / 32}, 9, 0),
                        weir_full(g, WEIR_DTYPE_BF16, 2, groups, 0.125), weir_full(g, WEIR_DTYPE_BF16, 2, groups, -1));
}
static weir_array *linear(weir_graph *g, int64_t first, int64_t n) {
    return weir_linear(factors(g, first, n, 64, WEIR_DTYPE_BF16), factors(g, 5, COLS, 64, WEIR_DTYPE_BF16));
}
static weir_array *quantized(weir_graph *g, int64_t first, int64_t n) {
    int64_t groups[] = {COLS, 1};
    return weir_quantized_matmul(factors(g, first, n, 64, WEIR_DTYPE_F32),
                                 weir_random_bits(g, 2, (int64_t[]){COLS, 64 * 4 / 32}, 9, 0),
                                 weir_full(g, WEIR_DTYPE_BF16, 2, groups, 0.125),
                                 weir_full(g, WEIR_DTYPE_BF16, 2, groups, -1), (weir_quant){WEIR_QUANT_AFFINE, 64, 4});
}
static weir_array *matmul(weir_graph *g, int64_t first, int64_t n) {
    return weir_matmul(factors(g, first, n, 16, WEIR_DTYPE_F32), factors(g, 5, 16, COLS, WEIR_DTYPE_F32));
}
static weir_array *rope(weir_graph *g, int64_t first, int64_t n) {
    weir_array *x = weir_reshape(values(g, first, n), 3, (int64_t[]){n, 8, COLS / 8});
    return weir_rope(x, weir_bit_and(numbers(g, first, n), weir_scalar_i32(g, 65535)), &(weir_rope_options){0});
}

typedef struct large_case {
    const char *name;
    weir_array *(*make)(weir_graph *g, int64_t first, int64_t n);
    double share; /* of the largest value that a result may be off; 0: equal */
} large_case;

static const large_case cases[] = {
    {"element-wise", elementwise, 1e-5},
    {"arange, i64", arange, 0},
    {"random bits", random_bits, 0},
    {"cast i64 to bf16", to_bf16, 0},
    {"cast u32 to i8", to_i8, 0},
    {"copy of a transposed view", transposed, 0},
    {"sum of rows", sum, 1e-5},
    {"max of rows", largest, 0},
    {"argmax of rows", argmax, 0},
    {"logsumexp of rows", logsumexp, 1e-5},
    {"softmax", softmax, 1e-5},
    {"rms_norm", rms_norm, 1e-5},
    {"layer_norm", layer_norm, 1e-5},
    {"cumsum of rows", cumsum, 1e-5},
    {"sort of rows", sort, 0},
    {"arg_top_k of rows", top_k, 0},
    {"concat of columns", concat, 0},
    {"concat of rows", concat_rows, 0},
    {"pad", pad, 0},
    {"take", take, 0},
    {"take_along", take_along, 0},
    {"embedding, affine 4 bits", embedding, 0},
    {"linear, bf16", linear, 0},
    {"linear, affine 4 bits", quantized, 0},
    {"matmul, f32", matmul, 0},
    {"rope", rope, 1e-5},
};

/* ---- running ---- */

static void report(const char *name, int64_t elements, double seconds, bool is_right) {
    if (!is_right) good = false;
    print_json("large", "\"case\": \"%s\", \"elements\": %lld, \"seconds\": %.3f, \"passed\": %s", name,
               (long long)elements, seconds, is_right ? "true" : "false");
}

/* Is there room for so much? If not, that is told. */
static bool has_room(const char *name, size_t bytes) {
    size_t freed, free_bytes, total;
    MUST(cuda->backend->runtime->trim(cuda->context, &freed, err)); /* what the case before left in the pool */
    MUST(cuda->backend->runtime->memory(cuda->context, &free_bytes, &total, err));
    if (bytes <= free_bytes - free_bytes / 32) return true;
    print_json("large", "\"case\": \"%s\", \"skipped\": \"it needs %zu bytes, %zu of %zu are free\"", name, bytes,
               free_bytes, total);
    return false;
}

/* A program over the outputs, run once; NULL: there is no room, or something is wrong. Both are told. */
static wr_program *run_program(const char *name, weir_array *const *outputs, int n) {
    size_t arena;
    weir_error fault = {0};
    wr_program *program = NULL;
    weir_status status = wr_program_plan(outputs, n, NULL, &arena, &fault);
    if (status == WEIR_OK && !has_room(name, arena)) return NULL;
    if (status == WEIR_OK) status = wr_program_new(outputs, n, NULL, &program, &fault);
    if (status == WEIR_OK) status = wr_program_run(program, &fault);
    if (status == WEIR_OK) return program;
    complain("%s: %s", name, fault.message);
    report(name, 0, 0, false);
    wr_program_free(program);
    return NULL;
}

/* Elements [first, first + n) of an output; to be freed. */
static void *download(const wr_program *program, int output, int64_t first, int64_t n) {
    const wr_tensor *t = wr_program_output(program, output);
    size_t size = weir_dtype_bytes(t->dtype);
    void *to = malloc((size_t)n * size);
    if (!to) exit(1);
    MUST(wr_device_download(cuda, to, (const char *)t->data + (size_t)first * size, (size_t)n * size, err));
    return to;
}

static double number(weir_dtype dtype, const void *p, int64_t i) {
    switch (dtype) {
    case WEIR_DTYPE_F32: return (double)((const float *)p)[i];
    case WEIR_DTYPE_BF16: return (double)wr_bf16_to_f32(((const uint16_t *)p)[i]);
    case WEIR_DTYPE_I8: return ((const int8_t *)p)[i];
    case WEIR_DTYPE_I32: return ((const int32_t *)p)[i];
    case WEIR_DTYPE_U32: return ((const uint32_t *)p)[i];
    case WEIR_DTYPE_I64: return (double)((const int64_t *)p)[i];
    default: return NAN;
    }
}

/* Rows [first, first + LOOKED_AT) of the result against the CPU's. */
static bool same_rows(const large_case *c, const wr_program *program, int64_t first, int64_t cols) {
    weir_graph *g;
    MUST(weir_graph_new(cpu, &g, err));
    weir_array *y = c->make(g, first, LOOKED_AT);
    MUST(weir_eval_reference(&y, 1, err));
    weir_dtype dtype = weir_array_dtype(y);
    int64_t n = LOOKED_AT * cols;
    bool same = weir_array_size(y) == n;
    if (!same) complain("%s: %lld elements on the CPU, not %lld", c->name, (long long)weir_array_size(y), (long long)n);
    void *got = download(program, 0, first * cols, n);
    const void *want = weir_array_data(y);
    double most = 0;
    for (int64_t i = 0; i < n && same; i++) most = fmax(most, fabs(number(dtype, want, i)));
    for (int64_t i = 0; i < n && same; i++) {
        double a = number(dtype, got, i), b = number(dtype, want, i);
        same = fabs(a - b) <= c->share * (fabs(b) + most);
        if (!same)
            complain("%s: row %lld, column %lld is %.9g, not %.9g", c->name, (long long)(first + i / cols),
                     (long long)(i % cols), a, b);
    }
    free(got);
    weir_graph_free(g);
    return same;
}

static void run_case(const large_case *c) {
    weir_graph *g;
    int64_t rows = rows_of(COLS);
    double start = now_s();
    MUST(weir_graph_new(cuda, &g, err));
    weir_array *y = c->make(g, 0, rows);
    wr_program *program = run_program(c->name, &y, 1);
    weir_graph_free(g);
    if (!program) return;
    const wr_tensor *t = wr_program_output(program, 0);
    int64_t size = 1;
    for (int i = 0; i < t->n_dims; i++) size *= t->shape[i];
    int64_t cols = size / rows, firsts[] = {0, border() / COLS - 1, border() / cols - 1, rows - LOOKED_AT};
    bool is_right = true;
    for (int i = 0; i < 4; i++)
        if (firsts[i] + LOOKED_AT <= rows) is_right = same_rows(c, program, firsts[i], cols) && is_right;
    wr_program_free(program);
    report(c->name, rows * COLS, now_s() - start, is_right);
}

/* ---- cases with known results ---- */

/* The result holds these rows of `values`; a row below 0 is all zeros. */
static bool holds_rows(const wr_program *program, int output, const int64_t *at, const int64_t *rows, int n) {
    bool same = true;
    for (int i = 0; i < n && same; i++) {
        float *got = download(program, output, at[i] * COLS, COLS);
        for (int64_t k = 0; k < COLS && same; k++) {
            float want = rows[i] < 0 ? 0 : (float)(integer_at(rows[i], k) - MIDDLE) / 64;
            same = got[k] == want;
            if (!same)
                complain("row %lld, column %lld is %g, not %g", (long long)at[i], (long long)k, (double)got[k],
                         (double)want);
        }
        free(got);
    }
    return same;
}

static void far_reads(void) {
    weir_graph *g;
    int64_t n = rows_of(COLS), edge = border() / COLS;
    int64_t rows[] = {n - 1, edge, 0, edge - 1, edge + 1, n - 2}, places[] = {0, 1, 2, 3, 4, 5}, back[6];
    for (int i = 0; i < 6; i++) back[i] = n - 1 - i;
    double start = now_s();
    MUST(weir_graph_new(cuda, &g, err));
    weir_array *x = values(g, 0, n), *wanted = weir_from_data(g, WEIR_DTYPE_I64, 1, (int64_t[]){6}, rows);
    weir_array *last = weir_slice(x, (int64_t[]){n - 1, 0}, (int64_t[]){n - 7, COLS}, (int64_t[]){-1, 1});
    weir_array *out[] = {weir_take(x, wanted, 0), weir_contiguous(last)};
    wr_program *program = run_program("take and slice of the far end", out, 2);
    weir_graph_free(g);
    if (!program) return;
    bool is_right = holds_rows(program, 0, places, rows, 6);
    is_right = holds_rows(program, 1, places, back, 6) && is_right;
    wr_program_free(program);
    report("take and slice of the far end", n * COLS, now_s() - start, is_right);
}

/* Three rows of zeros become rows 100, 101, 102 of `values`. */
static void scattered(const char *name, bool adds) {
    weir_graph *g;
    int64_t n = rows_of(COLS), edge = border() / COLS, targets[] = {0, edge, n - 1};
    double start = now_s();
    MUST(weir_graph_new(cuda, &g, err));
    weir_array *x = weir_full(g, WEIR_DTYPE_F32, 2, (int64_t[]){n, COLS}, 0);
    weir_array *rows = weir_from_data(g, WEIR_DTYPE_I64, 2, (int64_t[]){3, 1}, targets);
    rows = weir_contiguous(weir_broadcast(rows, 2, (int64_t[]){3, COLS}));
    weir_array *y =
        adds ? weir_scatter_add(x, rows, values(g, 100, 3), 0) : weir_scatter(x, rows, values(g, 100, 3), 0);
    wr_program *program = run_program(name, &y, 1);
    weir_graph_free(g);
    if (!program) return;
    int64_t at[] = {0, 1, edge - 1, edge, edge + 1, n - 2, n - 1}, want[] = {100, -1, -1, 101, -1, -1, 102};
    bool is_right = holds_rows(program, 0, at, want, 7);
    wr_program_free(program);
    report(name, n * COLS, now_s() - start, is_right);
}

/* Over everything, and over all rows of each column. */
static void sums(void) {
    weir_graph *g;
    int64_t n = rows_of(COLS), total = 0;
    double start = now_s();
    MUST(weir_graph_new(cuda, &g, err));
    weir_array *x = centred(g, 0, n, COLS);
    weir_array *out[] = {weir_sum(x, 0, NULL, false), weir_sum(x, 1, (int[]){0}, false), weir_max(x, 0, NULL, false)};
    wr_program *program = run_program("sum and max of all, sum of columns", out, 3);
    weir_graph_free(g);
    if (!program) return;
    int64_t *got_total = download(program, 0, 0, 1), *got = download(program, 1, 0, COLS);
    int32_t *got_max = download(program, 2, 0, 1);
    bool is_right = *got_max == PRIME - 1 - MIDDLE;
    for (int64_t c = 0; c < COLS; c++) {
        int64_t want = 0;
        /* Each so many rows hold every value once. */
        for (int64_t r = n - n % PRIME; r < n; r++) want += integer_at(r, c) - MIDDLE;
        want += n / PRIME * (PRIME * (PRIME - 1) / 2 - PRIME * MIDDLE);
        is_right = is_right && got[c] == want;
        total += want;
    }
    if (*got_total != total || !is_right)
        complain("the sum of all is %lld, not %lld, or that of a column is wrong", (long long)*got_total,
                 (long long)total);
    is_right = is_right && *got_total == total;
    free(got_total);
    free(got);
    free(got_max);
    wr_program_free(program);
    report("sum and max of all, sum of columns", n * COLS, now_s() - start, is_right);
}

/* Few long rows. */
static void long_cumsum(void) {
    weir_graph *g;
    int64_t rows = 9, cols = border() / 8;
    double start = now_s();
    MUST(weir_graph_new(cuda, &g, err));
    weir_array *y = weir_cumsum(weir_full(g, WEIR_DTYPE_F32, 2, (int64_t[]){rows, cols}, 1), 1, false, false);
    wr_program *program = run_program("cumsum of long rows", &y, 1);
    weir_graph_free(g);
    if (!program) return;
    int64_t at[] = {0, cols - 1, cols, 8 * cols - 1, 8 * cols, rows * cols - 1};
    bool is_right = true;
    for (int i = 0; i < 6; i++) {
        float *got = download(program, 0, at[i], 1), want = (float)(at[i] % cols + 1);
        if (*got != want) complain("sum %lld is %g, not %g", (long long)at[i], (double)*got, (double)want);
        is_right = is_right && *got == want;
        free(got);
    }
    wr_program_free(program);
    report("cumsum of long rows", rows * cols, now_s() - start, is_right);
}

/* ---- keys and values ---- */

enum { PAGE = 64, HEADS = 8, WIDTH = 128, QUERIES = 16, STEP = 70 };

/* Two sequences of the same keys, values and queries, one in the first pages and one in the last: the last rows' bytes
 * must be the first's, in the pages and in the result. */
static void far_pages(void) {
    const char *name = "kv_write and paged attention of the far pages";
    int64_t page = PAGE * HEADS * WIDTH, n = (border() + page - 1) / page + 3, shape[] = {n, PAGE, HEADS, WIDTH};
    size_t bytes = (size_t)(n * page) * 2;
    double start = now_s();
    if (!has_room(name, 2 * bytes)) return;
    weir_graph *g;
    wr_buffer *pages[2];
    for (int i = 0; i < 2; i++) MUST(wr_buffer_new_on(cuda, bytes, &pages[i], err));
    MUST(weir_graph_new(cuda, &g, err));
    int32_t tables[] = {0, 1, (int32_t)n - 1, (int32_t)n - 2}, seqs[2 * STEP], places[2 * STEP];
    for (int i = 0; i < 2 * STEP; i++) seqs[i] = i / STEP, places[i] = i % STEP;
    weir_array *table = weir_from_data(g, WEIR_DTYPE_I32, 2, (int64_t[]){2, 2}, tables);
    weir_array *seq = weir_from_data(g, WEIR_DTYPE_I32, 1, (int64_t[]){2 * STEP}, seqs);
    weir_array *place = weir_from_data(g, WEIR_DTYPE_I32, 1, (int64_t[]){2 * STEP}, places);
    weir_array *kv[2];
    for (int i = 0; i < 2; i++) {
        weir_array *x = weir_reshape(values(g, 10 * i, STEP), 3, (int64_t[]){STEP, HEADS, WIDTH});
        x = weir_concat((weir_array *[]){x, x}, 2, 0);
        kv[i] = wr_kv_write(wr_leaf(g, WEIR_DTYPE_BF16, 4, shape, NULL, 0, pages[i]), x, table, seq, place, true);
    }
    weir_array *q = weir_reshape(values(g, 1000, 2 * STEP), 3, (int64_t[]){STEP, QUERIES, WIDTH});
    q = weir_concat((weir_array *[]){q, q}, 2, 0);
    wr_attention_args a = {.scale = 0.01f, .causal = true, .tiled = true, .value_dim = WIDTH};
    weir_array *y = wr_paged_attention(q, kv[0], kv[1], table, seq, place, NULL, NULL, &a);
    wr_program *program = run_program(name, &y, 1);
    weir_graph_free(g);
    bool is_right = program != NULL;
    size_t row = (size_t)QUERIES * WIDTH * sizeof(float), used = PAGE * HEADS * WIDTH * 2;
    if (program) {
        float *out = download(program, 0, 0, 2 * STEP * QUERIES * WIDTH);
        is_right = memcmp(out, out + STEP * QUERIES * WIDTH, STEP * row) == 0 && out[STEP * QUERIES * WIDTH - 1] != 0;
        free(out);
    }
    char *near = malloc(used), *far = malloc(used);
    for (int i = 0; i < 2 && is_right && near && far; i++) {
        MUST(wr_device_download(cuda, near, pages[i]->data, used, err));
        MUST(wr_device_download(cuda, far, (char *)pages[i]->data + (size_t)(n - 1) * used, used, err));
        is_right = memcmp(near, far, used) == 0;
        bool empty = true;
        for (size_t k = 0; k < used; k++) empty = empty && !near[k];
        is_right = is_right && !empty;
    }
    free(near);
    free(far);
    if (program) report(name, n * page, now_s() - start, is_right);
    wr_program_free(program);
    for (int i = 0; i < 2; i++) wr_buffer_release(pages[i]);
}

int main(int argc, char **argv) {
    args = read_args(argc, argv);
    cuda = open_or_exit(args.device);
    MUST(weir_device_open("cpu", 1, &cpu, err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
    far_reads();
    scattered("scatter", false);
    scattered("scatter_add", true);
    sums();
    long_cumsum();
    far_pages();
    weir_device_close(cpu);
    weir_device_close(cuda);
    return good ? 0 : 1;
}
