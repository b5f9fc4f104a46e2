/* How the modules of an MLX checkpoint are quantised: the `quantization` object of
 * its configuration, and the geometry of what is stored, which wins. */
#ifndef WR_FILE_MLX_QUANT_H
#define WR_FILE_MLX_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "file/config.h"
#include "weir/dtype.h"

typedef struct wr_mlx_quant wr_mlx_quant;

/* Reads and checks the settings; fine when there are none. UNSUPPORTED for another
 * system's quantization_config (AWQ, GPTQ and the like). */
weir_status wr_mlx_quant_new(const wr_config *config, wr_mlx_quant **out, weir_error *err);
void wr_mlx_quant_free(wr_mlx_quant *quant);

/* What the configuration says of a module: true and *out when quantised. For
 * modules without an entry *listed is false and the global settings count. */
bool wr_mlx_quant_says(const wr_mlx_quant *quant, const char *module, bool *listed, weir_quant *out);

/* What is stored for one module. */
typedef struct wr_mlx_stored {
    int64_t words;  /* u32 words in a row of .weight */
    int64_t groups; /* elements in a row of .scales */
    int64_t cols;   /* values in a row as the model expects, or -1 */
    bool u8_scales, biases;
} wr_mlx_stored;

/* The settings that fit both; an error that names the module when none does. */
weir_status wr_mlx_quant_find(const wr_mlx_quant *quant, const char *module, const wr_mlx_stored *stored,
                              weir_quant *out, weir_error *err);

/* "language_model.model.layers.0.x", "model.language_model.layers.0.x" and "layers.0.x" all
 * become "model.layers.0.x"; other names stay. Allocated; NULL when out of memory. */
char *wr_module_canonical(const char *name);

#endif
