/* Owns the table of commands and the table of options. */
#include <stddef.h>

#include "cli/cli.h"

#define ON(command) (1u << WR_CMD_##command)
enum {
    ENGINE = ON(RUN) | ON(SCORE) | ON(BENCH) | ON(INSPECT),
    MODEL = ENGINE | ON(TOKENIZE) | ON(TEMPLATE),
    ALL = (1u << WR_N_COMMANDS) - 1
};

const wr_command wr_commands[WR_N_COMMANDS] = {
    [WR_CMD_RUN] =
        {"run", "MODEL", "Answer a prompt, or chat at the terminal",
         "With -p or -f the prompt is answered on standard output as it is generated. Without either, and at a "
         "terminal, a chat begins: lines can be edited, the history is kept; /clear forgets, /exit or Ctrl-D "
         "leaves. The model's chat template is used unless --raw is given.",
         wr_cmd_run},
    [WR_CMD_TOKENIZE] = {"tokenize", "MODEL", "Show the tokens of a text",
                         "Prints id, byte span and piece of each token of the text of -p, -f or standard input, and "
                         "their count. MODEL may also be a tokenizer by itself: tokenizer.json, tekken.json, "
                         "tokenizer.model, a tiktoken file, vocab.txt, or a folder with one of them.",
                         wr_cmd_tokenize},
    [WR_CMD_TEMPLATE] =
        {"template", "MODEL", "Render messages by the model's chat template",
         "The messages come from the JSON file of -f or from standard input: a list of {role, content, ...}, or an "
         "object with `messages` and, as in requests to servers, `tools`, `documents` and `chat_template_kwargs`. With "
         "-p, a question is the only message, with -s a system message before it. The text goes to standard output "
         "as it is, without a newline of its own.",
         wr_cmd_template},
    [WR_CMD_GRAMMAR] =
        {"grammar", "FILE", "Check a JSON Schema, a grammar or an expression, and texts against it",
         "Compiles the file, or says why it cannot be enforced. With -p, -f or --texts it tells whether texts fit, and "
         "where they stop to. With --model it shows the tokens that may come after the text of -p or -f.",
         wr_cmd_grammar},
    [WR_CMD_SCORE] =
        {"score", "MODEL", "Log-probability of each token of a text, and the perplexity",
         "The instrument of every numeric comparison. The text comes from -p, -f or standard input; --ids reads "
         "JSON lists of token ids instead, one a line.",
         wr_cmd_score},
    [WR_CMD_INSPECT] = {"inspect", "MODEL", "Architecture, tensors, quantisation and memory plan",
                        "Reads headers only: nothing is loaded.", wr_cmd_inspect},
    [WR_CMD_BENCH] =
        {"bench", "MODEL", "Measure prefill and decode speed",
         "For each prompt size of --prompts a prefill row, for each of --lengths and --batches a decode row; "
         "median, fastest and slowest of --repetitions after one warm-up. On a GPU also the host's own time a decode "
         "step, that is without waiting for the device, the median of all steps.",
         wr_cmd_bench},
    [WR_CMD_LIST] = {"list", "", "List the models at hand", "Models of weir's store and of the Hugging Face cache.",
                     wr_cmd_list},
    [WR_CMD_SYNTH] =
        {"synth", "PRESET", "Write a random checkpoint with a real model's configuration",
         "For measuring real shapes without real weights; --list shows the presets and their sizes. The folder holds "
         "config.json and safetensors in MLX's layout, and appears whole or not at all. There is no tokenizer: weir "
         "bench, weir score --ids, weir inspect and programs that use libweir with token ids work; weir run and weir "
         "tokenize need text and do not.",
         wr_cmd_synth},
    [WR_CMD_VERSION] =
        {"version", "", "Version, features of the processor, devices",
         "With --devices, the devices weir could run on: memory, capabilities, driver; why one cannot be "
         "used, or why there is none; and which kinds of GPU this weir was built for.",
         wr_cmd_version},
    [WR_CMD_HELP] = {"help", "[COMMAND]", "Help on a command; --format man, markdown or bash writes the manual", "",
                     wr_cmd_help},
};

