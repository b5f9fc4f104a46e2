/* Each memory and each I/O call of opening a model fails once: that gives a status with a
 * message, leaks nothing (run under the address sanitizer), and the next attempt works. */
#include "fixture.h"

#include "base/fault.h"
#include "base/mem.h"
#include "file/config.h"
#include "file/checkpoint.h"
#include "file/gguf.h"
#include "file/safetensors.h"
#include "file/store.h"

typedef weir_status (*operation)(weir_error *err);

static weir_status open_safetensors(weir_error *err) {
    wr_safetensors *st;
    weir_status status = wr_safetensors_open(VALID "/sharded", &st, err);
    if (status != WEIR_OK) assert_null(st);
    wr_safetensors_close(st);
    return status;
}

static weir_status open_gguf(weir_error *err) {
    wr_gguf *g;
    weir_status status = wr_gguf_open(VALID "/types.gguf", &g, err);
    if (status != WEIR_OK) assert_null(g);
    wr_gguf_close(g);
    return status;
}

static weir_status open_config(weir_error *err) {
    wr_config *config;
    weir_status status = wr_config_read(VALID "/mlx/config.json", &config, err);
    if (status != WEIR_OK) assert_null(config);
    wr_config_free(config);
    return status;
}

/* Opening, a packed weight that must be copied to be aligned, and the end tokens. */
static weir_status use_checkpoint(const char *path, const char *module, weir_error *err) {
    wr_checkpoint *c;
    wr_weight w;
    int32_t ids[8];
    size_t n;
    weir_status status = wr_checkpoint_open(path, &c, err);
    if (status != WEIR_OK)
        assert_null(c);
    else if ((status = wr_checkpoint_weight(c, module, -1, -1, -1, &w, err)) == WEIR_OK &&
             (status = wr_checkpoint_align(c, &w, err)) == WEIR_OK)
        status = wr_checkpoint_eos(c, ids, 8, &n, err);
    wr_checkpoint_close(c);
    return status;
}

static weir_status open_mlx(weir_error *err) { return use_checkpoint(VALID "/mlx", "model.layers.2.scaled", err); }
static weir_status open_sharded(weir_error *err) { return use_checkpoint(VALID "/sharded", "model.layers.2.w", err); }
static weir_status open_gguf_checkpoint(weir_error *err) {
    return use_checkpoint(VALID "/qwen3.gguf", "model.embed_tokens", err);
}

static weir_status count(void *context, const wr_store_entry *entry, weir_error *err) {
    (void)entry, (void)err;
    ++*(int *)context;
    return WEIR_OK;
}

static weir_status list_store(weir_error *err) {
    int n = 0;
    setenv("WEIR_STORE", VALID, 1);
    setenv("HF_HUB_CACHE", VALID, 1);
    weir_status status = wr_store_list(count, &n, err);
    if (status == WEIR_OK) assert_int_equal(n, 8); /* six .gguf files, two folders */
    return status;
}

static weir_status resolve_name(weir_error *err) {
    char *path;
    setenv("WEIR_STORE", VALID, 1);
    weir_status status = wr_store_resolve("gemma3", &path, err);
    wr_free(path);
    return status;
}

/* tolerant: an operation that reports an I/O failure as a property of a model. */
static void sweep(operation run, wr_fault_kind kind, bool tolerant, uint64_t at_least) {
    weir_error err;
    assert_ok(run(&err)); /* also makes everything that is made once */
    uint64_t n = 1;
    for (;; n++) {
        assert_true(n < 100000);
        err = (weir_error){0};
        wr_fault_arm(kind, n);
        weir_status status = run(&err);
        uint64_t calls = wr_fault_calls(kind);
        wr_fault_arm(kind, 0);
        if (calls < n) { /* the nth call does not exist: all have failed once */
            assert_ok(status);
            break;
        }
        if (!tolerant) {
            assert_int_equal(status, kind == WR_FAULT_MEMORY ? WEIR_E_MEMORY : WEIR_E_IO);
            assert_int_equal(status, err.status);
            assert_true(strlen(err.message) > 8);
        }
        assert_ok(run(&err));
    }
    assert_true(n > at_least);
}

static void safetensors_survives_each_failure(void **state) {
    (void)state;
    sweep(open_safetensors, WR_FAULT_MEMORY, false, 50);
    sweep(open_safetensors, WR_FAULT_IO, false, 10);
}

static void gguf_survives_each_failure(void **state) {
    (void)state;
    sweep(open_gguf, WR_FAULT_MEMORY, false, 5);
    sweep(open_gguf, WR_FAULT_IO, false, 2);
}

static void configuration_survives_each_failure(void **state) {
    (void)state;
    sweep(open_config, WR_FAULT_MEMORY, false, 50);
    sweep(open_config, WR_FAULT_IO, false, 2);
}

static void checkpoints_survive_each_failure(void **state) {
    (void)state;
    sweep(open_mlx, WR_FAULT_MEMORY, false, 100);
    sweep(open_mlx, WR_FAULT_IO, false, 10);
    sweep(open_sharded, WR_FAULT_MEMORY, false, 100);
    sweep(open_sharded, WR_FAULT_IO, false, 10);
    sweep(open_gguf_checkpoint, WR_FAULT_MEMORY, false, 50);
    sweep(open_gguf_checkpoint, WR_FAULT_IO, false, 2);
}

static void the_store_survives_each_failure(void **state) {
    (void)state;
    sweep(list_store, WR_FAULT_MEMORY, false, 20);
    sweep(list_store, WR_FAULT_IO, true, 2);
    sweep(resolve_name, WR_FAULT_MEMORY, false, 5);
    sweep(resolve_name, WR_FAULT_IO, false, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_survives_each_failure),   cmocka_unit_test(gguf_survives_each_failure),
        cmocka_unit_test(configuration_survives_each_failure), cmocka_unit_test(checkpoints_survive_each_failure),
        cmocka_unit_test(the_store_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
