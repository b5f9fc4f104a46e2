/* The table of formats: every marker that is looked for stands here, but harmony's, which has a file of its own. Order
 * matters for detection: the first row whose markers are all in the template is taken. */
#include <string.h>

#include "text/parse/parse.h"

/* Full-width bars and low blocks, as DeepSeek's tokens have them. */
#define BAR  "\xEF\xBD\x9C"
#define LOW  "\xE2\x96\x81"
#define DSML BAR "DSML" BAR

const wr_pair wr_pairs[] = {
    {"<think>", "</think>", false, false},
    {"[THINK]", "[/THINK]", true, true},
    {"<seed:think>", "</seed:think>", false, false},
    {"<|START_THINKING|>", "<|END_THINKING|>", true, false},
    {"<|inner_prefix|>", "<|inner_suffix|>", true, false},
    {"\xE2\x97\x81think\xE2\x96\xB7", "\xE2\x97\x81/think\xE2\x96\xB7", false, false},
    {"<|channel>thought", "<channel|>", true, false},
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>", true, false},
    {0},
};
enum { THINK, MISTRAL_THINK, SEED_THINK, COHERE_THINK, INNER, KIMI_VL_THINK, GEMMA_THOUGHT, KIMI_K3_THINK };

/* ---- How a call is written ------------------------------------------------ */

static const wr_call_markers mistral_call = {
    .name_end = {"[ARGS]", "{"}, .id_end = "[CALL_ID]", .flags = WR_CALL_OR_WRAPPED};

static const wr_call_markers deepseek_call = {.open = "<" BAR "tool" LOW "call" LOW "begin" BAR ">",
                                              .name_end = {"<" BAR "tool" LOW "sep" BAR ">"},
                                              .close = "<" BAR "tool" LOW "call" LOW "end" BAR ">",
                                              .flags = WR_CALL_TYPE_FIRST | WR_CALL_FENCED};

static const wr_call_markers kimi_call = {.open = "<|tool_call_begin|>",
                                          .name_end = {"<|tool_call_argument_begin|>"},
                                          .close = "<|tool_call_end|>",
                                          .flags = WR_CALL_NAME_IN_ID};

static const wr_call_markers function_call = {.open = "<function=",
                                              .name_end = {">"},
                                              .key_open = "<parameter=",
                                              .key_end = ">",
                                              .value_end = {"</parameter>", "</function>", "<parameter="},
                                              .line_end = {"\n</parameter>", "</parameter>\n</function>",
                                                           "</parameter>\n<parameter=", "\n</function>",
                                                           "\n<parameter="},
                                              .close = "</function>",
                                              .flags = WR_CALL_OR_WRAPPED};

static const wr_call_markers glm_call = {.name_end = {"\n", "<arg_key>", "</tool_call>"},
                                         .key_open = "<arg_key>",
                                         .key_end = "</arg_key>",
                                         .value_open = "<arg_value>",
                                         .value_end = {"</arg_value>"},
                                         .close = "</tool_call>"};

#define INVOKE(before)                                                                                                 \
    {                                                                                                                  \
        .open = "<" before "invoke name=\"", .name_end = {"\""}, .tag_end = ">",                                       \
        .key_open = "<" before "parameter name=\"", .key_end = "\"", .value_end = {"</" before "parameter>"},          \
        .close = "</" before "invoke>"                                                                                 \
    }
static const wr_call_markers dsml_call = INVOKE(DSML), dsml_spaced_call = INVOKE(DSML " "), invoke_call = INVOKE("");

static const wr_call_markers kimi_k3_call = {.open = "<|open|>call tool=\"",
                                             .name_end = {"\""},
                                             .tag_end = "<|sep|>",
                                             .key_open = "<|open|>argument key=\"",
                                             .key_end = "\"",
                                             .value_end = {"<|close|>argument<|sep|>"},
                                             .close = "<|close|>call<|sep|>",
                                             .flags = WR_CALL_ENTITIES};

static const wr_call_markers python_call = {.flags = WR_CALL_PYTHON};
static const wr_call_markers gemma4_call = {.close = "<tool_call|>", .quote = "<|\"|>"};
static const wr_call_markers functiongemma_call = {.close = "<end_function_call>", .quote = "<escape>"};

/* ---- Formats ------------------------------------------------------------- */

#define WRAPPED(text) .marker = text, .syntax = &wr_syntax_wrapped
#define NAMED(text)   .marker = text, .syntax = &wr_syntax_named
#define TAGGED(text)  .marker = text, .syntax = &wr_syntax_tagged
#define HELD(text)    .marker = text, .syntax = &wr_syntax_held
#define OR_WRAPPED    .syntax = &wr_syntax_wrapped /* what OR_WRAPPED of the opener before it means */

