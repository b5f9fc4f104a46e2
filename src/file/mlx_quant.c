/* Owns the table of per-module settings. Keys of the configuration and names of
 * tensors meet in one canonical form, because both come with and without the
 * prefixes `model.` and `language_model.`. */
#include "file/mlx_quant.h"

#include <string.h>

#include "base/mem.h"
#include "file/json.h"
#include "file/names.h"
#include "file/quant.h"
#include "file/shards.h"

typedef struct module_entry {
    char *module; /* canonical */
    bool quantised;
    weir_quant quant;
} module_entry;

struct wr_mlx_quant {
    bool present; /* the configuration has global settings */
    weir_quant global;
    module_entry *modules;
    size_t n_modules;
    wr_names names;
};

char *wr_module_canonical(const char *name) {
    const char *rest = name;
    bool add_model = false;
    if (wr_text_starts(rest, "model.language_model.")) {
        rest += strlen("model.language_model.");
        add_model = !wr_text_starts(rest, "model.") && !wr_text_starts(rest, "lm_head");
    } else if (wr_text_starts(rest, "language_model.")) {
        rest += strlen("language_model.");
    }
    if (wr_text_starts(rest, "layers.") || wr_text_starts(rest, "embed_tokens.") || wr_text_starts(rest, "norm.") ||
        strcmp(rest, "embed_tokens") == 0 || strcmp(rest, "norm") == 0)
        add_model = true;
    size_t n = strlen(rest);
    char *canonical = wr_malloc(n + sizeof "model.");
    if (!canonical) return NULL;
    if (add_model) memcpy(canonical, "model.", 6);
    memcpy(canonical + (add_model ? 6 : 0), rest, n + 1);
    return canonical;
}

/* ---- reading the configuration ---- */

static weir_status read_int(const json_t *object, const char *where, const char *key, int32_t *out, weir_error *err) {
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 65536) {
        char shown[64];
        wr_json_show(value, shown, sizeof shown);
        return WR_FAIL(err, WEIR_E_FORMAT, "quantization of %.200s: %s is %s", where, key, shown);
    }
    *out = (int32_t)json_integer_value(value);
    return WEIR_OK;
}

static weir_status read_settings(const json_t *object, const char *where, weir_quant *out, weir_error *err) {
    weir_quant_mode mode = WEIR_QUANT_AFFINE; /* also for a module whose global mode is another: MLX does so */
    const json_t *name = json_object_get(object, "mode");
    if (name && !json_is_null(name) && (!json_is_string(name) || !wr_quant_mlx_mode(json_string_value(name), &mode))) {
        char shown[64];
        wr_json_show(name, shown, sizeof shown);
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "quantization of %.200s: the mode %s is unknown", where, shown);
    }
    *out = wr_quant_default(mode);
    WR_TRY(read_int(object, where, "group_size", &out->group_size, err));
    WR_TRY(read_int(object, where, "bits", &out->bits, err));
    if (!wr_quant_valid(*out))
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "quantization of %.200s: %s with group_size %d and bits %d does not "
                       "exist",
                       where, weir_quant_name(mode), (int)out->group_size, (int)out->bits);
    return WEIR_OK;
}

static weir_status add_module(wr_mlx_quant *q, const char *key, const json_t *value, weir_error *err) {
    module_entry entry = {wr_module_canonical(key), json_is_object(value) || json_is_true(value), q->global};
    if (!entry.module) return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for the quantisation settings");
    if (json_is_object(value)) {
        weir_status status = read_settings(value, key, &entry.quant, err);
        if (status != WEIR_OK) {
            wr_free(entry.module);
            return status;
        }
    }
    q->modules[q->n_modules] = entry;
    int64_t other = wr_names_add(&q->names, entry.module, strlen(entry.module), (int64_t)q->n_modules);
    q->n_modules++;
    if (other < 0) return WEIR_OK;
    const module_entry *before = &q->modules[other];
    if (before->quantised == entry.quantised && memcmp(&before->quant, &entry.quant, sizeof entry.quant) == 0)
        return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "quantization: '%.200s' contradicts another key for the same module", key);
}

static weir_status read_modules(wr_mlx_quant *q, json_t *object, weir_error *err) {
    const char *key;
    json_t *value;
    q->modules = wr_calloc(json_object_size(object) + 1, sizeof *q->modules);
    if (!q->modules || !wr_names_init(&q->names, json_object_size(object)))
        return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for the quantisation settings");
    json_object_foreach(object, key, value) {
        if (json_is_object(value) || json_is_boolean(value)) WR_TRY(add_module(q, key, value, err));
    }
    return WEIR_OK;
}

