/* Promotion of dtypes and NumPy's broadcasting, as docs/arrays.md writes them down. */
#include "array_test.h"

/* Rows and columns in the order bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32: the table of docs/arrays.md. */
static const char *const table[WEIR_DTYPE_COUNT] = {
    "bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32",           "u8 u8 u16 u32 u64 i16 i16 i32 i64 f16 bf16 f32",
    "u16 u16 u16 u32 u64 i32 i32 i32 i64 f16 bf16 f32",          "u32 u32 u32 u32 u64 i64 i64 i64 i64 f16 bf16 f32",
    "u64 u64 u64 u64 u64 i64 i64 i64 i64 f16 bf16 f32",          "i8 i16 i32 i64 i64 i8 i16 i32 i64 f16 bf16 f32",
    "i16 i16 i32 i64 i64 i16 i16 i32 i64 f16 bf16 f32",          "i32 i32 i32 i64 i64 i32 i32 i32 i64 f16 bf16 f32",
    "i64 i64 i64 i64 i64 i64 i64 i64 i64 f16 bf16 f32",          "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32",
    "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32", "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32",
};

static void promotion_is_the_written_table(void **state) {
    (void)state;
    for (int a = 0; a < WEIR_DTYPE_COUNT; a++) {
        char row[128], *word = row;
        snprintf(row, sizeof row, "%s", table[a]);
        for (int b = 0; b < WEIR_DTYPE_COUNT; b++) {
            char *next = strchr(word, ' ');
            if (next) *next = 0;
            assert_string_equal(weir_dtype_name(weir_dtype_promote((weir_dtype)a, (weir_dtype)b)), word);
            word = next ? next + 1 : word;
        }
    }
}

static void builders_insert_casts_and_broadcasts(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_array *a = leaf(g, WEIR_DTYPE_BF16, DIMS(4, 1, 3)), *b = leaf(g, WEIR_DTYPE_F32, DIMS(5, 1));
    weir_array *sum = weir_add(a, b);
    assert_int_equal(sum->dtype, WEIR_DTYPE_F32);
    assert_int_equal(sum->n_dims, 3);
    assert_int_equal(sum->shape[0], 4);
    assert_int_equal(sum->shape[1], 5);
    assert_int_equal(sum->shape[2], 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sum->in[i]->op, WR_OP_BROADCAST);
        assert_int_equal(sum->in[i]->dtype, WEIR_DTYPE_F32);
    }
    assert_int_equal(sum->in[0]->in[0]->op, WR_OP_CAST); /* cast before it grows */
    weir_array *less = weir_less(leaf(g, WEIR_DTYPE_U8, DIMS(2)), leaf(g, WEIR_DTYPE_I8, DIMS(2)));
    assert_int_equal(less->dtype, WEIR_DTYPE_BOOL);
    assert_int_equal(less->in[0]->dtype, WEIR_DTYPE_I16);
    assert_int_equal(weir_div(leaf(g, WEIR_DTYPE_I64, DIMS(2)), leaf(g, WEIR_DTYPE_U8, DIMS(2)))->dtype,
                     WEIR_DTYPE_F32);
    assert_int_equal(weir_sqrt(leaf(g, WEIR_DTYPE_BOOL, DIMS(2)))->dtype, WEIR_DTYPE_F32);
    assert_int_equal(weir_sqrt(leaf(g, WEIR_DTYPE_F16, DIMS(2)))->dtype, WEIR_DTYPE_F16);
    assert_int_equal(weir_graph_error(g, NULL), WEIR_OK);
    weir_graph_free(g);
    weir_device_close(device);
}

static void equal_dtypes_and_shapes_insert_nothing(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_array *a = leaf(g, WEIR_DTYPE_F16, DIMS(2, 0)), *b = leaf(g, WEIR_DTYPE_F16, DIMS(2, 0));
    weir_array *sum = weir_add(a, b);
    assert_ptr_equal(sum->in[0], a);
    assert_ptr_equal(sum->in[1], b);
    assert_ptr_equal(weir_cast(a, WEIR_DTYPE_F16), a);
    weir_graph_free(g);
    weir_device_close(device);
}

static void empty_and_one_broadcast_as_numpy_does(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_array *sum = weir_add(leaf(g, WEIR_DTYPE_F32, DIMS(0, 3)), leaf(g, WEIR_DTYPE_F32, DIMS(1, 3)));
    assert_false(sum->poisoned);
    assert_int_equal(sum->shape[0], 0);
    assert_int_equal(weir_array_size(weir_add(sum, weir_scalar_f32(g, 1))), 0);
    assert_true(weir_add(leaf(g, WEIR_DTYPE_F32, DIMS(0)), leaf(g, WEIR_DTYPE_F32, DIMS(2)))->poisoned);
    weir_graph_free(g);
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promotion_is_the_written_table),
        cmocka_unit_test(builders_insert_casts_and_broadcasts),
        cmocka_unit_test(equal_dtypes_and_shapes_insert_nothing),
        cmocka_unit_test(empty_and_one_broadcast_as_numpy_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
