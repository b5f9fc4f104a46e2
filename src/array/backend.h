/* What a backend gives the array room, and what its kernels receive. */
#ifndef WR_ARRAY_BACKEND_H
#define WR_ARRAY_BACKEND_H

#include "array/op.h"
#include "base/pool.h"

/* An operand of a kernel: strides in elements; data already at the offset. */
typedef struct wr_tensor {
    void *data;
    weir_dtype dtype;
    int n_dims;
    int64_t shape[WR_MAX_DIMS], strides[WR_MAX_DIMS];
} wr_tensor;

typedef struct wr_step wr_step;
struct wr_launcher;
/* Runs one thread's share of a step. Thread counts must never change bits: split by outputs, never inside a sum. */
typedef void (*wr_kernel)(const wr_step *step, int thread, int n_threads);
/* Describes the step's kernels to the launcher of a backend whose kernels do not run on host threads. */
typedef weir_status (*wr_launch_fn)(const wr_step *step, struct wr_launcher *launcher, weir_error *err);

/* One call of one kernel inside a program; everything is fixed when the program is compiled (data pointers of
 * inputs are set again by wr_program_run for ad-hoc graphs). */
struct wr_step {
    wr_op_id op;
    bool barrier; /* depends on a step before: an epoch begins */
    bool solo;    /* so little work that thread 0 does it alone */
    bool sync;    /* wait for all threads before this step: a barrier that is not between solo epochs */
    wr_kernel kernel;
    const char *variant; /* name of the chosen kernel, for the trace */
    const void *args;    /* the op's args struct */
    wr_tensor out;
    int n_in;
    wr_tensor *in;        /* [n_in] */
    void *scratch;        /* scratch_bytes of the kernel row, shared by all threads, 64-byte aligned */
    const void *prepared; /* result of the kernel's prepare step, when it has one */
    const void *device;   /* wr_runtime.traits of a backend that has one; NULL on the CPU */
    wr_launch_fn launch;  /* backends with a runtime: instead of kernel */
};

/* A kernel that a backend offers for an op. The first row whose fits() is true is used; the reference is last.
 * A kernel may ask for a prepare step on some inputs (activations quantised to integers, say): the compiler runs it
 * before, once for all steps that read the same inputs with the same prepare function. */
typedef struct wr_kernel_row {
    const char *name;                  /* "avx2", "ref"; NULL ends the list */
    bool (*fits)(const wr_step *step); /* pure; NULL: always. Looks at shapes, dtypes, strides, args */
    wr_kernel run;
    size_t (*scratch_bytes)(const wr_step *step, int n_threads); /* NULL: none */
    wr_kernel prepare;       /* NULL: none. Sees the step with the inputs it reads; writes step->scratch */
    unsigned prepare_inputs; /* a bit for each input it reads */
    size_t (*prepare_bytes)(const wr_step *step);
    bool prepare_by_args;        /* the prepared result depends on the step's args too */
    wr_launch_fn launch;         /* backends with a runtime: instead of run, */
    wr_launch_fn prepare_launch; /* and instead of prepare */
} wr_kernel_row;

enum { WR_RUNTIME_MARKS = 2 };

/* A kernel in source (weir/custom.h). */
typedef struct wr_kernel_source {
    const char *name, *source;
    const char *const *flags;
    int n_flags;
    void (*notice)(const char *text);   /* what is no error but worth saying */
    void (*announce)(const char *text); /* one line that is shown to those too who asked for no notices */
} wr_kernel_source;

/* A compiled one. */
enum { WR_KERNEL_MAX_PARAMS = WR_MAX_INPUTS + 1 + WEIR_KERNEL_MAX_SCALARS, WR_KERNEL_ID_BYTES = 32 };
typedef struct wr_kernel_binary {
    void *handle;                         /* the backend's */
    unsigned char id[WR_KERNEL_ID_BYTES]; /* hash of all that made it */
    int n_params;                         /* more than WR_KERNEL_MAX_PARAMS: only counted */
    size_t param_bytes[WR_KERNEL_MAX_PARAMS];
    int max_threads;         /* of a block, by its registers */
    size_t max_shared_bytes; /* dynamic */
} wr_kernel_binary;

/* A backend with memory and an order of execution of its own: a GPU. All functions may be called by any thread; work of
 * one context runs in the order in which it was given. Sizes in bytes; device pointers are only handed back. */
