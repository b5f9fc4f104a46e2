/* What families read from configurations: newer and older forms alike, and
 * nothing that would change the output is ignored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/model.h"

#define SIZES                                                                                                          \
    "\"vocab_size\":157,\"hidden_size\":32,\"num_hidden_layers\":4,\"num_attention_heads\":2,"                         \
    "\"num_key_value_heads\":1,\"head_dim\":16,\"intermediate_size\":64,\"max_position_embeddings\":2048"

static weir_status configure(const char *family, const char *more, wr_hyper *h, weir_error *err) {
    char text[2048];
    wr_config *config;
    snprintf(text, sizeof text, "{" SIZES "%s%s}", *more ? "," : "", more);
    assert_int_equal(wr_config_parse(text, strlen(text), "config.json", &config, err), WEIR_OK);
    memset(h, 0, sizeof *h);
    const wr_family *const *f = wr_families;
    while (strcmp((*f)->name, family)) f++;
    weir_status st = (*f)->configure(config, h, err);
    wr_config_free(config);
    return st;
}

static wr_hyper *configured(const char *family, const char *more) {
    wr_hyper *h = malloc(sizeof *h);
    weir_error err = {0};
    if (configure(family, more, h, &err) != WEIR_OK) fail_msg("%s", err.message);
    return h;
}

static void refused(const char *family, const char *more, weir_status expected, const char *named) {
    wr_hyper h;
    weir_error err = {0};
    assert_int_equal(configure(family, more, &h, &err), expected);
    if (!strstr(err.message, named)) fail_msg("\"%s\" does not name %s", err.message, named);
}

static void same_rope(const char *family, const char *one, const char *other) {
    wr_hyper *a = configured(family, one), *b = configured(family, other);
    assert_int_equal(a->n_ropes, b->n_ropes);
    for (int r = 0; r < a->n_ropes; r++) {
        assert_int_equal(a->rope[r].half, b->rope[r].half);
        assert_memory_equal(a->rope[r].inv_freq, b->rope[r].inv_freq, (size_t)a->rope[r].half * sizeof(double));
    }
    free(a);
    free(b);
}

static void rope_of_the_newer_form_equals_the_older(void **state) {
    (void)state;
    same_rope("llama", "\"rope_theta\":5000,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}",
              "\"rope_parameters\":{\"rope_theta\":5000,\"rope_type\":\"linear\",\"factor\":4}");
    same_rope("gemma3",
              "\"rope_theta\":2e6,\"rope_local_base_freq\":3000,"
              "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}",
              "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":2e6,\"rope_type\":\"linear\",\"factor\":8},"
              "\"sliding_attention\":{\"rope_theta\":3000,\"rope_type\":\"default\"}}");
}

static void a_linear_factor_divides_the_frequencies(void **state) {
    (void)state;
    wr_hyper *plain = configured("gemma3", "");
    wr_hyper *scaled = configured("gemma3", "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                                            "\"factor\":8}}");
    for (int i = 0; i < 8; i++) { /* halves of a head of 16; a division by 8 is exact */
        assert_true(scaled->rope[0].inv_freq[i] == plain->rope[0].inv_freq[i] / 8);
        assert_true(scaled->rope[1].inv_freq[i] == plain->rope[1].inv_freq[i]); /* windowed layers */
    }
    free(plain);
    free(scaled);
}

static void late_layers_of_qwen_are_windowed_when_asked(void **state) {
    (void)state;
    static const char *const families[] = {"qwen2", "qwen3"};
    for (size_t f = 0; f < 2; f++) {
        wr_hyper *h = configured(families[f], "\"use_sliding_window\":false,\"sliding_window\":9");
        assert_int_equal(h->n_kv_groups, 1);
        assert_int_equal(h->window[0], 0);
        free(h);
        h = configured(families[f], "\"use_sliding_window\":true,\"sliding_window\":9,\"max_window_layers\":3");
        assert_int_equal(h->n_kv_groups, 2);
        assert_int_equal(h->window[0], 0);
        assert_int_equal(h->window[1], 9);
        for (int i = 0; i < 4; i++) assert_int_equal(h->layer_kv_group[i], i == 3);
        free(h);
        h = configured(families[f], "\"use_sliding_window\":true,\"sliding_window\":9,\"max_window_layers\":0");
        assert_int_equal(h->n_kv_groups, 1);
        assert_int_equal(h->window[0], 9);
        free(h);
        h = configured(families[f], "\"use_sliding_window\":true,\"sliding_window\":9,\"max_window_layers\":4");
        assert_int_equal(h->n_kv_groups, 1);
        assert_int_equal(h->window[0], 0);
        free(h);
    }
}

static void what_cannot_be_done_is_refused_by_name(void **state) {
    (void)state;
    refused("llama", "\"hidden_act\":\"gelu\"", WEIR_E_UNSUPPORTED, "gelu");
    refused("qwen2", "\"hidden_act\":\"relu\"", WEIR_E_UNSUPPORTED, "relu");
    refused("qwen3", "\"hidden_act\":\"gelu\"", WEIR_E_UNSUPPORTED, "hidden_act");
    refused("gemma3", "\"hidden_activation\":\"relu\"", WEIR_E_UNSUPPORTED, "relu");
    refused("gemma3", "\"use_bidirectional_attention\":true", WEIR_E_UNSUPPORTED, "use_bidirectional_attention");
    refused("gemma3", "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"yarn\"}}", WEIR_E_UNSUPPORTED,
            "yarn");
    refused("llama", "\"rope_scaling\":{\"rope_type\":\"mrope\"}", WEIR_E_UNSUPPORTED, "mrope");
    refused("llama", "\"rope_scaling\":{\"rope_type\":\"linear\"}", WEIR_E_FORMAT, "factor");
    refused("llama", "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":0}", WEIR_E_FORMAT, "factor");
    refused("qwen2", "\"use_sliding_window\":true", WEIR_E_FORMAT, "sliding_window");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_of_the_newer_form_equals_the_older),
        cmocka_unit_test(a_linear_factor_divides_the_frequencies),
        cmocka_unit_test(late_layers_of_qwen_are_windowed_when_asked),
        cmocka_unit_test(what_cannot_be_done_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
