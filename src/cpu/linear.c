/* Drives the linear family: which rows of x meet which row blocks on which thread, and
 * which of the kernels of cpu/linear_isa.h does it.
 *
 * Work is cut into items of (block of rows of x, row block of the weight); each thread takes one contiguous run of
 * them, weight row blocks innermost, so that a panel of x stays in L2. Few rows go through the fused kernels, which
 * read the packed codes once per four rows; more rows expand 8 blocks of codes into an L1 tile and run over it. */
#include "cpu/linear.h"

#include <string.h>

#include "base/dtype.h"
#include "cpu/isa.h"
#include "cpu/linear_isa.h"

enum {
    FUSED_MAX_ROWS = 8, /* measured crossover of the two kinds of kernel */
    PANEL_ROWS = 128,   /* rows of x an item has at most: 128 rows x 256 columns are 96 KiB */
};

static const wr_pack_scales scales_of[WR_PACK_INTEGER_COUNT] = {
#define SCALES(name, bits, scales, offset) scales,
    WR_PACK_FORMATS(SCALES)
#undef SCALES
};

static bool is_float(weir_dtype dtype) {
    return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_BF16 || dtype == WEIR_DTYPE_F16;
}

static int64_t elements(const wr_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}
static int64_t leading(const wr_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims - 1; i++) n *= t->shape[i];
    return n;
}

/* This thread's share [begin, end) of n things. */
static void share(int64_t n, int thread, int n_threads, int64_t *begin, int64_t *end) {
    int64_t per = n / n_threads, more = n % n_threads;
    *begin = per * thread + (thread < more ? thread : more);
    *end = *begin + per + (thread < more);
}

static void to_f32(weir_dtype dtype, const void *from, int64_t n, float *out) {
    const uint16_t *h = from;
    if (dtype == WEIR_DTYPE_F32) memcpy(out, from, (size_t)n * 4);
    if (dtype == WEIR_DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) out[i] = wr_bf16_to_f32(h[i]);
    if (dtype == WEIR_DTYPE_F16)
        for (int64_t i = 0; i < n; i++) out[i] = wr_f16_to_f32(h[i]);
}
static void from_f32(weir_dtype dtype, const float *from, int64_t n, void *out) {
    uint16_t *h = out;
    if (dtype == WEIR_DTYPE_F32) memcpy(out, from, (size_t)n * 4);
    if (dtype == WEIR_DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) h[i] = wr_f32_to_bf16(from[i]);
    if (dtype == WEIR_DTYPE_F16)
        for (int64_t i = 0; i < n; i++) h[i] = wr_f32_to_f16(from[i]);
}

/* ---- prepare: activations as the kernels read them ---- */

static size_t groups_bytes(const wr_step *step) {
    return (size_t)(elements(&step->in[0]) / WR_PACK_COLS) * sizeof(wr_xgroup);
}
static void prepare_groups(const wr_linear_isa *isa, const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0];
    wr_xgroup *groups = step->scratch;
    int64_t begin, end;
    share(elements(x) / WR_PACK_COLS, thread, n_threads, &begin, &end);
    for (int64_t g = begin; g < end; g++) {
        const char *from = (const char *)x->data + (size_t)g * WR_PACK_COLS * weir_dtype_bytes(x->dtype);
        float values[WR_PACK_COLS];
        if (x->dtype != WEIR_DTYPE_F32) to_f32(x->dtype, from, WR_PACK_COLS, values);
        isa->quantize(x->dtype == WEIR_DTYPE_F32 ? (const float *)from : values, &groups[g]);
    }
}

static size_t floats_bytes(const wr_step *step) { return (size_t)elements(&step->in[0]) * sizeof(float); }
static void prepare_floats(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0];
    int64_t begin, end;
    share(elements(x), thread, n_threads, &begin, &end);
    to_f32(x->dtype, (const char *)x->data + (size_t)begin * weir_dtype_bytes(x->dtype), end - begin,
           (float *)step->scratch + begin);
}

/* ---- one item: some rows of x by one row block ---- */

typedef struct job {
    const wr_linear_isa *isa;
    const wr_pack_layout *l;
    const uint8_t *w;     /* the expert's */
    const void *x;        /* wr_xgroup [M][cols / 32] or float [M][cols] */
    const int32_t *index; /* row i of the job is row index[i] of x and y; NULL: row i */
    void *y;              /* [M][rows] */
    weir_dtype y_dtype;
} job;

static int64_t row_of(const job *j, int64_t i) { return j->index ? j->index[i] : i; }

static const wr_xgroup *groups_of(const job *j, int64_t i) {
    return (const wr_xgroup *)j->x + row_of(j, i) * (j->l->cols / WR_PACK_COLS);
}
static const float *floats_of(const job *j, int64_t i) { return (const float *)j->x + row_of(j, i) * j->l->cols; }

