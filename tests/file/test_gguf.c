/* GGUF: what the gguf package wrote is read as that package reads it. */
#include "fixture.h"

#include <malloc.h>
#include <time.h>

#include "base/dtype.h"
#include "base/io.h"
#include "base/mem.h"
#include "file/gguf.h"

static void every_tensor_type_agrees_with_the_library(void **state) {
    (void)state;
    weir_error err;
    wr_gguf *g;
    assert_ok(wr_gguf_open(VALID "/types.gguf", &g, &err));
    json_t *said = fixture_json("types.json"), *tensors = json_object_get(said, "tensors");
    assert_int_equal(wr_gguf_n_tensors(g), json_array_size(tensors));
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *entry = json_array_get(tensors, i), *shape = json_object_get(entry, "shape");
        const wr_gguf_tensor *t = wr_gguf_tensor_find(g, fixture_text(entry, "name"));
        assert_ptr_equal(t, wr_gguf_tensor_at(g, (int64_t)i));
        bool dense = t->quant.mode == WEIR_QUANT_NONE;
        assert_string_equal(dense ? weir_dtype_name(t->dtype) : weir_quant_name(t->quant.mode),
                            fixture_text(entry, "type"));
        assert_int_equal(t->n_dims, json_array_size(shape));
        for (int k = 0; k < t->n_dims; k++)
            assert_int_equal(t->shape[k], json_integer_value(json_array_get(shape, (size_t)k)));
        assert_int_equal(t->bytes, fixture_int(entry, "bytes"));
        assert_true(fixture_is_hex(t->data, 8, fixture_text(entry, "head")));
        assert_true(fixture_is_hex(t->data + t->bytes - 8, 8, fixture_text(entry, "tail")));
        assert_int_equal((uintptr_t)t->data % 64, 0); /* the file asks for an alignment of 64 */
    }
    assert_null(wr_gguf_tensor_find(g, "w.none"));
    assert_null(wr_gguf_tensor_at(g, wr_gguf_n_tensors(g)));
    json_decref(said);
    wr_gguf_close(g);
}

static void check_scalar(const wr_gguf *g, const char *key, const json_t *value) {
    int64_t integer;
    double real;
    const char *text;
    size_t bytes;
    if (json_is_integer(value) || json_is_boolean(value)) {
        assert_true(wr_gguf_int(g, key, &integer));
        assert_int_equal(integer, json_is_integer(value) ? json_integer_value(value) : json_is_true(value));
        assert_false(wr_gguf_string(g, key, &text, &bytes));
    } else if (json_is_real(value)) {
        assert_true(wr_gguf_float(g, key, &real));
        assert_true(real == json_real_value(value)); /* the values are exact in their types */
        assert_false(wr_gguf_int(g, key, &integer));
    } else {
        assert_true(wr_gguf_string(g, key, &text, &bytes));
        assert_int_equal(bytes, json_string_length(value));
        assert_memory_equal(text, json_string_value(value), bytes);
        assert_false(wr_gguf_float(g, key, &real));
    }
}

static void check_array(const wr_gguf *g, const char *key, const json_t *list) {
    wr_gguf_type type;
    int64_t n, integer;
    double real;
    const char *text;
    size_t bytes;
    assert_true(wr_gguf_array(g, key, &type, &n));
    assert_int_equal(n, json_array_size(list));
    for (int64_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (json_is_string(value)) {
            assert_int_equal(type, WR_GGUF_STRING);
            assert_true(wr_gguf_array_string(g, key, i, &text, &bytes));
            assert_int_equal(bytes, json_string_length(value));
            assert_memory_equal(text, json_string_value(value), bytes);
            assert_false(wr_gguf_array_int(g, key, i, &integer));
        } else if (json_is_real(value)) {
            assert_true(wr_gguf_array_float(g, key, i, &real));
            assert_true(real == json_real_value(value));
        } else {
            assert_true(wr_gguf_array_int(g, key, i, &integer));
            assert_int_equal(integer, json_is_integer(value) ? json_integer_value(value) : json_is_true(value));
        }
    }
    assert_false(wr_gguf_array_int(g, key, n, &integer));
    assert_false(wr_gguf_array_int(g, key, -1, &integer));
    assert_false(wr_gguf_array_string(g, key, n, &text, &bytes));
    assert_false(wr_gguf_int(g, key, &integer));
}

