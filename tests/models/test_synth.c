/* Random checkpoints: the published numbers of parameters, the deviation that keeps
 * activations about 1, the same bytes from the same seed, and nothing half written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/io.h"
#include "cpu/ref/dequant.h"
#include "file/quant.h"
#include "models/model.h"
#include "models/synth.h"

static char folder[] = "/tmp/weir-synth-XXXXXX", path[128];

static int make_folder(void **state) {
    (void)state;
    snprintf(path, sizeof path, "%s/c", mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != WEIR_OK) fail_msg("%s", err.message);                                                            \
    } while (0)

static wr_synth_options small(weir_quant quant, weir_dtype dtype) {
    return (wr_synth_options){.preset = "smollm2-135m", .quant = quant, .dtype = dtype, .n_layers = 1};
}

static weir_status write_as(const wr_synth_options *options, const wr_synth_write_options *more, weir_error *err) {
    wr_synth *synth;
    WR_TRY(wr_synth_new(options, &synth, err));
    weir_status status = wr_synth_write(synth, path, more, err);
    wr_synth_free(synth);
    return status;
}

static void write_forced(const wr_synth_options *options, int n_threads) {
    weir_error err = {0};
    const wr_synth_write_options more = {.force = true, .n_threads = n_threads};
    assert_ok(write_as(options, &more, &err));
}

static void presets_have_the_published_numbers_of_parameters(void **state) {
    (void)state;
    /* As the models' pages on Hugging Face give them. Gemma: 12,187,325,040 less the vision tower (416,866,032) and
     * its projector (1152 * 3840 + 1152). */
    static const struct {
        const char *name;
        int64_t n;
    } published[] = {{"llama-3.1-8b", 8030261248}, {"qwen3-8b", 8190735360},     {"qwen3-0.6b", 596049920},
                     {"qwen2.5-7b", 7615616512},   {"gemma-3-12b", 11766034176}, {"smollm2-135m", 134515008}};
    const char *about;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        weir_error err = {0};
        wr_synth *synth;
        wr_synth_info info;
        wr_synth_options o = {.preset = published[i].name, .dtype = WEIR_DTYPE_BF16};
        assert_ok(wr_synth_new(&o, &synth, &err));
        wr_synth_get_info(synth, &info);
        assert_int_equal(info.n_parameters, published[i].n);
        assert_true(info.bytes > 2 * (uint64_t)published[i].n); /* and the headers */
        assert_true(info.bytes < 2 * (uint64_t)published[i].n + 200000);
        wr_synth_free(synth);
        bool listed = false;
        for (int k = 0; wr_synth_preset(k, &about); k++)
            listed = listed || !strcmp(wr_synth_preset(k, &about), published[i].name);
        assert_true(listed);
    }
}

/* Bytes of the weight files that are there. */
static uint64_t bytes_written(int n_shards) {
    uint64_t sum = 0;
    for (int i = 0; i < n_shards; i++) {
        char file[256];
        struct stat info;
        if (n_shards == 1)
            snprintf(file, sizeof file, "%s/model.safetensors", path);
        else
            snprintf(file, sizeof file, "%s/model-%05d-of-%05d.safetensors", path, i + 1, n_shards);
        assert_int_equal(stat(file, &info), 0);
        sum += (uint64_t)info.st_size;
    }
    return sum;
}

/* Mean, and mean square times cols, over some rows of one matrix; scale codes may not be 0. */
static void check_matrix(wr_checkpoint *c, const char *module, int64_t rows, int64_t cols, weir_quant quant,
                         weir_dtype dtype) {
    weir_error err = {0};
    wr_weight w;
    assert_ok(wr_checkpoint_weight(c, module, 1, rows, cols, &w, &err));
    assert_ok(wr_checkpoint_align(c, &w, &err));
    assert_int_equal(w.quant.mode, quant.mode);
    assert_int_equal(w.quant.bits, quant.bits);
    assert_int_equal(w.quant.group_size, quant.group_size);
    if (quant.mode == WEIR_QUANT_NONE || quant.mode == WEIR_QUANT_AFFINE) assert_int_equal(w.dtype, dtype);
    wr_linear_args args = {.rows = rows,
                           .cols = cols,
                           .experts = 1,
                           .quant = w.quant,
                           .weight_dtype = w.dtype,
                           .global_scale = w.global_scale};
    double sum = 0, squares = 0;
    float *row = malloc((size_t)cols * sizeof *row);
    for (int64_t r = 0; r < rows; r++) {
        wr_dequant_row(&args, w.data, w.scales, w.biases, 0, r, row);
        for (int64_t i = 0; i < cols; i++) {
            assert_true(isfinite(row[i]));
            sum += (double)row[i];
            squares += (double)row[i] * (double)row[i];
        }
    }
    free(row);
    double n = (double)(rows * cols), variance = squares / n * (double)cols;
    /* Over 100,000 values the mean square strays by well below 2 %, and the mean by 0.005 deviations; what affine
     * biases lose by rounding is of the same kind. */
    if (fabs(variance - 1) > 0.04) fail_msg("%s: variance %g times cols", module, variance);
    if (fabs(sum / n) * sqrt((double)cols) > 0.02) fail_msg("%s: mean %g", module, sum / n);
}

