#include "fixture.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

void fixture_assert_ok(weir_status status, const weir_error *err, const char *file, int line) {
    if (status == WEIR_OK) return;
    print_error("status %d: %s\n", (int)status, err->message);
    _fail(file, line);
}

void fixture_assert_says(const weir_error *err, const char *text, const char *file, int line) {
    if (strstr(err->message, text)) return;
    print_error("the message '%s' does not say '%s'\n", err->message, text);
    _fail(file, line);
}

json_t *fixture_json(const char *name) {
    char path[512];
    weir_error err;
    json_t *value;
    snprintf(path, sizeof path, "%s/%s", VALID, name);
    assert_ok(wr_json_read(path, 1 << 20, &value, &err));
    return value;
}

const char *fixture_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

int64_t fixture_int(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (int64_t)json_integer_value(value);
}

bool fixture_is_hex(const uint8_t *data, size_t bytes, const char *hex) {
    if (strlen(hex) != bytes * 2) return false;
    for (size_t i = 0; i < bytes; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", data[i]);
        if (memcmp(two, hex + 2 * i, 2) != 0) return false;
    }
    return true;
}

const char *fixture_model(const char *file_name) {
    static char path[1024];
    const char *store = getenv("WEIR_STORE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (store)
        snprintf(path, sizeof path, "%s/%s", store, file_name);
    else if (cache)
        snprintf(path, sizeof path, "%s/weir/store/%s", cache, file_name);
    else
        snprintf(path, sizeof path, "%s/.cache/weir/store/%s", home ? home : "", file_name);
    return access(path, R_OK) == 0 ? path : NULL;
}

void fixture_folder_make(fixture_folder *folder) {
    snprintf(folder->path, sizeof folder->path, "/tmp/weir-test-file-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

void fixture_folder_remove(fixture_folder *folder) { nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

const char *fixture_write(const fixture_folder *folder, const char *name, const char *content) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    for (char *slash = strchr(path + strlen(folder->path) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    if (!content) {
        mkdir(path, 0700);
        return path;
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, strlen(content), file), strlen(content));
    assert_int_equal(fclose(file), 0);
    return path;
}
