/* SAMPLE's rows, for tests; the backend asks wr_cuda_sample_rows (cuda/launch.h). */
#ifndef WR_CUDA_SAMPLE_HOST_H
#define WR_CUDA_SAMPLE_HOST_H

#include "cuda/launch.h"

const wr_kernel_row *wr_cuda_sample_table(void);

#endif
