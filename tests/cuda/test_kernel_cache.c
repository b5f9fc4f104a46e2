/* The files of compiled kernels: whole or not believed, safe against failures and other writers; and the headers that
 * their names depend on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "cuda/kernel_cache.h"
#include "cuda/kernel_headers.h"

static char folder[128];
static const unsigned char id[WR_SHA256_BYTES] = {0xab, 0x01, 0xff};
static const wr_kernel_image kernel = {.lowered = "_Z4axpyPf", .image = "image\0with zeros", .image_bytes = 16};

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weir-kernel-cache-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static int count_files(const char *in, const char *ending) {
    int n = 0;
    DIR *d = opendir(in);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t length = strlen(e->d_name), k = strlen(ending);
        n += e->d_name[0] != '.' && length >= k && !strcmp(e->d_name + length - k, ending);
    }
    if (d) closedir(d);
    return n;
}

static weir_status load(const char *in, const unsigned char *of, weir_error *err) {
    wr_arena memory;
    wr_kernel_image got;
    wr_arena_init(&memory, 1 << 20);
    weir_status status = wr_kernel_cache_load(in, of, &memory, &got, err);
    if (status == WEIR_OK) {
        assert_string_equal(got.lowered, kernel.lowered);
        assert_int_equal(got.image_bytes, kernel.image_bytes);
        assert_memory_equal(got.image, kernel.image, kernel.image_bytes);
    }
    wr_arena_deinit(&memory);
    return status;
}

static void what_is_stored_comes_back(void **state) {
    (void)state;
    weir_error err;
    char deep[256], path[WR_KERNEL_PATH_BYTES];
    snprintf(deep, sizeof deep, "%s/a/b/c", folder);
    assert_int_equal(load(deep, id, &err), WEIR_E_NOT_FOUND);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        assert_int_equal(wr_kernel_cache_store(deep, id, &kernel, &err), WEIR_OK);
        assert_int_equal(load(deep, id, &err), WEIR_OK);
        assert_int_equal(count_files(deep, ""), 1);
    }
    unsigned char other[WR_SHA256_BYTES];
    memcpy(other, id, sizeof other);
    other[31] ^= 1; /* not in the file's name, which has half of the id */
    assert_int_equal(load(deep, other, &err), WEIR_E_FORMAT);
    wr_kernel_cache_path(deep, id, path);
    assert_non_null(strstr(path, "/ab01ff00000000000000000000000000.kernel"));
}

static void a_file_with_any_byte_changed_or_missing_is_not_believed(void **state) {
    (void)state;
    weir_error err;
    char path[WR_KERNEL_PATH_BYTES], *text;
    size_t bytes;
    assert_int_equal(wr_kernel_cache_store(folder, id, &kernel, &err), WEIR_OK);
    wr_kernel_cache_path(folder, id, path);
    assert_int_equal(wr_file_read(path, 1 << 20, &text, &bytes, &err), WEIR_OK);
    for (size_t i = 0; i < bytes; i++) {
        text[i] ^= 0x40;
        assert_true(wr_path_remove(path));
        assert_int_equal(wr_file_write(path, text, bytes, &err), WEIR_OK);
        if (load(folder, id, &err) != WEIR_E_FORMAT) fail_msg("byte %zu of %zu", i, bytes);
        text[i] ^= 0x40;
        assert_true(wr_path_remove(path));
        assert_int_equal(wr_file_write(path, text, i, &err), WEIR_OK);
        if (load(folder, id, &err) != WEIR_E_FORMAT) fail_msg("the first %zu bytes of %zu", i, bytes);
    }
    assert_true(wr_path_remove(path));
    assert_int_equal(wr_file_write(path, text, bytes + 1, &err), WEIR_OK); /* one more: its 0 */
    assert_int_equal(load(folder, id, &err), WEIR_E_FORMAT);
    wr_free(text);
    assert_int_equal(wr_kernel_cache_store(folder, id, &kernel, &err), WEIR_OK);
    assert_int_equal(load(folder, id, &err), WEIR_OK);
}

static void every_failure_leaves_the_old_file_or_the_new_one(void **state) {
    (void)state;
    weir_error err;
    char in[256];
    snprintf(in, sizeof in, "%s/faults", folder);
    assert_int_equal(wr_kernel_cache_store(in, id, &kernel, &err), WEIR_OK);
    for (wr_fault_kind kind = 0; kind < WR_FAULT_KINDS; kind++) {
        for (uint64_t nth = 1;; nth++) {
            wr_fault_arm(kind, nth);
            weir_status status = wr_kernel_cache_store(in, id, &kernel, &err);
            bool done = wr_fault_calls(kind) < nth;
            wr_fault_arm(kind, 0);
            if (!done && status != WEIR_OK) assert_true(status == WEIR_E_IO || status == WEIR_E_MEMORY);
            assert_int_equal(load(in, id, &err), WEIR_OK);
            assert_int_equal(count_files(in, ""), 1);
            wr_fault_arm(kind, nth);
            status = load(in, id, &err);
            wr_fault_arm(kind, 0);
            assert_true(status == WEIR_OK || status == WEIR_E_IO || status == WEIR_E_MEMORY);
            if (done) break;
        }
    }
}