const char *const wr_command_fields[WR_N_COMMANDS] = {
    [WR_CMD_RUN] =
        "One line a token: `token`, `text` (may be empty while a character or a stop string is held back), and "
        "with --logprobs `logprob` and `top` (list of [token, logprob]). Last line: `finish` (stop, length, "
        "cancelled, error), `text` (the whole answer), `prompt_tokens`, `generated_tokens`, `prefill_s`, "
        "`decode_s`.",
    [WR_CMD_TOKENIZE] = "One line a token: `id`, `begin`, `end` (bytes of the text), `piece`. Last line: `count`.",
    [WR_CMD_TEMPLATE] = "One object: `text`. With --list one line a template: `name`.",
    [WR_CMD_GRAMMAR] =
        "One line a text: `accepted` (a whole text of the grammar), `beginning` (the beginning of one), `fits` (bytes "
        "that "
        "fit), `forced` (what must come next). With --model one object: `count`, `tokens` (ids). Without a text one "
        "object: `compile_ms`.",
    [WR_CMD_SCORE] =
        "One line a scored position: `seq` (line of --ids, from 0), `pos`, `token`, `logprob`, and with --top "
        "`top` (list of [token, logprob], falling). Last line: `tokens`, `mean_logprob`, `perplexity`.",
    [WR_CMD_INSPECT] =
        "One object: `path`, `family`, `layers`, `hidden_size`, `heads`, `kv_heads`, `head_dim`, `vocab_size`, "
        "`max_context`, `tied`, `device`, `plan` (bytes: `weights`, `mapped`, `kv`, `kv_per_token`, `activations`, "
        "`inputs`, `sampler`, and of a GPU what is `free` and the `total`; else 0), `tensors` (list of `name`, "
        "`format`, `shape`, `bytes`).",
    [WR_CMD_BENCH] = "One line a measurement: `what` (prefill or decode), `n_prompt`, `n_gen`, `batch`, `threads`, `n` "
                     "(repetitions), `tok_s` (median), `min_tok_s`, `max_tok_s`.",
    [WR_CMD_LIST] = "One line a model: `name`, `path`, `kind` (gguf, safetensors), `bytes`, `complete`, `problem`.",
    [WR_CMD_SYNTH] = "One object: `path`, `preset`, `parameters`, `bytes` (of the weight files), `files`, `tensors`, "
                     "`seconds`. With --list one line a preset: `preset`, `about`, `layers`, `parameters`, `bytes`, "
                     "`files`.",
    [WR_CMD_VERSION] = "One object: `version`, `cpu`; with --devices also `devices` (list of `name`, `model`, `memory` "
                       "and `free` in bytes, `units` (multiprocessors, or cores), `capability` and `driver` (null on "
                       "the CPU), `problem` (null when it can be used)), `built_for` (list of architectures), "
                       "`cuda_problem` (why there is no GPU, or null).",
};

