/* The program compiler's draft of a program, shared by compile.c (graph to steps), fuse.c, plan.c (order, barriers,
 * arena) and build.c (kernels, the final block). All of it lies in one arena that dies with the compilation. */
#ifndef WR_ARRAY_COMPILE_H
#define WR_ARRAY_COMPILE_H

#include "array/internal.h"

enum { WR_NONE = -1 };

typedef enum wr_place { WR_IN_ARENA, WR_IN_LEAF, WR_IN_OUTPUT } wr_place;

/* Bytes that a value lies in. Views share the storage of their base, INPLACE results that of their state. */
typedef struct wr_storage {
    wr_place place;
    int32_t slot;          /* leaf: index into leaves; output: index of the fresh buffer */
    int32_t producer;      /* the draft that writes it; WR_NONE for leaves */
    int32_t n_uses;        /* operands of drafts and outputs that name it */
    bool output;           /* lives to the end */
    bool written;          /* leaf: some draft of this program writes it */
    int32_t first, last;   /* epochs in which it is used */
    int64_t bytes, offset; /* offset: in the arena */
} wr_storage;

typedef struct wr_value {
    int32_t storage;
    int32_t copy; /* the contiguous copy of this value, once there is one */
    weir_dtype dtype;
    wr_layout layout;
} wr_value;

/* A step in the making. */
typedef struct wr_draft {
    wr_op_id op;
    bool dead;       /* fused into another */
    bool is_prepare; /* runs row->prepare of the draft `prepares` */
    int32_t prepares;
    int n_in;
    int32_t *in; /* values */
    int32_t out; /* value */
    const void *args;
    struct wr_group *group; /* element-wise: the instructions gathered so far */
    const wr_kernel_row *row;
    wr_step *step;             /* shapes and args for fits(); data are NULL */
    int32_t scratch, prepared; /* storages or WR_NONE; for a prepare draft, scratch is its result */
    int32_t lender;            /* the prepare draft made for this one: their inputs are one array */
    wr_tensor *laid_in;        /* prepare draft: that array, once laid out */
    int32_t epoch;
    bool barrier;
} wr_draft;

typedef struct wr_compiler {
    weir_device *device;
    wr_arena *memory;
    bool reference, no_fusion, for_eval;
    int n_threads;
    const void *traits; /* of a device with a runtime */

    weir_array **nodes; /* reachable, in order of creation */
    int n_nodes;
    wr_buffer **leaves; /* distinct buffers */
    int n_leaves;

    wr_storage *storages;
    int n_storages, cap_storages;
    wr_value *values;
    int n_values, cap_values;
    wr_draft *drafts;
    int n_drafts, cap_drafts;
    int32_t *order; /* drafts in the order of the program */
    int n_order;

    int32_t *outputs; /* values, contiguous */
    int n_outputs, n_output_buffers;
    size_t arena_bytes;
} wr_compiler;

/* Nodes under outputs down to those that have data, by index; each node's slot is its place. */
weir_status wr_collect(weir_array *const *outputs, int n_outputs, wr_arena *memory, weir_array ***nodes, int *n_nodes,
                       weir_error *err);
/* Distinct buffers of the nodes in order of first use; slots[i] is the place of node i's buffer, -1 without one. */
weir_status wr_collect_leaves(weir_array *const *nodes, int n_nodes, wr_arena *memory, wr_buffer ***leaves,
                              int *n_leaves, int32_t **slots, weir_error *err);

/* Growing arrays of the draft; WR_NONE when out of memory. */
int32_t wr_add_storage(wr_compiler *c, wr_place place, int64_t bytes);
int32_t wr_add_value(wr_compiler *c, int32_t storage, weir_dtype dtype, const wr_layout *layout);
int32_t wr_add_draft(wr_compiler *c, wr_op_id op, int n_in, const int32_t *in, int32_t out, const void *args);

weir_status wr_draft_steps(wr_compiler *c, weir_array *const *outputs, int n_outputs, weir_error *err);
weir_status wr_fuse(wr_compiler *c, weir_error *err);
/* Would a row of the draft's op other than the reference take it? For fuse.c. */
weir_status wr_has_fast_row(wr_compiler *c, const wr_draft *d, bool *has, weir_error *err);
weir_status wr_choose_kernels(wr_compiler *c, weir_error *err);
weir_status wr_schedule(wr_compiler *c, weir_error *err);
weir_status wr_plan_arena(wr_compiler *c, weir_error *err);

typedef enum wr_compile_mode { WR_COMPILE_PROGRAM, WR_COMPILE_EVAL, WR_COMPILE_PLAN } wr_compile_mode;
weir_status wr_compile(weir_array *const *outputs, int n_outputs, const wr_program_options *options,
                       wr_compile_mode mode, wr_program **out, size_t *arena_bytes, weir_error *err);

/* Where an operand lies: base 0 the arena, 1.. the leaves, then the output buffers. */
typedef struct wr_binding {
    int32_t base; /* WR_NONE: NULL */
    int64_t offset;
} wr_binding;

struct wr_program {
    weir_device *device;
    wr_step *steps;
    int n_steps, n_outputs, n_leaves, n_output_buffers;
    wr_tensor *outputs;
    wr_buffer **leaves;   /* retained; NULL in a program for eval */
    size_t *output_bytes; /* eval: [n_output_buffers] */
    int32_t *output_base; /* eval: base of output i, and its offset in elements */
    int64_t *output_offset;
    wr_binding *bindings; /* eval: per step out, in.., scratch, prepared; then the outputs */
    void *arena;
    size_t arena_bytes, own_bytes;
    bool owns_arena;
    void *graph;       /* of the backend's runtime; NULL: the steps are started one by one */
    bool serial;       /* too little work to wake the pool */
    uint64_t *step_ns; /* WEIR_TRACE=time */
    uint64_t n_runs;
};

/* Set every data pointer. */
void wr_program_bind(wr_program *program, const wr_binding *bindings, void *const *bases);

/* Tracing (WEIR_TRACE). */
bool wr_trace_enabled(void);
bool wr_trace_times(void);
void wr_trace_program(const wr_program *program);
void wr_trace_report(const wr_program *program);
/* Step i in a few words: op, weight, variant. text: [WR_TRACE_LABEL]. */
enum { WR_TRACE_LABEL = 200 };
void wr_trace_label(const wr_program *program, int i, char *text);

#endif
