/* Malformed files: each is refused with its own message, before memory is taken for
 * what it claims. The files and the table come from tools/make_hostile.py. */
#include "fixture.h"

#include <sys/resource.h>
#include <unistd.h>

#include "file/checkpoint.h"
#include "file/gguf.h"
#include "file/json.h"
#include "file/safetensors.h"

#define FOLDER WR_SOURCE_DIR "/tests/data/file/hostile"

enum { MAX_CASES = 400, SPARE_BYTES = 64 << 20 };

static json_t *cases;
static char *messages[MAX_CASES];

static const char *text_of(const json_t *c, const char *key) { return json_string_value(json_object_get(c, key)); }
static int64_t int_of(const json_t *list, size_t i) { return (int64_t)json_integer_value(json_array_get(list, i)); }

/* What the case asks of an opened checkpoint. */
static weir_status ask(wr_checkpoint *c, const json_t *entry, weir_error *err) {
    const json_t *weight = json_object_get(entry, "weight"), *vector = json_object_get(entry, "vector");
    const json_t *number = json_object_get(entry, "int");
    weir_status status = WEIR_OK;
    wr_weight out;
    float values[8];
    int64_t value;
    int32_t ids[4];
    size_t n;
    if (weight)
        status = wr_checkpoint_weight(c, json_string_value(json_array_get(weight, 0)), int_of(weight, 1),
                                      int_of(weight, 2), int_of(weight, 3), &out, err);
    if (vector)
        status = wr_checkpoint_vector(c, json_string_value(json_array_get(vector, 0)), int_of(vector, 1), values, err);
    if (number)
        status = wr_config_int(wr_checkpoint_config(c), json_string_value(json_array_get(number, 0)), int_of(number, 1),
                               int_of(number, 2), &value, err);
    if (json_object_get(entry, "eos")) status = wr_checkpoint_eos(c, ids, 4, &n, err);
    if (status == WEIR_OK && json_object_get(entry, "all_used")) status = wr_checkpoint_all_used(c, err);
    return status;
}

static weir_status open_case(const json_t *entry, weir_error *err) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", FOLDER, text_of(entry, "path"));
    const char *opened = text_of(entry, "open");
    wr_safetensors *st = NULL;
    wr_gguf *gguf = NULL;
    wr_checkpoint *checkpoint = NULL;
    weir_status status;
    if (strcmp(opened, "safetensors") == 0)
        status = wr_safetensors_open(path, &st, err);
    else if (strcmp(opened, "gguf") == 0)
        status = wr_gguf_open(path, &gguf, err);
    else
        status = wr_checkpoint_open(path, &checkpoint, err);
    if (status == WEIR_OK && checkpoint) status = ask(checkpoint, entry, err);
    wr_safetensors_close(st);
    wr_gguf_close(gguf);
    wr_checkpoint_close(checkpoint);
    return status;
}

static weir_status status_by_name(const char *name) {
    static const char *const names[] = {
#define NAME(code, text) #code,
        WEIR_STATUS_LIST(NAME)
#undef NAME
    };
    for (int i = 0; i < WEIR_STATUS_COUNT; i++)
        if (strcmp(names[i] + (i ? strlen("WEIR_E_") : 0), name) == 0) return (weir_status)i;
    fail_msg("cases.json names the unknown status %s", name);
    return WEIR_OK;
}

static void each_malformed_file_is_refused_with_its_status_and_message(void **state) {
    (void)state;
    size_t right = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        weir_error err = {0};
        weir_status status = open_case(entry, &err), wanted = status_by_name(text_of(entry, "status"));
        if (status != wanted || !strstr(err.message, text_of(entry, "says")))
            print_error("%s: status %d (wanted %d), message: %s (wanted: %s)\n", text_of(entry, "path"), (int)status,
                        (int)wanted, err.message, text_of(entry, "says"));
        else if (err.status == status)
            right++;
        messages[i] = strdup(err.message);
    }
    assert_int_equal(right, json_array_size(cases));
    assert_true(right >= 60);
}

static void each_message_is_its_own(void **state) {
    (void)state;
    size_t shared = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const char *says = text_of(json_array_get(cases, i), "says");
        for (size_t k = 0; k < json_array_size(cases); k++)
            if (k != i && messages[k] && strstr(messages[k], says)) {
                print_error("'%s' is said of %s and of %s\n", says, text_of(json_array_get(cases, i), "path"),
                            text_of(json_array_get(cases, k), "path"));
                shared++;
            }
    }
    assert_int_equal(shared, 0);
}

static void messages_hold_no_control_characters(void **state) {
    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (const char *p = messages[i]; p && *p; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f)
                fail_msg("%s: byte %d in the message", text_of(json_array_get(cases, i), "path"), *p);
}

/* The files claim up to 2^63 bytes; with 64 MiB to spare an allocation of that kind
 * would fail and give another status. Sanitizers need the address space themselves. */
static void no_file_is_given_the_memory_it_claims(void **state) {
    (void)state;
#if WR_SANITIZED
    skip();
#else
    struct rlimit old, tight;
    long pages;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%ld", &pages), 1);
    fclose(statm);
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + SPARE_BYTES;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        weir_error err = {0};
        if (open_case(entry, &err) != status_by_name(text_of(entry, "status"))) wrong++;
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(wrong, 0);
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    assert_true(usage.ru_maxrss < 32 * 1024); /* KiB: the whole test process */
#endif
}

static int read_cases(void **state) {
    (void)state;
    weir_error err;
    if (wr_json_read(FOLDER "/cases.json", 1 << 20, &cases, &err) == WEIR_OK)
        return json_array_size(cases) <= MAX_CASES ? 0 : -1;
    fprintf(stderr, "%s\n", err.message);
    return -1;
}

static int free_cases(void **state) {
    (void)state;
    for (int i = 0; i < MAX_CASES; i++) free(messages[i]);
    json_decref(cases);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_malformed_file_is_refused_with_its_status_and_message),
        cmocka_unit_test(each_message_is_its_own),
        cmocka_unit_test(messages_hold_no_control_characters),
        cmocka_unit_test(no_file_is_given_the_memory_it_claims),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