const wr_output_format wr_output_formats[] = {
    {.name = "gpt-oss",
     .about = "gpt-oss: harmony channels, calls to functions.NAME",
     .detect = {"<|channel|>", "<|message|>"},
     .whole = &wr_syntax_harmony},
    {.name = "kimi-k3",
     .about = "Kimi K3: <|open|>call tool=\"NAME\"<|sep|>",
     .detect = {"<|open|>", "<|close|>"},
     .openers = {{TAGGED("<|open|>call tool=\""), .call = &kimi_k3_call}},
     .noise = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>",
               "<|close|>message<|sep|>"},
     .closers = {"<|close|>tools<|sep|>"},
     .reasoning = &wr_pairs[KIMI_K3_THINK],
     .ends_reasoning = true},
    {.name = "kimi-k2",
     .about = "Kimi K2: <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}",
     .detect = {"<|tool_call_begin|>"},
     .openers = {{NAMED("<|tool_calls_section_begin|>"), .call = &kimi_call, .section = true},
                 {NAMED("<|tool_call_begin|>"), .call = &kimi_call}},
     .closers = {"<|tool_calls_section_end|>"},
     .ends_reasoning = true},
    {.name = "deepseek-dsml",
     .about = "DeepSeek V3.2 and V4: <" DSML "invoke name=\"NAME\">",
     .detect = {DSML},
     .openers = {{TAGGED("<" DSML "function_calls>"), .call = &dsml_call, .section = true},
                 {TAGGED("<" DSML "tool_calls>"), .call = &dsml_call, .section = true},
                 {TAGGED("<" DSML " calls>"), .call = &dsml_spaced_call, .section = true},
                 {TAGGED("<" DSML "invoke name=\""), .call = &dsml_call},
                 {TAGGED("<" DSML " invoke name=\""), .call = &dsml_spaced_call}},
     .closers = {"</" DSML "function_calls>", "</" DSML "tool_calls>", "</" DSML " calls>"},
     .trim = true,
     .ends_reasoning = true},
    {.name = "deepseek",
     .about =
         "DeepSeek V3, R1 and V3.1: <" BAR "tool" LOW "call" LOW "begin" BAR ">NAME<" BAR "tool" LOW "sep" BAR ">{...}",
     .detect = {"<" BAR "tool" LOW "call" LOW "begin" BAR ">"},
     .openers = {{NAMED("<" BAR "tool" LOW "calls" LOW "begin" BAR ">"), .call = &deepseek_call, .section = true},
                 {NAMED("<" BAR "tool" LOW "call" LOW "begin" BAR ">"), .call = &deepseek_call}},
     .closers = {"<" BAR "tool" LOW "calls" LOW "end" BAR ">"},
     .separators = "`",
     .ends_reasoning = true},
    {.name = "minimax-m2",
     .about = "MiniMax M2: <invoke name=\"NAME\"> in <minimax:tool_call>",
     .detect = {"<minimax:tool_call>"},
     .openers = {{TAGGED("<minimax:tool_call>"), .call = &invoke_call, .section = true}},
     .closers = {"</minimax:tool_call>"},
     .trim = true},
    {.name = "seed-oss",
     .about = "Seed-OSS: <function=NAME> in <seed:tool_call>, <seed:think>",
     .detect = {"<seed:tool_call>"},
     .openers = {{TAGGED("<seed:tool_call>"), .call = &function_call, .section = true}, {OR_WRAPPED}},
     .closers = {"</seed:tool_call>"},
     .reasoning = &wr_pairs[SEED_THINK],
     .trim = true},
    {.name = "glm",
     .about = "GLM 4.5 and later: <tool_call>NAME<arg_key>",
     .detect = {"<arg_key>"},
     .openers = {{TAGGED("<tool_call>"), .call = &glm_call}},
     .trim = true},
    {.name = "qwen3-coder",
     .about = "Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5: <function=NAME><parameter=KEY>",
     .detect = {"<function=", "<parameter="},
     .openers = {{TAGGED("<tool_call>"), .call = &function_call, .section = true},
                 {OR_WRAPPED},
                 {TAGGED("<function="), .call = &function_call}},
     .closers = {"</tool_call>"},
     .trim = true,
     .ends_reasoning = true},
    {.name = "gemma4",
     .about = "Gemma 4: <|tool_call>call:NAME{...}<tool_call|>, thoughts in a channel",
     .detect = {"<|tool_call>"},
     .openers = {{HELD("<|tool_call>"), .call = &gemma4_call}},
     .reasoning = &wr_pairs[GEMMA_THOUGHT]},
    {.name = "functiongemma",
     .about = "FunctionGemma: <start_function_call>call:NAME{...}<end_function_call>",
     .detect = {"<start_function_call>"},
     .openers = {{HELD("<start_function_call>"), .call = &functiongemma_call}}},
    {.name = "mistral",
     .about = "Mistral: [TOOL_CALLS] with a list of objects, or with NAME[ARGS]{...}; [THINK]",
     .detect = {"[TOOL_CALLS]"},
     .openers = {{NAMED("[TOOL_CALLS]"), .call = &mistral_call}, {OR_WRAPPED}},
     .separators = ",]",
     .reasoning = &wr_pairs[MISTRAL_THINK]},
    {.name = "command-r",
     .about = "Command R7B and A: <|START_ACTION|> with a list of objects",
     .detect = {"<|START_ACTION|>"},
     .openers = {{WRAPPED("<|START_ACTION|>")}},
     .closers = {"<|END_ACTION|>"},
     .separators = ",]",
     .noise = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .reasoning = &wr_pairs[COHERE_THINK]},
    {.name = "lfm2",
     .about = "LFM2: Python calls in <|tool_call_start|>",
     .detect = {"<|tool_call_start|>"},
     .openers = {{HELD("<|tool_call_start|>"), .call = &python_call, .section = true}},
     .closers = {"<|tool_call_end|>"},
     .separators = ",]"},
    {.name = "nemotron",
     .about = "Nemotron Nano 2: <TOOLCALL> with a list of objects",
     .detect = {"<TOOLCALL>"},
     .openers = {{WRAPPED("<TOOLCALL>")}},
     .closers = {"</TOOLCALL>"},
     .separators = ",]",
     .trim = true},
    {.name = "hunyuan",
     .about = "Hunyuan, Jamba, MiniMax M1: <tool_calls> with objects or a list of them",
     .detect = {"<tool_calls>"},
     .openers = {{WRAPPED("<tool_calls>")}},
     .closers = {"</tool_calls>"},
     .separators = ",]",
     .trim = true},
    {.name = "granite",
     .about = "Granite 3, Phi-4-mini: <|tool_call|> with a list of objects",
     .detect = {"<|tool_call|>"},
     .openers = {{WRAPPED("<|tool_call|>")}},
     .closers = {"<|/tool_call|>"},
     .separators = ",]",
     .trim = true},
    {.name = "hermes",
     .about = "Qwen 2.5 and 3, QwQ, Hermes, Granite 4: objects in <tool_call>",
     .detect = {"<tool_call>"},
     .openers = {{WRAPPED("<tool_call>")}},
     .closers = {"</tool_call>"},
     .separators = ",]",
     .trim = true},
    {.name = "olmo3",
     .about = "Olmo 3: Python calls in <function_calls>",
     .detect = {"<function_calls>"},
     .openers = {{HELD("<function_calls>"), .call = &python_call, .section = true}},
     .closers = {"</function_calls>"},
     .separators = ",]",
     .trim = true},
    {.name = "pythonic",
     .about = "Llama 4 and others: the whole answer is [f(a=1), g()]",
     .detect = {"<|header_start|>"},
     .openers = {{HELD("<|python_start|>"), .call = &python_call, .section = true},
                 {HELD("["), .call = &python_call, .known = true, .bare = true}},
     .closers = {"<|python_end|>"},
     .separators = ",]"},
    {.name = "llama3",
     .about =
         "Llama 3.1 to 3.3: the whole answer is {\"name\": ..., \"parameters\": {...}}, perhaps behind <|python_tag|>",
     .detect = {"<|start_header_id|>", "\"parameters\""},
     .openers = {{WRAPPED("<|python_tag|>")},
                 {WRAPPED("{"), .known = true, .bare = true},
                 {TAGGED("<function="), .call = &function_call}},
     .separators = ";,"},
    {.name = "gemma",
     .about = "Gemma 3: calls in a fence, ```tool_code f(a=1) ```, or as an object or Python list alone",
     .detect = {"<start_of_turn>"},
     .openers = {{HELD("```tool_code"), .call = &python_call, .section = true, .known = true},
                 {WRAPPED("```json"), .known = true},
                 {WRAPPED("{"), .known = true, .bare = true},
                 {HELD("["), .call = &python_call, .known = true, .bare = true}},
     .closers = {"```"},
     .separators = ",])",
     .trim = true},
    {.name = "plain", .about = "no calls; reasoning in <think>, where there is any"},
    {0},
};

const wr_output_format *wr_output_format_find(const char *name) {
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        if (strcmp(f->name, name) == 0) return f;
    }
    return NULL;
}

const wr_output_format *wr_output_format_detect(const char *template_text) {
    const wr_output_format *f = wr_output_formats;
    for (; f[1].name; f++) {
        size_t n = 0, found = 0;
        for (; n < 3 && f->detect[n]; n++) found += template_text && strstr(template_text, f->detect[n]);
        if (n && found == n) break;
    }
    return f;
}