typedef struct wr_runtime {
    /* ordinal: which device of its kind. */
    weir_status (*open)(int ordinal, void **context, weir_error *err);
    void (*close)(void *context);
    const void *(*traits)(const void *context); /* what kernels may know of the device */
    weir_status (*alloc)(void *context, size_t bytes, void **out, weir_error *err); /* zeroed, 256-byte aligned */
    void (*free)(void *context, void *p, size_t bytes);
    /* The same for memory that stays: an engine's arenas. */
    weir_status (*reserve)(void *context, size_t bytes, void **out, weir_error *err);
    void (*release)(void *context, void *p, size_t bytes);
    /* Give freed memory back to the system; *bytes: how much. Waits. */
    weir_status (*trim)(void *context, size_t *bytes, weir_error *err);
    weir_status (*memory)(void *context, size_t *free_bytes, size_t *total_bytes, weir_error *err);
    /* Host memory that the device reads and writes at the same address (pinned). */
    weir_status (*host_alloc)(void *context, size_t bytes, void **out, weir_error *err);
    void (*host_free)(void *context, void *p);
    /* Copies; they wait for work given before and return when done. */
    weir_status (*upload)(void *context, void *to, const void *from, size_t bytes, weir_error *err);
    weir_status (*download)(void *context, void *to, const void *from, size_t bytes, weir_error *err);
    /* The steps as one graph. Everything is fixed when it is made; launching it allocates nothing. */
    weir_status (*graph_new)(void *context, const wr_step *steps, int n, void **out, weir_error *err);
    void (*graph_free)(void *context, void *graph);
    weir_status (*graph_launch)(void *context, void *graph, weir_error *err);
    /* The same steps, started one by one: the reference path. */
    weir_status (*run)(void *context, const wr_step *steps, int n, weir_error *err);
    /* Copies in the order of the work, from and to pinned memory; they return at once. */
    weir_status (*send)(void *context, void *to, const void *from_host, size_t bytes, weir_error *err);
    weir_status (*fetch)(void *context, void *to_host, const void *from, size_t bytes, weir_error *err);
    /* A mark behind the work given so far, and waiting until it is reached while later work goes on. which: below
     * WR_RUNTIME_MARKS; a mark may be set again once it was waited for. */
    weir_status (*mark)(void *context, int which, weir_error *err);
    weir_status (*wait_mark)(void *context, int which, weir_error *err);
    /* Until all work given so far is done. Reports what went wrong in it. */
    weir_status (*wait)(void *context, weir_error *err);
    /* Streams beside that order, each with its own; memory of one may be freed at once with free, which waits for all
     * that was given to any of them. stream NULL: the order of everything else. */
    weir_status (*stream_open)(void *context, void **out, weir_error *err);
    void (*stream_close)(void *context, void *stream); /* waits */
    weir_status (*stream_alloc)(void *context, void *stream, size_t bytes, void **out, weir_error *err);
    weir_status (*stream_run)(void *context, void *stream, const wr_step *steps, int n, weir_error *err);
    /* Events: a point in a stream, that other streams (event_join) and the caller (event_wait) can wait for. */
    weir_status (*event_open)(void *context, void **out, weir_error *err);
    void (*event_close)(void *context, void *event);
    weir_status (*event_record)(void *context, void *event, void *stream, weir_error *err);
    weir_status (*event_join)(void *context, void *event, void *stream, weir_error *err);
    weir_status (*event_wait)(void *context, void *event, weir_error *err);
    /* The user's kernels. kernel_free waits for the work given so far. */
    weir_status (*kernel_new)(void *context, const wr_kernel_source *source, wr_kernel_binary *out, weir_error *err);
    void (*kernel_free)(void *context, wr_kernel_binary *kernel);
} wr_runtime;

typedef struct wr_backend {
    const char *name; /* "cpu" */
    /* Asked when a device is opened: can this backend run here, as the environment wants it? */
    weir_status (*check)(weir_error *err);
    /* Rows for an op, ended by a row whose run is NULL; the last real row is the reference. NULL: not offered. */
    const wr_kernel_row *(*kernels)(wr_op_id op);
    /* Bytes of a weight in the backend's own layout; 0: it keeps the published one. args->packed is 0. */
    size_t (*packed_bytes)(const wr_linear_args *args);
    /* Write that layout; data, scales, biases as published; each thread its share. */
    void (*pack)(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                 int thread, int n_threads);
    const wr_runtime *runtime; /* NULL: kernels run on host threads over host memory */
    weir_dtype activation;     /* what matrix products and attention work on: a model's norms give it */
    weir_dtype kv;             /* of keys and values, unless the user says otherwise */
    bool fuses_linear_add;     /* an add after a linear becomes LINEAR_ADD */
    bool fuses_linear_gated;   /* act(gate) * up after a linear becomes LINEAR_GATED, where a row other than the last
                                  takes it */
    bool fuses_norm_linear;    /* a norm before a linear that alone reads it becomes NORM_LINEAR, in the same manner */
    bool fuses_rope;  /* writes of keys and values become KV_APPEND; it and PAGED_ATTENTION take a rope before them */
    bool tiles_pages; /* wants keys and values tiled (array/kv.h) */
    bool joins_rows;  /* the packed layouts of matrices of 16 n rows, one behind the other, are that of all their
                         rows: q, k and v become one matrix */
    /* What the device with this ordinal is, one that cannot be used included. measure: also what memory is free, which
     * a GPU takes a moment for. NOT_FOUND behind the last one. */
    weir_status (*describe)(int ordinal, bool measure, weir_device_info *out, weir_error *err);
    const char *built_for; /* the kinds of device it has kernels for: "sm_80 sm_90a"; NULL: there is one kind only */
} wr_backend;

/* Grows with every change of what this header says: a backend in a library of its own must be of the same build. */
enum { WR_BACKEND_VERSION = 8 };

const wr_backend *wr_backend_cpu(void);
/* In the library weir-cuda; found by name when it is loaded. NULL: made for another version. */
const wr_backend *wr_backend_cuda(int version);

#endif
