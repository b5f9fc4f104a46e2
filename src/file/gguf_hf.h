/* GGUF in Hugging Face's words: tensor names, and the configuration made from the
 * metadata. Architectures: llama, qwen2, qwen3, gemma3. */
#ifndef WR_FILE_GGUF_HF_H
#define WR_FILE_GGUF_HF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "file/config.h"
#include "file/gguf.h"

/* "blk.0.attn_q.weight" gives "model.layers.0.self_attn.q_proj.weight"; a name that is not
 * in the table stays as it is. Errors: LIMIT when out does not hold it. */
weir_status wr_gguf_hf_name(const wr_gguf *g, const char *stored, char *out, size_t cap, weir_error *err);

/* A configuration as in config.json, plus
 * "weir_rope_interleaved": true when the converter has permuted the rows of Q and K, so
 *     that RoPE pairs (2i, 2i + 1) and not (i, i + d/2): architecture llama;
 * "weir_norm_offset_folded": true when the norm weights already hold Gemma's 1 + w. */
weir_status wr_gguf_hf_config(const wr_gguf *g, const char *name, wr_config **out, weir_error *err);

#endif
