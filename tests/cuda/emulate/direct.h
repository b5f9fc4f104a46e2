/* Running a row of a CUDA family straight on the emulation, without runtime or driver: fill a wr_step whose pointers
 * are host pointers, set step.device = wr_emulate_traits(), ask fits(), then row->launch(&step, NULL, &err). */
#ifndef WR_TESTS_CUDA_EMULATE_DIRECT_H
#define WR_TESTS_CUDA_EMULATE_DIRECT_H

#include "cuda/launch.h"

/* sm_90, 4 multiprocessors, 227 KiB of shared memory. */
const wr_cuda_traits *wr_emulate_traits(void);
/* The same with arch 80 and no wgmma, for the rows that other cards get. */
const wr_cuda_traits *wr_emulate_traits_plain(void);
/* 0 forward, 1 reverse, others seeds. */
void wr_emulate_order(int order);

#endif
