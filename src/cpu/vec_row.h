/* Sums and maxima of a row of floats, each with one fixed tree a row length. */
#ifndef WR_CPU_VEC_ROW_H
#define WR_CPU_VEC_ROW_H

#include <stdbool.h>

#include "cpu/vec_simd.h"

enum { CHAINS = 4 };

/* Sum over a row of (x - mean)^2, or of x - mean itself: element i goes to chain i / L mod 4, lane i mod L; then
 * chains ((0+1)+(2+3)), then the tree of lanes. */
VF_INLINE float row_sum(const float *x, int64_t n, float mean, const bool squares) {
    vf sum[CHAINS], m = vf_set(mean);
    for (int c = 0; c < CHAINS; c++) sum[c] = vf_set(0);
    int64_t i = 0;
    for (; i + CHAINS * VF_N <= n; i += CHAINS * VF_N)
        for (int c = 0; c < CHAINS; c++) {
            vf d = vf_load(x + i + c * VF_N) - m;
            sum[c] = squares ? vf_fma(d, d, sum[c]) : sum[c] + d;
        }
    for (int c = 0; i < n; c++, i += VF_N) {
        int64_t left = n - i;
        vf d = left >= VF_N ? vf_load(x + i) - m : vf_load_n(x + i, left) - m;
        if (left < VF_N)
            for (int k = (int)left; k < VF_N; k++) d[k] = 0;
        for (int k = 0; k < CHAINS; k++)
            if (k == c) sum[k] = squares ? vf_fma(d, d, sum[k]) : sum[k] + d;
    }
    return vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* The largest element or, with `low`, the least one; -infinity (infinity) for an empty row or one of NaN only; *nan: is
 * there a NaN? */
VF_INLINE float row_extreme(const float *x, int64_t n, bool *nan, const bool low) {
    vf most = vf_set(-INFINITY);
    vi odd = vi_set(0);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf v = vf_load(x + i);
        odd |= v != v;
        most = vf_max(low ? -v : v, most); /* a NaN in v gives most */
    }
    float m = vf_most(most);
    int32_t any = 0;
    for (int k = 0; k < VF_N; k++) any |= odd[k];
    for (; i < n; i++) {
        float v = low ? -x[i] : x[i];
        any |= v != v;
        m = v > m ? v : m;
    }
    *nan = any != 0;
    return low ? -m : m;
}
VF_INLINE float row_max(const float *x, int64_t n, bool *nan) { return row_extreme(x, n, nan, false); }

#endif
