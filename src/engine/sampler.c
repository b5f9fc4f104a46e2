/* Owns the order of the sampling steps: penalties and bias, temperature, top-k,
 * top-p (Holtzman et al. 2020), min-p (Nguyen et al. 2024), one draw. */
#include "engine/sampler.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"

static weir_status check_range(const char *name, double value, double low, double high, weir_error *err) {
    if (value >= low && value <= high) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s is %g; it must be from %g to %g", name, value, low, high);
}

static weir_status check_options(const weir_sampling *o, int64_t vocab, weir_error *err) {
    WR_TRY(check_range("temperature", (double)o->temperature, 0, 1e4, err));
    WR_TRY(check_range("top_k", o->top_k, 0, INT32_MAX, err));
    WR_TRY(check_range("top_p", (double)o->top_p, 0, 1, err));
    WR_TRY(check_range("min_p", (double)o->min_p, 0, 1, err));
    WR_TRY(check_range("repetition_penalty", (double)o->repetition_penalty, 0, 100, err));
    WR_TRY(check_range("presence_penalty", (double)o->presence_penalty, -100, 100, err));
    WR_TRY(check_range("frequency_penalty", (double)o->frequency_penalty, -100, 100, err));
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        if (o->logit_bias[i].token < 0 || o->logit_bias[i].token >= vocab)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "logit_bias names token %d; the vocabulary has ids 0 to %lld",
                           o->logit_bias[i].token, (long long)vocab - 1);
        WR_TRY(check_range("logit_bias", (double)o->logit_bias[i].bias, -1e9, 1e9, err));
    }
    return WEIR_OK;
}

static bool repeats(const weir_sampling *o) { return o->repetition_penalty != 0 && o->repetition_penalty != 1; }
static bool penalises(const weir_sampling *o) {
    return repeats(o) || o->presence_penalty != 0 || o->frequency_penalty != 0;
}

weir_status wr_sampler_init(wr_sampler *s, const weir_sampling *options, int64_t vocab, int64_t max_tokens,
                            weir_error *err) {
    *s = (wr_sampler){.options = *options, .vocab = vocab, .seen_capacity = max_tokens < vocab ? max_tokens : vocab};
    s->options.logit_bias = NULL;
    WR_TRY(check_options(options, vocab, err));
    if (options->n_logit_bias) {
        s->bias = wr_malloc(options->n_logit_bias * sizeof *s->bias);
        if (!s->bias) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu logit biases", options->n_logit_bias);
        memcpy(s->bias, options->logit_bias, options->n_logit_bias * sizeof *s->bias);
    }
    if (penalises(options) || options->n_logit_bias) {
        s->adjusted = wr_malloc((size_t)vocab * sizeof *s->adjusted);
        if (!s->adjusted) {
            wr_sampler_deinit(s);
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for adjusted logits");
        }
    }
    if (penalises(options)) {
        s->output_counts = wr_calloc((size_t)vocab, sizeof *s->output_counts);
        s->in_prompt = wr_calloc((size_t)vocab, 1);
        s->seen = wr_malloc((size_t)s->seen_capacity * sizeof *s->seen);
        if (!s->output_counts || !s->in_prompt || !s->seen) {
            wr_sampler_deinit(s);
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the penalties' token counts");
        }
    }
    return WEIR_OK;
}

void wr_sampler_deinit(wr_sampler *s) {
    wr_free(s->bias);
    wr_free(s->adjusted);
    wr_free(s->output_counts);
    wr_free(s->in_prompt);
    wr_free(s->seen);
    s->bias = NULL, s->adjusted = NULL, s->output_counts = NULL, s->in_prompt = NULL, s->seen = NULL;
}

void wr_sampler_see(wr_sampler *s, int32_t token, bool output) {
    if (!s->output_counts) return;
    if (!s->output_counts[token] && !s->in_prompt[token] && s->n_seen < s->seen_capacity) s->seen[s->n_seen++] = token;
    if (output)
        s->output_counts[token]++;
    else
        s->in_prompt[token] = 1;
}

static void apply_penalties(const wr_sampler *s, float *logits) {
    const weir_sampling *o = &s->options;
    for (int64_t i = 0; i < s->n_seen; i++) {
        int32_t token = s->seen[i];
        float *l = &logits[token];
        if (repeats(o)) *l = *l > 0 ? *l / o->repetition_penalty : *l * o->repetition_penalty;
        uint32_t count = s->output_counts[token];
        if (count) *l -= o->presence_penalty + o->frequency_penalty * (float)count;
    }
    for (size_t i = 0; i < o->n_logit_bias; i++) logits[s->bias[i].token] += s->bias[i].bias;
}

double wr_logsumexp(const float *logits, int64_t vocab) {
    float max = -INFINITY;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] > max) max = logits[i];
    if (max == -INFINITY) return -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] == logits[i]) sum += (double)expf(logits[i] - max);
    return (double)max + log(sum);
}