#define AT(field) offsetof(wr_cli, field)
static const wr_option options[] = {
    {"--help", 'h', NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(help), ALL, "Show the command's options"},
    {"--json", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(json), ALL & ~ON(HELP),
     "Machine-readable output, JSON lines"},
    {"--prompt", 'p', NULL, WR_OPTION_TEXT, "TEXT", NULL, 0, 0, AT(prompt),
     ON(RUN) | ON(TOKENIZE) | ON(SCORE) | ON(TEMPLATE) | ON(GRAMMAR), "The text"},
    {"--file", 'f', NULL, WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(file),
     ON(RUN) | ON(TOKENIZE) | ON(SCORE) | ON(TEMPLATE) | ON(GRAMMAR), "Read the text from a file; - is standard input"},
    {"--system", 's', NULL, WR_OPTION_TEXT, "TEXT", NULL, 0, 0, AT(system), ON(RUN) | ON(TEMPLATE),
     "System message of the chat"},
    {"--arg", 0, NULL, WR_OPTION_TEXTS, "K=V", NULL, 0, 0, AT(args), ON(RUN) | ON(TEMPLATE),
     "Give the chat template an argument, as enable_thinking=false; V is JSON, or else a text; may be repeated"},
    {"--name", 0, NULL, WR_OPTION_TEXT, "NAME", NULL, 0, 0, AT(name), ON(RUN) | ON(TEMPLATE),
     "Which of the model's chat templates; by default \"tool_use\" with tools where there is one, else \"default\""},
    {"--tools", 0, NULL, WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(tools), ON(TEMPLATE), "JSON list of tools"},
    {"--documents", 0, NULL, WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(documents), ON(TEMPLATE), "JSON list of documents"},
    {"--no-generation-prompt", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(no_generation_prompt), ON(TEMPLATE),
     "Do not open the answer's turn"},
    {"--template", 0, NULL, WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(template_file), ON(TEMPLATE),
     "Use this template instead of the model's"},
    {"--raw", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(raw), ON(RUN),
     "Continue the text as it is, without chat template"},
    {"--max-tokens", 'n', NULL, WR_OPTION_INT, "N", "0", 0, 1e9, AT(max_tokens), ON(RUN),
     "Most tokens to generate; 0: until the context is full"},
    {"--temperature", 't', NULL, WR_OPTION_FLOAT, "X", "0", 0, 1e4, AT(temperature), ON(RUN),
     "Randomness; 0 always takes the likeliest token"},
    {"--top-k", 0, NULL, WR_OPTION_INT, "K", "0", 0, 1e9, AT(top_k), ON(RUN),
     "Draw from the K likeliest tokens; 0: from all"},
    {"--top-p", 0, NULL, WR_OPTION_FLOAT, "P", "1", 0, 1, AT(top_p), ON(RUN),
     "Draw from the likeliest tokens that together have probability P"},
    {"--min-p", 0, NULL, WR_OPTION_FLOAT, "P", "0", 0, 1, AT(min_p), ON(RUN),
     "Drop tokens less likely than P times the likeliest"},
    {"--repetition-penalty", 0, NULL, WR_OPTION_FLOAT, "X", "1", 0, 100, AT(repetition_penalty), ON(RUN),
     "Divide the logits of tokens already seen; 1: off"},
    {"--presence-penalty", 0, NULL, WR_OPTION_FLOAT, "X", "0", -100, 100, AT(presence_penalty), ON(RUN),
     "Subtract once for tokens already generated"},
    {"--frequency-penalty", 0, NULL, WR_OPTION_FLOAT, "X", "0", -100, 100, AT(frequency_penalty), ON(RUN),
     "Subtract for each time a token was generated"},
    {"--logit-bias", 0, NULL, WR_OPTION_TEXTS, "ID=X", NULL, 0, 0, AT(logit_bias), ON(RUN),
     "Add X to the logit of token ID; may be repeated"},
    {"--seed", 0, NULL, WR_OPTION_INT, "N", "0", 0, 9e15, AT(seed), ON(RUN),
     "Seed of the draws; the same seed gives the same text"},
    {"--stop", 0, NULL, WR_OPTION_TEXTS, "TEXT", NULL, 0, 0, AT(stop), ON(RUN),
     "End the answer before this text; may be repeated"},
    {"--ignore-eos", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(ignore_eos), ON(RUN),
     "Go on after the model's own end tokens"},
    {"--special", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(special), ON(RUN) | ON(TOKENIZE) | ON(SCORE),
     "Control tokens: shown in answers, recognised in texts"},
    {"--logprobs", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(logprobs), ON(RUN),
     "With --json: the log-probability of each token"},
    {"--top", 0, NULL, WR_OPTION_INT, "K", "0", 0, WEIR_MAX_TOP_LOGPROBS, AT(top), ON(SCORE) | ON(RUN),
     "The best K tokens of each position"},
    {"--ids", 0, NULL, WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(ids), ON(SCORE),
     "Score lists of token ids, one JSON list a line"},
    {"--kind", 0, NULL, WR_OPTION_TEXT, "KIND", "auto", 0, 0, AT(kind), ON(GRAMMAR),
     "What the file is: schema, gbnf, regex, choices (one a line); auto: by its ending, .json, .gbnf, else regex"},
    {"--texts", 0, NULL, WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(texts), ON(GRAMMAR),
     "Check each text of a JSON list of strings"},
    {"--model", 'm', NULL, WR_OPTION_TEXT, "MODEL", NULL, 0, 0, AT(mask_model), ON(GRAMMAR),
     "Show which tokens of this model may come next"},
    {"--max-whitespace", 0, NULL, WR_OPTION_INT, "N", "0", -1, 200, AT(max_whitespace), ON(GRAMMAR),
     "Schemas: at most N blanks in a row; 0: any number, -1: none"},
    {"--plain-strings", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(plain_strings), ON(GRAMMAR),
     "Schemas: strings escape only what they must"},
    {"--plain-numbers", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(plain_numbers), ON(GRAMMAR),
     "Schemas: integers without a point, bounded numbers without an exponent"},
    {"--one-of-as-any-of", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(one_of_as_any_of), ON(GRAMMAR),
     "Schemas: take oneOf as anyOf where branches may overlap"},
    {"--prompts", 'p', NULL, WR_OPTION_TEXT, "N,N", "512", 0, 0, AT(prompts), ON(BENCH), "Prompt sizes to measure"},
    {"--lengths", 'n', NULL, WR_OPTION_TEXT, "N,N", "64", 0, 0, AT(lengths), ON(BENCH),
     "Generation lengths to measure"},
    {"--batches", 'b', NULL, WR_OPTION_TEXT, "N,N", "1", 0, 0, AT(batches), ON(BENCH),
     "Numbers of sequences at once to measure"},
    {"--repetitions", 'r', NULL, WR_OPTION_INT, "N", "5", 1, 1000, AT(repetitions), ON(BENCH),
     "Repetitions of each measurement"},
    {"--output", 'o', NULL, WR_OPTION_TEXT, "FOLDER", NULL, 0, 0, AT(output), ON(SYNTH), "The folder to write"},
    {"--list", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(list), ON(SYNTH),
     "Show the presets, with their sizes as quantised by the other options"},
    {"--list", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(list), ON(TEMPLATE),
     "Show the names of the model's templates"},
    {"--quant", 0, NULL, WR_OPTION_TEXT, "MODE", "affine", 0, 0, AT(quant), ON(SYNTH),
     "How matrices are stored: affine, mxfp4, nvfp4, mxfp8 or none"},
    {"--bits", 0, NULL, WR_OPTION_INT, "N", "0", 0, 8, AT(bits), ON(SYNTH),
     "Bits a value: 2, 3, 4, 5, 6 or 8 for affine; 0: 4, or what the mode has"},
    {"--group-size", 0, NULL, WR_OPTION_INT, "N", "0", 0, 128, AT(group_size), ON(SYNTH),
     "Values that share a scale: 32, 64 or 128 for affine; 0: 64, or what the mode has"},
    {"--dtype", 0, NULL, WR_OPTION_TEXT, "TYPE", "bf16", 0, 0, AT(dtype), ON(SYNTH),
     "Type of what is not quantised and of affine scales: bf16, f16 or f32"},
    {"--layers", 0, NULL, WR_OPTION_INT, "N", "0", 0, 512, AT(layers), ON(SYNTH), "Only the first N layers; 0: all"},
    {"--seed", 0, NULL, WR_OPTION_INT, "N", "0", 0, 9e15, AT(seed), ON(SYNTH),
     "Seed of the values; the same command gives the same bytes"},
    {"--force", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(force), ON(SYNTH),
     "Replace a random checkpoint that is there already"},
    {"--device", 0, "WEIR_DEVICE", WR_OPTION_TEXT, "NAME", "auto", 0, 0, AT(device), ENGINE,
     "Where to compute: cpu, cuda or cuda:N; auto: the first GPU that can be used, else the CPU"},
    {"--threads", 0, "WEIR_THREADS", WR_OPTION_INT, "N", "0", 0, 1024, AT(threads), ENGINE | ON(SYNTH),
     "Threads; 0: one a core"},
    {"--context", 'c', NULL, WR_OPTION_INT, "N", "0", 0, 1e9, AT(context), ENGINE,
     "Tokens a sequence may hold; 0: the model's own, at most 8,192"},
    {"--batch", 'b', NULL, WR_OPTION_INT, "N", "0", 0, 1024, AT(batch), ON(INSPECT),
     "Sequences at once to plan for; 0: 8"},
    {"--step-tokens", 0, NULL, WR_OPTION_INT, "N", "0", 0, 8192, AT(step_tokens), ENGINE,
     "Most rows of one step, so the largest prompt chunk; 0: 256, on a GPU 2,048"},
    {"--kv-bytes", 0, NULL, WR_OPTION_BYTES, "BYTES", "0", 0, 0, AT(kv_bytes), ENGINE,
     "Memory for keys and values; 0: as the context needs"},
    {"--kv-dtype", 0, NULL, WR_OPTION_TEXT, "TYPE", "auto", 0, 0, AT(kv_dtype), ENGINE,
     "Type of keys and values: f16, bf16 or f32; auto: f16, on a GPU bf16"},
    {"--reference", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(reference), ENGINE & ~ON(INSPECT),
     "Reference kernels only; slow, for comparison"},
    {"--verbose", 'v', NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(verbose), ON(RUN) | ON(INSPECT),
     "Say more: timings after the answer; every tensor"},
    {"--devices", 0, NULL, WR_OPTION_FLAG, NULL, NULL, 0, 0, AT(devices), ON(VERSION), "List the devices"},
    {"--format", 0, NULL, WR_OPTION_TEXT, "FORM", NULL, 0, 0, AT(format), ON(HELP), "man, markdown or bash"},
    {NULL, 0, "WEIR_STORE", WR_OPTION_NONE, "FOLDER", NULL, 0, 0, 0, ALL,
     "Folder of the model store; default $XDG_CACHE_HOME/weir/store or ~/.cache/weir/store"},
    {NULL, 0, "WEIR_CPU", WR_OPTION_NONE, "LEVEL", NULL, 0, 0, 0, ALL,
     "Use at most these instructions: portable, avx2 or avx512"},
    {NULL, 0, "WEIR_CUDA_DRIVER", WR_OPTION_NONE, "FILE", NULL, 0, 0, 0, ALL,
     "The NVIDIA driver's library; default libcuda.so.1"},
    {NULL, 0, "WEIR_CUDA_LIBRARY", WR_OPTION_NONE, "FILE", NULL, 0, 0, 0, ALL,
     "weir's own CUDA library; default libweir-cuda.so, looked for beside weir and in its lib/weir"},
    {NULL, 0, "WEIR_NVRTC", WR_OPTION_NONE, "FILE", NULL, 0, 0, 0, ALL,
     "The compiler of custom kernels; default libnvrtc of the CUDA toolkit"},
    {NULL, 0, "WEIR_CUDA_INCLUDE", WR_OPTION_NONE, "FOLDERS", NULL, 0, 0, 0, ALL,
     "Folders, separated by colons, where custom kernels find headers first"},
    {NULL, 0, "WEIR_KERNEL_CACHE", WR_OPTION_NONE, "FOLDER", NULL, 0, 0, 0, ALL,
     "Where compiled custom kernels are kept; default $XDG_CACHE_HOME/weir/kernels or ~/.cache/weir/kernels, empty: "
     "nowhere"},
    {NULL, 0, "WEIR_TRACE", WR_OPTION_NONE, "MODE", NULL, 0, 0, 0, ALL,
     "1: print each program's kernels; time: their times too"},
    {NULL, 0, "WEIR_HISTORY", WR_OPTION_TEXT, "FILE", NULL, 0, 0, AT(history), ON(RUN),
     "File of the chat's line history; default ~/.weir_history, empty: none"},
};
const wr_option_table wr_cli_options = {options, sizeof options / sizeof *options};
