/* A checkpoint: configuration, tensors and tokenizer files of one model, as
 * published: a folder of safetensors, or one GGUF file. Everything is checked
 * when it is opened (offsets, sizes, dtypes, overlaps, shards, config), before
 * memory is taken; tensor data stays in the mapped files.
 *
 * Names are Hugging Face's ("model.layers.0.self_attn.q_proj.weight") for GGUF
 * too. Single-threaded use while opening and asking; the data may be read from
 * any thread. */
#ifndef WR_FILE_CHECKPOINT_H
#define WR_FILE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "file/config.h"
#include "weir/dtype.h"

typedef struct wr_checkpoint wr_checkpoint;
struct wr_gguf; /* file/gguf.h */

/* A weight matrix as stored. Dense: data is [experts?, rows, cols] of dtype.
 * MLX modes: data u32 [experts?, rows, cols*bits/32], scales and biases
 * [experts?, rows, cols/group] (dtype: of scales and biases for affine).
 * GGUF: data is rows of blocks, rows*cols/block_values*block_bytes bytes.
 * Pointers may lie at odd places, since MLX does not pad its headers: see wr_checkpoint_align. */
typedef struct wr_weight {
    weir_quant quant;
    weir_dtype dtype;                   /* dense: of data; affine: of scales and biases; else unused */
    int64_t experts;                    /* 1 for a plain matrix */
    int64_t rows, cols;                 /* out, in; per expert */
    const void *data, *scales, *biases; /* views into the checkpoint; NULL where the mode has none */
    size_t data_bytes, scales_bytes, biases_bytes;
    float global_scale;         /* factor on every value: nvfp4 with a global scale; else 1 */
    const float *global_scales; /* [experts]: one factor each instead (the checkpoint's); else NULL */
} wr_weight;

/* model: a folder, a .gguf file, or "owner/name" found in the Hugging Face cache
 * ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub), or a name in weir's store. */
weir_status wr_checkpoint_open(const char *model, wr_checkpoint **out, weir_error *err);
void wr_checkpoint_close(wr_checkpoint *checkpoint);

const char *wr_checkpoint_path(const wr_checkpoint *c); /* folder or file, resolved */
const wr_config *wr_checkpoint_config(const wr_checkpoint *c);
const wr_config *wr_checkpoint_generation_config(const wr_checkpoint *c); /* NULL when there is none */
const struct wr_gguf *wr_checkpoint_gguf(const wr_checkpoint *c);         /* NULL for safetensors */

/* Does the module (name without ".weight") exist? */
bool wr_checkpoint_has(const wr_checkpoint *c, const char *module);
/* The matrix of a module ("model.layers.0.mlp.up_proj"), its quantisation found by
 * config and geometry. rows, cols, experts are what the model expects (-1: any);
 * anything else is an error that names the tensor and both shapes. Marks its
 * tensors as used. */
weir_status wr_checkpoint_weight(wr_checkpoint *c, const char *module, int64_t experts, int64_t rows, int64_t cols,
                                 wr_weight *out, weir_error *err);
/* A dense tensor by full name ("model.norm.weight") with exactly n elements, as f32
 * into out (caller's). Marks it as used. */
weir_status wr_checkpoint_vector(wr_checkpoint *c, const char *name, int64_t n, float *out, weir_error *err);
bool wr_checkpoint_has_tensor(const wr_checkpoint *c, const char *name);
/* Mark a tensor as known and not needed (rotary inv_freq buffers and the like). A
 * last '*' stands for any rest: "vision_tower.*". */
void wr_checkpoint_ignore(wr_checkpoint *c, const char *name);
/* Error that names the first tensors nobody asked for, if there are any. */
weir_status wr_checkpoint_all_used(const wr_checkpoint *c, weir_error *err);

/* Make the pointers of w aligned for their elements, where the file has them at odd places, by copies that live as long
 * as the checkpoint (or until dropped). To be called when the data is needed, not before: a copy costs memory. */
weir_status wr_checkpoint_align(wr_checkpoint *c, wr_weight *w, weir_error *err);
/* [data, data + bytes) will not be read soon: its pages need not stay resident. A copy goes only as a whole, and must
 * not be read again then. */
void wr_checkpoint_drop(const wr_checkpoint *c, const void *data, size_t bytes);
/* Everything was read that will be: no page of the files need stay resident. (What is read later is read again.) */
void wr_checkpoint_rest(const wr_checkpoint *c);

/* For `weir inspect`: the stored tensors one by one, in file order, with stored names. */
typedef struct wr_tensor_info {
    const char *name;   /* as in the file */
    const char *format; /* "bf16", "u32", "q4_k" */
    int n_dims;
    int64_t shape[8]; /* outermost first */
    size_t bytes;
} wr_tensor_info;
int64_t wr_checkpoint_n_tensors(const wr_checkpoint *c);
void wr_checkpoint_tensor(const wr_checkpoint *c, int64_t index, wr_tensor_info *out);

/* Union of eos_token_id over config.json, generation_config.json and the tokenizer's
 * configuration (or GGUF metadata); at most cap ids; *n is how many there are. */
weir_status wr_checkpoint_eos(const wr_checkpoint *c, int32_t *ids, size_t cap, size_t *n, weir_error *err);
/* The chat template's text (string, the entry "default" of a list, chat_template.jinja,
 * or GGUF metadata); NULL when there is none. Borrowed. */
const char *wr_checkpoint_chat_template(const wr_checkpoint *c);

#endif
