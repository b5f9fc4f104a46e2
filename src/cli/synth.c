/* weir synth: random checkpoints with the configurations of real models. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "file/quant.h"
#include "models/synth.h"

/* Ctrl-C stops the writing, and what was written is removed. */
static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static weir_status read_quant(const wr_cli *cli, weir_quant *out, weir_error *err) {
    weir_quant_mode mode = WEIR_QUANT_NONE;
    if (strcmp(cli->quant, "none") && !wr_quant_mlx_mode(cli->quant, &mode))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "--quant is \"%s\"; it must be affine, mxfp4, nvfp4, mxfp8 or none",
                       cli->quant);
    if (mode == WEIR_QUANT_NONE && (cli->bits || cli->group_size))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "--quant none has neither --bits nor --group-size");
    *out = wr_quant_default(mode);
    if (cli->bits) out->bits = (int32_t)cli->bits;
    if (cli->group_size) out->group_size = (int32_t)cli->group_size;
    return WEIR_OK;
}

static weir_status read_dtype(const wr_cli *cli, weir_dtype *out, weir_error *err) {
    static const weir_dtype dtypes[] = {WEIR_DTYPE_BF16, WEIR_DTYPE_F16, WEIR_DTYPE_F32};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(cli->dtype, weir_dtype_name(dtypes[i]))) {
            *out = dtypes[i];
            return WEIR_OK;
        }
    return WR_FAIL(err, WEIR_E_ARGUMENT, "--dtype is \"%s\"; it must be bf16, f16 or f32", cli->dtype);
}

static weir_status show_preset(const wr_cli *cli, const wr_synth_options *options, const char *about, weir_error *err) {
    wr_synth *synth;
    wr_synth_info info;
    WR_TRY(wr_synth_new(options, &synth, err));
    wr_synth_get_info(synth, &info);
    wr_synth_free(synth);
    if (cli->json)
        return wr_cli_json(json_pack("{s:s,s:s,s:I,s:I,s:I,s:i}", "preset", options->preset, "about", about, "layers",
                                     (json_int_t)info.n_layers, "parameters", (json_int_t)info.n_parameters, "bytes",
                                     (json_int_t)info.bytes, "files", info.n_shards),
                           err);
    printf("%-14s %12lld parameters %12llu bytes  %s\n", options->preset, (long long)info.n_parameters,
           (unsigned long long)info.bytes, about);
    return WEIR_OK;
}

static weir_status list_presets(const wr_cli *cli, wr_synth_options options, weir_error *err) {
    const char *about;
    options.n_layers = 0; /* the presets differ in layers */
    for (int i = 0; (options.preset = wr_synth_preset(i, &about)); i++) WR_TRY(show_preset(cli, &options, about, err));
    return wr_cli_flush(err);
}

static bool show_progress(void *context, double done) {
    if (*(const bool *)context) {
        fprintf(stderr, "\rwriting %3d %%%s", (int)(done * 100), done >= 1 ? "\r\033[K" : "");
        fflush(stderr);
    }
    return !interrupted;
}

static weir_status write_checkpoint(const wr_cli *cli, const wr_synth_options *options, weir_error *err) {
    wr_synth *synth;
    wr_synth_info info;
    bool show = isatty(STDERR_FILENO) && !cli->json;
    wr_synth_write_options write = {
        .force = cli->force, .n_threads = (int)cli->threads, .progress = show_progress, .context = &show};
    double start = wr_cli_now_s();
    WR_TRY(wr_synth_new(options, &synth, err));
    wr_synth_get_info(synth, &info);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    weir_status status = wr_synth_write(synth, cli->output, &write, err);
    wr_synth_free(synth);
    if (show) fprintf(stderr, "\r\033[K");
    WR_TRY(status);
    double seconds = wr_cli_now_s() - start;
    if (cli->json)
        return wr_cli_json(json_pack("{s:o,s:s,s:I,s:I,s:i,s:I,s:f}", "path",
                                     wr_cli_json_text(cli->output, strlen(cli->output)), "preset", options->preset,
                                     "parameters", (json_int_t)info.n_parameters, "bytes", (json_int_t)info.bytes,
                                     "files", info.n_shards, "tensors", (json_int_t)info.n_tensors, "seconds", seconds),
                           err);
    printf("%s: %lld parameters in %lld tensors, %llu bytes in %d file%s, %.1f s\n", cli->output,
           (long long)info.n_parameters, (long long)info.n_tensors, (unsigned long long)info.bytes, info.n_shards,
           info.n_shards > 1 ? "s" : "", seconds);
    return wr_cli_flush(err);
}

weir_status wr_cmd_synth(const wr_cli *cli, weir_error *err) {
    wr_synth_options options = {
        .preset = cli->n_words ? cli->words[0] : NULL, .n_layers = cli->layers, .seed = (uint64_t)cli->seed};
    WR_TRY(read_quant(cli, &options.quant, err));
    WR_TRY(read_dtype(cli, &options.dtype, err));
    if (cli->list) return list_presets(cli, options, err);
    if (!options.preset) return WR_FAIL(err, WEIR_E_ARGUMENT, "no preset named; weir synth --list shows them");
    if (!cli->output || !*cli->output)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "no folder named to write to; give one by -o FOLDER");
    return write_checkpoint(cli, &options, err);
}
