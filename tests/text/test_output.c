/* The output parser, format by format. Each case is parsed whole, and cut at every place. */
#include "output_test.h"

#define TOOLS                                                                                                          \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":"            \
    "\"integer\"},"                                                                                                    \
    "\"s\":{\"type\":\"string\"},\"o\":{\"type\":\"object\"},\"n\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":"       \
    "\"null\"}]},"                                                                                                     \
    "\"b\":{\"type\":[\"boolean\",\"string\"]}}}}},{\"name\":\"g\"}]"

#define BAR "\xEF\xBD\x9C"
#define LOW "\xE2\x96\x81"

typedef struct sample {
    const char *format, *text, *want;
    const char *prompt;
} sample;

static void check_sample(const sample *s, const char *tools, bool truncated) {
    const weir_output_options options = {.format = s->format, .prompt = s->prompt, .tools_json = tools};
    collected c;
    assert_true(collect(&options, s->text, strlen(s->text), NULL, 0, truncated, &c));
    if (strcmp(c.text.data, s->want) != 0) {
        fail_msg("%s%s:\ntext %s\n got %s\nwant %s", s->format, truncated ? ", truncated" : "", s->text, c.text.data,
                 s->want);
    }
    check_all_cuts(&options, s->text, strlen(s->text), truncated, s->want, 1);
    collected_free(&c);
}

static void check_samples(const sample *s, size_t n) {
    for (size_t i = 0; i < n; i++) check_sample(&s[i], TOOLS, false);
}
#define CHECK(samples) check_samples(samples, sizeof(samples) / sizeof *(samples))

