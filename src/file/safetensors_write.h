/* Writes safetensors as they are published: one model.safetensors, or, above a size,
 * model-00001-of-0000n.safetensors with model.safetensors.index.json. First every
 * tensor is named, then the files are made, then the data comes piece by piece, in
 * any order and from any thread, so that memory is bounded by the pieces. */
#ifndef WR_FILE_SAFETENSORS_WRITE_H
#define WR_FILE_SAFETENSORS_WRITE_H

#include <stdint.h>

#include "base/status.h"
#include "weir/dtype.h"

typedef struct wr_safetensors_writer wr_safetensors_writer;

/* shard_bytes: a file takes no further tensor that would carry its data beyond this; 0: 4 GiB. */
weir_status wr_safetensors_writer_new(uint64_t shard_bytes, wr_safetensors_writer **out, weir_error *err);
/* Closes the files as they are. */
void wr_safetensors_writer_free(wr_safetensors_writer *w);

/* Tensors are numbered from 0 in the order of adding, which is also their order in the files. bool, u8 to i64, f16,
 * bf16, f32. shape: at most WR_SAFETENSORS_DIMS. FORMAT for a name that was there already. */
weir_status wr_safetensors_writer_add(wr_safetensors_writer *w, const char *name, weir_dtype dtype, int n_dims,
                                      const int64_t *shape, weir_error *err);
/* No more tensors: cut into files, make the headers. Needs no folder, so that sizes can be told beforehand. */
weir_status wr_safetensors_writer_layout(wr_safetensors_writer *w, weir_error *err);
uint64_t wr_safetensors_writer_bytes(const wr_safetensors_writer *w); /* of all weight files with their headers */
int wr_safetensors_writer_n_shards(const wr_safetensors_writer *w);

/* Create the files in the folder, which must be there and hold none of them; headers and index are written. */
weir_status wr_safetensors_writer_create(wr_safetensors_writer *w, const char *folder, weir_error *err);
/* Bytes [offset, offset + bytes) of a tensor. Any thread. Every byte must come exactly once. */
weir_status wr_safetensors_writer_write(wr_safetensors_writer *w, int64_t tensor, uint64_t offset, const void *data,
                                        size_t bytes, weir_error *err);
/* STATE unless all bytes came. */
weir_status wr_safetensors_writer_finish(wr_safetensors_writer *w, weir_error *err);

#endif