static void check_norm(wr_checkpoint *c, int64_t n) {
    weir_error err = {0};
    float *values = malloc((size_t)n * sizeof *values);
    double sum = 0;
    assert_ok(wr_checkpoint_vector(c, "model.layers.0.input_layernorm.weight", n, values, &err));
    for (int64_t i = 0; i < n; i++) {
        assert_true(values[i] > 0.5f && values[i] < 1.5f);
        sum += (double)values[i];
    }
    assert_true(fabs(sum / (double)n - 1) < 0.02);
    free(values);
}

static void values_keep_activations_about_1_in_every_mode(void **state) {
    (void)state;
    static const struct {
        weir_quant quant;
        weir_dtype dtype;
    } cases[] = {{{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16},    {{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F16},
                 {{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F32},     {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16},
                 {{WEIR_QUANT_AFFINE, 32, 2}, WEIR_DTYPE_F16},  {{WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_F32},
                 {{WEIR_QUANT_AFFINE, 32, 5}, WEIR_DTYPE_BF16}, {{WEIR_QUANT_AFFINE, 64, 6}, WEIR_DTYPE_BF16},
                 {{WEIR_QUANT_AFFINE, 32, 8}, WEIR_DTYPE_F16},  {{WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_BF16},
                 {{WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_BF16},  {{WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_BF16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        wr_checkpoint *c;
        wr_synth *synth;
        wr_synth_info info;
        wr_synth_options o = small(cases[i].quant, cases[i].dtype);
        write_forced(&o, 2);
        assert_ok(wr_synth_new(&o, &synth, &err));
        wr_synth_get_info(synth, &info);
        wr_synth_free(synth);
        assert_int_equal(bytes_written(1), info.bytes);
        assert_ok(wr_checkpoint_open(path, &c, &err));
        check_matrix(c, "model.layers.0.self_attn.q_proj", 576, 576, cases[i].quant, cases[i].dtype);
        check_matrix(c, "model.layers.0.mlp.down_proj", 576, 1536, cases[i].quant, cases[i].dtype);
        check_norm(c, 576);
        wr_checkpoint_close(c);
    }
}

static void rows_that_are_no_multiple_of_the_group_stay_dense(void **state) {
    (void)state;
    weir_error err = {0};
    wr_checkpoint *c;
    weir_quant wide = {WEIR_QUANT_AFFINE, 128, 4};
    wr_synth_options o = small(wide, WEIR_DTYPE_BF16);
    write_forced(&o, 1);
    assert_ok(wr_checkpoint_open(path, &c, &err));
    check_matrix(c, "model.layers.0.self_attn.q_proj", 576, 576, (weir_quant){0}, WEIR_DTYPE_BF16); /* 4.5 groups */
    check_matrix(c, "model.layers.0.mlp.down_proj", 576, 1536, wide, WEIR_DTYPE_BF16);
    wr_checkpoint_close(c);
}

static char *weights(size_t *bytes) {
    char file[256], *text;
    weir_error err = {0};
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    assert_ok(wr_file_read(file, (size_t)1 << 30, &text, bytes, &err));
    return text;
}

static void the_same_seed_gives_the_same_bytes_whatever_the_threads(void **state) {
    (void)state;
    wr_synth_options o = small(wr_quant_default(WEIR_QUANT_AFFINE), WEIR_DTYPE_BF16);
    size_t n[3];
    char *text[3];
    write_forced(&o, 1);
    text[0] = weights(&n[0]);
    write_forced(&o, 3);
    text[1] = weights(&n[1]);
    o.seed = 1;
    write_forced(&o, 3);
    text[2] = weights(&n[2]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    assert_int_equal(n[0], n[2]);
    size_t equal = 0;
    for (size_t i = 0; i < n[0]; i++) equal += text[0][i] == text[2][i];
    assert_true(equal < n[0] / 10); /* the header, the exponents of norms, and one code byte in 256 */
    for (int i = 0; i < 3; i++) wr_free(text[i]);
}

static void several_files_hold_the_same_tensors(void **state) {
    (void)state;
    weir_error err = {0};
    wr_checkpoint *c;
    wr_model *model;
    wr_synth *synth;
    wr_synth_info info;
    wr_synth_options o = small(wr_quant_default(WEIR_QUANT_MXFP4), WEIR_DTYPE_BF16);
    o.shard_bytes = 1 << 20;
    write_forced(&o, 2);
    assert_ok(wr_synth_new(&o, &synth, &err));
    wr_synth_get_info(synth, &info);
    wr_synth_free(synth);
    assert_true(info.n_shards > 1);
    assert_int_equal(bytes_written(info.n_shards), info.bytes);
    assert_ok(wr_checkpoint_open(path, &c, &err));
    assert_int_equal(wr_checkpoint_n_tensors(c), info.n_tensors);
    assert_ok(wr_model_open(c, wr_backend_cpu(), &model, &err)); /* no tensor is missing, none is left over */
    wr_model_close(model);
    wr_checkpoint_close(c);
}

static void refused(wr_synth_options o, weir_status expected, const char *named) {
    weir_error err = {0};
    wr_synth *synth;
    assert_int_equal(wr_synth_new(&o, &synth, &err), expected);
    assert_null(synth);
    if (!strstr(err.message, named)) fail_msg("\"%s\" does not name %s", err.message, named);
}

static void wrong_options_are_refused_by_name(void **state) {
    (void)state;
    wr_synth_options o = small((weir_quant){WEIR_QUANT_AFFINE, 64, 7}, WEIR_DTYPE_BF16);
    refused(o, WEIR_E_ARGUMENT, "7 bits");
    o.quant = (weir_quant){WEIR_QUANT_MXFP4, 64, 4};
    refused(o, WEIR_E_ARGUMENT, "groups of 64");
    o.quant = (weir_quant){WEIR_QUANT_Q4_0, 32, 4};
    refused(o, WEIR_E_ARGUMENT, "q4_0");
    o = small((weir_quant){0}, WEIR_DTYPE_U8);
    refused(o, WEIR_E_ARGUMENT, "u8");
    o = small((weir_quant){0}, WEIR_DTYPE_F16);
    o.n_layers = 31;
    refused(o, WEIR_E_ARGUMENT, "has 30");
    o.preset = "llama-9";
    refused(o, WEIR_E_NOT_FOUND, "qwen3-0.6b");
}

static void nothing_of_the_users_is_replaced(void **state) {
    (void)state;
    weir_error err = {0};
    wr_synth_options o = small(wr_quant_default(WEIR_QUANT_AFFINE), WEIR_DTYPE_BF16);
    wr_synth_write_options more = {.n_threads = 1};
    write_forced(&o, 1);
    assert_int_equal(write_as(&o, &more, &err), WEIR_E_STATE);
    assert_non_null(strstr(err.message, "--force"));
    more.force = true;
    char file[256];
    snprintf(file, sizeof file, "%s/notes.txt", path);
    assert_ok(wr_file_write(file, "mine", 4, &err));
    assert_int_equal(write_as(&o, &more, &err), WEIR_E_STATE);
    assert_non_null(strstr(err.message, "notes.txt"));
    assert_true(wr_path_is_file(file));
    assert_true(wr_path_remove(file));
    assert_ok(write_as(&o, &more, &err));
}

/* Names in the folder that holds the checkpoint. */
static size_t n_names(void) {
    char command[256];
    int n = -1;
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return (size_t)n;
}

static void remove_old(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s.old-*", path);
    assert_int_equal(system(command), 0);
}

static bool stop_at_once(void *context, double done) {
    (void)context;
    (void)done;
    return false;
}

static void a_stopped_or_failed_writing_leaves_what_was_there(void **state) {
    (void)state;
    weir_error err = {0};
    wr_synth_options o = small(wr_quant_default(WEIR_QUANT_AFFINE), WEIR_DTYPE_BF16);
    wr_synth_write_options more = {.force = true, .n_threads = 1, .progress = stop_at_once};
    write_forced(&o, 1);
    size_t before_bytes, after_bytes;
    char *before = weights(&before_bytes);
    o.seed = 5;
    assert_int_equal(write_as(&o, &more, &err), WEIR_E_CANCELLED);
    more.progress = NULL;
    for (int kind = 0; kind < WR_FAULT_KINDS; kind++) {
        wr_fault_arm((wr_fault_kind)kind, UINT64_MAX);
        assert_ok(write_as(&o, &more, &err));
        uint64_t calls = wr_fault_calls((wr_fault_kind)kind);
        wr_fault_arm((wr_fault_kind)kind, 0);
        o.seed = 0;
        assert_ok(write_as(&o, &more, &err));
        o.seed = 5;
        for (int i = 0; i < 40; i++) { /* spread over all calls; each of the last ten, which put things in place */
            uint64_t nth = i < 30 ? 1 + calls * (uint64_t)i / 30 : calls - (uint64_t)(39 - i);
            wr_fault_arm((wr_fault_kind)kind, nth);
            weir_status status = write_as(&o, &more, &err);
            wr_fault_arm((wr_fault_kind)kind, 0);
            bool in_place = status != WEIR_OK && strstr(err.message, "could not be removed");
            assert_int_equal(n_names(), in_place ? 2 : 1);
            if (in_place) remove_old();
            if (status == WEIR_OK || in_place) { /* the failing call was not needed, or came after all was done */
                o.seed = 0;
                assert_ok(write_as(&o, &more, &err));
                o.seed = 5;
            }
            char *after = weights(&after_bytes);
            assert_int_equal(before_bytes, after_bytes);
            assert_memory_equal(before, after, after_bytes);
            wr_free(after);
        }
    }
    wr_free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_published_numbers_of_parameters),
        cmocka_unit_test(values_keep_activations_about_1_in_every_mode),
        cmocka_unit_test(rows_that_are_no_multiple_of_the_group_stay_dense),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_whatever_the_threads),
        cmocka_unit_test(several_files_hold_the_same_tensors),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(nothing_of_the_users_is_replaced),
        cmocka_unit_test(a_stopped_or_failed_writing_leaves_what_was_there),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