/* Better: higher logit, then lower id. */
static bool better(wr_candidate a, wr_candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/* Heap with the worst (for top-k) or the best (for popping in order) at the root. */
static void sift_down(wr_candidate *heap, int64_t n, int64_t i, bool best_first) {
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n) return;
        if (child + 1 < n && better(heap[child + 1], heap[child]) == best_first) child++;
        if (better(heap[child], heap[i]) != best_first) return;
        wr_candidate t = heap[i];
        heap[i] = heap[child], heap[child] = t;
        i = child;
    }
}

static void heapify(wr_candidate *heap, int64_t n, bool best_first) {
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(heap, n, i, best_first);
}

/* heap has the worst at its root; leaves it sorted best first. */
static void sort_heap(wr_candidate *heap, int64_t n) {
    for (int64_t end = n - 1; end > 0; end--) {
        wr_candidate t = heap[0];
        heap[0] = heap[end], heap[end] = t;
        sift_down(heap, end, 0, false);
    }
}

int wr_top_tokens(const float *logits, int64_t vocab, int k, wr_candidate *out) {
    int n = 0;
    for (int64_t i = 0; i < vocab && k > 0; i++) {
        wr_candidate c = {logits[i], (int32_t)i};
        if (c.logit != c.logit) continue;
        if (n < k) {
            out[n++] = c;
            if (n == k) heapify(out, n, false);
        } else if (better(c, out[0])) {
            out[0] = c;
            sift_down(out, n, 0, false);
        }
    }
    if (n < k) heapify(out, n, false);
    sort_heap(out, n);
    return n;
}

static int32_t greedy(const float *logits, int64_t vocab) {
    int32_t best = -1;
    float max = -INFINITY;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] > max) max = logits[i], best = (int32_t)i;
    return best;
}

/* Candidates c[0..n) in order; weights exp((logit - max) / temperature). */
static int32_t draw(const wr_candidate *c, int64_t n, double max, double temperature, double total, double u) {
    double goal = u * total, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += exp(((double)c[i].logit - max) / temperature);
        if (sum > goal) return c[i].token;
    }
    return c[n - 1].token; /* rounding at the far end */
}

/* Keep the best candidates whose weights reach top_p of the total. c becomes sorted where it is kept. */
static int64_t cut_top_p(wr_candidate *c, int64_t n, bool sorted, float top_p, double max, double temperature,
                         double *total) {
    double goal = (double)top_p * *total, sum = 0;
    if (!sorted) heapify(c, n, true);
    wr_candidate *heap = c;
    int64_t left = n, kept = 0;
    /* Unsorted: pop the best to the back of the array; the kept ones then lie there in reverse. */
    while (kept < n && sum < goal) {
        wr_candidate best = sorted ? c[kept] : heap[0];
        if (!sorted) {
            heap[0] = heap[left - 1], heap[left - 1] = best;
            sift_down(heap, --left, 0, true);
        }
        sum += exp(((double)best.logit - max) / temperature);
        kept++;
    }
    if (!sorted)
        for (int64_t i = 0; i < kept; i++) { /* bring c[n - 1 - i] to c[i]: swap from both ends */
            int64_t j = n - 1 - i;
            if (j <= i) break;
            wr_candidate t = c[i];
            c[i] = c[j], c[j] = t;
        }
    *total = sum;
    return kept;
}

int32_t wr_sample(const wr_sampler *s, const float *logits, wr_candidate *scratch, int64_t position) {
    const weir_sampling *o = &s->options;
    if (s->adjusted) {
        memcpy(s->adjusted, logits, (size_t)s->vocab * sizeof *logits);
        apply_penalties(s, s->adjusted);
        logits = s->adjusted;
    }
    if (o->temperature == 0) return greedy(logits, s->vocab);
    int64_t n = 0;
    bool sorted = o->top_k > 0 && o->top_k < s->vocab;
    if (sorted)
        n = wr_top_tokens(logits, s->vocab, o->top_k, scratch);
    else
        for (int64_t i = 0; i < s->vocab; i++)
            if (logits[i] == logits[i] && logits[i] > -INFINITY) scratch[n++] = (wr_candidate){logits[i], (int32_t)i};
    double max = -INFINITY, temperature = (double)o->temperature, total = 0;
    for (int64_t i = 0; i < n; i++)
        if ((double)scratch[i].logit > max) max = (double)scratch[i].logit;
    if (!isfinite(max)) return max == INFINITY ? greedy(logits, s->vocab) : -1;
    for (int64_t i = 0; i < n; i++) total += exp(((double)scratch[i].logit - max) / temperature);
    if (o->top_p > 0 && o->top_p < 1) n = cut_top_p(scratch, n, sorted, o->top_p, max, temperature, &total);
    if (o->min_p > 0) {
        int64_t kept = 0;
        total = 0;
        for (int64_t i = 0; i < n; i++) {
            double weight = exp(((double)scratch[i].logit - max) / temperature); /* the best has 1 */
            if (weight < (double)o->min_p) continue;
            total += weight;
            scratch[kept++] = scratch[i];
        }
        n = kept;
    }
    uint32_t bits[4];
    wr_philox(o->seed, (uint64_t)position, bits);
    double u = (double)(((uint64_t)bits[0] << 21) ^ (bits[1] >> 11)) * 0x1p-53; /* 53 random bits */
    return draw(scratch, n, max, temperature, total, u);
}
