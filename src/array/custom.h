/* The user's kernels inside the array room: who holds them. */
#ifndef WR_ARRAY_CUSTOM_H
#define WR_ARRAY_CUSTOM_H

#include "array/graph.h"

struct weir_kernel {
    weir_device *device; /* NULL: it was closed, nothing is loaded any more */
    struct weir_kernel *next;
    int count; /* under the device's kernels_lock */
    wr_kernel_binary binary;
    char *name;
};

void wr_kernel_retain(weir_kernel *kernel);
void wr_kernel_release(weir_kernel *kernel);
void wr_graph_release_kernels(weir_graph *graph);
/* Before the device's context goes. What the user still holds is only a name then. */
void wr_device_unload_kernels(weir_device *device);

static inline weir_kernel *wr_step_kernel(const wr_step *step) { return ((const wr_custom_args *)step->args)->kernel; }

#endif
