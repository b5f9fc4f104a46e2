/* weir: lazy arrays.
 *
 * An array is a node of a graph until it is evaluated. The graph is the scope:
 * its arrays die with it unless kept. An op that is given bad input records the
 * first error in the graph and returns a poisoned array; ops on poisoned arrays
 * stay poisoned; weir_eval reports the error. So no op call needs a check.
 *
 * Threads: a graph and its arrays belong to one thread at a time; different
 * graphs of one device may be used by different threads. */
#ifndef WEIR_ARRAY_H
#define WEIR_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/dtype.h"
#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEIR_MAX_DIMS = 8 };

typedef struct weir_device weir_device; /* where programs run */
typedef struct weir_graph weir_graph;
typedef struct weir_array weir_array;
typedef struct weir_stream weir_stream; /* an order of work of its own on a device */
typedef struct weir_event weir_event;   /* a point in a stream */

/* name: "cpu"; "cuda" or "cuda:N", a GPU; "auto", the first GPU that can be used, else the CPU. n_threads 0: one per
 * core this process may use. Errors: ARGUMENT, MEMORY, NOT_FOUND (no such device), UNSUPPORTED (it is there, but its
 * driver or this build does not do), DEVICE. */
weir_status weir_device_open(const char *name, int n_threads, weir_device **out, weir_error *err);
/* All graphs of the device must be freed before. NULL is allowed. */
void weir_device_close(weir_device *device);

/* A device of this machine, whether weir can use it or not. */
typedef struct weir_device_info {
    char name[16];       /* as weir_device_open takes it: "cpu", "cuda:0" */
    char model[128];     /* "NVIDIA H200"; of the CPU the level of instructions used: "avx2" */
    size_t memory_bytes; /* all it has; 0: not known */
    size_t free_bytes;   /* not in use now, by anybody; 0: not known */
    int n_units;         /* multiprocessors; of the CPU the cores this process may use */
    int capability;      /* CUDA compute capability, 90 for 9.0; 0 on the CPU */
    int driver_version;  /* the newest CUDA its driver knows, 12080 for 12.8; 0 on the CPU */
    char problem[256];   /* why weir cannot use it; empty when it can */
} weir_device_info;
/* Look at a device without opening it. name: "cpu", or "cuda:N" with N from 0 on until NOT_FOUND. Errors: NOT_FOUND (no
 * such device; for cuda:0 also: no driver, no card, or weir without its CUDA library), UNSUPPORTED (a driver is there
 * but does not do), DEVICE; each says why. */
weir_status weir_device_describe(const char *name, weir_device_info *out, weir_error *err);

/* Give back what the device keeps for later evaluations: the cached programs, the memory of intermediate results, and
 * on a GPU all that lies free in its pool. Waits for the work given so far. *bytes (may be NULL): memory that went back
 * to the system, the device's own. Arrays, programs and engines keep theirs. An allocation that fails does as much by
 * itself before it is an error. Any thread. Errors: DEVICE. */
weir_status weir_clear_cache(weir_device *device, size_t *bytes, weir_error *err);

weir_status weir_graph_new(weir_device *device, weir_graph **out, weir_error *err);
void weir_graph_free(weir_graph *graph);
/* The first error of the graph, WEIR_OK when there is none. */
weir_status weir_graph_error(const weir_graph *graph, weir_error *err);

/* Compute arrays (all of one graph). Afterwards each has data. */
weir_status weir_eval(weir_array *const *arrays, int n, weir_error *err);
/* The same graph result through reference kernels without fusion, for comparison. */
weir_status weir_eval_reference(weir_array *const *arrays, int n, weir_error *err);
/* Contiguous row-major data of an evaluated array; NULL when it was not evaluated, is poisoned or is empty, or when
 * what computes it failed. Waits for a stream that computes it. Lives as long as the array. */
const void *weir_array_data(const weir_array *array);
weir_dtype weir_array_dtype(const weir_array *array);
int weir_array_n_dims(const weir_array *array);
int64_t weir_array_dim(const weir_array *array, int axis); /* axis may be negative */
int64_t weir_array_size(const weir_array *array);          /* elements */
/* An evaluated array as a leaf of another graph of the same device; storage is shared and counted. */
weir_array *weir_array_keep(weir_graph *to, const weir_array *array);

/* Streams: evaluations that go on while the caller does something else, and beside each other. Work of one stream runs
 * in the order in which it was given; different streams, and weir_eval, run in no order to each other, but for what is
 * seen to: an evaluation that uses an array comes after the one that computes it, in whichever stream that is, memory
 * is used again only when nothing that was given can touch it any more, and weir_array_data waits. So a program is
 * right without events; they are for order that arrays do not show (timing, work of other libraries). On the CPU all
 * work is done when the call that gives it returns. Threads: a stream and an event may be used by any thread, one at a
 * time each; arrays as ever. */
weir_status weir_stream_open(weir_device *device, weir_stream **out, weir_error *err);
/* Waits for its work. Arrays that it computed stay. Before its device is closed. NULL is allowed. */
void weir_stream_close(weir_stream *stream);
/* As weir_eval, but the results are on their way when it returns: what goes wrong in the work itself is reported by
 * weir_stream_wait, by weir_eval of the array, or weir_array_data gives NULL. Errors: as weir_eval; ARGUMENT: a stream
 * of another device. */
weir_status weir_eval_async(weir_array *const *arrays, int n, weir_stream *stream, weir_error *err);
/* Until all work given to the stream so far is done. Errors: DEVICE, what went wrong in it. */
weir_status weir_stream_wait(weir_stream *stream, weir_error *err);
weir_status weir_event_open(weir_device *device, weir_event **out, weir_error *err);
void weir_event_close(weir_event *event); /* NULL is allowed */
/* The event is behind the work given to the stream so far; recording it again moves it. */
weir_status weir_event_record(weir_event *event, weir_stream *stream, weir_error *err);
/* What is given to the stream later begins when the event is reached; stream NULL: the caller waits for it. An event
 * that was not recorded is reached. */
weir_status weir_event_wait(weir_event *event, weir_stream *stream, weir_error *err);

/* Promotion of two dtypes, written down in docs/arrays.md: bool < unsigned < signed < float; within a kind the wider;
 * unsigned with signed: the narrowest signed type that holds both (u64: i64); integer with float: that float;
 * f16 with bf16: f32; bf16 with f32: f32. */
weir_dtype weir_dtype_promote(weir_dtype a, weir_dtype b);

#ifdef __cplusplus
}
#endif
#endif
