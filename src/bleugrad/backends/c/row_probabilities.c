/* Probabilities of single tokens of each row of logits, and their gradient; see operations.py. */
#include <math.h>

#include "rows.h"

typedef struct {
    int64_t batch;                       /* rows of all sentences */
    int64_t steps, size, number, chosen; /* rows of a sentence, vocabulary, ids of a sentence, targets of a row */
    int64_t kind;                        /* type of the logits and their gradient */
    double sharpness;
    void *logits;
    const int64_t *ids, *targets;
    const uint8_t *starts;
    float *matched, *log_probs, *opening, *means, *normalisers;
    const float *of_matched, *of_log_probs, *of_opening, *of_means; /* gradients */
    void *out;                                                      /* may be the logits themselves */
} Rows;

/* Sums over a row of x - peak, its exponential, that of its product with the sharpness, and the last over `starts`. */
typedef struct {
    float logits, plain, sharp, opening;
} Sums;

/* Adds `count` numbers to the lanes of the four sums. `sharp` is 0 for a sharpness of 1, 2 for 2, 1 for others. */
INLINED void add_part(
    float sums[4][WIDE], const float *restrict x, const float *restrict starts, int count, float peak, float sharpness,
    int targets, int sharp, int words
) {
    for (int l = 0; l < count; l++) {
        float d = x[l] - peak, plain = targets || sharp != 1 ? exp_nonpositive(d) : 0;
        float chosen = sharp == 2 ? plain * plain : sharp ? exp_nonpositive(sharpness * d) : plain;
        if (targets) sums[0][l] += d;
        if (targets || !sharp) sums[1][l] += plain;
        if (sharp) sums[2][l] += chosen;
        if (words) sums[3][l] += starts[l] * chosen;
    }
}

/* Without `targets` nothing needs the plain sums if they are not also the sharp ones. */
INLINED Sums sums_of(
    const float *x, const float *starts, int64_t size, float peak, float sharpness, int targets, int sharp, int words
) {
    Sums found = {0, !sharp || targets ? 0 : 1, 0, 0};
    float sums[4][WIDE] = {{0}};
    int64_t i = 0;
    for (; i + WIDE <= size; i += WIDE) {
        for (int l = 0; l < WIDE; l += LANES) __builtin_prefetch(x + size + i + l); /* the row after this one */
        add_part(sums, x + i, words ? starts + i : NULL, WIDE, peak, sharpness, targets, sharp, words);
    }
    add_part(sums, x + i, words ? starts + i : NULL, (int)(size - i), peak, sharpness, targets, sharp, words);
    for (int l = 0; l < WIDE; l++) {
        found.logits += sums[0][l], found.plain += sums[1][l];
        found.sharp += sums[2][l], found.opening += sums[3][l];
    }
    if (!sharp) found.sharp = found.plain;
    return found;
}

static inline int sharp_kind(float sharpness) { return sharpness == 1 ? 0 : sharpness == 2 ? 2 : 1; }

static Sums row_sums(const float *x, const float *starts, int64_t size, float peak, float sharpness, int targets) {
    int sharp = sharp_kind(sharpness), words = starts != NULL;
#define CASE(t, s, w)                                                                                                  \
    if (targets == t && sharp == s && words == w) return sums_of(x, starts, size, peak, sharpness, t, s, w)
#define CASES(t, w) CASE(t, 0, w); CASE(t, 1, w); CASE(t, 2, w)
    CASES(0, 0);
    CASES(0, 1);
    CASES(1, 0);
    CASES(1, 1);
#undef CASE
    return (Sums){0};
}

/* Room for `rows` rows, and behind them `starts` as 0.0 and 1.0, which vector instructions take faster than bytes. */
static float *row_buffers(const uint8_t *starts, int64_t size, int rows) {
    float *buffers = malloc((rows + 1) * size * sizeof(float));
    for (int64_t i = 0; buffers && starts && i < size; i++) buffers[rows * size + i] = starts[i];
    return buffers;
}

