/* GGUF versions 2 and 3, little-endian, memory-mapped (format: ggml's GGUF
 * specification). The whole structure is checked at open; afterwards nothing changes,
 * so any thread may ask. */
#ifndef WR_FILE_GGUF_H
#define WR_FILE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "weir/dtype.h"

typedef struct wr_gguf wr_gguf;

typedef enum wr_gguf_type { /* the format's own numbers */
                            WR_GGUF_U8,
                            WR_GGUF_I8,
                            WR_GGUF_U16,
                            WR_GGUF_I16,
                            WR_GGUF_U32,
                            WR_GGUF_I32,
                            WR_GGUF_F32,
                            WR_GGUF_BOOL,
                            WR_GGUF_STRING,
                            WR_GGUF_ARRAY,
                            WR_GGUF_U64,
                            WR_GGUF_I64,
                            WR_GGUF_F64
} wr_gguf_type;

typedef struct wr_gguf_tensor {
    const char *name; /* terminated, owned by the wr_gguf */
    weir_quant quant; /* NONE: dense */
    weir_dtype dtype; /* dense only */
    int n_dims;
    int64_t shape[4]; /* outermost first (the file has innermost first) */
    const uint8_t *data;
    size_t bytes;
} wr_gguf_tensor;

weir_status wr_gguf_open(const char *path, wr_gguf **out, weir_error *err);
/* The same over bytes already in memory (borrowed); name is for messages. */
weir_status wr_gguf_open_memory(const uint8_t *data, size_t bytes, const char *name, wr_gguf **out, weir_error *err);
void wr_gguf_close(wr_gguf *gguf);
/* The pages under data need not stay resident. Ignored for data outside the file. */
void wr_gguf_drop(const wr_gguf *g, const void *data, size_t bytes);
/* No page of the file need stay resident; what is read later is read again. */
void wr_gguf_rest(const wr_gguf *g);

int64_t wr_gguf_n_tensors(const wr_gguf *g);
const wr_gguf_tensor *wr_gguf_tensor_at(const wr_gguf *g, int64_t index);
const wr_gguf_tensor *wr_gguf_tensor_find(const wr_gguf *g, const char *name); /* NULL when absent */

/* Metadata by key. Scalars: absent or of another kind gives false. Strings are views
 * into the file (not terminated). */
bool wr_gguf_has(const wr_gguf *g, const char *key);
bool wr_gguf_int(const wr_gguf *g, const char *key, int64_t *out);  /* any integer type or bool */
bool wr_gguf_float(const wr_gguf *g, const char *key, double *out); /* f32, f64 or integer */
bool wr_gguf_string(const wr_gguf *g, const char *key, const char **text, size_t *bytes);
/* Arrays: element type and count; elements by index (strings in constant time). */
bool wr_gguf_array(const wr_gguf *g, const char *key, wr_gguf_type *type, int64_t *n);
bool wr_gguf_array_int(const wr_gguf *g, const char *key, int64_t index, int64_t *out);
bool wr_gguf_array_float(const wr_gguf *g, const char *key, int64_t index, double *out);
bool wr_gguf_array_string(const wr_gguf *g, const char *key, int64_t index, const char **text, size_t *bytes);
/* The same of an array that is looked up once, for those who read it whole: a view. NULL, without such a key, has no
 * elements. */
typedef struct wr_gguf_list wr_gguf_list;
const wr_gguf_list *wr_gguf_list_find(const wr_gguf *g, const char *key);
bool wr_gguf_list_int(const wr_gguf_list *list, int64_t index, int64_t *out);
bool wr_gguf_list_float(const wr_gguf_list *list, int64_t index, double *out);
bool wr_gguf_list_string(const wr_gguf_list *list, int64_t index, const char **text, size_t *bytes);

#endif
