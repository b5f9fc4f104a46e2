/* A model: hyperparameters, bound weights and the graph of one step. Each family
 * is one file: what configs it matches, its weight table, its graph. */
#ifndef WR_MODELS_MODEL_H
#define WR_MODELS_MODEL_H

#include "array/graph.h"
#include "file/checkpoint.h"
#include "weir/ops.h"

enum { WR_MAX_LAYERS = 512, WR_MAX_KV_GROUPS = 2, WR_MAX_ROPES = 2 };

/* Places for weights. Global ones are bound once, the others once a layer. A family uses what it needs. */
typedef enum wr_slot {
    WR_SLOT_EMBED,
    WR_SLOT_FINAL_NORM,
    WR_SLOT_HEAD,
    WR_N_GLOBAL_SLOTS,
    WR_SLOT_ATTN_NORM = WR_N_GLOBAL_SLOTS, /* before attention */
    WR_SLOT_Q,
    WR_SLOT_K,
    WR_SLOT_V,
    WR_SLOT_O,
    WR_SLOT_Q_BIAS,
    WR_SLOT_K_BIAS,
    WR_SLOT_V_BIAS,
    WR_SLOT_O_BIAS,
    WR_SLOT_Q_NORM,
    WR_SLOT_K_NORM,
    WR_SLOT_ATTN_OUT_NORM, /* after attention, before the residual */
    WR_SLOT_FFN_NORM,
    WR_SLOT_GATE,
    WR_SLOT_UP,
    WR_SLOT_DOWN,
    WR_SLOT_GATE_BIAS,
    WR_SLOT_UP_BIAS,
    WR_SLOT_DOWN_BIAS,
    WR_SLOT_FFN_OUT_NORM,
    /* Several of the above as one, where the backend joins rows and their formats are equal. */
    WR_SLOT_QKV,
    WR_SLOT_QKV_BIAS,
    WR_SLOT_GATE_UP,
    WR_SLOT_GATE_UP_BIAS,
    WR_N_SLOTS
} wr_slot;

/* Dimensions that a weight table may name. */
typedef enum wr_dim { WR_DIM_NONE, WR_DIM_HIDDEN, WR_DIM_Q, WR_DIM_KV, WR_DIM_HEAD, WR_DIM_FFN, WR_DIM_VOCAB } wr_dim;

/* One row of a family's weight table. name: with %d for the layer; matrices without ".weight". cols NONE: a vector. */
typedef struct wr_weight_rule {
    wr_slot slot;
    const char *name;
    wr_dim rows, cols;
    enum { WR_ALWAYS, WR_IF_UNTIED, WR_IF_QKV_BIAS, WR_IF_O_BIAS, WR_IF_MLP_BIAS } when;
} wr_weight_rule;

typedef struct wr_hyper {
    int64_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn, max_positions;
    float norm_eps, norm_offset; /* weight + offset in rms norms */
    bool tied, qkv_bias, o_bias, mlp_bias, gelu;
    float embed_scale;                 /* multiplies the embedding; 1 for most */
    float attn_scale;                  /* 1/sqrt(head_dim) for most */
    float attn_softcap, logit_softcap; /* 0: none */
    bool rope_interleaved;
    int n_ropes;
    wr_rope_table_args rope[WR_MAX_ROPES];
    int n_kv_groups;
    int64_t window[WR_MAX_KV_GROUPS]; /* 0: all keys */
    uint8_t layer_rope[WR_MAX_LAYERS], layer_kv_group[WR_MAX_LAYERS];
} wr_hyper;

/* A bound weight: where it lies in the checkpoint, then where it was laid out. */
typedef struct wr_bound {
    bool present;
    bool vector;          /* f32 [rows] */
    bool joined;          /* made of others, which lie there: nothing of its own to load */
    const float *values;  /* vectors: [rows], in the model's arena */
    wr_weight source;     /* matrices */
    wr_linear_args args;  /* matrices; args.packed set once loaded that way */
    size_t offset, bytes; /* in the weight arena; 0 bytes: stays in the mapped file */
    wr_buffer *data, *scales, *biases;
    const char *name; /* the checkpoint's; in the model's arena */
} wr_bound;

typedef struct wr_family wr_family;
typedef struct wr_model {
    const wr_family *family;
    wr_checkpoint *checkpoint; /* borrowed */
    wr_hyper hyper;
    wr_bound global[WR_N_GLOBAL_SLOTS];
    wr_bound *layers; /* [n_layers][WR_N_SLOTS] */
    const wr_backend *backend;
    wr_arena arena;      /* names, vectors */
    size_t weight_bytes; /* arena of laid-out weights; with the vectors where the device has memory of its own */
    size_t mapped_bytes; /* weights that stay in the file */
    weir_device *device; /* that the weights were loaded on; NULL before */
    void *weights;
} wr_model;

/* What the graph of a step is built from. Leaves are buffers that the engine fills before each run. */
typedef struct wr_step_inputs {
    weir_array *tokens;                        /* i32 [T] */
    weir_array *row_seq, *row_pos;             /* i32 [T]; row_seq -1: padding */
    weir_array *block_table[WR_MAX_KV_GROUPS]; /* i32 [S, max_pages] */
    weir_array **k_pages, **v_pages;           /* [n_layers] state leaves [P, page, G, D] */
} wr_step_inputs;

struct wr_family {
    const char *name;
    const char *const *model_types; /* NULL-ended */
    const wr_weight_rule *rules;    /* beside wr_rules_common; ended by name NULL */
    weir_status (*configure)(const wr_config *config, wr_hyper *hyper, weir_error *err);
    weir_array *(*body)(const wr_model *model, const wr_step_inputs *in); /* -> [T, hidden] f32 */
};
extern const wr_family *const wr_families[];   /* NULL-ended */
extern const wr_weight_rule wr_rules_common[]; /* names that every family here shares; ended by name NULL */

/* What a weight table says of a configuration, for those who walk it. */
const wr_family *wr_family_find(const char *model_type); /* NULL when there is none */
int64_t wr_rule_dim(const wr_hyper *hyper, wr_dim dim);
bool wr_rule_applies(const wr_weight_rule *rule, const wr_hyper *hyper);
bool wr_rule_per_layer(const wr_weight_rule *rule);
void wr_rule_name(const wr_weight_rule *rule, int64_t layer, char *out, size_t cap);

/* Find the family, read the configuration, bind every weight; nothing is loaded, so this serves `weir inspect`. */
weir_status wr_model_open(wr_checkpoint *checkpoint, const wr_backend *backend, wr_model **out, weir_error *err);
/* Lay the weights out for the backend. progress may be NULL. */
weir_status wr_model_load(wr_model *model, weir_device *device, void (*progress)(void *, double), void *context,
                          weir_error *err);
/* Between the two, graphs of an unloaded model can be built and planned, not run: its weights lie nowhere. */
weir_status wr_model_sketch(wr_model *model, weir_error *err);
void wr_model_unsketch(wr_model *model);
void wr_model_close(wr_model *model);

/* hidden [R, hidden] -> logits f32 [R, vocab]: final norm, head, soft cap. */
weir_array *wr_model_head(const wr_model *model, weir_array *hidden);
/* Columns of a head in pages of keys or values, and bytes of both of one token in one KV group. */
int64_t wr_model_kv_columns(const wr_model *model);
size_t wr_model_kv_bytes_per_token(const wr_model *model, int group, weir_dtype kv_dtype);

#endif
