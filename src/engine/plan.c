/* Owns the settling of options and the memory plan. */
#include "engine/plan.h"

#include <string.h>

enum {
    DEFAULT_CONTEXT = 8192,
    DEFAULT_BATCH = 8,
    DEFAULT_STEP_TOKENS = 256,
    DEFAULT_DEVICE_STEP_TOKENS = 2048,
    MAX_BATCH = 1024,
    MAX_STEP_TOKENS = 8192
};

static weir_status check_count(const char *name, int64_t value, int64_t high, weir_error *err) {
    if (value >= 1 && value <= high) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s is %lld; it must be from 1 to %lld", name, (long long)value,
                   (long long)high);
}

/* Defaults filled in, everything in range. */
static weir_status settle_options(wr_plan *p, weir_error *err) {
    weir_engine_options *o = &p->options;
    int64_t model_context = p->model->hyper.max_positions;
    if (!o->max_context) o->max_context = model_context < DEFAULT_CONTEXT ? model_context : DEFAULT_CONTEXT;
    bool host = !p->model->backend->runtime;
    if (!o->max_step_tokens) o->max_step_tokens = host ? DEFAULT_STEP_TOKENS : DEFAULT_DEVICE_STEP_TOKENS;
    WR_TRY(check_count("max_step_tokens", o->max_step_tokens, MAX_STEP_TOKENS, err)); /* max_batch follows from it */
    if (!o->max_batch) o->max_batch = o->max_step_tokens < DEFAULT_BATCH ? o->max_step_tokens : DEFAULT_BATCH;
    if (!o->kv_dtype) o->kv_dtype = p->model->backend->kv;
    if (o->max_context > model_context)
        return WR_FAIL(err, WEIR_E_LIMIT, "a context of %lld tokens is more than the model's %lld",
                       (long long)o->max_context, (long long)model_context);
    WR_TRY(check_count("max_context", o->max_context, model_context, err));
    WR_TRY(check_count("max_batch", o->max_batch, MAX_BATCH, err));
    if (o->max_step_tokens < o->max_batch)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "max_step_tokens %lld is less than max_batch %lld",
                       (long long)o->max_step_tokens, (long long)o->max_batch);
    if (o->kv_dtype != WEIR_DTYPE_F16 && o->kv_dtype != WEIR_DTYPE_BF16 && o->kv_dtype != WEIR_DTYPE_F32)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "kv_dtype %s; it must be f16, bf16 or f32", weir_dtype_name(o->kv_dtype));
    return WEIR_OK;
}

static weir_status make(wr_plan *p, const char *model, weir_error *err) {
    WR_TRY(wr_checkpoint_open(model, &p->checkpoint, err));
    const wr_backend *backend;
    int ordinal;
    const char *wanted = p->options.device;
    if (!wanted || !*wanted) wanted = getenv("WEIR_DEVICE");
    if (!wanted || !*wanted) wanted = "auto";
    WR_TRY(wr_device_backend(wanted, &backend, &ordinal, err));
    if (backend->runtime)
        snprintf(p->device, sizeof p->device, "%s:%d", backend->name, ordinal);
    else
        snprintf(p->device, sizeof p->device, "%s", backend->name);
    WR_TRY(wr_model_open(p->checkpoint, backend, &p->model, err));
    WR_TRY(settle_options(p, err));
    const weir_engine_options *o = &p->options;
    for (int g = 0; g < p->model->hyper.n_kv_groups; g++)
        p->kv_bytes_per_token += wr_model_kv_bytes_per_token(p->model, g, o->kv_dtype);
    return wr_kv_plan_make(p->model, o->max_context, o->max_batch, o->max_step_tokens, o->kv_bytes, o->kv_dtype, &p->kv,
                           err);
}

weir_status wr_plan_init(wr_plan *p, const char *model, const weir_engine_options *options, weir_error *err) {
    *p = (wr_plan){0};
    if (!model || !*model) return WR_FAIL(err, WEIR_E_ARGUMENT, "no model named");
    if (options) p->options = *options;
    weir_status st = make(p, model, err);
    if (st != WEIR_OK) wr_plan_deinit(p);
    return st;
}

void wr_plan_deinit(wr_plan *p) {
    wr_model_close(p->model);
    wr_checkpoint_close(p->checkpoint);
    p->model = NULL, p->checkpoint = NULL;
}
