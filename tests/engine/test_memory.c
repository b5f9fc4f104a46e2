/* The memory plan: what is said before anything is loaded is what an engine takes, and what does not fit a device is
 * refused with the numbers and the way out. */
#include "engine/drive.h"
#include "engine/internal.h"

static const char *const models[] = {
    WR_SOURCE_DIR "/tests/data/checkpoints/llama-affine-b4g64-untied",
    WR_SOURCE_DIR "/tests/data/checkpoints/llama-f16-untied",
};

static void the_plan_is_what_an_engine_takes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        weir_engine_options o = {
            .device = "cpu", .n_threads = 2, .max_context = 128, .max_batch = 3, .max_step_tokens = 24};
        wr_plan plan;
        wr_memory memory;
        weir_error err;
        assert_int_equal(wr_plan_init(&plan, models[i], &o, &err), WEIR_OK);
        assert_int_equal(wr_plan_measure(&plan, &memory, &err), WEIR_OK);
        assert_string_equal(plan.device, "cpu");
        wr_plan_deinit(&plan);

        weir_engine *engine = open_engine_or_fail(models[i], &o);
        weir_engine_info info;
        weir_engine_get_info(engine, &info);
        assert_string_equal(info.device, "cpu");
        assert_int_equal(memory.weights + memory.mapped, info.weight_bytes);
        assert_int_equal(memory.kv, info.kv_bytes);
        assert_int_equal(memory.arena, info.activation_bytes);
        assert_int_equal(memory.inputs, engine->feed.bytes);
        assert_int_equal(memory.hidden, engine->hidden->bytes);
        assert_true(memory.arena > 0 && memory.inputs > 0);
        assert_int_equal(memory.total, 0); /* the CPU's is not counted */
        weir_engine_close(engine);
    }
}

/* A plan may be measured again and again, and the model be loaded afterwards. */
static void measuring_leaves_the_model_as_it_was(void **state) {
    (void)state;
    weir_engine_options o = {.device = "cpu", .n_threads = 1, .max_context = 64, .max_step_tokens = 8};
    wr_plan plan;
    wr_memory first, second;
    weir_error err;
    assert_int_equal(wr_plan_init(&plan, models[0], &o, &err), WEIR_OK);
    assert_int_equal(wr_plan_measure(&plan, &first, &err), WEIR_OK);
    assert_int_equal(wr_plan_measure(&plan, &second, &err), WEIR_OK);
    assert_memory_equal(&first, &second, sizeof first);
    weir_device *device;
    assert_int_equal(weir_device_open("cpu", 1, &device, &err), WEIR_OK);
    assert_int_equal(wr_model_load(plan.model, device, NULL, NULL, &err), WEIR_OK);
    wr_plan_deinit(&plan);
    weir_device_close(device);
}

static void what_does_not_fit_is_refused_with_numbers(void **state) {
    (void)state;
    static const struct {
        wr_memory memory;
        const char *hint; /* NULL: it fits */
    } cases[] = {
        {{.weights = 600,
          .kv = 300,
          .arena = 60,
          .hidden = 20,
          .inputs = 15,
          .sampled = 3,
          .counts = 2,
          .free = 1000,
          .total = 2000},
         NULL},
        {{.weights = 600,
          .kv = 301,
          .arena = 60,
          .hidden = 20,
          .inputs = 15,
          .sampled = 3,
          .counts = 2,
          .free = 1000,
          .total = 2000},
         "kv_bytes to at most 300"},
        {{.weights = 1001, .kv = 300, .arena = 60, .free = 1000, .total = 2000}, "more strongly quantised"},
        {{.weights = 600, .kv = 10, .arena = 300, .hidden = 101, .free = 1000, .total = 2000}, "max_step_tokens"},
        {{.weights = 600, .kv = 10}, NULL}, /* a CPU: nothing is known of its memory */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        weir_status status = wr_memory_check(&cases[i].memory, "cuda:7", &err);
        assert_int_equal(status, cases[i].hint ? WEIR_E_MEMORY : WEIR_OK);
        if (!cases[i].hint) continue;
        assert_non_null(strstr(err.message, cases[i].hint));
        assert_non_null(strstr(err.message, "cuda:7"));
        assert_non_null(strstr(err.message, "1000 of 2000 are free"));
        char needed[32];
        snprintf(needed, sizeof needed, "%zu bytes", wr_memory_needed(&cases[i].memory));
        assert_non_null(strstr(err.message, needed));
    }
}

/* What nobody says is said by the environment; a name from there is an error like any other. */
static void the_environment_names_the_device(void **state) {
    (void)state;
    const char *before = getenv("WEIR_DEVICE");
    char *saved = before ? strdup(before) : NULL;
    weir_engine_options o = {.max_context = 64};
    wr_plan plan;
    weir_error err;
    setenv("WEIR_DEVICE", "abacus", 1);
    assert_int_equal(wr_plan_init(&plan, models[0], &o, &err), WEIR_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "abacus"));
    o.device = "cpu";
    assert_int_equal(wr_plan_init(&plan, models[0], &o, &err), WEIR_OK);
    wr_plan_deinit(&plan);
    setenv("WEIR_DEVICE", "cpu", 1);
    o.device = NULL;
    assert_int_equal(wr_plan_init(&plan, models[0], &o, &err), WEIR_OK);
    assert_string_equal(plan.device, "cpu");
    wr_plan_deinit(&plan);
    unsetenv("WEIR_DEVICE");
    if (saved) setenv("WEIR_DEVICE", saved, 1);
    free(saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_what_an_engine_takes),
        cmocka_unit_test(measuring_leaves_the_model_as_it_was),
        cmocka_unit_test(the_environment_names_the_device),
        cmocka_unit_test(what_does_not_fit_is_refused_with_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