static void store(const job *j, int64_t i, int64_t row_block, const float *values) {
    int64_t first = row_block * WR_PACK_ROWS, left = j->l->rows - first;
    size_t at = (size_t)(row_of(j, i) * j->l->rows + first);
    from_f32(j->y_dtype, values, left < WR_PACK_ROWS ? left : WR_PACK_ROWS,
             (char *)j->y + at * weir_dtype_bytes(j->y_dtype));
}

static void item_few(const job *j, int64_t m0, int n, int64_t row_block, const uint8_t *w) {
    float y[FUSED_MAX_ROWS * 16];
    wr_pack_format format = j->l->format;
    if (format < WR_PACK_INTEGER_COUNT) {
        const wr_xgroup *x[FUSED_MAX_ROWS];
        for (int i = 0; i < n; i++) x[i] = groups_of(j, m0 + i);
        j->isa->fused[format](j->l, w, x, n, y);
    } else {
        const float *x[FUSED_MAX_ROWS];
        for (int i = 0; i < n; i++) x[i] = floats_of(j, m0 + i);
        j->isa->dense_fused[format - WR_PACK_INTEGER_COUNT](j->l, w, x, n, y);
    }
    for (int i = 0; i < n; i++) store(j, m0 + i, row_block, y + 16 * i);
}

/* Tiles are whole: the last one repeats its last row and its extra results are dropped. */
static void item_many(const job *j, int64_t m0, int n, int64_t row_block, const uint8_t *w) {
    float acc[(PANEL_ROWS + WR_LINEAR_MAX_TILE) * 16];
    wr_linear_tile tile;
    int rows = j->isa->tile_rows;
    wr_pack_scales scales = scales_of[j->l->format];
    void (*run)(int, const wr_linear_tile *, const wr_xgroup *const *, float *) =
        j->isa->tile[wr_pack_halved(scales)][wr_pack_biased(scales)];
    memset(acc, 0, (size_t)(n + rows) * 16 * sizeof(float));
    int64_t blocks = j->l->cols / WR_PACK_COLS;
    for (int64_t b = 0; b < blocks; b += WR_LINEAR_CHUNK) {
        int count = blocks - b < WR_LINEAR_CHUNK ? (int)(blocks - b) : WR_LINEAR_CHUNK;
        j->isa->expand[j->l->format](j->l, w, b, count, &tile);
        for (int m = 0; m < n; m += rows) {
            const wr_xgroup *x[WR_LINEAR_MAX_TILE];
            for (int i = 0; i < rows; i++) x[i] = groups_of(j, m0 + (m + i < n ? m + i : n - 1)) + b;
            run(count, &tile, x, acc + 16 * m);
        }
    }
    for (int m = 0; m < n; m++) store(j, m0 + m, row_block, acc + 16 * m);
}

static void item_many_dense(const job *j, int64_t m0, int n, int64_t row_block, const uint8_t *w) {
    float acc[(PANEL_ROWS + WR_LINEAR_MAX_TILE) * 16];
    float tile[WR_LINEAR_DENSE_CHUNK * 16] __attribute__((aligned(64)));
    int rows = j->isa->tile_rows;
    memset(acc, 0, (size_t)(n + rows) * 16 * sizeof(float));
    for (int64_t k = 0; k < j->l->cols; k += WR_LINEAR_DENSE_CHUNK) {
        int count = j->l->cols - k < WR_LINEAR_DENSE_CHUNK ? (int)(j->l->cols - k) : WR_LINEAR_DENSE_CHUNK;
        j->isa->dense_expand[j->l->format - WR_PACK_INTEGER_COUNT](j->l, w, k, count, tile);
        for (int m = 0; m < n; m += rows) {
            const float *x[WR_LINEAR_MAX_TILE];
            for (int i = 0; i < rows; i++) x[i] = floats_of(j, m0 + (m + i < n ? m + i : n - 1)) + k;
            j->isa->dense_tile(count, tile, x, acc + 16 * m);
        }
    }
    for (int m = 0; m < n; m++) store(j, m0 + m, row_block, acc + 16 * m);
}

/* Rows a panel has when m rows are cut evenly, in whole tiles. */
static int64_t panel_rows(const wr_linear_isa *isa, int64_t m) {
    int64_t panels = (m + PANEL_ROWS - 1) / PANEL_ROWS;
    if (panels <= 1) return m;
    int64_t rows = (m + panels - 1) / panels;
    return (rows + isa->tile_rows - 1) / isa->tile_rows * isa->tile_rows;
}
static int64_t count_items(const wr_linear_isa *isa, const wr_pack_layout *l, int64_t m) {
    if (m == 0) return 0;
    int64_t rows = panel_rows(isa, m);
    return (m + rows - 1) / rows * l->row_blocks;
}

