/* Nothing after open: while an engine lives, its steps take no memory of the host or of the device, load no module,
 * look up no function and make no graph, stream or event. Every call of the driver is counted by name, and every call
 * of the malloc family that weir's own code makes, or makes the C library do: the emulated driver's are not weir's. On
 * a card, where the driver cannot be asked, only device memory is watched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>

#include "device.h"

static bool good = true;

/* ---- the host's heap ---- */

enum { MAX_OTHERS = 16 };
static struct {
    uintptr_t begin, end;
} others[MAX_OTHERS]; /* code of the emulated driver and of what it is made with */
static int n_others;
static atomic_ulong n_heap_calls;

static int note_library(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    static const char *const names[] = {"libcuda_emulated", "libstdc++"};
    bool is_other = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) is_other = is_other || strstr(info->dlpi_name, names[i]);
    for (int i = 0; is_other && i < info->dlpi_phnum && n_others < MAX_OTHERS; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        others[n_others].begin = info->dlpi_addr + p->p_vaddr;
        others[n_others].end = others[n_others].begin + p->p_memsz;
        n_others++;
    }
    return 0;
}

static void count(const void *caller) {
    uintptr_t at = (uintptr_t)caller;
    for (int i = 0; i < n_others; i++)
        if (at >= others[i].begin && at < others[i].end) return;
    atomic_fetch_add(&n_heap_calls, 1);
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}
void *realloc(void *old, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_realloc(old, bytes);
}
int posix_memalign(void **out, size_t alignment, size_t bytes) {
    count(__builtin_return_address(0));
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : 12;
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

/* ---- the driver's calls ---- */

enum { MAX_NAMES = 128 };
typedef struct call_counts {
    const char *name[MAX_NAMES];
    long n[MAX_NAMES];
    int n_names;
} call_counts;

static void (*each_call)(void (*see)(void *context, const char *name, long n), void *context);

static void take_count(void *context, const char *name, long n) {
    call_counts *c = context;
    if (c->n_names == MAX_NAMES) return;
    c->name[c->n_names] = name;
    c->n[c->n_names++] = n;
}

static call_counts counts_now(void) {
    call_counts c = {.n_names = 0};
    if (each_call) each_call(take_count, &c);
    return c;
}

static long count_of(const call_counts *c, const char *name) {
    for (int i = 0; i < c->n_names; i++)
        if (!strcmp(c->name[i], name)) return c->n[i];
    return 0;
}

/* All that a step may ask of the driver. */
static bool is_of_a_step(const char *name) {
    static const char *const allowed[] = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",   "cuMemcpyHtoDAsync_v2",
                                          "cuGraphLaunch",       "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize",
                                          "cuEventRecord",       "cuEventQuery"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!strcmp(name, allowed[i])) return true;
    return false;
}

static bool only_steps(const char *what, const call_counts *before) {
    call_counts after = counts_now();
    bool right = true;
    for (int i = 0; i < after.n_names; i++) {
        long n = after.n[i] - count_of(before, after.name[i]);
        if (!n || is_of_a_step(after.name[i])) continue;
        complain("%s: %ld calls of %s", what, n, after.name[i]);
        right = false;
    }
    if (each_call && count_of(&after, "cuGraphLaunch") == count_of(before, "cuGraphLaunch")) {
        complain("%s: no graph was launched", what);
        right = false;
    }
    return right;
}

/* ---- work ---- */

enum { MAX_SEQS = 8, PROMPT = 40 };

static void fill(int32_t *ids, size_t n, int64_t vocab, uint64_t seed) {
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(draw(&seed) % (uint64_t)vocab);
}

/* Sequence i of a batch: the first greedy, others with all that sampling has; one scores its prompt. */
static weir_seq *open_one(weir_engine *engine, int i, int64_t vocab, weir_error *err) {
    int32_t ids[PROMPT];
    size_t n = (size_t)(3 + 5 * i);
    weir_logit_bias bias = {5, -1};
    weir_seq *seq;
    fill(ids, n, vocab, (uint64_t)i + 1);
    weir_seq_options o = {.tokens = ids, .n_tokens = n, .max_tokens = 6 + i % 3, .ignore_eos = true};
    o.score_prompt = i == 2;
    if (i > 0) {
        o.top_logprobs = 4;
        o.sampling = (weir_sampling){.temperature = 0.9f,
                                     .top_p = 0.9f,
                                     .top_k = 20,
                                     .min_p = 0.01f,
                                     .seed = (uint64_t)i,
                                     .repetition_penalty = 1.1f,
                                     .presence_penalty = 0.1f,
                                     .frequency_penalty = 0.1f,
                                     .logit_bias = &bias,
                                     .n_logit_bias = 1};
    }
    return weir_seq_open(engine, &o, &seq, err) == WEIR_OK ? seq : NULL;
}

