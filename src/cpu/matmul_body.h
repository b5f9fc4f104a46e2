/* The code of cpu/matmul.c, which tells the contract; included once a level. */
#include "cpu/matmul.h"
#include "cpu/ref/util.h"
#include "cpu/vec_simd.h"

/* A register tile: TILE rows by two vectors, as many sums as the registers hold beside two vectors and a broadcast. */
#if WR_VEC == 0
enum { TILE = 4 };
#elif WR_VEC == 1
enum { TILE = 6 };
#else
enum { TILE = 12 };
#endif
enum { LINE = 2 * VF_N }; /* columns of a tile */
enum { LINES = 16 };

/* One operand of one product: element (i, k) at i * line + k * depth, where i counts rows of a or columns of b. */
typedef struct side {
    const char *data;
    weir_dtype dtype;
    int64_t line, depth;
} side;

/* How a step is cut. Nothing here changes bits: each result is one chain over k whatever the blocks. */
typedef struct plan {
    bool swapped; /* out^T = b^T a^T, so that vectors run along the longer axis */
    bool direct;  /* b is read where it lies: packing pays when several strips of rows read it */
    int64_t m, n, k, batches, rows, cols, depth;
    size_t a_floats, b_floats, c_floats, line_floats; /* parts of a thread's scratch */
} plan;

static int64_t up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static plan make_plan(const wr_step *step) {
    const wr_tensor *a = &step->in[0], *out = &step->out;
    plan p = {.m = out->shape[out->n_dims - 2], .n = out->shape[out->n_dims - 1], .k = a->shape[a->n_dims - 1]};
    p.batches = wr_shape_count(out->n_dims - 2, out->shape);
    if (p.n < LINE && p.m > p.n) {
        int64_t m = p.m;
        p.m = p.n, p.n = m, p.swapped = true;
    }
    const wr_tensor *b = &step->in[!p.swapped];
    p.direct = p.m <= TILE && b->dtype == WEIR_DTYPE_F32 && b->strides[b->n_dims - (p.swapped ? 2 : 1)] == 1;
    p.rows = least(WR_MATMUL_ROWS, p.m);
    p.cols = least(p.direct ? WR_MATMUL_FEW_COLS : WR_MATMUL_COLS, up(p.n, LINE));
    p.depth = least(p.direct ? WR_MATMUL_FEW_DEPTH : WR_MATMUL_DEPTH, p.k);
    p.a_floats = (size_t)up(p.rows * p.depth, 16);
    p.b_floats = (size_t)up(p.cols * p.depth, 16);
    p.c_floats = (size_t)up(p.rows * p.cols, 16);
    p.line_floats = (size_t)up(8 * p.depth, 16);
    return p;
}

size_t WR_ISA(wr_matmul_scratch)(const wr_step *step, int n_threads) {
    plan p = make_plan(step);
    return (size_t)n_threads * (p.a_floats + p.b_floats + p.c_floats + p.line_floats) * sizeof(float);
}

static float side_at(const side *s, int64_t i, int64_t k) {
    return f32_load_as(s->data, i * s->line + k * s->depth, s->dtype);
}
static const char *side_from(const side *s, int64_t i, int64_t k) {
    return s->data + (i * s->line + k * s->depth) * (int64_t)weir_dtype_bytes(s->dtype);
}

/* Rows first .. first + n of a, from k on, as [depth][n]. */
static void pack_rows(float *to, const side *s, int64_t first, int64_t n, int64_t k, int64_t depth, float *line) {
    if (s->depth == 1) {
        for (int64_t r = 0; r < n; r++) {
            const float *from = (const float *)(const void *)side_from(s, first + r, k);
            if (s->dtype != WEIR_DTYPE_F32) row_to_f32(line, from, s->dtype, depth), from = line;
            for (int64_t i = 0; i < depth; i++) to[i * n + r] = from[i];
        }
    } else if (s->line == 1) {
        for (int64_t i = 0; i < depth; i++) row_to_f32(to + i * n, side_from(s, first, k + i), s->dtype, n);
    } else {
        for (int64_t i = 0; i < depth; i++)
            for (int64_t r = 0; r < n; r++) to[i * n + r] = side_at(s, first + r, k + i);
    }
}

