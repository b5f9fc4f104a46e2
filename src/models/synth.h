/* Random checkpoints with the configuration of a real model, in the layout in which
 * real ones are published, so that real shapes can be measured without real weights.
 * The names and shapes come from the families' weight tables. */
#ifndef WR_MODELS_SYNTH_H
#define WR_MODELS_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "weir/dtype.h"

/* Name of preset i and one sentence about it; NULL behind the last. */
const char *wr_synth_preset(int index, const char **about);

typedef struct wr_synth_options {
    const char *preset;
    weir_quant quant;     /* NONE, or one of MLX's modes */
    weir_dtype dtype;     /* BF16, F16 or F32: of what is not quantised, and of affine scales and biases */
    int64_t n_layers;     /* 0: the model's own; else the first so many of them */
    uint64_t seed;        /* the same options give the same bytes */
    uint64_t shard_bytes; /* 0: 4 GiB */
} wr_synth_options;

typedef struct wr_synth wr_synth;

typedef struct wr_synth_info {
    const char *family;
    int64_t n_layers, n_tensors, n_parameters; /* parameters before quantisation */
    uint64_t bytes;                            /* of the weight files */
    int n_shards;
} wr_synth_info;

/* Plans a checkpoint; writes nothing. Errors: NOT_FOUND for an unknown preset (the presets are named), ARGUMENT. */
weir_status wr_synth_new(const wr_synth_options *options, wr_synth **out, weir_error *err);
void wr_synth_free(wr_synth *synth);
void wr_synth_get_info(const wr_synth *synth, wr_synth_info *info);

typedef struct wr_synth_write_options {
    bool force;                                   /* replace a checkpoint that is there */
    int n_threads;                                /* 0: one a core */
    bool (*progress)(void *context, double done); /* 0..1; false: stop, and leave nothing. May be NULL */
    void *context;
} wr_synth_write_options;

/* Write the checkpoint as `folder`, which appears whole or not at all. Once for each wr_synth. Errors: STATE when the
 * path exists (with force: when it holds anything but a checkpoint without tokenizer), IO, CANCELLED. */
weir_status wr_synth_write(wr_synth *synth, const char *folder, const wr_synth_write_options *options, weir_error *err);

#endif
