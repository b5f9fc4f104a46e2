/* What tests may ask of the emulated driver (libcuda_emulated.so) beside the driver's own functions. Link with it, or
 * take the functions with dlsym, and name the same file in WEIR_CUDA_DRIVER. All may be called by any thread. */
#ifndef WR_TESTS_CUDA_EMULATE_EMULATED_H
#define WR_TESTS_CUDA_EMULATE_EMULATED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th driver call from now fails (1: the next), once: waits and launches with CUDA_ERROR_LAUNCH_FAILED, all others
 * with CUDA_ERROR_OUT_OF_MEMORY. Calls that give something back do their work all the same. 0: no failure. Sets the
 * count of calls to 0. WR_EMULATE_FAIL_NTH sets the same from outside. */
void wr_emulate_fail_nth(long n);
/* Driver calls since then, cuGetErrorName and cuGetErrorString not counted. */
long wr_emulate_calls(void);
/* The name of the function that failed; NULL: it was not reached. */
const char *wr_emulate_failed(void);
/* Calls since the process began of each function that was called, by its name as "cuMemAlloc_v2". */
void wr_emulate_each_call(void (*see)(void *context, const char *name, long n), void *context);

/* What is open at the moment. */
typedef struct wr_emulate_live {
    size_t device_bytes, host_bytes; /* from all kinds of allocation */
    int allocations, contexts, modules, streams, events, pools, graphs, execs;
} wr_emulate_live;
wr_emulate_live wr_emulate_live_now(void);
/* Device memory of each card; 4 GiB at first. */
void wr_emulate_memory(size_t bytes);
/* Kernel launches so far, those of graphs among them. */
long wr_emulate_launches(void);
/* Order of threads, blocks and independent graph nodes: 0 forward, 1 reverse, others seeds. */
void wr_emulate_order(int order);

#ifdef __cplusplus
}
#endif

#endif