/* 8 rows of 8 floats become 8 columns. */
VF_INLINE void turn8(float *to, int64_t to_line, const float *from, int64_t from_line) {
#if WR_VEC
    __m256 x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = _mm256_loadu_ps(from + i * from_line);
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_shuffle_ps(y[i], y[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(y[i], y[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * to_line, _mm256_permute2f128_ps(x[i], x[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_line, _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
    }
#else
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) to[j * to_line + i] = from[i * from_line + j];
#endif
}

/* Columns first .. first + n of b, whose lines of k are contiguous; 8 columns at a time. */
static void pack_turned(float *to, const side *s, int64_t first, int64_t n, int64_t k, int64_t depth, float *lines) {
    for (int64_t j = 0; j < up(n, LINE); j += 8) {
        float *panel = to + j / LINE * LINE * depth + j % LINE;
        const float *from = lines;
        int64_t from_line = depth;
        if (n - j >= 8 && s->dtype == WEIR_DTYPE_F32) {
            from = (const float *)(const void *)side_from(s, first + j, k);
            from_line = s->line;
        } else {
            for (int64_t r = 0; r < 8; r++)
                if (j + r < n)
                    row_to_f32(lines + r * depth, side_from(s, first + j + r, k), s->dtype, depth);
                else
                    memset(lines + r * depth, 0, (size_t)depth * sizeof(float));
        }
        int64_t i = 0;
        for (; i + 8 <= depth; i += 8) turn8(panel + i * LINE, LINE, from + i, from_line);
        for (; i < depth; i++)
            for (int64_t r = 0; r < 8; r++) panel[i * LINE + r] = from[r * from_line + i];
    }
}

/* Columns first .. first + n of b as panels [depth][LINE], zeros after the last column. */
static void pack_cols(float *to, const side *s, int64_t first, int64_t n, int64_t k, int64_t depth, float *lines) {
    if (s->depth == 1 && s->line != 1) {
        pack_turned(to, s, first, n, k, depth, lines);
        return;
    }
    int64_t whole = s->line == 1 ? n / LINE * LINE : 0, bytes = (int64_t)weir_dtype_bytes(s->dtype);
    for (int64_t i0 = 0; i0 < depth; i0 += LINES) /* few lines at a time: the panels lie far apart */
        for (int64_t j = 0; j < whole; j += LINE)
            for (int64_t i = i0; i < least(i0 + LINES, depth); i++) {
                const char *from = side_from(s, first + j, k + i);
                vf_store(to + j * depth + i * LINE, vf_load_as(from, s->dtype));
                vf_store(to + j * depth + i * LINE + VF_N, vf_load_as(from + VF_N * bytes, s->dtype));
            }
    for (int64_t j = whole; j < up(n, LINE); j++)
        for (int64_t i = 0; i < depth; i++)
            to[j / LINE * LINE * depth + i * LINE + j % LINE] = j < n ? side_at(s, first + j, k + i) : 0;
}

/* c [rows][LINE] += a [depth][rows] by b [depth][LINE]; lines of c and b are so many elements apart. */
VF_INLINE void tile(float *c, int64_t c_line, const float *a, const float *b, int64_t b_line, int64_t depth,
                    const int rows) {
    vf sum[TILE][2];
    for (int r = 0; r < rows; r++) sum[r][0] = vf_load(c + r * c_line), sum[r][1] = vf_load(c + r * c_line + VF_N);
    for (int64_t k = 0; k < depth; k++, a += rows, b += b_line) {
        vf b0 = vf_load(b), b1 = vf_load(b + VF_N);
        for (int r = 0; r < rows; r++) {
            vf x = vf_set(a[r]);
            sum[r][0] = vf_fma(x, b0, sum[r][0]);
            sum[r][1] = vf_fma(x, b1, sum[r][1]);
        }
    }
    for (int r = 0; r < rows; r++) vf_store(c + r * c_line, sum[r][0]), vf_store(c + r * c_line + VF_N, sum[r][1]);
}

static void any_tile(float *c, int64_t c_line, const float *a, const float *b, int64_t b_line, int64_t depth,
                     int64_t rows) {
    switch (rows) {
    case 1: tile(c, c_line, a, b, b_line, depth, 1); break;
    case 2: tile(c, c_line, a, b, b_line, depth, 2); break;
    case 3: tile(c, c_line, a, b, b_line, depth, 3); break;
    case 4: tile(c, c_line, a, b, b_line, depth, 4); break;
#if WR_VEC >= 1
    case 5: tile(c, c_line, a, b, b_line, depth, 5); break;
    case 6: tile(c, c_line, a, b, b_line, depth, 6); break;
#endif
#if WR_VEC == 2
    case 7: tile(c, c_line, a, b, b_line, depth, 7); break;
    case 8: tile(c, c_line, a, b, b_line, depth, 8); break;
    case 9: tile(c, c_line, a, b, b_line, depth, 9); break;
    case 10: tile(c, c_line, a, b, b_line, depth, 10); break;
    case 11: tile(c, c_line, a, b, b_line, depth, 11); break;
    case 12: tile(c, c_line, a, b, b_line, depth, 12); break;
#endif
    default: break;
    }
}

/* Offset of a batch of out in an operand whose batch axes broadcast, aligned at the right. */
static int64_t batch_at(const wr_tensor *t, const wr_tensor *out, int64_t batch) {
    int64_t offset = 0;
    for (int d = out->n_dims - 3; d >= 0; d--) {
        int own = d - (out->n_dims - t->n_dims);
        if (own >= 0 && t->shape[own] != 1) offset += batch % out->shape[d] * t->strides[own];
        batch /= out->shape[d];
    }
    return offset;
}

static side side_of(const wr_tensor *t, const wr_tensor *out, int64_t batch, bool rows) {
    int64_t row = t->strides[t->n_dims - 2], col = t->strides[t->n_dims - 1];
    return (side){.data = wr_at(t, batch_at(t, out, batch)),
                  .dtype = t->dtype,
                  .line = rows ? row : col,
                  .depth = rows ? col : row};
}

/* Rows i .. and columns j .. of one product, at most p->rows by p->cols. */
static void block(const wr_step *step, const plan *p, int64_t batch, int64_t i, int64_t rows, int64_t j, int64_t cols,
                  float *scratch) {
    const wr_tensor *out = &step->out;
    side a = side_of(&step->in[p->swapped], out, batch, !p->swapped);
    side b = side_of(&step->in[!p->swapped], out, batch, p->swapped);
    float *pa = scratch, *pb = pa + p->a_floats, *c = pb + p->b_floats, *lines = c + p->c_floats;
    int64_t c_line = up(cols, LINE);
    memset(c, 0, (size_t)(rows * c_line) * sizeof *c);
    for (int64_t k = 0; k < p->k; k += p->depth) {
        int64_t depth = least(p->depth, p->k - k);
        for (int64_t r = 0; r < rows; r += TILE)
            pack_rows(pa + r * depth, &a, i + r, least(TILE, rows - r), k, depth, lines);
        int64_t whole = p->direct ? cols / LINE * LINE : 0; /* columns that are not packed */
        if (whole < cols) pack_cols(pb, &b, j + whole, cols - whole, k, depth, lines);
        for (int64_t x = 0; x < cols; x += LINE) {
            bool there = x < whole;
            const float *panel =
                there ? (const float *)(const void *)side_from(&b, j + x, k) : pb + (x - whole) * depth;
            for (int64_t r = 0; r < rows; r += TILE)
                any_tile(c + r * c_line + x, c_line, pa + r * depth, panel, there ? b.depth : LINE, depth,
                         least(TILE, rows - r));
        }
    }
    int64_t row = out->strides[out->n_dims - 2], col = out->strides[out->n_dims - 1], size = p->swapped ? col : row;
    int64_t to = wr_offset_of(batch, out->n_dims - 2, out->shape, out->strides), next = p->swapped ? row : col;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = to + (i + r) * size + j * next;
        if (next == 1)
            row_from_f32(wr_at(out, at), c + r * c_line, out->dtype, cols);
        else
            for (int64_t x = 0; x < cols; x++) f32_store_as(out->data, at + x * next, c[r * c_line + x], out->dtype);
    }
}

void WR_ISA(wr_matmul)(const wr_step *step, int thread, int n_threads) {
    if (wr_tensor_size(&step->out) == 0) return;
    plan p = make_plan(step);
    double useful = (double)p.m * (double)p.n * (double)p.k * (double)p.batches / WR_MATMUL_LEAST + 1;
    int threads = useful < n_threads ? (int)useful : n_threads;
    if (thread >= threads) return;
    /* Smaller blocks when there are fewer than threads. */
    int64_t rows = p.rows, cols = p.cols, begin, end;
    while (p.batches * (up(p.m, rows) / rows) * (up(p.n, cols) / cols) < threads && cols > LINE)
        cols = up((cols + 1) / 2, LINE);
    while (p.batches * (up(p.m, rows) / rows) * (up(p.n, cols) / cols) < threads && rows > TILE)
        rows = up((rows + 1) / 2, TILE);
    int64_t across = up(p.n, cols) / cols, down = up(p.m, rows) / rows;
    float *scratch = (float *)step->scratch + (size_t)thread * (p.a_floats + p.b_floats + p.c_floats + p.line_floats);
    wr_share(p.batches * down * across, thread, threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t i = unit % down * rows, j = unit / down % across * cols;
        block(step, &p, unit / down / across, i, least(rows, p.m - i), j, least(cols, p.n - j), scratch);
    }
}
