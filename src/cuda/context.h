/* An open device: what device.c, memory.c, run.c and wait.c share. */
#ifndef WR_CUDA_CONTEXT_H
#define WR_CUDA_CONTEXT_H

#include <pthread.h>

#include "array/backend.h"
#include "cuda/driver.h"
#include "cuda/launch.h"

enum { WR_CUDA_NAME_BYTES = 64 }; /* of the longest kernel name, with its end */

typedef struct wr_cuda_function {
    char name[WR_CUDA_NAME_BYTES]; /* "": a free place */
    CUfunction function;
} wr_cuda_function;

enum { WR_CUDA_MAX_IMAGES = 64 };
enum { WR_CUDA_MAX_FUNCTIONS = 1024 }; /* a power of two; the fatbin holds some hundreds */

/* A point in the order of work, and when it should be reached. */
typedef struct wr_cuda_mark {
    CUevent event;
    struct wr_cuda_graph *graph; /* the one launched since the mark before; NULL: none or several */
    uint64_t launched_ns, expected_ns;
    int n_launched;
} wr_cuda_mark;

/* A stream beside the context's own. */
typedef struct wr_cuda_stream {
    CUstream stream;
    struct wr_cuda_stream *next;
} wr_cuda_stream;

typedef struct wr_cuda_context {
    const wr_driver *driver;
    int ordinal;
    CUdevice device;
    CUcontext context;                    /* the primary one, retained */
    CUmodule modules[WR_CUDA_MAX_IMAGES]; /* one a kernel file */
    int n_modules;
    CUstream stream;   /* work without a stream, in order */
    CUmemoryPool pool; /* of the array runtime */

    /* Streams (stream.c). While there are others than the context's own, memory is freed in the order of a stream of
     * its own, which waits for all of them. */
    pthread_mutex_t streams_lock;
    wr_cuda_stream *streams;
    CUstream freeing;
    CUevent fence;

    wr_cuda_traits traits;

    pthread_mutex_t functions_lock;
    wr_cuda_function functions[WR_CUDA_MAX_FUNCTIONS]; /* hash table by name */
    int n_functions;

    /* Waiting (wait.c). */
    pthread_mutex_t wait_lock;
    wr_cuda_mark marks[WR_RUNTIME_MARKS + 1]; /* the last one is wr_cuda_wait's own */
    wr_cuda_mark now;                         /* what a mark set now would say; without event */
    uint64_t done_ns;                         /* when the last mark was seen reached */
} wr_cuda_context;

typedef struct wr_cuda_graph {
    CUgraphExec exec;
    uint64_t typical_ns; /* how long a run takes, from recent ones; 0: not known yet */
} wr_cuda_graph;

/* Make the device current for this thread; give back what was. */
weir_status wr_cuda_enter(const wr_cuda_context *c, weir_error *err);
void wr_cuda_leave(const wr_cuda_context *c);

/* device.c */
weir_status wr_cuda_open(int ordinal, void **out, weir_error *err);
void wr_cuda_close(void *context);
const void *wr_cuda_device_traits(const void *context);
weir_status wr_cuda_find(wr_cuda_context *c, const wr_launch_spec *spec, CUfunction *out, weir_error *err);
/* "sm_80 sm_90a": what this library was compiled for; of the build. */
extern const char wr_cuda_architectures[];

/* describe.c */
weir_status wr_cuda_describe(int ordinal, bool measure, weir_device_info *out, weir_error *err);
/* Why a device of this compute capability (90 for 9.0) cannot run what was built for these; "" when it can. */
void wr_cuda_unfit(int capability, const char *architectures, char *why, size_t size);

/* memory.c */
weir_status wr_cuda_alloc(void *context, size_t bytes, void **out, weir_error *err);
void wr_cuda_free(void *context, void *p, size_t bytes);
weir_status wr_cuda_reserve(void *context, size_t bytes, void **out, weir_error *err);
void wr_cuda_release(void *context, void *p, size_t bytes);
weir_status wr_cuda_host_alloc(void *context, size_t bytes, void **out, weir_error *err);
void wr_cuda_host_free(void *context, void *p);
weir_status wr_cuda_upload(void *context, void *to, const void *from, size_t bytes, weir_error *err);
weir_status wr_cuda_download(void *context, void *to, const void *from, size_t bytes, weir_error *err);
weir_status wr_cuda_send(void *context, void *to, const void *from_host, size_t bytes, weir_error *err);
weir_status wr_cuda_fetch(void *context, void *to_host, const void *from, size_t bytes, weir_error *err);
weir_status wr_cuda_trim(void *context, size_t *bytes, weir_error *err);
weir_status wr_cuda_memory(void *context, size_t *free_bytes, size_t *total_bytes, weir_error *err);

/* run.c */
weir_status wr_cuda_graph_new(void *context, const wr_step *steps, int n, void **out, weir_error *err);
void wr_cuda_graph_free(void *context, void *graph);
weir_status wr_cuda_graph_launch(void *context, void *graph, weir_error *err);
weir_status wr_cuda_run(void *context, const wr_step *steps, int n, weir_error *err);

/* stream.c */
weir_status wr_cuda_stream_open(void *context, void **out, weir_error *err);
void wr_cuda_stream_close(void *context, void *stream);
weir_status wr_cuda_stream_alloc(void *context, void *stream, size_t bytes, void **out, weir_error *err);
weir_status wr_cuda_stream_run(void *context, void *stream, const wr_step *steps, int n, weir_error *err);
weir_status wr_cuda_event_open(void *context, void **out, weir_error *err);
void wr_cuda_event_close(void *context, void *event);
weir_status wr_cuda_event_record(void *context, void *event, void *stream, weir_error *err);
weir_status wr_cuda_event_join(void *context, void *event, void *stream, weir_error *err);
weir_status wr_cuda_event_wait(void *context, void *event, weir_error *err);
/* With the device current. Free in the order of all streams; until all of them, and pending frees, are done. */
void wr_cuda_free_ordered(wr_cuda_context *c, CUdeviceptr p);
CUresult wr_cuda_settle(wr_cuda_context *c);
/* memory.c, for it: from the pool, in the order of the stream. */
weir_status wr_cuda_alloc_on(wr_cuda_context *c, CUstream stream, size_t bytes, void **out, weir_error *err);
/* run.c, for it. */
weir_status wr_cuda_run_on(wr_cuda_context *c, CUstream stream, const wr_step *steps, int n, weir_error *err);
/* wait.c, for it: until the event is reached, without a prediction. */
CUresult wr_cuda_poll_event(wr_cuda_context *c, CUevent event);

/* custom.c */
weir_status wr_cuda_kernel_new(void *context, const wr_kernel_source *source, wr_kernel_binary *out, weir_error *err);
void wr_cuda_kernel_free(void *context, wr_kernel_binary *kernel);

/* wait.c */
weir_status wr_cuda_mark_set(void *context, int which, weir_error *err);
weir_status wr_cuda_mark_wait(void *context, int which, weir_error *err);
weir_status wr_cuda_wait(void *context, weir_error *err);
void wr_cuda_expect(wr_cuda_context *c, wr_cuda_graph *graph);
void wr_cuda_forget(wr_cuda_context *c, const wr_cuda_graph *graph); /* it is freed */

#endif
