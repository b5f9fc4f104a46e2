/* Files: mapping, reading, paths, and their failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/mem.h"

static char folder[] = "/tmp/weir-test-io-XXXXXX";
static char path[64];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void a_mapped_file_shows_its_bytes(void **state) {
    (void)state;
    write_file("hello", 5);
    wr_map map;
    weir_error err;
    assert_int_equal(wr_map_open(path, &map, &err), WEIR_OK);
    assert_int_equal(map.bytes, 5);
    assert_memory_equal(map.data, "hello", 5);
    wr_map_close(&map);
    assert_null(map.data);
    wr_map_close(&map);
    wr_map_close(NULL);
}

static void an_empty_file_maps_and_reads_as_nothing(void **state) {
    (void)state;
    write_file("", 0);
    wr_map map;
    assert_int_equal(wr_map_open(path, &map, NULL), WEIR_OK);
    assert_null(map.data);
    assert_int_equal(map.bytes, 0);
    wr_map_drop(&map, 0, 100);
    wr_map_close(&map);
    char *text;
    size_t bytes;
    assert_int_equal(wr_file_read(path, 0, &text, &bytes, NULL), WEIR_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(text, "");
    wr_free(text);
}

static void a_missing_file_is_not_found_by_name(void **state) {
    (void)state;
    wr_map map;
    weir_error err;
    assert_int_equal(wr_map_open("/nonexistent/model.gguf", &map, &err), WEIR_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/model.gguf"));
    assert_null(map.data);
    char *text;
    size_t bytes;
    assert_int_equal(wr_file_read("/nonexistent/a.json", 10, &text, &bytes, &err), WEIR_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/a.json"));
    assert_null(text);
}

static void folders_and_devices_are_refused(void **state) {
    (void)state;
    wr_map map;
    weir_error err;
    char *text;
    size_t bytes;
    assert_int_equal(wr_map_open(folder, &map, &err), WEIR_E_IO);
    assert_non_null(strstr(err.message, "is a folder"));
    assert_int_equal(wr_file_read(folder, 10, &text, &bytes, &err), WEIR_E_IO);
    assert_non_null(strstr(err.message, "is a folder"));
    assert_int_equal(wr_map_open("/dev/null", &map, &err), WEIR_E_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
}

static void mapping_a_pipe_fails_instead_of_waiting(void **state) {
    (void)state;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    wr_map map;
    weir_error err;
    assert_int_equal(wr_map_open(path, &map, &err), WEIR_E_IO);
    unlink(path);
}

static void a_read_file_ends_with_a_zero_byte(void **state) {
    (void)state;
    write_file("a\0b", 3);
    char *text;
    size_t bytes;
    assert_int_equal(wr_file_read(path, 3, &text, &bytes, NULL), WEIR_OK);
    assert_int_equal(bytes, 3);
    assert_memory_equal(text, "a\0b\0", 4);
    wr_free(text);
}

static void a_file_above_the_limit_is_refused_with_both_numbers(void **state) {
    (void)state;
    write_file("12345678", 8);
    char *text;
    size_t bytes;
    weir_error err;
    assert_int_equal(wr_file_read(path, 7, &text, &bytes, &err), WEIR_E_LIMIT);
    assert_non_null(strstr(err.message, "has 8 bytes; at most 7"));
    assert_null(text);
    assert_int_equal(wr_file_read(path, 8, &text, &bytes, &err), WEIR_OK);
    wr_free(text);
    assert_int_equal(wr_file_read(path, SIZE_MAX, &text, &bytes, &err), WEIR_OK);
    wr_free(text);
}

/* A pipe does not tell its size, so the text has to grow while it is read. */
static void a_pipe_is_read_to_its_end_and_held_to_the_limit(void **state) {
    (void)state;
    enum { BYTES = 30000 };
    for (int limit = BYTES - 1; limit <= BYTES; limit++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        static char data[BYTES];
        for (int i = 0; i < BYTES; i++) data[i] = (char)('a' + i % 26);
        assert_int_equal(write(ends[1], data, BYTES), BYTES); /* fits into a pipe of 64 KiB */
        close(ends[1]);
        char name[64], *text;
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        size_t bytes;
        weir_status status = wr_file_read(name, (size_t)limit, &text, &bytes, NULL);
        close(ends[0]);
        if (limit < BYTES) {
            assert_int_equal(status, WEIR_E_LIMIT);
        } else {
            assert_int_equal(status, WEIR_OK);
            assert_int_equal(bytes, BYTES);
            assert_memory_equal(text, data, BYTES);
            wr_free(text);
        }
    }
}