int row_probabilities(const void *problem, int64_t first, int64_t last) {
    const Rows *of = problem;
    float sharpness = of->sharpness, *buffer = row_buffers(of->starts, of->size, 2), *all = buffer + of->size;
    const float *starts = of->starts ? buffer + 2 * of->size : NULL;
    int many = of->number > of->size; /* then the probabilities of all tokens are computed first */
    if (!buffer) return 1;
    expect_rows(of->matched, first, last, of->number, sizeof(float));
    for (int64_t r = first; r < last; r++) {
        const float *x = read_row(of->logits, of->kind, r, of->size, buffer, 0), *from = many ? all : x;
        const int64_t *ids = of->ids + r / of->steps * of->number;
        float *matched = of->matched + r * of->number, *normalisers = of->normalisers + 3 * r;
        float peak = row_peak(x, of->size);
        Sums sums = row_sums(x, starts, of->size, peak, sharpness, of->targets != NULL);
        normalisers[0] = peak;
        normalisers[1] = logf(sums.plain);
        normalisers[2] = logf(sums.sharp);
        if (many) memcpy(all, x, of->size * sizeof(float));
        if (many) sharpened(all, of->size, peak, sharpness, 1 / sums.sharp);
        for (int64_t j = 0; j < of->number; j++) matched[j] = from[ids[j]];
        if (!many) sharpened(matched, of->number, peak, sharpness, 1 / sums.sharp);
        if (starts) of->opening[r] = sums.opening / sums.sharp;
        if (of->targets) of->means[r] = sums.logits / of->size - normalisers[1];
        for (int64_t at = r * of->chosen; of->targets && at < (r + 1) * of->chosen; at++)
            of->log_probs[at] = x[of->targets[at]] - peak - normalisers[1];
    }
    free(buffer);
    return 0;
}

/* The gradient of a row apart from single tokens: plain p + (sharp + opening where starts) q + all. Factors contain the
   inverse of the sum of the exponentials. */
typedef struct {
    float plain, sharp, opening, all;
} Factors;

INLINED void scaled_softmax(
    const float *restrict x, const float *restrict starts, float *restrict out, int64_t size, float peak,
    float sharpness, Factors by, int with_plain, int sharp, int words
) {
    for (int64_t i = 0; i < size; i++) {
        float d = x[i] - peak, factor = by.sharp, plain = with_plain || sharp != 1 ? exp_nonpositive(d) : 0;
        if (words) factor += starts[i] * by.opening;
        float found = factor * (sharp == 2 ? plain * plain : sharp ? exp_nonpositive(sharpness * d) : plain);
        if (with_plain) found += by.plain * plain;
        out[i] = found + by.all;
    }
}

static void row_gradient(
    const float *x, const float *starts, float *out, int64_t size, float peak, float sharpness, Factors by
) {
    int sharp = sharp_kind(sharpness), plain = sharp && by.plain != 0, words = starts != NULL;
#define CASE(p, s, w)                                                                                                  \
    if (plain == p && sharp == s && words == w) scaled_softmax(x, starts, out, size, peak, sharpness, by, p, s, w)
    CASES(0, 0);
    CASES(0, 1);
    CASES(1, 0);
    CASES(1, 1);
}

int row_probabilities_backward(const void *problem, int64_t first, int64_t last) {
    const Rows *of = problem;
    float sharpness = of->sharpness, *buffers = row_buffers(of->of_opening ? of->starts : NULL, of->size, 2);
    const float *starts = of->of_opening ? buffers + 2 * of->size : NULL;
    if (!buffers) return 1;
    expect_rows(of->out, first, last, of->size, bytes_of(of->kind));
    for (int64_t r = first; r < last; r++) {
        const float *x = read_row(of->logits, of->kind, r, of->size, buffers, of->logits == of->out);
        const int64_t *ids = of->ids + r / of->steps * of->number;
        float *out = place_of_row(of->out, of->kind, r, of->size, buffers + of->size);
        float peak = of->normalisers[3 * r], plain = of->normalisers[3 * r + 1], sharp = of->normalisers[3 * r + 2];
        const float *m = of->matched + r * of->number, *g = of->of_matched ? of->of_matched + r * of->number : NULL;
        double pulled = g ? row_dot(m, g, of->number) : 0, mean = of->of_means ? of->of_means[r] : 0, own = mean;
        if (!isfinite(peak + plain + sharp)) {
            memset(out, 0, of->size * sizeof(float));
            write_row(of->out, of->kind, r, of->size, out);
            continue;
        }
        if (starts) pulled += of->opening[r] * of->of_opening[r];
        for (int64_t j = 0; of->of_log_probs && j < of->chosen; j++) own += of->of_log_probs[r * of->chosen + j];
        Factors by = {-own * expf(-plain), -sharpness * pulled * expf(-sharp), 0, mean / of->size};
        if (starts) by.opening = sharpness * of->of_opening[r] * expf(-sharp);
        if (sharpness == 1) by.sharp += by.plain;
        row_gradient(x, starts, out, of->size, peak, sharpness, by);
        for (int64_t j = 0; g && j < of->number; j++) out[ids[j]] += sharpness * m[j] * g[j];
        for (int64_t at = r * of->chosen; of->of_log_probs && at < (r + 1) * of->chosen; at++)
            out[of->targets[at]] += of->of_log_probs[at];
        write_row(of->out, of->kind, r, of->size, out);
    }
    free(buffers);
    return 0;
}
