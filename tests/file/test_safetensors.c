/* safetensors: what its own library wrote is read as that library reads it. */
#include "fixture.h"

#include "base/io.h"
#include "base/mem.h"
#include "file/safetensors.h"

static void every_dtype_shape_and_byte_agrees_with_the_library(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    assert_ok(wr_safetensors_open(VALID "/dtypes.safetensors", &st, &err));
    json_t *said = fixture_json("dtypes.json");
    assert_int_equal(wr_safetensors_n_tensors(st), json_array_size(said));
    for (size_t i = 0; i < json_array_size(said); i++) {
        const json_t *entry = json_array_get(said, i), *shape = json_object_get(entry, "shape");
        const wr_safetensors_tensor *t = wr_safetensors_tensor_find(st, fixture_text(entry, "name"));
        assert_non_null(t);
        assert_int_equal(strcasecmp(t->format, fixture_text(entry, "dtype")), 0);
        assert_int_equal(t->usable, strcmp(t->format, "f64") != 0);
        if (t->usable) assert_string_equal(weir_dtype_name(t->dtype), t->format);
        assert_int_equal(t->n_dims, json_array_size(shape));
        for (int k = 0; k < t->n_dims; k++)
            assert_int_equal(t->shape[k], json_integer_value(json_array_get(shape, (size_t)k)));
        assert_true(fixture_is_hex(t->data, t->bytes, fixture_text(entry, "hex")));
    }
    json_decref(said);
    wr_safetensors_close(st);
}

static void eight_bit_floats_are_bytes_that_keep_their_name(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    assert_ok(wr_safetensors_open(VALID "/raw.safetensors", &st, &err));
    const wr_safetensors_tensor *f8 = wr_safetensors_tensor_find(st, "f8"),
                                *bf16 = wr_safetensors_tensor_find(st, "bf16");
    assert_string_equal(f8->format, "f8_e4m3");
    assert_int_equal(f8->dtype, WEIR_DTYPE_U8);
    assert_int_equal(f8->bytes, 3);
    assert_int_equal(bf16->dtype, WEIR_DTYPE_BF16);
    assert_true(fixture_is_hex(bf16->data, bf16->bytes, "0001020304050607"));
    wr_safetensors_close(st);
}

static void shards_are_read_together_though_the_index_is_stale(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    assert_ok(wr_safetensors_open(VALID "/sharded", &st, &err));
    assert_int_equal(wr_safetensors_n_shards(st), 3);
    assert_int_equal(wr_safetensors_n_tensors(st), 3);
    for (int i = 0; i < 3; i++) {
        char name[64];
        float value;
        snprintf(name, sizeof name, "model.layers.%d.w.weight", i + 1);
        const wr_safetensors_tensor *t = wr_safetensors_tensor_find(st, name);
        assert_ptr_equal(t, wr_safetensors_tensor_at(st, i));
        assert_int_equal(t->shard, i);
        memcpy(&value, t->data + 12, 4);
        assert_true(value == (float)(i + 1));
        /* Dropped pages come back when they are read. */
        wr_safetensors_drop(st, t->data, t->bytes);
        memcpy(&value, t->data, 4);
        assert_true(value == (float)(i + 1));
    }
    assert_non_null(strstr(wr_safetensors_shard_path(st, 2), "model-00003-of-00003.safetensors"));
    assert_null(wr_safetensors_shard_path(st, 3));
    assert_null(wr_safetensors_tensor_find(st, "model.layers.9.gone.weight"));
    assert_null(wr_safetensors_tensor_at(st, 3));
    assert_null(wr_safetensors_tensor_at(st, -1));
    wr_safetensors_close(st);
}

static void bytes_behind_the_last_tensor_are_tolerated(void **state) {
    (void)state;
    weir_error err;
    char *text;
    size_t bytes;
    wr_safetensors *st;
    assert_ok(wr_file_read(VALID "/raw.safetensors", 1 << 20, &text, &bytes, &err));
    /* wr_file_read puts one byte behind the text. */
    assert_ok(wr_safetensors_open_memory((uint8_t *)text, bytes + 1, "memory", &st, &err));
    assert_int_equal(wr_safetensors_n_tensors(st), 2);
    assert_string_equal(wr_safetensors_shard_path(st, 0), "memory");
    wr_safetensors_close(st);
    wr_free(text);
}

static void every_shortened_file_is_refused(void **state) {
    (void)state;
    weir_error err;
    char *text;
    size_t bytes;
    wr_safetensors *st;
    assert_ok(wr_file_read(VALID "/dtypes.safetensors", 1 << 20, &text, &bytes, &err));
    for (size_t n = 0; n < bytes; n++) {
        uint8_t *part = malloc(n ? n : 1); /* its own block, so that a sanitizer sees a read past the end */
        memcpy(part, text, n);
        assert_int_equal(wr_safetensors_open_memory(part, n, "memory", &st, &err), WEIR_E_FORMAT);
        assert_null(st);
        free(part);
    }
    wr_free(text);
}

static void a_header_without_tensors_is_an_empty_file(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    uint8_t bytes[] = "\x17\0\0\0\0\0\0\0{\"__metadata__\": null}  ";
    assert_ok(wr_safetensors_open_memory(bytes, sizeof bytes - 1, "memory", &st, &err));
    assert_int_equal(wr_safetensors_n_tensors(st), 0);
    assert_null(wr_safetensors_tensor_find(st, "w"));
    wr_safetensors_close(st);
}

static void a_missing_path_is_not_found(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    assert_int_equal(wr_safetensors_open(VALID "/nothing", &st, &err), WEIR_E_NOT_FOUND);
    assert_says(err, "valid/nothing");
    wr_safetensors_close(NULL);
}

static void an_only_file_of_another_name_is_the_model(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    char *text;
    size_t bytes;
    fixture_folder folder;
    fixture_folder_make(&folder);
    assert_ok(wr_file_read(VALID "/raw.safetensors", 1 << 20, &text, &bytes, &err));
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(fixture_write(&folder, i ? "b.safetensors" : "a.safetensors", ""), "wb");
        assert_int_equal(fwrite(text, 1, bytes, file), bytes);
        fclose(file);
        weir_status status = wr_safetensors_open(folder.path, &st, &err);
        assert_int_equal(status, i ? WEIR_E_NOT_FOUND : WEIR_OK); /* of two, neither is meant */
        wr_safetensors_close(st);
    }
    wr_free(text);
    fixture_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_shape_and_byte_agrees_with_the_library),
        cmocka_unit_test(eight_bit_floats_are_bytes_that_keep_their_name),
        cmocka_unit_test(shards_are_read_together_though_the_index_is_stale),
        cmocka_unit_test(bytes_behind_the_last_tensor_are_tolerated),
        cmocka_unit_test(every_shortened_file_is_refused),
        cmocka_unit_test(a_header_without_tensors_is_an_empty_file),
        cmocka_unit_test(a_missing_path_is_not_found),
        cmocka_unit_test(an_only_file_of_another_name_is_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
