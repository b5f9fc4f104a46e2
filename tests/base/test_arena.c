/* Heap, pages and arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/mem.h"

static void heap_functions_never_give_null_for_zero_bytes(void **state) {
    (void)state;
    void *a = wr_malloc(0), *b = wr_calloc(0, 8), *c = wr_calloc(8, 0), *d = wr_realloc(NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_non_null(d);
    d = wr_realloc(d, 0);
    assert_non_null(d);
    wr_free(a);
    wr_free(b);
    wr_free(c);
    wr_free(d);
    wr_free(NULL);
}

static void calloc_refuses_a_product_that_overflows(void **state) {
    (void)state;
    uint64_t before = wr_alloc_count();
    assert_null(wr_calloc(SIZE_MAX / 2, 3));
    assert_int_equal(wr_alloc_count(), before);
}

static void strings_are_copied_and_ended(void **state) {
    (void)state;
    char *a = wr_strdup("weir"), *b = wr_strndup("weir", 2), *c = wr_strndup("weir", 100), *d = wr_strdup("");
    assert_string_equal(a, "weir");
    assert_string_equal(b, "we");
    assert_string_equal(c, "weir");
    assert_string_equal(d, "");
    wr_free(a);
    wr_free(b);
    wr_free(c);
    wr_free(d);
}

static void every_successful_allocation_is_counted_once(void **state) {
    (void)state;
    uint64_t before = wr_alloc_count();
    void *a = wr_malloc(8);
    assert_int_equal(wr_alloc_count() - before, 1);
    a = wr_realloc(a, 4096);
    assert_int_equal(wr_alloc_count() - before, 2);
    void *b = wr_calloc(2, 2);
    char *c = wr_strdup("x");
    void *d = wr_pages_alloc(1);
    assert_int_equal(wr_alloc_count() - before, 5);
    wr_free(a);
    wr_free(b);
    wr_free(c);
    wr_pages_free(d, 1);
    assert_int_equal(wr_alloc_count() - before, 5);
}

static void pages_are_aligned_zeroed_and_usable_to_the_last_byte(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 4095, 4096, 4097, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, (5u << 20) + 12345};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *p = wr_pages_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (size_t)sysconf(_SC_PAGESIZE), 0);
        /* From 2 MiB on, a huge page can back it from its first byte. */
        if (sizes[i] >= 2u << 20) assert_int_equal((uintptr_t)p % (2u << 20), 0);
        for (size_t j = 0; j < sizes[i]; j += 997) assert_int_equal(p[j], 0);
        if (sizes[i]) {
            assert_int_equal(p[sizes[i] - 1], 0);
            memset(p, 0xA5, sizes[i]);
        }
        wr_pages_free(p, sizes[i]);
    }
    wr_pages_free(NULL, 10);
}

static void pages_of_absurd_size_are_refused(void **state) {
    (void)state;
    assert_null(wr_pages_alloc(SIZE_MAX));
    assert_null(wr_pages_alloc(SIZE_MAX - 4095));
    assert_null(wr_pages_alloc((size_t)1 << 60));
}

static void arena_blocks_are_aligned_zeroed_and_apart(void **state) {
    (void)state;
    wr_arena arena;
    wr_arena_init(&arena, 8u << 20);
    enum { N = 3000 };
    static uint8_t *blocks[N];
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(i * 37 % 1500);
        blocks[i] = wr_arena_alloc(&arena, bytes);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++) assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], i & 0xFF, bytes);
    }
    /* Had two blocks overlapped, the later one would have spoiled the earlier. */
    for (int i = 0; i < N; i++) {
        for (size_t j = 0; j < (size_t)(i * 37 % 1500); j++) assert_int_equal(blocks[i][j], i & 0xFF);
    }
    wr_arena_deinit(&arena);
}

static void arena_keeps_to_its_cap_and_lives_on(void **state) {
    (void)state;
    wr_arena arena;
    wr_arena_init(&arena, 100);
    assert_non_null(wr_arena_alloc(&arena, 50)); /* counts 64 */
    assert_null(wr_arena_alloc(&arena, 48));     /* 112 > 100 */
    assert_int_equal(arena.used_bytes, 64);
    assert_non_null(wr_arena_alloc(&arena, 32)); /* 96 */
    assert_null(wr_arena_alloc(&arena, 1));      /* 112 */
    wr_arena_deinit(&arena);
    wr_arena_init(&arena, SIZE_MAX);
    assert_null(wr_arena_alloc(&arena, SIZE_MAX));
    assert_null(wr_arena_alloc(&arena, SIZE_MAX - 20));
    assert_int_equal(arena.used_bytes, 0);
    wr_arena_deinit(&arena);
}

