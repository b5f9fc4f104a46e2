/* The model store and the Hugging Face cache: finding and listing. */
#include "fixture.h"

#include <unistd.h>

#include "base/mem.h"
#include "file/checkpoint.h"
#include "file/store.h"

static fixture_folder folder;

static const char *const variables[] = {"WEIR_STORE", "XDG_CACHE_HOME", "HF_HUB_CACHE", "HF_HOME", "HOME"};
static char *saved[5];

static int set_up(void **state) {
    (void)state;
    char path[128];
    for (int i = 0; i < 5; i++) {
        const char *value = getenv(variables[i]);
        saved[i] = value ? strdup(value) : NULL;
        unsetenv(variables[i]);
    }
    fixture_folder_make(&folder);
    snprintf(path, sizeof path, "%s/store", folder.path);
    setenv("WEIR_STORE", path, 1);
    snprintf(path, sizeof path, "%s/hub", folder.path);
    setenv("HF_HUB_CACHE", path, 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_folder_remove(&folder);
    for (int i = 0; i < 5; i++) {
        if (saved[i])
            setenv(variables[i], saved[i], 1);
        else
            unsetenv(variables[i]);
        free(saved[i]);
    }
    return 0;
}

static void expect(const char *model, const char *rest) {
    weir_error err;
    char *path, wanted[256];
    assert_ok(wr_store_resolve(model, &path, &err));
    snprintf(wanted, sizeof wanted, "%s/%s", folder.path, rest);
    assert_string_equal(path, wanted);
    wr_free(path);
}

static void refuse(const char *model, weir_status status, const char *says) {
    weir_error err;
    char *path;
    assert_int_equal(wr_store_resolve(model, &path, &err), status);
    assert_null(path);
    assert_says(err, says);
}

/* A repository in the cache as huggingface_hub lays it out: blobs, and links to them. */
static void make_repository(const char *name, bool with_ref) {
    char path[256], target[256];
    snprintf(path, sizeof path, "hub/models--%s/snapshots/abc123/config.json", name);
    fixture_write(&folder, path, "{}");
    snprintf(path, sizeof path, "hub/models--%s/blobs/f00d", name);
    fixture_write(&folder, path, "\2");
    snprintf(target, sizeof target, "../../blobs/f00d");
    snprintf(path, sizeof path, "%s/hub/models--%s/snapshots/abc123/model.safetensors", folder.path, name);
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof path, "hub/models--%s/refs/main", name);
    if (with_ref) fixture_write(&folder, path, "abc123\n");
}

static void places_follow_the_environment(void **state) {
    (void)state;
    static const struct {
        const char *name, *value, *store, *hub;
    } steps[] = {
        {"HOME", "/h", "/h/.cache/weir/store", "/h/.cache/huggingface/hub"},
        {"XDG_CACHE_HOME", "/x", "/x/weir/store", "/x/huggingface/hub"},
        {"HF_HOME", "/f", "/x/weir/store", "/f/hub"},
        {"HF_HUB_CACHE", "/u", "/x/weir/store", "/u"},
        {"WEIR_STORE", "/w", "/w", "/u"},
        {"WEIR_STORE", "", "/x/weir/store", "/u"}, /* empty counts as not set */
    };
    unsetenv("WEIR_STORE");
    unsetenv("HF_HUB_CACHE");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        setenv(steps[i].name, steps[i].value, 1);
        char *store = wr_store_folder(), *hub = wr_store_hub_folder();
        assert_string_equal(store, steps[i].store);
        assert_string_equal(hub, steps[i].hub);
        wr_free(store);
        wr_free(hub);
    }
}

static void a_path_is_taken_as_it_is(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_write(&folder, "some/model.gguf", "x"));
    expect(path, "some/model.gguf");
    refuse("", WEIR_E_ARGUMENT, "empty");
    refuse(NULL, WEIR_E_ARGUMENT, "empty");
}

static void a_folder_with_one_gguf_file_means_that_file(void **state) {
    (void)state;
    char path[512];
    fixture_write(&folder, "some/model-q4.gguf", "x");
    fixture_write(&folder, "some/README.md", "x");
    snprintf(path, sizeof path, "%s/some", folder.path);
    expect(path, "some/model-q4.gguf");
    fixture_write(&folder, "some/model-q8.gguf", "x");
    refuse(path, WEIR_E_ARGUMENT, "holds 2 .gguf files");
    fixture_write(&folder, "some/config.json", "{}");
    expect(path, "some"); /* a configuration makes it a safetensors model */
}

