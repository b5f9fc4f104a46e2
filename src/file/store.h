/* The model store: where models lie on this machine, and how a name finds one. */
#ifndef WR_FILE_STORE_H
#define WR_FILE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* $WEIR_STORE, else $XDG_CACHE_HOME/weir/store, else ~/.cache/weir/store. Allocated;
 * NULL when out of memory. */
char *wr_store_folder(void);
/* $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub. As above. */
char *wr_store_hub_folder(void);

/* The folder or .gguf file that a model's name means (allocated): a path; "owner/name" in
 * the Hugging Face cache; a name in the store, with or without ".gguf", or the start of
 * exactly one file's name there ("SmolLM2-135M-Instruct"). Errors: NOT_FOUND says where it
 * looked; ARGUMENT when several files match. */
weir_status wr_store_resolve(const char *model, char **path, weir_error *err);

typedef struct wr_store_entry {
    const char *name; /* what to give to wr_store_resolve */
    const char *path;
    const char *kind;  /* "gguf" or "safetensors" */
    const char *place; /* "store" or "huggingface" */
    uint64_t bytes;    /* of all weight files */
    bool complete;
    const char *why; /* why it is not complete; "" when it is */
} wr_store_entry;

/* Calls back for each model of the store, then of the Hugging Face cache, by name. The
 * entry lives during the call. A callback status other than OK ends the walk and is
 * returned. Missing folders are empty. */
typedef weir_status (*wr_store_callback)(void *context, const wr_store_entry *entry, weir_error *err);
weir_status wr_store_list(wr_store_callback callback, void *context, weir_error *err);

#endif
