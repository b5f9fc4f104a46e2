/* safetensors files (format: huggingface/safetensors), one or many, memory-mapped.
 * Headers are checked whole at open; data is only mapped. After open nothing
 * changes, so any thread may ask. */
#ifndef WR_FILE_SAFETENSORS_H
#define WR_FILE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "weir/dtype.h"

enum { WR_SAFETENSORS_DIMS = 8 };

typedef struct wr_safetensors wr_safetensors;

typedef struct wr_safetensors_tensor {
    const char *name;   /* terminated, owned by the wr_safetensors */
    const char *format; /* "bf16", "u32", "f8_e4m3", "f64" */
    bool usable;        /* false: a dtype that weir does not compute with (f64, c64) */
    weir_dtype dtype;   /* f8_* are u8 */
    int n_dims;
    int64_t shape[WR_SAFETENSORS_DIMS]; /* outermost first */
    const uint8_t *data;                /* perhaps not aligned for its dtype: MLX does not pad its headers */
    size_t bytes;
    int shard;
} wr_safetensors_tensor;

/* A folder: every model*.safetensors in it (else its only .safetensors file), and
 * every file that model.safetensors.index.json names or that "-00001-of-00003"
 * implies must be there and not be empty; an unfinished download is an error.
 * The index may otherwise be stale. A path to one file is opened alone. */
weir_status wr_safetensors_open(const char *path, wr_safetensors **out, weir_error *err);
/* One file already in memory (borrowed); name is for messages. */
weir_status wr_safetensors_open_memory(const uint8_t *data, size_t bytes, const char *name, wr_safetensors **out,
                                       weir_error *err);
void wr_safetensors_close(wr_safetensors *st);

int64_t wr_safetensors_n_tensors(const wr_safetensors *st);
/* In order of shard, then of place in the file. */
const wr_safetensors_tensor *wr_safetensors_tensor_at(const wr_safetensors *st, int64_t index);
const wr_safetensors_tensor *wr_safetensors_tensor_find(const wr_safetensors *st, const char *name);
int wr_safetensors_n_shards(const wr_safetensors *st);
const char *wr_safetensors_shard_path(const wr_safetensors *st, int shard);

/* The pages under data need not stay resident. Ignored for data outside the files. */
void wr_safetensors_drop(const wr_safetensors *st, const void *data, size_t bytes);
void wr_safetensors_rest(const wr_safetensors *st); /* the same for all of it */

#endif