static void dropped_pages_leave_and_come_back_unchanged(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 8 * page + 100;
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 7 + i / page);
    write_file(data, bytes);
    wr_map map;
    assert_int_equal(wr_map_open(path, &map, NULL), WEIR_OK);
    assert_memory_equal(map.data, data, bytes);
    wr_map_drop(&map, 10, 3 * page);        /* pages 1 and 2 */
    wr_map_drop(&map, page + 1, 5);         /* no whole page */
    wr_map_drop(&map, 7 * page, 10 * page); /* past the end */
    wr_map_drop(&map, bytes + 5, 10);
    wr_map_drop(&map, 0, SIZE_MAX);
    assert_memory_equal(map.data, data, bytes);
    wr_map_close(&map);
    free(data);
}

/* Resident bytes of this process that belong to the map, from /proc. */
static size_t resident_bytes(const wr_map *map) {
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    char line[512], start[32];
    snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)map->data);
    size_t kib = 0;
    bool inside = false;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, start, strlen(start)) == 0) inside = true;
        if (inside && sscanf(line, "Rss: %zu kB", &kib) == 1) break;
    }
    fclose(file);
    return kib << 10;
}

static void dropped_pages_no_longer_count_as_resident(void **state) {
    (void)state;
    enum { BYTES = 4 << 20 };
    char *data = calloc(1, BYTES);
    assert_non_null(data);
    write_file(data, BYTES);
    wr_map map;
    assert_int_equal(wr_map_open(path, &map, NULL), WEIR_OK);
    assert_memory_equal(map.data, data, BYTES);
    assert_int_equal(resident_bytes(&map), BYTES);
    wr_map_drop(&map, 0, BYTES / 2);
    assert_int_equal(resident_bytes(&map), BYTES / 2);
    wr_map_close(&map);
    free(data);
}

static void paths_are_told_apart_and_joined(void **state) {
    (void)state;
    write_file("x", 1);
    assert_true(wr_path_is_file(path));
    assert_false(wr_path_is_folder(path));
    assert_true(wr_path_is_folder(folder));
    assert_false(wr_path_is_file(folder));
    assert_false(wr_path_is_file("/nonexistent"));
    assert_false(wr_path_is_folder("/nonexistent"));
    const char *cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
    for (size_t i = 0; i < 4; i++) {
        char *joined = wr_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(joined, cases[i][2]);
        wr_free(joined);
    }
}

/* Every injected failure gives a status and leaves nothing behind; the number
 * of points is finite, and without a fault the call works. */
static void every_injected_failure_is_a_status(void **state) {
    (void)state;
    write_file("hello", 5);
    for (int kind = 0; kind < WR_FAULT_KINDS; kind++) {
        int failures = 0;
        for (uint64_t nth = 1;; nth++) {
            assert_true(nth < 20);
            char *text;
            size_t bytes;
            wr_map map;
            weir_error err = {WEIR_OK, ""};
            wr_fault_arm((wr_fault_kind)kind, nth);
            weir_status read = wr_file_read(path, 100, &text, &bytes, &err);
            weir_status opened = wr_map_open(path, &map, read == WEIR_OK ? &err : NULL);
            bool reached = wr_fault_calls((wr_fault_kind)kind) >= nth;
            wr_fault_arm((wr_fault_kind)kind, 0);
            weir_status expected = kind == WR_FAULT_MEMORY ? WEIR_E_MEMORY : WEIR_E_IO;
            if (read != WEIR_OK) assert_null(text);
            if (opened != WEIR_OK) assert_null(map.data);
            if (reached) {
                /* Exactly one of the two failed, and says which file. */
                assert_true((read == expected && opened == WEIR_OK) || (read == WEIR_OK && opened == expected));
                assert_non_null(strstr(err.message, path));
                failures++;
            }
            wr_free(text);
            wr_map_close(&map);
            if (!reached) {
                assert_int_equal(read, WEIR_OK);
                assert_int_equal(opened, WEIR_OK);
                break;
            }
        }
        /* I/O: open, stat, two reads; open, stat, map. Memory: the buffer. */
        assert_int_equal(failures, kind == WR_FAULT_IO ? 7 : 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_file_shows_its_bytes),
        cmocka_unit_test(an_empty_file_maps_and_reads_as_nothing),
        cmocka_unit_test(a_missing_file_is_not_found_by_name),
        cmocka_unit_test(folders_and_devices_are_refused),
        cmocka_unit_test(mapping_a_pipe_fails_instead_of_waiting),
        cmocka_unit_test(a_read_file_ends_with_a_zero_byte),
        cmocka_unit_test(a_file_above_the_limit_is_refused_with_both_numbers),
        cmocka_unit_test(a_pipe_is_read_to_its_end_and_held_to_the_limit),
        cmocka_unit_test(dropped_pages_leave_and_come_back_unchanged),
        cmocka_unit_test(dropped_pages_no_longer_count_as_resident),
        cmocka_unit_test(paths_are_told_apart_and_joined),
        cmocka_unit_test(every_injected_failure_is_a_status),
    };
    return cmocka_run_group_tests_name("io", tests, make_folder, remove_folder);
}
