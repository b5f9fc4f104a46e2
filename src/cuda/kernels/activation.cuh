/* Functions of floats that element-wise kernels and the linear family compute with the same bits. */
#ifndef WR_CUDA_ACTIVATION_CUH
#define WR_CUDA_ACTIVATION_CUH

#include "cuda/kernels/device.cuh"

/* e^-|x| / (1 + e^-|x|) or 1 / (1 + e^-|x|), by the sign of x: no overflow, no cancellation. y multiplies. */
WR_DEVICE float wr_times_sigmoid(float y, float x) {
    float t = expf(-fabsf(x));
    return (x < 0 ? y * t : y) / (1 + t);
}

/* x / (1 + e^-w), w = 2 sqrt(2/pi) (x + 0.044715 x^3), is x/2 (1 + tanh(w/2)) without its cancellation. w is carried in
 * two floats, since its error is the relative error of e^w. */
WR_DEVICE float wr_gelu_tanh(float x) {
    if (fabsf(x) > 24) return x < 0 ? x * 0.0f : x; /* e^-|w| is 0 from 16 on; -inf gives NaN, as the formula does */
    /* 2 sqrt(2/pi) and 0.044715 times it, each as a sum of two floats. */
    const float a = 1.5957691669464111f, a_low = -4.5340681e-08f, b = 0.071354813873767853f, b_low = 2.3988325e-09f;
    float square = x * x, square_low = fmaf(x, x, -square);
    float cubic = b * square, cubic_low = fmaf(b, square, -cubic) + fmaf(b, square_low, b_low * square);
    float sum = a + cubic, back = sum - a, sum_low = (a - (sum - back)) + (cubic - back) + (cubic_low + a_low);
    float w = x * sum, w_low = fmaf(x, sum, -w) + x * sum_low;
    float t = expf(-fabsf(w));
    t = fmaf(t, w < 0 ? w_low : -w_low, t);
    return (w < 0 ? x * t : x) / (1 + t);
}

#endif