static weir_status read_config(wr_mlx_quant *q, const wr_config *config, weir_error *err) {
    const json_t *object = wr_config_find(config, "quantization");
    if (!object) {
        object = wr_config_find(config, "quantization_config");
        const json_t *method = json_object_get(object, "quant_method");
        if (method) {
            char shown[64];
            wr_json_show(method, shown, sizeof shown);
            return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                           "the checkpoint is quantised by quant_method %s, which weir does "
                           "not read; use an MLX, GGUF or unquantised version",
                           shown);
        }
    }
    if (!object) return WEIR_OK;
    if (!json_is_object(object)) return WR_FAIL(err, WEIR_E_FORMAT, "config.json: quantization is not an object");
    q->present = true;
    WR_TRY(read_settings(object, "the model", &q->global, err));
    return read_modules(q, (json_t *)object, err); /* iteration in jansson takes no const */
}

weir_status wr_mlx_quant_new(const wr_config *config, wr_mlx_quant **out, weir_error *err) {
    *out = NULL;
    wr_mlx_quant *q = wr_calloc(1, sizeof *q);
    if (!q) return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for the quantisation settings");
    q->global = wr_quant_default(WEIR_QUANT_AFFINE);
    weir_status status = read_config(q, config, err);
    if (status == WEIR_OK)
        *out = q;
    else
        wr_mlx_quant_free(q);
    return status;
}

void wr_mlx_quant_free(wr_mlx_quant *q) {
    if (!q) return;
    for (size_t i = 0; i < q->n_modules; i++) wr_free(q->modules[i].module);
    wr_free(q->modules);
    wr_names_deinit(&q->names);
    wr_free(q);
}

/* ---- asking ---- */

bool wr_mlx_quant_says(const wr_mlx_quant *q, const char *module, bool *listed, weir_quant *out) {
    int64_t i = wr_names_find(&q->names, module, strlen(module));
    *listed = i >= 0;
    *out = i >= 0 ? q->modules[i].quant : q->global;
    return i >= 0 ? q->modules[i].quantised : q->present;
}

/* Two settings that make the same number of bits a group: the configuration decides,
 * or what it says of one of the two. */
static bool fit_affine(const wr_mlx_stored *stored, weir_quant said, weir_quant *out) {
    *out = wr_quant_default(WEIR_QUANT_AFFINE);
    if (stored->cols == 0) return false;
    if (stored->cols > 0) { /* then both follow */
        if (stored->cols % stored->groups != 0 || stored->words * 32 % stored->cols != 0) return false;
        int64_t group = stored->cols / stored->groups, bits = stored->words * 32 / stored->cols;
        if (group > 128 || bits > 8) return false;
        out->group_size = (int32_t)group;
        out->bits = (int32_t)bits;
        return wr_quant_valid(*out);
    }
    if (stored->words * 32 % stored->groups != 0) return false;
    int64_t product = stored->words * 32 / stored->groups;
    if (product > 128 * 8) return false;
    if (said.group_size * said.bits == product) {
        *out = said;
        return true;
    }
    /* Mixed checkpoints vary the bits more often than the group. */
    out->group_size = said.group_size;
    out->bits = (int32_t)product / said.group_size;
    if (product % said.group_size == 0 && wr_quant_valid(*out)) return true;
    out->bits = said.bits;
    out->group_size = (int32_t)product / said.bits;
    return product % said.bits == 0 && wr_quant_valid(*out);
}

static bool fit_block_float(const wr_mlx_stored *stored, weir_quant *out) {
    for (int mode = WEIR_QUANT_MXFP4; mode <= WEIR_QUANT_MXFP8; mode++) {
        *out = wr_quant_default((weir_quant_mode)mode);
        /* Bits a group: 128, 64, 256. They differ, so the geometry alone decides. */
        if (stored->words * 32 == stored->groups * out->group_size * out->bits)
            return stored->cols < 0 || stored->cols == stored->groups * out->group_size;
    }
    return false;
}

weir_status wr_mlx_quant_find(const wr_mlx_quant *q, const char *module, const wr_mlx_stored *stored, weir_quant *out,
                              weir_error *err) {
    bool listed;
    weir_quant said;
    wr_mlx_quant_says(q, module, &listed, &said);
    if (said.mode != WEIR_QUANT_AFFINE) said = wr_quant_default(WEIR_QUANT_AFFINE);
    if (stored->u8_scales == stored->biases)
        return WR_FAIL(err, WEIR_E_FORMAT, "module '%s' has %s, which no quantisation mode has", module,
                       stored->biases ? "u8 scales and biases" : "float scales and no biases");
    /* 2^40 keeps the products below far from overflow. */
    bool sane = stored->words > 0 && stored->groups > 0 && stored->words < (int64_t)1 << 40 &&
                stored->groups < (int64_t)1 << 40 && stored->cols < (int64_t)1 << 40;
    if (sane && (stored->biases ? fit_affine(stored, said, out) : fit_block_float(stored, out))) return WEIR_OK;
    char wanted[48] = "";
    if (stored->cols >= 0) snprintf(wanted, sizeof wanted, " of %lld values", (long long)stored->cols);
    return WR_FAIL(err, WEIR_E_FORMAT, "module '%s': %lld words and %lld scales a row make no row%s in any %s mode",
                   module, (long long)stored->words, (long long)stored->groups, wanted,
                   stored->biases ? "affine" : "block-float");
}