/* Items [begin, end) of the job's m rows. */
static void run_items(const job *j, int64_t m, int64_t begin, int64_t end) {
    if (begin >= end) return;
    int64_t rows = panel_rows(j->isa, m);
    for (int64_t i = begin; i < end; i++) {
        int64_t m0 = i / j->l->row_blocks * rows, row_block = i % j->l->row_blocks;
        int n = (int)(m - m0 < rows ? m - m0 : rows);
        const uint8_t *w = j->w + (size_t)row_block * j->l->row_block_bytes;
        if (n <= FUSED_MAX_ROWS)
            item_few(j, m0, n, row_block, w);
        else if (j->l->format < WR_PACK_INTEGER_COUNT)
            item_many(j, m0, n, row_block, w);
        else
            item_many_dense(j, m0, n, row_block, w);
    }
}

static void run_linear(const wr_linear_isa *isa, const wr_step *step, int thread, int n_threads) {
    wr_pack_layout layout;
    if (!wr_pack_layout_of(step->args, &layout)) return;
    const wr_tensor *x = &step->in[0];
    job j = {.isa = isa,
             .l = &layout,
             .w = step->in[1].data,
             .x = step->prepared ? step->prepared : x->data,
             .y = step->out.data,
             .y_dtype = step->out.dtype};
    int64_t m = leading(x), begin, end;
    share(count_items(isa, &layout, m), thread, n_threads, &begin, &end);
    run_items(&j, m, begin, end);
}

/* ---- experts ---- */

static size_t gather_scratch(const wr_step *step, int n_threads) {
    const wr_linear_args *args = step->args;
    size_t ints = (size_t)leading(&step->in[0]) + (size_t)args->experts + 2;
    return ints * sizeof(int32_t) * (size_t)n_threads;
}

static void run_gather(const wr_linear_isa *isa, const wr_step *step, int thread, int n_threads) {
    wr_pack_layout layout;
    if (!wr_pack_layout_of(step->args, &layout)) return;
    const wr_tensor *x = &step->in[0];
    const int32_t *ids = step->in[1].data;
    int64_t m = leading(x), experts = layout.experts;
    /* Each thread sorts the rows by expert for itself: first[e] .. first[e + 1] of order. */
    int32_t *first = (int32_t *)step->scratch + (m + experts + 2) * thread, *order = first + experts + 2;
    memset(first, 0, (size_t)(experts + 2) * sizeof *first);
    for (int64_t i = 0; i < m; i++)
        if (ids[i] >= 0 && ids[i] < experts) first[ids[i] + 2]++;
    for (int64_t e = 2; e <= experts + 1; e++) first[e] += first[e - 1];
    for (int64_t i = 0; i < m; i++)
        if (ids[i] >= 0 && ids[i] < experts) order[first[ids[i] + 1]++] = (int32_t)i;

    int64_t total = 0, begin, end, at = 0;
    for (int64_t e = 0; e < experts; e++) total += count_items(isa, &layout, first[e + 1] - first[e]);
    share(total, thread, n_threads, &begin, &end);
    for (int64_t e = 0; e < experts && at < end; e++) {
        int64_t rows = first[e + 1] - first[e], n = count_items(isa, &layout, rows);
        job j = {.isa = isa,
                 .l = &layout,
                 .w = (const uint8_t *)step->in[2].data + (size_t)e * layout.expert_bytes,
                 .x = step->prepared ? step->prepared : x->data,
                 .index = order + first[e],
                 .y = step->out.data,
                 .y_dtype = step->out.dtype};
        run_items(&j, rows, begin > at ? begin - at : 0, end - at < n ? end - at : n);
        at += n;
    }
    share(m, thread, n_threads, &begin, &end);
    float nan = wr_f32_from_bits(0x7fc00000u);
    for (int64_t i = begin; i < end; i++) {
        if (ids[i] >= 0 && ids[i] < experts) continue;
        char *y = (char *)step->out.data + (size_t)(i * layout.rows) * weir_dtype_bytes(step->out.dtype);
        for (int64_t n = 0; n < layout.rows; n++)
            from_f32(step->out.dtype, &nan, 1, y + (size_t)n * weir_dtype_bytes(step->out.dtype));
    }
}

/* ---- embedding: one row of the packed table for each id ---- */

