/* Inside of wr_checkpoint, for checkpoint.c and checkpoint_text.c. */
#ifndef WR_FILE_CHECKPOINT_IMPL_H
#define WR_FILE_CHECKPOINT_IMPL_H

#include "base/mem.h"
#include "file/checkpoint.h"
#include "file/gguf.h"
#include "file/mlx_quant.h"
#include "file/names.h"
#include "file/safetensors.h"

/* One stored tensor under its canonical name. */
typedef struct wr_stored {
    const char *name;   /* canonical, in the arena */
    const char *stored; /* as in the file */
    const char *format;
    weir_quant quant; /* GGUF blocks; else NONE */
    weir_dtype dtype; /* dense */
    bool usable, used;
    int n_dims;
    int64_t shape[WR_SAFETENSORS_DIMS];
    const uint8_t *data;
    size_t bytes;
} wr_stored;

/* An aligned copy of a tensor that lies at an odd place in its file. */
typedef struct wr_aligned_copy {
    void *pages;
    size_t bytes;
} wr_aligned_copy;

struct wr_checkpoint {
    char *path;
    wr_config *config, *generation, *tokenizer; /* the last two may be NULL */
    char *chat_template;                        /* may be NULL */
    wr_mlx_quant *quant;                        /* safetensors */
    wr_safetensors *st;
    wr_gguf *gguf;
    wr_stored *tensors;
    int64_t n_tensors;
    wr_names names;
    wr_arena arena; /* canonical names, global scales */
    wr_aligned_copy *copies;
    size_t n_copies, copies_room;
};

/* Read the chat template (and for folders the tokenizer's configuration) into c. */
weir_status wr_checkpoint_read_text(wr_checkpoint *c, weir_error *err);

#endif
