/* What the writer of safetensors writes is what the reader reads, in one file and in
 * several; nothing incomplete passes; each failing call is a status. */
#include "fixture.h"

#include "base/fault.h"
#include "base/io.h"
#include "base/mem.h"
#include "file/safetensors.h"
#include "file/safetensors_write.h"

enum { N = 5 };
static const struct {
    const char *name;
    weir_dtype dtype;
    int n_dims;
    int64_t shape[3];
    size_t bytes;
} tensors[N] = {{"a", WEIR_DTYPE_U32, 2, {3, 5}, 60},
                {"b.\"quoted\"", WEIR_DTYPE_BF16, 1, {7}, 14},
                {"scalar", WEIR_DTYPE_F32, 0, {0}, 4},
                {"none", WEIR_DTYPE_F16, 2, {0, 9}, 0},
                {"c", WEIR_DTYPE_U8, 3, {2, 3, 5}, 30}};

static uint8_t byte_of(int tensor, size_t i) { return (uint8_t)(37 * tensor + 11 * (int)i + 5); }

static weir_status add_all(wr_safetensors_writer *w, int from, weir_error *err) {
    for (int i = from; i < N; i++)
        if (i != 1) /* the reader refuses names that are not plain */
            WR_TRY(wr_safetensors_writer_add(w, tensors[i].name, tensors[i].dtype, tensors[i].n_dims, tensors[i].shape,
                                             err));
    return wr_safetensors_writer_layout(w, err);
}

/* Backwards and in pieces, since any order must do. */
static weir_status fill_all(wr_safetensors_writer *w, weir_error *err) {
    for (int i = N - 1, index = N - 2; i >= 0; i--) {
        if (i == 1) continue;
        uint8_t data[64];
        size_t half = tensors[i].bytes / 2;
        for (size_t k = 0; k < tensors[i].bytes; k++) data[k] = byte_of(i, k);
        WR_TRY(wr_safetensors_writer_write(w, index, half, data + half, tensors[i].bytes - half, err));
        WR_TRY(wr_safetensors_writer_write(w, index--, 0, data, half, err));
    }
    return WEIR_OK;
}

static weir_status write_all(const char *folder, uint64_t shard_bytes, weir_error *err) {
    wr_safetensors_writer *w;
    weir_status status;
    WR_TRY(wr_safetensors_writer_new(shard_bytes, &w, err));
    if ((status = add_all(w, 0, err)) == WEIR_OK &&
        (status = wr_safetensors_writer_create(w, folder, err)) == WEIR_OK && (status = fill_all(w, err)) == WEIR_OK)
        status = wr_safetensors_writer_finish(w, err);
    wr_safetensors_writer_free(w);
    return status;
}

static void check_all(const char *folder, int n_shards) {
    weir_error err = {0};
    wr_safetensors *st;
    assert_ok(wr_safetensors_open(folder, &st, &err));
    assert_int_equal(wr_safetensors_n_shards(st), n_shards);
    assert_int_equal(wr_safetensors_n_tensors(st), N - 1);
    for (int i = 0; i < N; i++) {
        if (i == 1) continue;
        const wr_safetensors_tensor *t = wr_safetensors_tensor_find(st, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->n_dims, tensors[i].n_dims);
        for (int d = 0; d < t->n_dims; d++) assert_int_equal(t->shape[d], tensors[i].shape[d]);
        assert_int_equal(t->bytes, tensors[i].bytes);
        for (size_t k = 0; k < t->bytes; k++) assert_int_equal(t->data[k], byte_of(i, k));
    }
    const wr_safetensors_tensor *first = wr_safetensors_tensor_at(st, 0);
    assert_int_equal((uintptr_t)first->data % 64, 0);
    wr_safetensors_close(st);
}

static void what_was_written_is_read(void **state) {
    (void)state;
    static const struct {
        uint64_t shard_bytes;
        int n_shards;
    } cases[] = {{0, 1}, {94, 1}, {93, 2}, {61, 2}, {1, 3}}; /* 60, 4, 0 and 30 bytes; empty ones fit everywhere */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        fixture_folder folder;
        fixture_folder_make(&folder);
        assert_ok(write_all(folder.path, cases[i].shard_bytes, &err));
        check_all(folder.path, cases[i].n_shards);
        fixture_folder_remove(&folder);
    }
}