static void objects_in_tags(void **state) {
    (void)state;
    static const sample samples[] = {
        {"hermes", "Plain text, no call.\n", "C{Plain text, no call.\n}", NULL},
        {"hermes", "", "", NULL},
        {"hermes", "Look:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
         "C{Look:}f{{\"a\": 1}}", NULL},
        {"hermes", "<tool_call>{\"arguments\": {\"a\": 1}, \"id\": \"x\", \"name\": \"f\"}</tool_call>",
         "f#x{{\"a\": 1}}", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"id\": \"x\"}</tool_call>", "f#x{{}}", NULL},
        /* A tool without parameters has arguments {}. */
        {"hermes", "<tool_call>{\"name\": \"g\"}</tool_call>", "g{{}}", NULL},
        {"hermes", "<tool_call>{\"name\": \"g\", \"arguments\": null}</tool_call>", "g{{}}", NULL},
        {"hermes", "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "g{{\"a\": 1}}",
         NULL},
        {"hermes",
         "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
         "\"arguments\": {\"s\": \"</tool_call>\"}}\n</tool_call>\nDone.\n",
         "f{{\"a\": 1}}g{{\"s\": \"</tool_call>\"}}C{\nDone.\n}", NULL},
        /* No call: content, whole. */
        {"hermes", "a <tool_call>b</tool_call> c", "C{a <tool_call>b</tool_call> c}", NULL},
        {"hermes", "<tool_call>{\"x\": 1}</tool_call>", "C{<tool_call>{\"x\": 1}</tool_call>}", NULL},
        {"hermes", "<tool_call>{\"name\": 5}</tool_call>", "C{<tool_call>{\"name\": 5}</tool_call>}", NULL},
        {"hermes", "<tool_call><tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>", "C{<tool_call>}g{{}}", NULL},
        {"hermes", "1 < 2 <tool_ <tool_calls>", "C{1 < 2 <tool_ <tool_calls>}", NULL},
        /* Broken arguments are passed on and flagged; what stands behind an object is content. */
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}</tool_call>", "f{{\"a\": 1,}}?", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1</tool_call>x", "f{{\"a\": 1}!?C{x}", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"z\": 2}</tool_call>",
         "f{{\"a\": 1}}C{, \"z\": 2}</tool_call>}", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>", "f{[1]}?", NULL},
        /* Cut off: what is there of the arguments. */
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x", "f{{\"a\": \"x}!?...", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"argu", "C{<tool_call>{\"name\": \"f\", \"argu}", NULL},
        {"hunyuan",
         "<tool_calls>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</tool_calls>!",
         "f{{}}g{{}}C{!}", NULL},
        {"granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "f{{\"a\": 1}}", NULL},
        {"nemotron", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>", "f{{}}", NULL},
        {"command-r",
         "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
         "\"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
         "R{Hm.}f#0{{\"a\": 1}}", NULL},
    };
    CHECK(samples);
}

static void llama3_calls_only_as_the_whole_answer_or_behind_its_token(void **state) {
    (void)state;
    static const sample samples[] = {
        {"llama3", "{\"name\": \"f\", \"parameters\": {\"a\": \"1\"}}", "f{{\"a\": \"1\"}}", NULL},
        {"llama3",
         "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
         "\"parameters\": {}}",
         "f{{}}g{{}}", NULL},
        {"llama3", "{\"name\": \"Bob\", \"parameters\": {}}", "C{{\"name\": \"Bob\", \"parameters\": {}}}", NULL},
        {"llama3", "{\"capital\": \"Paris\"}", "C{{\"capital\": \"Paris\"}}", NULL},
        {"llama3", "So: {\"name\": \"f\", \"parameters\": {}}", "C{So: {\"name\": \"f\", \"parameters\": {}}}", NULL},
        {"llama3", "<|python_tag|>print(1)", "C{<|python_tag|>print(1)}", NULL},
        {"llama3", "<function=f>{\"a\": 1}</function>", "f{{\"a\": 1}}", NULL},
    };
    CHECK(samples);
}

static void names_and_tokens(void **state) {
    (void)state;
    static const sample samples[] = {
        {"mistral", "Hi[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
         "C{Hi}f{{\"a\": 1}}g#123456789{{}}", NULL},
        {"mistral",
         "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc\"}, {\"name\": \"g\", "
         "\"arguments\": {}}] ok",
         "f#abc{{\"a\": 1}}g{{}}C{ ok}", NULL},
        {"mistral", "[TOOL_CALLS]f{\"a\": 1}", "f{{\"a\": 1}}", NULL},
        {"mistral", "[THINK]Use [TOOL_CALLS]f[ARGS]{}?[/THINK]No.", "R{Use [TOOL_CALLS]f[ARGS]{}?}C{No.}", NULL},
        {"mistral", "[THINK]\nHm.\n[/THINK]\nNo.", "R{\nHm.\n}C{\nNo.}", NULL},
        {"mistral", "[TOOL_CALLS]f[ARGS]{\"s\": \"[TOOL_CALLS]\"}", "f{{\"s\": \"[TOOL_CALLS]\"}}", NULL},
        {"mistral", "[TOOL_CALLS]f[ARGS]{\"a\": 1", "f{{\"a\": 1}!?...", NULL},
        {"mistral", "[TOOL_CALLS] no\ncall", "C{[TOOL_CALLS] no\ncall}", NULL},
        {"deepseek",
         "<" BAR "tool" LOW "calls" LOW "begin" BAR "><" BAR "tool" LOW "call" LOW "begin" BAR ">function<" BAR
         "tool" LOW "sep" BAR ">f\n```json\n{\"a\": 1}\n```<" BAR "tool" LOW "call" LOW "end" BAR ">\n<" BAR "tool" LOW
         "call" LOW "begin" BAR ">function<" BAR "tool" LOW "sep" BAR ">g\n```json\n{}\n```<" BAR "tool" LOW "call" LOW
         "end" BAR "><" BAR "tool" LOW "calls" LOW "end" BAR ">",
         "f{{\"a\": 1}}g{{}}", NULL},
        {"deepseek",
         "Hm.</think>\n\nSo:<" BAR "tool" LOW "calls" LOW "begin" BAR "><" BAR "tool" LOW "call" LOW "begin" BAR
         ">f<" BAR "tool" LOW "sep" BAR ">{\"a\": 1}<" BAR "tool" LOW "call" LOW "end" BAR "><" BAR "tool" LOW
         "calls" LOW "end" BAR ">",
         "R{Hm.}C{So:}f{{\"a\": 1}}", "<" BAR "Assistant" BAR "><think>\n"},
        {"kimi-k2",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
         "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
         "<|tool_calls_section_end|>",
         "f#functions.f:0{{\"a\": 1}}g#functions.g:1{{}}", NULL},
        /* The section ends reasoning that was not closed. */
        {"kimi-k2",
         "Hm. "
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
         "R{Hm. }g#functions.g:0{{}}", "<think>"},
    };
    CHECK(samples);
}

static void tags_with_values_typed_by_the_schema(void **state) {
    (void)state;
    static const sample samples[] = {
        {"qwen3-coder",
         "I "
         "will.\n\n<tool_call>\n<function=f>\n<parameter=a>\n5\n</parameter>\n<parameter=s>\n5\n</"
         "parameter>\n<parameter=o>\n"
         "{\"k\": "
         "[1]}\n</parameter>\n<parameter=n>\nnull\n</parameter>\n<parameter=b>\ntrue\n</parameter>\n</function>\n</"
         "tool_call>",
         "C{I will.}f{{\"a\": 5, \"s\": \"5\", \"o\": {\"k\": [1]}, \"n\": null, \"b\": true}}", NULL},
        /* Not in the schema: JSON if it is, else a string. Python's literals where no string may stand. */
        {"qwen3-coder",
         "<tool_call>\n<function=g>\n<parameter=x>\n12\n</parameter>\n<parameter=y>\na "
         "\"b\"\n\n</parameter>\n</function>\n</tool_call>",
         "g{{\"x\": 12, \"y\": \"a \\\"b\\\"\\n\"}}", NULL},
        {"qwen3-coder",
         "<function=f>\n<parameter=o>\n{'k': True}\n</parameter>\n<parameter=a>\nmany\n</parameter>\n</function>",
         "f{{\"o\": {\"k\": true}, \"a\": \"many\"}}", NULL},
        {"qwen3-coder", "<tool_call><function=f><parameter=s>x</parameter></function></tool_call>y",
         "f{{\"s\": \"x\"}}C{y}", NULL},
        {"qwen3-coder", "<tool_call>\n<function=g>\n</function>\n</tool_call>", "g{{}}", NULL},
        /* Closing tags within a text, and one that is missing. */
        {"qwen3-coder",
         "<tool_call>\n<function=f>\n<parameter=s>\na </parameter> b\n</parameter>\n</function>\n</tool_call>",
         "f{{\"s\": \"a </parameter> b\"}}", NULL},
        {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>\n</tool_call>", "f{{\"s\": \"x\"}}",
         NULL},
        {"qwen3-coder", "<tool_call>\n<function=f>\nNo.", "C{<tool_call>\n<function=f>\nNo.}", NULL},
        {"qwen3-coder", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "f{{\"a\": 1}}",
         NULL},
        {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=s>\nab\n", "f{{\"s\": \"ab\\n}!?...", NULL},
        {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n4", "f{{\"a\": 4}!?...", NULL},
        {"seed-oss",
         "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n</"
         "seed:tool_call>",
         "R{Hm.}f{{\"a\": 1}}", NULL},
        {"glm",
         "\n<think>Hm.</think>\nOne "
         "moment.\n<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>s</arg_key>\n"
         "<arg_value> x\n</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
         "R{Hm.}C{One moment.}f{{\"a\": 1, \"s\": \" x\\n\"}}g{{}}", NULL},
        {"glm", "<tool_call>f<arg_key>s</arg_key><arg_value>1</arg_value></tool_call><tool_call>g</tool_call>",
         "f{{\"s\": \"1\"}}g{{}}", NULL},
        {"glm", "The <tool_call> tag, closed: </tool_call>", "C{The <tool_call> tag, closed: </tool_call>}", NULL},
        {"minimax-m2",
         "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">1</parameter>\n</invoke>\n<invoke "
         "name=\"g\">\n</invoke>\n"
         "</minimax:tool_call>",
         "f{{\"a\": 1}}g{{}}", NULL},
        {"deepseek-dsml",
         "x\n\n<" BAR "DSML" BAR "function_calls>\n<" BAR "DSML" BAR "invoke name=\"g\">\n<" BAR "DSML" BAR
         "parameter name=\"p\" string=\"true\">1</" BAR "DSML" BAR "parameter>\n<" BAR "DSML" BAR
         "parameter name=\"q\" string=\"false\">1</" BAR "DSML" BAR "parameter>\n</" BAR "DSML" BAR "invoke>\n</" BAR
         "DSML" BAR "function_calls>",
         "C{x}g{{\"p\": \"1\", \"q\": 1}}", NULL},
        {"kimi-k3",
         "Hm.<|close|>think<|sep|><|open|>response<|sep|>Ok.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call "
         "tool=\"g\" "
         "index=\"1\"<|sep|><|open|>argument key=\"q&amp;a\" type=\"string\"<|sep|>1 & "
         "2<|close|>argument<|sep|><|open|>argument "
         "key=\"n\" "
         "type=\"number\"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|"
         "sep|>",
         "R{Hm.}C{Ok.}g{{\"q&a\": \"1 & 2\", \"n\": 3}}", "<|open|>think<|sep|>"},
    };
    CHECK(samples);
}

static void python_and_gemma_notation_become_json(void **state) {
    (void)state;
    static const sample samples[] = {
        {"pythonic", "[f(a=1, s='it\\'s \"x\"'), g()]", "f{{\"a\": 1, \"s\": \"it's \\\"x\\\"\"}}g{{}}", NULL},
        {"pythonic", "<|python_start|>[f(o={'k': [None, True, (1, 2), -1.5, {}]})]<|python_end|>",
         "f{{\"o\": {\"k\": [null, true, [1, 2], -1.5, {}]}}}", NULL},
        {"pythonic", "[f(s=\"\"\"a \"b\" )\"\"\", n=1_000, a=.5)]",
         "f{{\"s\": \"a \\\"b\\\" )\", \"n\": 1000, \"a\": 0.5}}", NULL},
        {"pythonic", "[f(s='\\u00e9\\x41\\n\\q' 'z')]",
         "f{{\"s\": \"\xC3\xA9"
         "A\\n\\\\qz\"}}",
         NULL},
        {"pythonic", "[1, 2, f(3)]", "C{[1, 2, f(3)]}", NULL},
        {"pythonic", "[nothing(a=1)]", "C{[nothing(a=1)]}", NULL},
        {"pythonic", "[f(a=x+1)]", "C{[f(a=x+1)]}", NULL},
        {"pythonic", "[f(a=1), oops]", "f{{\"a\": 1}}C{, oops]}", NULL},
        {"pythonic", "See [f(a=1)]", "C{See [f(a=1)]}", NULL},
        {"pythonic", "[f(a=1, s='x", "f{{\"a\": 1, \"s\": \"x}!?...", NULL},
        {"lfm2", "<|tool_call_start|>[f(a=1)]<|tool_call_end|>Calling.", "f{{\"a\": 1}}C{Calling.}", NULL},
        {"olmo3", "<function_calls>\nf(a=1)\ng()\n</function_calls>", "f{{\"a\": 1}}g{{}}", NULL},
        {"gemma", "Sure:\n```tool_code\nprint(f(a=1))\n```", "C{Sure:}f{{\"a\": 1}}", NULL},
        {"gemma", "```tool_code\ndefault_api.f(s=\"x\")\ng()\n```\nDone", "f{{\"s\": \"x\"}}g{{}}C{\nDone}", NULL},
        {"gemma", "```json\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n```", "f{{\"a\": 1}}", NULL},
        {"gemma", "```json\n{\"name\": \"Bob\"}\n```", "C{```json\n{\"name\": \"Bob\"}\n```}", NULL},
        {"gemma4",
         "<|channel>thought\nHm.\n<channel|>Ok<|tool_call>call:f{a:1,o:{k:[<|\"|>x, "
         "}<|\"|>,None]},s:<|\"|><|\"|>}<tool_call|>",
         "R{Hm.}C{Ok}f{{\"a\": 1, \"o\": {\"k\": [\"x, }\", null]}, \"s\": \"\"}}", NULL},
        {"gemma4", "<|tool_call>call:g{}<tool_call|><|tool_call>call:f{a:1}<tool_call|>", "g{{}}f{{\"a\": 1}}", NULL},
        {"gemma4", "<|tool_call>call:f no<tool_call|>", "C{<|tool_call>call:f no<tool_call|>}", NULL},
        {"gemma4", "<|tool_call>call:f{s:<|\"|>Par", "f{{\"s\": \"Par}!?...", NULL},
        {"functiongemma", "<start_function_call>call:f{s:<escape>x{<escape>,a:1}<end_function_call>",
         "f{{\"s\": \"x{\", \"a\": 1}}", NULL},
    };
    CHECK(samples);
}

static void harmony_channels(void **state) {
    (void)state;
    static const sample samples[] = {
        {"gpt-oss",
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
         "R{Hm.}C{Hi.}", NULL},
        {"gpt-oss",
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
         "<|constrain|>json<|message|>"
         "{\"s\": \"<|call|>\"}<|call|>",
         "R{Hm.}f{{\"s\": \"<|call|>\"}}", NULL},
        {"gpt-oss", " to=functions.g<|channel|>commentary json<|message|>{}", "g{{}}", NULL},
        {"gpt-oss",
         "<|channel|>commentary<|message|>First.<|end|><|start|>assistant "
         "to=functions.g<|channel|>commentary<|message|>{}<|call|>",
         "C{First.}g{{}}", NULL},
        {"gpt-oss", "<|channel|>commentary to=functions.f<|message|>{\"a\": ", "f{{\"a\": }!?...", NULL},
        {"gpt-oss", "<|channel|>commentary to=python<|message|>print(1)<|call|>", "python{print(1)}?", NULL},
        {"gpt-oss", "Just text <|message|> here.", "C{Just text <|message|> here.}", NULL},
        {"gpt-oss", "<|channel|>!!<|end|>", "C{<|channel|>!!}", NULL},
        {"gpt-oss", "<|channel|>analysis<|message|>a <|call|> b<|end|><|start|>assistant<|channel|>final<|message|>c",
         "R{a <|call|> b}C{c}", NULL},
        {"gpt-oss", "<|channel|>analysis<|message|>Hm", "R{Hm}...", NULL},
        /* Every line break is the text's own. */
        {"gpt-oss",
         "<|channel|>analysis<|message|>\nHm.\n<|end|><|start|>assistant<|channel|>analysis<|message|>So.\n<|end|>"
         "<|start|>assistant<|channel|>final<|message|>\nHi.\n<|return|>",
         "R{\nHm.\nSo.\n}C{\nHi.\n}", NULL},
    };
    CHECK(samples);
}

static void reasoning_is_told_from_content(void **state) {
    (void)state;
    static const sample samples[] = {
        {"plain", "<think>\nHm.\n\nWell.\n</think>\n\nHi.\n", "R{Hm.\n\nWell.}C{Hi.\n}", NULL},
        /* Opened by the prompt: only the end appears. */
        {"plain", "Hm.\n</think>\n\nHi.", "R{Hm.}C{Hi.}", "<|im_start|>assistant\n<think>\n"},
        {"plain", "<think>\nHm.</think>Hi.", "R{Hm.}C{Hi.}", "<think>\n"},
        {"plain", "Hm", "R{Hm}...", "<think>"},
        {"plain", "Hi.", "C{Hi.}", "<think>\n\n</think>\n\n"},
        {"plain", "\n</think>\n\nHi.", "C{Hi.}", "<think>\n"},
        {"plain", "The <think> tag and </think> too.", "C{The <think> tag and </think> too.}", NULL},
        {"hermes", "<think>\nI call <tool_call>.\n</think>\n\n<tool_call>\n{\"name\": \"g\"}\n</tool_call>",
         "R{I call <tool_call>.}g{{}}", NULL},
        {"hermes", "<think></think><tool_call>{\"name\": \"g\"}</tool_call><think>Then</think>Ok", "g{{}}R{Then}C{Ok}",
         NULL},
        {"plain",
         "\xE2\x97\x81think\xE2\x96\xB7"
         "a\xE2\x97\x81/think\xE2\x96\xB7"
         "b",
         "R{a}C{b}", "\xE2\x97\x81think\xE2\x96\xB7"},
    };
    CHECK(samples);
    /* By the template alone, and told by the caller. */
    weir_output_options options = {
        .chat_template = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"};
    collected c;
    assert_true(collect(&options, "a</think>b", 10, NULL, 0, false, &c));
    assert_string_equal(c.text.data, "R{a}C{b}");
    collected_free(&c);
    options.reasoning = WEIR_REASONING_BEFORE;
    assert_true(collect(&options, "<think>a</think>b", 17, NULL, 0, false, &c));
    assert_string_equal(c.text.data, "R{a}C{b}");
    collected_free(&c);
    options.reasoning = WEIR_REASONING_OFF;
    assert_true(collect(&options, "<think>a</think>b", 17, NULL, 0, false, &c));
    assert_string_equal(c.text.data, "C{<think>a</think>b}");
    collected_free(&c);
    options = (weir_output_options){.format = "deepseek", .reasoning = WEIR_REASONING_INSIDE};
    assert_true(collect(&options, "a</think>b", 10, NULL, 0, false, &c));
    assert_string_equal(c.text.data, "R{a}C{b}");
    collected_free(&c);
}

static void truncated_output_ends_without_a_half_marker(void **state) {
    (void)state;
    static const sample samples[] = {
        {"hermes", "Ok.\n<tool_call>\n", "C{Ok.\n}...", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_c", "f{{\"a\": 1}}", NULL},
        {"hermes", "<tool_call>{\"name\": \"f\", \"argu", "C{<tool_call>{\"name\": \"f\", \"argu}...", NULL},
        {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<para", "f{{\"a\": 1}!?...", NULL},
        {"gpt-oss", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assi", "R{Hm.}...", NULL},
        {"gpt-oss", " to=functions.f<|channel|>comm", "...", NULL},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) check_sample(&samples[i], TOOLS, true);
}

static void without_tools_markers_are_text(void **state) {
    (void)state;
    static const sample samples[] = {
        {"hermes", "<tool_call>{\"name\": \"g\"}</tool_call>", "C{<tool_call>{\"name\": \"g\"}</tool_call>}", NULL},
        {"mistral", "[TOOL_CALLS]f[ARGS]{}", "C{[TOOL_CALLS]f[ARGS]{}}", NULL},
        {"gpt-oss", "<|channel|>commentary to=functions.f<|message|>{}",
         "C{<|channel|>commentary to=functions.f<|message|>{}}", NULL},
        {"plain", "<think>a</think>b", "R{a}C{b}", NULL},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) check_sample(&samples[i], "[]", false);
    /* Not known: every name is taken for a tool. */
    const sample any = {"llama3", "{\"name\": \"Bob\", \"parameters\": {}}", "Bob{{}}", NULL};
    check_sample(&any, NULL, false);
}

/* Random calls as the published templates write them (tools/roundtrip_output.py); expected values by Python's json. */
static void turns_of_published_templates_give_their_calls(void **state) {
    (void)state;
    json_t *cases = load_golden(DATA("output.golden.json")), *one;
    size_t i;
    assert_true(json_array_size(cases) > 100);
    json_array_foreach(cases, i, one) {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *text = json_string_value(json_object_get(one, "turn"));
        char *tools = json_dumps(json_object_get(one, "tools"), 0);
        const weir_output_options options = {.format = json_string_value(json_object_get(one, "format")),
                                             .prompt = json_string_value(json_object_get(one, "prompt")),
                                             .tools_json = tools};
        weir_output_parser *parser;
        const weir_output_event *events;
        size_t n, call = 0;
        wr_bytes content = {0}, reasoning = {0}, arguments = {0};
        assert_int_equal(weir_output_parser_new(&options, &parser, NULL), WEIR_OK);
        for (int part = 0; part < 2; part++) {
            weir_status st = part ? weir_output_parser_finish(parser, false, &events, &n, NULL)
                                  : weir_output_parser_feed(parser, text, strlen(text), &events, &n, NULL);
            assert_int_equal(st, WEIR_OK);
            for (size_t k = 0; k < n; k++) {
                const weir_output_event *e = &events[k];
                const json_t *want = json_array_get(json_object_get(one, "calls"), e->call);
                if (e->kind == WEIR_OUTPUT_CONTENT) wr_bytes_add(&content, e->text, e->text_bytes);
                if (e->kind == WEIR_OUTPUT_REASONING) wr_bytes_add(&reasoning, e->text, e->text_bytes);
                if (e->kind == WEIR_OUTPUT_ARGUMENTS) wr_bytes_add(&arguments, e->text, e->text_bytes);
                if (e->kind == WEIR_OUTPUT_CALL) {
                    const char *want_name = json_string_value(json_object_get(want, "name"));
                    assert_non_null(want_name);
                    assert_int_equal(e->name_bytes, strlen(want_name));
                    assert_memory_equal(e->name, want_name, e->name_bytes);
                }
                if (e->kind != WEIR_OUTPUT_CALL_END) continue;
                json_t *got = json_loadb(arguments.data, arguments.n, 0, NULL);
                if (!e->complete || !e->valid || !json_equal(got, json_object_get(want, "arguments"))) {
                    fail_msg("%s: turn %s\ngot arguments %.*s", name, text, (int)arguments.n, arguments.data);
                }
                json_decref(got);
                arguments.n = 0;
                call++;
            }
        }
        assert_int_equal(call, json_array_size(json_object_get(one, "calls")));
        const char *keys[] = {"content", "reasoning"};
        for (int k = 0; k < 2; k++) {
            wr_bytes *got = k ? &reasoning : &content;
            const char *want = json_string_value(json_object_get(one, keys[k]));
            if (got->n != strlen(want) || (got->n && memcmp(got->data, want, got->n) != 0)) {
                fail_msg("%s: turn %s\ngot %s \"%.*s\"", name, text, keys[k], (int)got->n, got->data);
            }
            wr_bytes_deinit(got);
        }
        wr_bytes_deinit(&arguments);
        weir_output_parser_free(parser);
        collected c;
        assert_true(collect(&options, text, strlen(text), NULL, 0, false, &c));
        check_all_cuts(&options, text, strlen(text), false, c.text.data, (uint32_t)i + 1);
        collected_free(&c);
        free(tools);
    }
    json_decref(cases);
}

static void mistakes_of_the_caller_are_told(void **state) {
    (void)state;
    weir_output_parser *parser;
    weir_error err;
    const weir_output_event *events;
    size_t n;
    weir_output_options options = {.format = "nonsense"};
    assert_int_equal(weir_output_parser_new(&options, &parser, &err), WEIR_E_NOT_FOUND);
    assert_null(parser);
    assert_non_null(strstr(err.message, "\"nonsense\""));
    assert_non_null(strstr(err.message, "hermes"));
    static const char *const wrong[] = {
        "", "{}", "[1]", "[{\"function\": {}}]", "[{\"name\": 1}]", "[{\"name\": \"f\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options = (weir_output_options){.tools_json = wrong[i]};
        assert_int_equal(weir_output_parser_new(&options, &parser, &err), WEIR_E_FORMAT);
        assert_non_null(strstr(err.message, "tool"));
    }
    assert_int_equal(weir_output_parser_new(NULL, &parser, &err), WEIR_OK);
    assert_string_equal(weir_output_parser_format(parser), "plain");
    assert_int_equal(weir_output_parser_finish(parser, false, &events, &n, &err), WEIR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(weir_output_parser_feed(parser, "x", 1, &events, &n, &err), WEIR_E_STATE);
    assert_int_equal(n, 0);
    assert_int_equal(weir_output_parser_finish(parser, false, &events, &n, &err), WEIR_E_STATE);
    weir_output_parser_free(parser);
    weir_output_parser_free(NULL);
}

static void deltas_are_whole_characters(void **state) {
    (void)state;
    static const char text[] = "\xF0\x9F\x98\x80\xC3\xA9";
    static const size_t want[] = {0, 0, 0, 4, 0, 2};
    weir_output_parser *parser;
    const weir_output_event *events;
    size_t n;
    assert_int_equal(weir_output_parser_new(NULL, &parser, NULL), WEIR_OK);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        assert_int_equal(weir_output_parser_feed(parser, text + i, 1, &events, &n, NULL), WEIR_OK);
        assert_int_equal(n, want[i] != 0);
        if (n) assert_int_equal(events[0].text_bytes, want[i]);
    }
    weir_output_parser_free(parser);
}

static void formats_have_names_and_are_found_by_their_templates(void **state) {
    (void)state;
    static const char *const templates[][2] = {
        {"<|im_start|>", "plain"},
        {"<tool_call>\\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\\n</tool_call>", "hermes"},
        {"<tool_call>\\n<function=example>\\n<parameter=x>", "qwen3-coder"},
        {"<tool_call>{function-name}\\n<arg_key>{arg-key-1}</arg_key>", "glm"},
        {"[AVAILABLE_TOOLS] [TOOL_CALLS]", "mistral"},
        {"<|start_header_id|>{\"name\": function name, \"parameters\": dictionary}", "llama3"},
        {"<|start_header_id|>user", "plain"},
        {"<|header_start|>user<|header_end|>", "pythonic"},
        {"<|start|>assistant<|channel|>final<|message|>", "gpt-oss"},
        {"<start_of_turn>model", "gemma"},
        {"<|tool_call>call:", "gemma4"},
        {"<" BAR "tool" LOW "call" LOW "begin" BAR ">", "deepseek"},
        {"<" BAR "DSML" BAR "invoke", "deepseek-dsml"},
        {"<|tool_call_begin|>", "kimi-k2"},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        assert_string_equal(weir_output_format_detect(templates[i][0]), templates[i][1]);
    }
    assert_string_equal(weir_output_format_detect(NULL), "plain");
    size_t n = 0;
    for (; weir_output_format_name(n); n++) {
        weir_output_parser *parser;
        const weir_output_options options = {.format = weir_output_format_name(n)};
        assert_int_equal(weir_output_parser_new(&options, &parser, NULL), WEIR_OK);
        assert_string_equal(weir_output_parser_format(parser), options.format);
        assert_true(strlen(weir_output_format_about(n)) > 10);
        weir_output_parser_free(parser);
    }
    assert_true(n >= 12);
    assert_null(weir_output_format_about(n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_in_tags),
        cmocka_unit_test(llama3_calls_only_as_the_whole_answer_or_behind_its_token),
        cmocka_unit_test(names_and_tokens),
        cmocka_unit_test(tags_with_values_typed_by_the_schema),
        cmocka_unit_test(python_and_gemma_notation_become_json),
        cmocka_unit_test(harmony_channels),
        cmocka_unit_test(reasoning_is_told_from_content),
        cmocka_unit_test(truncated_output_ends_without_a_half_marker),
        cmocka_unit_test(without_tools_markers_are_text),
        cmocka_unit_test(turns_of_published_templates_give_their_calls),
        cmocka_unit_test(mistakes_of_the_caller_are_told),
        cmocka_unit_test(deltas_are_whole_characters),
        cmocka_unit_test(formats_have_names_and_are_found_by_their_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