/* n sequences at once; the last of several is cancelled while it runs. Returns the calls of the heap by steps. */
static unsigned long run_batch(weir_engine *engine, int n, int64_t vocab) {
    weir_seq *seqs[MAX_SEQS];
    weir_error fault = {0};
    for (int i = 0; i < n; i++)
        if (!(seqs[i] = open_one(engine, i, vocab, &fault))) {
            complain("opening sequence %d of %d: %s", i, n, fault.message);
            exit(1);
        }
    unsigned long before = atomic_load(&n_heap_calls);
    int n_left = n, n_steps = 0, n_cancelled = 0;
    while (n_left) {
        const weir_event *events;
        size_t n_events;
        if (n_steps++ == 3 && n > 1) weir_seq_cancel(seqs[n - 1]);
        MUST(weir_engine_step(engine, &events, &n_events, err));
        for (size_t i = 0; i < n_events; i++) {
            if (events[i].kind != WEIR_EVENT_FINISH) continue;
            n_left--;
            if (events[i].finish == WEIR_FINISH_CANCELLED) n_cancelled++;
        }
    }
    unsigned long used = atomic_load(&n_heap_calls) - before;
    if (n_cancelled != (n > 1)) complain("batch of %d: %d were cancelled", n, n_cancelled), good = false;
    for (int i = 0; i < n; i++) weir_seq_close(seqs[i]);
    return used;
}

static size_t free_bytes(weir_device *device) {
    size_t bytes, total;
    MUST(device->backend->runtime->memory(device->context, &bytes, &total, err));
    return bytes;
}

static void live(const device_args *args, weir_device *device) {
    weir_engine *engine;
    weir_engine_info info;
    weir_engine_options o = {
        .device = args->device, .n_threads = 1, .max_context = 64, .max_batch = MAX_SEQS - 1, .max_step_tokens = 16};
    MUST(weir_engine_open(args->model, &o, &engine, err));
    weir_engine_get_info(engine, &info);
    size_t free_before = free_bytes(device);
    call_counts before = counts_now();
    unsigned long used = 0;
    static const int batches[] = {1, 2, 3, 5, 8, 1}; /* 8: one has to wait */
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            used += run_batch(engine, batches[i], info.vocab_size);
    bool calls_are_right = only_steps("between open and close", &before);
    size_t free_after = free_bytes(device);
    weir_engine_close(engine);
    if (each_call && used) complain("steps called malloc %lu times", used);
    if (free_after < free_before) complain("%zu bytes of the device are gone", free_before - free_after);
    bool is_right = calls_are_right && (!each_call || !used) && free_after >= free_before;
    good = good && is_right;
    print_json("nothing_after_open", "\"driver_calls\": \"%s\", \"heap_calls\": %lu, \"passed\": %s",
               each_call ? "counted" : "not known of a real driver", used, is_right ? "true" : "false");
}

/* The counters must see what they are for. */
static void counters_count(weir_device *device) {
    unsigned long heap = atomic_load(&n_heap_calls);
    void *volatile p = malloc(10);
    free(p);
    call_counts before = counts_now();
    weir_graph *g;
    MUST(weir_graph_new(device, &g, err));
    weir_array *x = weir_full(g, WEIR_DTYPE_F32, 1, &(int64_t){64}, 1);
    MUST(weir_eval(&x, 1, err));
    weir_graph_free(g);
    call_counts after = counts_now();
    bool is_right = atomic_load(&n_heap_calls) > heap && (!each_call || after.n_names > 0);
    is_right = is_right && (!each_call ||
                            count_of(&after, "cuMemAllocFromPoolAsync") > count_of(&before, "cuMemAllocFromPoolAsync"));
    if (!is_right) complain("the counters count nothing"), good = false;
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    weir_device *device = open_or_exit(args.device);
    *(void **)&each_call = driver_function("wr_emulate_each_call");
    dl_iterate_phdr(note_library, NULL);
    counters_count(device);
    live(&args, device);
    weir_device_close(device);
    return good ? 0 : 1;
}
