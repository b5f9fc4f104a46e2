/* What the tests of the file room share. */
#ifndef TESTS_FILE_FIXTURE_H
#define TESTS_FILE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "file/json.h"

/* Do sanitizers change times and address space? */
#if defined(__has_feature)
#define WR_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WR_SANITIZED 1
#else
#define WR_SANITIZED 0
#endif

/* Files that other libraries wrote, and JSON of what these say is in them
 * (tools/make_file_fixtures.py). */
#define VALID WR_SOURCE_DIR "/tests/data/file/valid"

#define assert_ok(call) fixture_assert_ok((call), &err, __FILE__, __LINE__)
void fixture_assert_ok(weir_status status, const weir_error *err, const char *file, int line);
#define assert_says(err, text) fixture_assert_says(&(err), (text), __FILE__, __LINE__)
void fixture_assert_says(const weir_error *err, const char *text, const char *file, int line);

/* VALID/name; fails the test when it cannot be read. The caller frees with json_decref. */
json_t *fixture_json(const char *name);
const char *fixture_text(const json_t *object, const char *key);
int64_t fixture_int(const json_t *object, const char *key);
/* Are the bytes those of the hexadecimal text? */
bool fixture_is_hex(const uint8_t *data, size_t bytes, const char *hex);

/* The path of a real model of the store, or NULL. */
const char *fixture_model(const char *file_name);

/* A folder under /tmp that is removed with all it holds. */
typedef struct fixture_folder {
    char path[64];
} fixture_folder;
void fixture_folder_make(fixture_folder *folder);
void fixture_folder_remove(fixture_folder *folder);
/* Makes folders on the way. content NULL: a folder. The path lives until the next call. */
const char *fixture_write(const fixture_folder *folder, const char *name, const char *content);

#endif