static void every_metadata_type_agrees_in_both_versions(void **state) {
    (void)state;
    static const char *const files[] = {VALID "/types.gguf", VALID "/version2.gguf"};
    json_t *said = fixture_json("types.json"), *value;
    const char *key;
    for (int i = 0; i < 2; i++) {
        weir_error err;
        wr_gguf *g;
        assert_ok(wr_gguf_open(files[i], &g, &err));
        assert_true(json_object_size(json_object_get(said, "values")) >= 17);
        json_object_foreach(json_object_get(said, "values"), key, value) {
            assert_true(wr_gguf_has(g, key));
            if (json_is_array(value))
                check_array(g, key, value);
            else
                check_scalar(g, key, value);
        }
        wr_gguf_close(g);
    }
    json_decref(said);
}

static void questions_of_another_kind_are_answered_no(void **state) {
    (void)state;
    weir_error err;
    wr_gguf *g;
    int64_t integer;
    double real;
    const char *text;
    size_t bytes;
    wr_gguf_type type;
    assert_ok(wr_gguf_open(VALID "/types.gguf", &g, &err));
    assert_false(wr_gguf_has(g, "k"));
    assert_false(wr_gguf_int(g, "k.none", &integer));
    assert_false(wr_gguf_float(g, "k.none", &real));
    assert_false(wr_gguf_string(g, "k.none", &text, &bytes));
    assert_false(wr_gguf_array(g, "k.u8", &type, &integer));
    assert_false(wr_gguf_array_string(g, "a.ints", 0, &text, &bytes));
    assert_false(wr_gguf_float(g, "k.true", &real));
    assert_true(wr_gguf_float(g, "k.i8", &real));
    assert_true(real == -100);
    wr_gguf_close(g);
    wr_gguf_close(NULL);
}

static void every_shortened_file_is_refused(void **state) {
    (void)state;
    weir_error err;
    char *text;
    size_t bytes;
    wr_gguf *g;
    assert_ok(wr_file_read(VALID "/types.gguf", 1 << 20, &text, &bytes, &err));
    /* The writer pads the last tensor; these bytes may be missing. */
    assert_ok(wr_gguf_open_memory((uint8_t *)text, bytes, "memory", &g, &err));
    const wr_gguf_tensor *last = wr_gguf_tensor_at(g, wr_gguf_n_tensors(g) - 1);
    size_t end = (size_t)(last->data - (const uint8_t *)text) + last->bytes;
    wr_gguf_close(g);
    for (size_t n = 0; n < end; n++) {
        uint8_t *part = malloc(n ? n : 1); /* its own block, so that a sanitizer sees a read past the end */
        memcpy(part, text, n);
        weir_status status = wr_gguf_open_memory(part, n, "memory", &g, &err);
        assert_int_equal(status, WEIR_E_FORMAT);
        assert_null(g);
        free(part);
    }
    wr_free(text);
}

/* A vocabulary of 262,144 strings: opened quickly, with an index and no copies. */
static void a_large_vocabulary_costs_little(void **state) {
    (void)state;
    const char *path = fixture_model("gemma-3-270m-q4_k_m.gguf");
    if (!path) skip();
    weir_error err;
    wr_gguf *g;
    double best_ms = 1e9;
    size_t heap_bytes = 0;
    for (int i = 0; i < 5; i++) {
        struct timespec from, to;
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        clock_gettime(CLOCK_MONOTONIC, &from);
        assert_ok(wr_gguf_open(path, &g, &err));
        clock_gettime(CLOCK_MONOTONIC, &to);
        heap_bytes = mallinfo2().uordblks + mallinfo2().hblkhd - before;
        double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6;
        if (ms < best_ms) best_ms = ms;
        if (i < 4) wr_gguf_close(g);
    }
    const char *text;
    size_t bytes;
    int64_t n;
    wr_gguf_type type;
    assert_true(wr_gguf_array(g, "tokenizer.ggml.tokens", &type, &n));
    assert_int_equal(n, 262144);
    assert_true(wr_gguf_array_string(g, "tokenizer.ggml.tokens", 106, &text, &bytes));
    assert_int_equal(bytes, strlen("<end_of_turn>"));
    assert_memory_equal(text, "<end_of_turn>", bytes);
    wr_gguf_close(g);
    if (!WR_SANITIZED) assert_true(best_ms < 40);
    assert_true(heap_bytes < 2 << 20); /* 4 bytes a string, and 236 tensors */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_type_agrees_with_the_library),
        cmocka_unit_test(every_metadata_type_agrees_in_both_versions),
        cmocka_unit_test(questions_of_another_kind_are_answered_no),
        cmocka_unit_test(every_shortened_file_is_refused),
        cmocka_unit_test(a_large_vocabulary_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