static void the_environment_says_where_the_cache_lies(void **state) {
    (void)state;
    char path[WR_KERNEL_PATH_BYTES];
    setenv("WEIR_KERNEL_CACHE", "/x/y", 1);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    setenv("HOME", "/home/me", 1);
    assert_true(wr_kernel_cache_folder(path));
    assert_string_equal(path, "/x/y");
    setenv("WEIR_KERNEL_CACHE", "", 1);
    assert_false(wr_kernel_cache_folder(path));
    unsetenv("WEIR_KERNEL_CACHE");
    assert_true(wr_kernel_cache_folder(path));
    assert_string_equal(path, "/cache/weir/kernels");
    unsetenv("XDG_CACHE_HOME");
    assert_true(wr_kernel_cache_folder(path));
    assert_string_equal(path, "/home/me/.cache/weir/kernels");
    unsetenv("HOME");
    assert_false(wr_kernel_cache_folder(path));
}

/* ---- headers ---- */

static void write_header(const char *name, const char *text) {
    char path[256];
    weir_error err;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)wr_path_remove(path);
    assert_int_equal(wr_file_write(path, text, strlen(text), &err), WEIR_OK);
}

typedef struct hash {
    unsigned char sum[WR_SHA256_BYTES];
} hash;

static hash hash_of(const char *source) {
    wr_arena memory;
    wr_header_folders folders;
    wr_sha256 h;
    hash out;
    weir_error err;
    char one[256], two[256];
    snprintf(one, sizeof one, "-I%s/one", folder);
    snprintf(two, sizeof two, "%s/two", folder);
    wr_arena_init(&memory, 1 << 24);
    assert_int_equal(
        wr_header_folders_find((const char *[]){"-DX=1", one, "--include-path", two}, 4, &memory, &folders, &err),
        WEIR_OK);
    assert_int_equal(folders.n_user, 2);
    assert_string_equal(folders.at[0], one + 2);
    assert_string_equal(folders.at[1], two);
    wr_sha256_init(&h);
    assert_true(wr_header_hash(&folders, source, &memory, &h));
    wr_sha256_end(&h, out.sum);
    wr_arena_deinit(&memory);
    return out;
}

static void expect_equal(hash a, hash b) { assert_memory_equal(a.sum, b.sum, sizeof a.sum); }
static void expect_other(hash a, hash b) { assert_memory_not_equal(a.sum, b.sum, sizeof a.sum); }

static void a_change_of_any_included_header_changes_the_hash(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/one", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/two", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/two/deep", folder);
    mkdir(path, 0777);
    write_header("two/a.h", "#pragma once\n  #  include \"deep/b.h\"\n");
    write_header("two/deep/b.h", "#include \"c.h\"\n#include <a.h>\n"); /* c.h beside it; a circle */
    write_header("two/deep/c.h", "int c;\n");
    write_header("two/other.h", "int other;\n");
    static const char source[] = "#include <a.h>\n#include \"late.h\"\nint x;\n";
    hash first = hash_of(source);
    expect_equal(first, hash_of(source));
    write_header("two/other.h", "int changed;\n");
    expect_equal(first, hash_of(source)); /* nobody includes it */
    write_header("two/deep/c.h", "int d;\n");
    hash second = hash_of(source);
    expect_other(first, second);
    write_header("one/late.h", ""); /* it was not there */
    hash third = hash_of(source);
    expect_other(second, third);
    write_header("one/a.h", "#pragma once\n"); /* found first now */
    expect_other(third, hash_of(source));
}

static void folders_are_searched_in_the_order_that_is_written_down(void **state) {
    (void)state;
    wr_arena memory;
    wr_header_folders f;
    weir_error err;
    char list[600], one[256], two[256];
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(two, sizeof two, "%s/two", folder);
    snprintf(list, sizeof list, "%s:/no/such:%s:", two, one);
    setenv("WEIR_CUDA_INCLUDE", list, 1);
    setenv("CUDA_HOME", folder, 1); /* its include/ comes after the build's own */
    char include[256];
    snprintf(include, sizeof include, "%s/include", folder);
    mkdir(include, 0777);
    wr_arena_init(&memory, 1 << 20);
    assert_int_equal(wr_header_folders_find((const char *[]){"-I", one}, 2, &memory, &f, &err), WEIR_OK);
    assert_true(f.n >= 3);
    assert_string_equal(f.at[0], one);
    assert_string_equal(f.at[1], two); /* once each */
    int at = 2;
    while (at < f.n && strcmp(f.at[at], include) != 0) at++;
    assert_true(at < f.n);
    for (int i = at + 1; i < f.n; i++) assert_string_equal(f.at[i], "/usr/local/cuda/include");
    wr_arena_deinit(&memory);
    unsetenv("WEIR_CUDA_INCLUDE");
    unsetenv("CUDA_HOME");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_comes_back),
        cmocka_unit_test(a_file_with_any_byte_changed_or_missing_is_not_believed),
        cmocka_unit_test(every_failure_leaves_the_old_file_or_the_new_one),
        cmocka_unit_test(the_environment_says_where_the_cache_lies),
        cmocka_unit_test(a_change_of_any_included_header_changes_the_hash),
        cmocka_unit_test(folders_are_searched_in_the_order_that_is_written_down),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