static void sizes_are_known_before_anything_is_written(void **state) {
    (void)state;
    weir_error err = {0};
    wr_safetensors_writer *w;
    wr_map map;
    fixture_folder folder;
    fixture_folder_make(&folder);
    assert_ok(wr_safetensors_writer_new(0, &w, &err));
    assert_ok(add_all(w, 0, &err));
    uint64_t bytes = wr_safetensors_writer_bytes(w);
    assert_ok(wr_safetensors_writer_create(w, folder.path, &err));
    assert_ok(fill_all(w, &err));
    assert_ok(wr_safetensors_writer_finish(w, &err));
    wr_safetensors_writer_free(w);
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    assert_ok(wr_map_open(path, &map, &err));
    assert_int_equal(map.bytes, bytes);
    wr_map_close(&map);
    fixture_folder_remove(&folder);
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    weir_error err = {0};
    wr_safetensors_writer *w;
    uint8_t data[64] = {0};
    fixture_folder folder;
    fixture_folder_make(&folder);
    assert_ok(wr_safetensors_writer_new(0, &w, &err));
    const int64_t huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1};
    assert_int_equal(wr_safetensors_writer_add(w, "x", WEIR_DTYPE_F32, 2, huge, &err), WEIR_E_ARGUMENT);
    assert_int_equal(wr_safetensors_writer_add(w, "x", WEIR_DTYPE_F32, 1, negative, &err), WEIR_E_ARGUMENT);
    assert_int_equal(wr_safetensors_writer_add(w, "x", WEIR_DTYPE_COUNT, 0, NULL, &err), WEIR_E_ARGUMENT);
    assert_int_equal(wr_safetensors_writer_create(w, folder.path, &err), WEIR_E_STATE);
    assert_ok(add_all(w, 0, &err));
    assert_int_equal(wr_safetensors_writer_add(w, "late", WEIR_DTYPE_F32, 0, NULL, &err), WEIR_E_STATE);
    assert_int_equal(wr_safetensors_writer_write(w, 0, 0, data, 60, &err), WEIR_E_STATE);
    assert_ok(wr_safetensors_writer_create(w, folder.path, &err));
    assert_int_equal(wr_safetensors_writer_write(w, 0, 1, data, 60, &err), WEIR_E_ARGUMENT);
    assert_int_equal(wr_safetensors_writer_write(w, 0, UINT64_MAX, data, 2, &err), WEIR_E_ARGUMENT);
    assert_int_equal(wr_safetensors_writer_write(w, N, 0, data, 1, &err), WEIR_E_ARGUMENT);
    assert_ok(wr_safetensors_writer_write(w, 0, 0, data, 60, &err));
    assert_int_equal(wr_safetensors_writer_finish(w, &err), WEIR_E_STATE); /* 34 bytes are missing */
    assert_says(err, "60 bytes");
    wr_safetensors_writer_free(w);
    assert_int_equal(write_all(folder.path, 0, &err), WEIR_E_STATE); /* the file is there */
    assert_says(err, "exists already");
    fixture_folder_remove(&folder);
}

static void a_name_may_come_once_and_be_any_text(void **state) {
    (void)state;
    weir_error err = {0};
    wr_safetensors_writer *w;
    assert_ok(wr_safetensors_writer_new(0, &w, &err));
    assert_ok(wr_safetensors_writer_add(w, tensors[1].name, WEIR_DTYPE_U8, 0, NULL, &err));
    assert_ok(wr_safetensors_writer_layout(w, &err));
    wr_safetensors_writer_free(w);
    assert_ok(wr_safetensors_writer_new(0, &w, &err));
    assert_ok(wr_safetensors_writer_add(w, "twice", WEIR_DTYPE_U8, 0, NULL, &err));
    assert_ok(wr_safetensors_writer_add(w, "twice", WEIR_DTYPE_U8, 0, NULL, &err));
    assert_int_equal(wr_safetensors_writer_layout(w, &err), WEIR_E_FORMAT);
    assert_says(err, "twice");
    wr_safetensors_writer_free(w);
}

static void each_failing_call_is_a_status(void **state) {
    (void)state;
    for (int kind = 0; kind < WR_FAULT_KINDS; kind++)
        for (uint64_t nth = 1;; nth++) {
            weir_error err = {0};
            fixture_folder folder;
            fixture_folder_make(&folder);
            wr_fault_arm((wr_fault_kind)kind, nth);
            weir_status status = write_all(folder.path, 61, &err);
            bool reached = wr_fault_calls((wr_fault_kind)kind) >= nth;
            wr_fault_arm((wr_fault_kind)kind, 0);
            fixture_folder_remove(&folder);
            if (!reached) {
                assert_ok(status);
                assert_true(nth > 5);
                break;
            }
            assert_int_not_equal(status, WEIR_OK);
            assert_true(err.message[0]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),      cmocka_unit_test(sizes_are_known_before_anything_is_written),
        cmocka_unit_test(wrong_use_is_refused),          cmocka_unit_test(a_name_may_come_once_and_be_any_text),
        cmocka_unit_test(each_failing_call_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
