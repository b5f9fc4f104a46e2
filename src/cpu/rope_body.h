/* The code of cpu/rope.c, which tells the contract; included once a level. */
#include "cpu/ref/util.h"
#include "cpu/rope.h"
#include "cpu/vec_simd.h"

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define WR_HAVE_SHUFFLE 1
#endif
#endif

#if VF_N_IS == 4
#define EVEN 0, 2, 4, 6
#define ODD  1, 3, 5, 7
#define LOW  0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#elif VF_N_IS == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD  1, 3, 5, 7, 9, 11, 13, 15
#define LOW  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD  1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#endif

/* One pair, with the roundings of the vector code. */
VF_INLINE void rotate_one(float a, float b, float c, float s, float *x, float *y) {
#if WR_VEC
    *x = __builtin_fmaf(a, c, -(b * s));
    *y = __builtin_fmaf(b, c, a * s);
#else
    *x = a * c - b * s;
    *y = b * c + a * s;
#endif
}

VF_INLINE void rotate_row(void *to, const void *from, weir_dtype dtype, int64_t half, const float *cosine,
                          const float *sine, const bool interleaved) {
    const int64_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    const char *x = from;
    char *y = to;
    int64_t i = 0;
    if (!interleaved) {
        for (; i + VF_N <= half; i += VF_N) {
            vf a = vf_load_as(x + i * bytes, dtype), b = vf_load_as(x + (i + half) * bytes, dtype);
            vf c = vf_load(cosine + i), s = vf_load(sine + i);
            vf_store_as(y + i * bytes, vf_fma(a, c, -(b * s)), dtype);
            vf_store_as(y + (i + half) * bytes, vf_fma(b, c, a * s), dtype);
        }
    } else {
#if defined(WR_HAVE_SHUFFLE)
        for (; i + VF_N <= half; i += VF_N) {
            vf p = vf_load_as(x + 2 * i * bytes, dtype), q = vf_load_as(x + (2 * i + VF_N) * bytes, dtype);
            vf a = __builtin_shufflevector(p, q, EVEN), b = __builtin_shufflevector(p, q, ODD);
            vf c = vf_load(cosine + i), s = vf_load(sine + i);
            vf u = vf_fma(a, c, -(b * s)), v = vf_fma(b, c, a * s);
            vf_store_as(y + 2 * i * bytes, __builtin_shufflevector(u, v, LOW), dtype);
            vf_store_as(y + (2 * i + VF_N) * bytes, __builtin_shufflevector(u, v, HIGH), dtype);
        }
#endif
    }
    for (; i < half; i++) {
        int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
        float u, v;
        rotate_one(f32_load_as(x, first, dtype), f32_load_as(x, second, dtype), cosine[i], sine[i], &u, &v);
        f32_store_as(y, first, u, dtype), f32_store_as(y, second, v, dtype);
    }
}

void WR_ISA(wr_rope)(const wr_step *step, int thread, int n_threads) {
    bool interleaved = ((const wr_rope_args *)step->args)->interleaved;
    const wr_tensor *x = &step->in[0], *table = &step->in[1], *out = &step->out;
    int64_t heads = x->shape[1], width = x->shape[2], half = table->shape[2], begin, end;
    int64_t rows = x->shape[0] * heads, useful = rows * width / WR_ROPE_LEAST + 1;
    if (thread >= useful) return;
    wr_share(rows, thread, n_threads < useful ? n_threads : (int)useful, &begin, &end);
    size_t bytes = weir_dtype_bytes(x->dtype);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t t = unit / heads, h = unit % heads;
        const char *from = (const char *)x->data + (t * x->strides[0] + h * x->strides[1]) * (int64_t)bytes;
        char *to = (char *)out->data + (t * out->strides[0] + h * out->strides[1]) * (int64_t)bytes;
        const float *c = (const float *)table->data + t * table->strides[0], *s = c + table->strides[1];
        if (x->dtype == WEIR_DTYPE_F32) {
            if (interleaved)
                rotate_row(to, from, WEIR_DTYPE_F32, half, c, s, true);
            else
                rotate_row(to, from, WEIR_DTYPE_F32, half, c, s, false);
        } else {
            rotate_row(to, from, x->dtype, half, c, s, interleaved);
        }
        if (2 * half < width)
            memmove(to + (size_t)(2 * half) * bytes, from + (size_t)(2 * half) * bytes,
                    (size_t)(width - 2 * half) * bytes);
    }
}

/* cos and sin of |angle| < 2^20: k = nearest integer to angle / (pi/2); pi/2 in three parts, the first two of 33 bits,
 * so that k times them is exact for k below 2^20; Taylor's series on |r| <= pi/4 (first term left out: 2e-14). */
VF_INLINE void turn(double angle, double *cosine, double *sine) {
    double k = (angle * 0.63661977236758134308 + 0x1.8p52) - 0x1.8p52;
    double r = ((angle - k * 0x1.921fb544p0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    double z = r * r;
    double s =
        r +
        r * z *
            (-1.0 / 6 +
             z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 + z * (1.0 / 6227020800))))));
    double c =
        1 + z * (-1.0 / 2 +
                 z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                                                           z * (1.0 / 479001600 - z / 87178291200))))));
    int64_t quadrant = (int64_t)k & 3;
    double a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
    *cosine = quadrant == 1 || quadrant == 2 ? -a : a;
    *sine = quadrant >= 2 ? -b : b;
}

void WR_ISA(wr_rope_table)(const wr_step *step, int thread, int n_threads) {
    const wr_rope_table_args *args = step->args;
    const wr_tensor *positions = &step->in[0];
    int64_t half = args->half, n = positions->shape[0], begin, end, useful = n * half / WR_ROPE_TABLE_LEAST + 1;
    if (thread >= useful) return;
    wr_share(n, thread, n_threads < useful ? n_threads : (int)useful, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        double position = positions->dtype == WEIR_DTYPE_I32 ? (double)((const int32_t *)positions->data)[t]
                                                             : (double)((const int64_t *)positions->data)[t];
        float *c = (float *)step->out.data + t * 2 * half, *s = c + half;
        for (int64_t i = 0; i < half; i++) {
            double angle = position * args->inv_freq[i], x, y;
            if (fabs(angle) < 0x1p20)
                turn(angle, &x, &y);
            else
                x = cos(angle), y = sin(angle);
            c[i] = (float)(x * args->attention_factor), s[i] = (float)(y * args->attention_factor);
        }
    }
}