static void run_embedding(const wr_step *step, int thread, int n_threads) {
    const wr_linear_args *args = step->args;
    const wr_tensor *ids = &step->in[0];
    size_t row_bytes = (size_t)args->cols * weir_dtype_bytes(step->out.dtype);
    int64_t begin, end;
    share(elements(ids), thread, n_threads, &begin, &end);
    float nan = wr_f32_from_bits(0x7fc00000u);
    for (int64_t i = begin; i < end; i++) {
        int64_t id = ((const int32_t *)ids->data)[i];
        char *y = (char *)step->out.data + (size_t)i * row_bytes;
        if (id < 0 || id >= args->rows) {
            for (int64_t k = 0; k < args->cols; k++)
                from_f32(step->out.dtype, &nan, 1, y + (size_t)k * weir_dtype_bytes(step->out.dtype));
            continue;
        }
        /* In pieces, so that no buffer of unknown length is needed. */
        enum { PIECE = 1024 };
        float values[PIECE];
        for (int64_t k = 0; k < args->cols; k += PIECE) {
            int64_t n = args->cols - k < PIECE ? args->cols - k : PIECE;
            wr_pack_unpack(args, step->in[1].data, 0, id, k, n, values);
            from_f32(step->out.dtype, values, n, y + (size_t)k * weir_dtype_bytes(step->out.dtype));
        }
    }
}

/* ---- rows ---- */

static bool packed_fits(const wr_step *step, bool integer) {
    const wr_linear_args *args = step->args;
    wr_pack_layout layout;
    return args->packed && is_float(step->in[0].dtype) && is_float(step->out.dtype) &&
           wr_pack_layout_of(args, &layout) && (layout.format < WR_PACK_INTEGER_COUNT) == integer;
}
static bool embedding_fits(const wr_step *step) {
    const wr_linear_args *args = step->args;
    wr_pack_layout layout;
    return args->packed && args->experts == 1 && step->in[0].dtype == WEIR_DTYPE_I32 && is_float(step->out.dtype) &&
           wr_pack_layout_of(args, &layout);
}

#define FAMILY(isa, level)                                                                                             \
    static bool fits_integer_##isa(const wr_step *step) {                                                              \
        return wr_cpu_level() >= (level) && packed_fits(step, true);                                                   \
    }                                                                                                                  \
    static bool fits_f32_##isa(const wr_step *step) {                                                                  \
        return wr_cpu_level() >= (level) && step->in[0].dtype == WEIR_DTYPE_F32 && packed_fits(step, false);           \
    }                                                                                                                  \
    static bool fits_other_##isa(const wr_step *step) {                                                                \
        return wr_cpu_level() >= (level) && packed_fits(step, false);                                                  \
    }                                                                                                                  \
    static void prepare_##isa(const wr_step *step, int thread, int n_threads) {                                        \
        prepare_groups(&wr_linear_##isa, step, thread, n_threads);                                                     \
    }                                                                                                                  \
    static void linear_##isa(const wr_step *step, int thread, int n_threads) {                                         \
        run_linear(&wr_linear_##isa, step, thread, n_threads);                                                         \
    }                                                                                                                  \
    static void gather_##isa(const wr_step *step, int thread, int n_threads) {                                         \
        run_gather(&wr_linear_##isa, step, thread, n_threads);                                                         \
    }
FAMILY(portable, WR_CPU_PORTABLE)
#ifdef WR_CPU_X86
FAMILY(avx2, WR_CPU_AVX2)
FAMILY(avx512, WR_CPU_AVX512)
#endif

/* Rows of one level for an op. x that is not f32 is converted first for dense weights. */
#define ROWS(isa, fn, scratch)                                                                                         \
    {.name = #isa "-int",                                                                                              \
     .fits = fits_integer_##isa,                                                                                       \
     .run = fn##_##isa,                                                                                                \
     .scratch_bytes = scratch,                                                                                         \
     .prepare = prepare_##isa,                                                                                         \
     .prepare_inputs = 1u << 0,                                                                                        \
     .prepare_bytes = groups_bytes},                                                                                   \
        {.name = #isa "-f32", .fits = fits_f32_##isa, .run = fn##_##isa, .scratch_bytes = scratch}, {                  \
        .name = #isa "-to-f32", .fits = fits_other_##isa, .run = fn##_##isa, .scratch_bytes = scratch,                 \
        .prepare = prepare_floats, .prepare_inputs = 1u << 0, .prepare_bytes = floats_bytes                            \
    }

const wr_kernel_row wr_cpu_linear_rows[] = {
#ifdef WR_CPU_X86
    ROWS(avx512, linear, NULL),
    ROWS(avx2, linear, NULL),
#endif
    ROWS(portable, linear, NULL),
    {0},
};

const wr_kernel_row wr_cpu_gather_linear_rows[] = {
#ifdef WR_CPU_X86
    ROWS(avx512, gather, gather_scratch),
    ROWS(avx2, gather, gather_scratch),
#endif
    ROWS(portable, gather, gather_scratch),
    {0},
};

const wr_kernel_row wr_cpu_embedding_rows[] = {
    {.name = "packed", .fits = embedding_fits, .run = run_embedding},
    {0},
};
