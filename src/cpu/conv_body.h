/* The code of cpu/conv.c, which tells the contract; included once a level. */
#include "cpu/conv.h"
#include "cpu/ref/util.h"
#include "cpu/vec_simd.h"

enum { CHANNELS = 64, POSITIONS = 128 }; /* of one unit of work: its weights are turned once */

size_t WR_ISA(wr_conv1d_scratch)(const wr_step *step, int n_threads) {
    return (size_t)n_threads * (size_t)step->in[1].shape[1] * CHANNELS * sizeof(float);
}

/* n channels from `first` on, at positions begin .. end of one sequence; w [kernel][CHANNELS]. */
static void channels(const wr_step *step, float *y, const float *x, const float *w, int64_t first, int64_t n,
                     int64_t begin, int64_t end) {
    const wr_conv1d_args *a = step->args;
    const float *bias = step->n_in > 2 ? step->in[2].data : NULL;
    int64_t length = step->in[0].shape[1], width = step->in[0].shape[2], kernel = step->in[1].shape[1];
    for (int64_t t = begin; t < end; t++)
        for (int64_t c = 0; c < n; c += VF_N) {
            int64_t left = n - c;
            vf sum = vf_set(0);
            if (bias) sum = left >= VF_N ? vf_load(bias + first + c) : vf_load_n(bias + first + c, left);
            for (int64_t k = 0; k < kernel; k++) {
                int64_t source = t * a->stride + k * a->dilation - a->pad_low;
                if (source < 0 || source >= length) continue;
                const float *from = x + source * width + first + c;
                vf v = left >= VF_N ? vf_load(from) : vf_load_n(from, left);
                sum = vf_fma(v, vf_load(w + k * CHANNELS + c), sum);
            }
            if (left >= VF_N)
                vf_store(y + t * width + first + c, sum);
            else
                vf_store_n(y + t * width + first + c, sum, left);
        }
}

void WR_ISA(wr_conv1d)(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    int64_t total = wr_tensor_size(out), kernel = step->in[1].shape[1], useful = total * kernel / WR_CONV_LEAST + 1;
    if (total == 0 || thread >= useful) return;
    if (n_threads > useful) n_threads = (int)useful;
    int64_t width = x->shape[2], groups = (width + CHANNELS - 1) / CHANNELS, positions = out->shape[1], begin, end;
    int64_t pieces = (positions + POSITIONS - 1) / POSITIONS;
    const float *weight = step->in[1].data;
    float *w = (float *)step->scratch + thread * kernel * CHANNELS;
    wr_share(x->shape[0] * pieces * groups, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % groups * CHANNELS, t = unit / groups % pieces * POSITIONS, b = unit / groups / pieces;
        int64_t n = width - first < CHANNELS ? width - first : CHANNELS;
        for (int64_t k = 0; k < kernel; k++)
            for (int64_t c = 0; c < CHANNELS; c++) w[k * CHANNELS + c] = c < n ? weight[(first + c) * kernel + k] : 0;
        channels(step, (float *)out->data + b * positions * width, (const float *)x->data + b * x->shape[1] * width, w,
                 first, n, t, positions - t < POSITIONS ? positions : t + POSITIONS);
    }
}