static void store_names_may_leave_out_the_ending(void **state) {
    (void)state;
    fixture_write(&folder, "store/Small-1B.Q4_1.gguf", "x");
    fixture_write(&folder, "store/Large.gguf", "x");
    fixture_write(&folder, "store/Large.Q8_0.gguf", "x");
    fixture_write(&folder, "store/own/config.json", "{}");
    expect("Small-1B.Q4_1.gguf", "store/Small-1B.Q4_1.gguf");
    expect("Small-1B.Q4_1", "store/Small-1B.Q4_1.gguf");
    expect("Small-1B", "store/Small-1B.Q4_1.gguf");
    expect("Small", "store/Small-1B.Q4_1.gguf");
    expect("Large", "store/Large.gguf"); /* the whole name wins over a beginning */
    expect("own", "store/own");
    refuse("Smal", WEIR_E_NOT_FOUND, "no model 'Smal'"); /* a beginning ends at a dot or dash */
    fixture_write(&folder, "store/Small-1B.Q8_0.gguf", "x");
    refuse("Small-1B", WEIR_E_ARGUMENT, "could be Small-1B.Q4_1.gguf or Small-1B.Q8_0.gguf");
    refuse("../secret", WEIR_E_NOT_FOUND, "no model '../secret'");
}

static void a_repository_id_is_found_in_the_cache(void **state) {
    (void)state;
    make_repository("owner--name", true);
    make_repository("owner--bare", false);
    expect("owner/name", "hub/models--owner--name/snapshots/abc123");
    expect("owner/bare", "hub/models--owner--bare/snapshots/abc123"); /* its only snapshot */
    refuse("owner/other", WEIR_E_NOT_FOUND, "no model 'owner/other'");
    refuse("owner/a/b", WEIR_E_NOT_FOUND, "no model 'owner/a/b'");
    fixture_write(&folder, "hub/models--owner--name/refs/main", "fff");
    refuse("owner/name", WEIR_E_NOT_FOUND, "snapshots/fff is missing");
    fixture_write(&folder, "hub/models--owner--name/refs/main", "../../../..");
    refuse("owner/name", WEIR_E_FORMAT, "does not hold a revision");
    fixture_write(&folder, "hub/models--owner--bare/snapshots/second/config.json", "{}");
    refuse("owner/bare", WEIR_E_NOT_FOUND, "no refs/main and 2 snapshots");
}

static void a_link_to_a_blob_that_is_not_there_is_a_missing_shard(void **state) {
    (void)state;
    char path[256];
    weir_error err;
    wr_checkpoint *c;
    make_repository("owner--name", true);
    snprintf(path, sizeof path, "%s/hub/models--owner--name/blobs/f00d", folder.path);
    unlink(path);
    assert_int_equal(wr_checkpoint_open("owner/name", &c, &err), WEIR_E_NOT_FOUND);
    assert_says(err, "model.safetensors is missing");
}

typedef struct listing {
    char lines[8][256];
    int n;
} listing;

static weir_status note(void *context, const wr_store_entry *entry, weir_error *err) {
    listing *list = context;
    (void)err;
    assert_true(list->n < 8);
    snprintf(list->lines[list->n++], 256, "%s %s %s %d %d %s", entry->place, entry->kind, entry->name,
             (int)entry->bytes, entry->complete, entry->why[0] ? "why" : "");
    return WEIR_OK;
}

static weir_status stop(void *context, const wr_store_entry *entry, weir_error *err) {
    (void)entry, (void)err;
    ++*(int *)context;
    return WEIR_E_CANCELLED;
}

static void the_list_names_all_models_and_whether_they_are_complete(void **state) {
    (void)state;
    weir_error err;
    listing list = {0};
    assert_ok(wr_store_list(note, &list, &err)); /* neither folder exists */
    assert_int_equal(list.n, 0);
    fixture_write(&folder, "store/b.gguf", "123");
    fixture_write(&folder, "store/a.gguf", "");
    fixture_write(&folder, "store/notes.txt", "x");
    fixture_write(&folder, "store/dir/config.json", "{}");
    fixture_write(&folder, "store/dir/model-00001-of-00002.safetensors", "12345");
    make_repository("owner--name", true);
    assert_ok(wr_store_list(note, &list, &err));
    assert_int_equal(list.n, 4);
    assert_string_equal(list.lines[0], "store gguf a.gguf 0 0 why");
    assert_string_equal(list.lines[1], "store gguf b.gguf 3 1 ");
    assert_string_equal(list.lines[2], "store safetensors dir 0 0 why");
    assert_string_equal(list.lines[3], "huggingface safetensors owner/name 1 1 ");
    int calls = 0;
    assert_int_equal(wr_store_list(stop, &calls, &err), WEIR_E_CANCELLED);
    assert_int_equal(calls, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(places_follow_the_environment),
        TEST(a_path_is_taken_as_it_is),
        TEST(a_folder_with_one_gguf_file_means_that_file),
        TEST(store_names_may_leave_out_the_ending),
        TEST(a_repository_id_is_found_in_the_cache),
        TEST(a_link_to_a_blob_that_is_not_there_is_a_missing_shard),
        TEST(the_list_names_all_models_and_whether_they_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