static void a_big_arena_block_leaves_the_small_chunk_in_use(void **state) {
    (void)state;
    wr_arena arena;
    wr_arena_init(&arena, SIZE_MAX);
    assert_non_null(wr_arena_alloc(&arena, 16));
    uint64_t before = wr_alloc_count();
    assert_non_null(wr_arena_alloc(&arena, 1u << 20));
    assert_int_equal(wr_alloc_count() - before, 1);
    for (int i = 0; i < 100; i++) assert_non_null(wr_arena_alloc(&arena, 16));
    assert_int_equal(wr_alloc_count() - before, 1);
    wr_arena_deinit(&arena);
}

static void arena_strings_and_reuse_after_deinit(void **state) {
    (void)state;
    wr_arena arena;
    wr_arena_init(&arena, 1000);
    assert_string_equal(wr_arena_strdup(&arena, "abc"), "abc");
    assert_string_equal(wr_arena_strndup(&arena, "abcdef", 4), "abcd");
    wr_arena_deinit(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_string_equal(wr_arena_strdup(&arena, "again"), "again");
    wr_arena_deinit(&arena);
    wr_arena_deinit(&arena);
    wr_arena_deinit(NULL);
}

static void size_arithmetic_reports_overflow(void **state) {
    (void)state;
    size_t out = 0;
    assert_true(wr_mul_size(6, 7, &out));
    assert_int_equal(out, 42);
    assert_false(wr_mul_size((size_t)1 << 32, (size_t)1 << 32, &out));
    assert_true(wr_add_size(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(wr_add_size(SIZE_MAX, 1, &out));
}

/* ---- faults ---- */

static void the_nth_allocation_fails_once(void **state) {
    (void)state;
    wr_fault_arm(WR_FAULT_MEMORY, 3);
    void *p[5];
    for (int i = 0; i < 5; i++) p[i] = wr_malloc(1);
    assert_int_equal(wr_fault_calls(WR_FAULT_MEMORY), 5);
    wr_fault_arm(WR_FAULT_MEMORY, 0);
    for (int i = 0; i < 5; i++) {
        if (i == 2)
            assert_null(p[i]);
        else
            assert_non_null(p[i]);
        wr_free(p[i]);
    }
    /* Off: nothing is counted, and the last count can still be read. */
    wr_free(wr_malloc(1));
    assert_int_equal(wr_fault_calls(WR_FAULT_MEMORY), 5);
}

static void every_kind_of_allocation_can_be_made_to_fail(void **state) {
    (void)state;
    wr_arena arena;
    wr_arena_init(&arena, 1000);
    void *old = wr_malloc(4);
    for (int kind = 0; kind < 7; kind++) {
        wr_fault_arm(WR_FAULT_MEMORY, 1);
        void *p = kind == 0   ? wr_malloc(4)
                  : kind == 1 ? wr_calloc(1, 4)
                  : kind == 2 ? wr_realloc(old, 8)
                  : kind == 3 ? wr_strdup("a")
                  : kind == 4 ? wr_strndup("a", 1)
                  : kind == 5 ? wr_pages_alloc(4)
                              : wr_arena_alloc(&arena, 4);
        assert_null(p);
        assert_int_equal(wr_fault_calls(WR_FAULT_MEMORY), 1);
    }
    wr_fault_arm(WR_FAULT_MEMORY, 0);
    assert_non_null(wr_arena_alloc(&arena, 4));
    wr_free(old);
    wr_arena_deinit(&arena);
}

static void kinds_of_faults_are_counted_apart(void **state) {
    (void)state;
    wr_fault_arm(WR_FAULT_IO, UINT64_MAX);
    wr_fault_arm(WR_FAULT_MEMORY, UINT64_MAX);
    assert_false(wr_fault_hit(WR_FAULT_IO));
    assert_false(wr_fault_hit(WR_FAULT_IO));
    assert_int_equal(wr_fault_calls(WR_FAULT_IO), 2);
    assert_int_equal(wr_fault_calls(WR_FAULT_MEMORY), 0);
    wr_fault_arm(WR_FAULT_IO, 0);
    wr_fault_arm(WR_FAULT_MEMORY, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_functions_never_give_null_for_zero_bytes),
        cmocka_unit_test(calloc_refuses_a_product_that_overflows),
        cmocka_unit_test(strings_are_copied_and_ended),
        cmocka_unit_test(every_successful_allocation_is_counted_once),
        cmocka_unit_test(pages_are_aligned_zeroed_and_usable_to_the_last_byte),
        cmocka_unit_test(pages_of_absurd_size_are_refused),
        cmocka_unit_test(arena_blocks_are_aligned_zeroed_and_apart),
        cmocka_unit_test(arena_keeps_to_its_cap_and_lives_on),
        cmocka_unit_test(a_big_arena_block_leaves_the_small_chunk_in_use),
        cmocka_unit_test(arena_strings_and_reuse_after_deinit),
        cmocka_unit_test(size_arithmetic_reports_overflow),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(every_kind_of_allocation_can_be_made_to_fail),
        cmocka_unit_test(kinds_of_faults_are_counted_apart),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
