/* Probabilities of single tokens of each row of logits, and their gradient; see operations.py. */
#include <math.h>

#include "rows.h"

typedef struct {
    int64_t batch;                       /* rows of all sentences */
    int64_t steps, size, number, chosen; /* rows of a sentence, vocabulary, ids of a sentence, targets of a row */
    int64_t kind;                        /* type of the logits and their gradient */
    double sharpness;
} Rows;

/* Sums over a row of x - peak, its exponential, that of its product with the sharpness, and the last over `starts`. */
typedef struct {
    float logits, plain, sharp, opening;
} Sums;

typedef struct {
    float logits[WIDE], plain[WIDE], sharp[WIDE], opening[WIDE];
} Lanes;

INLINED void add_lane(
    Lanes *sums, int l, float x, float start, float sharpness, int with_plain, int with_sharp, int with_starts
) {
    float plain = with_plain || !with_sharp ? exp_nonpositive(x) : 0;
    float sharp = with_sharp ? exp_nonpositive(sharpness * x) : plain;
    if (with_plain) sums->logits[l] += x;
    if (with_plain || !with_sharp) sums->plain[l] += plain;
    if (with_sharp) sums->sharp[l] += sharp;
    if (with_starts) sums->opening[l] += start * sharp;
}

INLINED Sums sums_of(
    const float *restrict x, const float *restrict starts, int64_t size, float peak, float sharpness, int with_plain,
    int with_sharp, int with_starts
) {
    Lanes sums = {{0}, {0}, {0}, {0}};
    int64_t full = size / WIDE * WIDE;
    for (int64_t i = 0; i < full; i += WIDE)
        for (int l = 0; l < WIDE; l++) {
            float start = with_starts ? starts[i + l] : 0;
            add_lane(&sums, l, x[i + l] - peak, start, sharpness, with_plain, with_sharp, with_starts);
        }
    for (int64_t i = full; i < size; i++) {
        float start = with_starts ? starts[i] : 0;
        add_lane(&sums, i - full, x[i] - peak, start, sharpness, with_plain, with_sharp, with_starts);
    }
    Sums found = {0, 0, 0, 0};
    for (int l = 0; l < WIDE; l++) {
        found.logits += sums.logits[l], found.plain += sums.plain[l];
        found.sharp += sums.sharp[l], found.opening += sums.opening[l];
    }
    if (!with_sharp) found.sharp = found.plain;
    if (with_sharp && !with_plain) found.plain = 1;
    return found;
}

static Sums row_sums(const float *x, const float *starts, int64_t size, float peak, float sharpness, int targets) {
#define CASE(t, s, w)                                                                                                  \
    if (!!targets == t && (sharpness != 1) == s && !!starts == w) return sums_of(x, starts, size, peak, sharpness, t, s, w)
    CASE(0, 0, 0);
    CASE(0, 0, 1);
    CASE(0, 1, 0);
    CASE(0, 1, 1);
    CASE(1, 0, 0);
    CASE(1, 0, 1);
    CASE(1, 1, 0);
    return sums_of(x, starts, size, peak, sharpness, 1, 1, 1);
#undef CASE
}

/* Room for `rows` rows, and behind them `starts` as 0.0 and 1.0, which vector instructions take faster than bytes. */
static float *row_buffers(const uint8_t *starts, int64_t size, int rows) {
    float *buffers = malloc((rows + 1) * size * sizeof(float));
    for (int64_t i = 0; buffers && starts && i < size; i++) buffers[rows * size + i] = starts[i];
    return buffers;
}

int row_probabilities(void *const *with, int64_t first, int64_t last) {
    const Rows *of = with[0];
    const int64_t *ids = with[2], *targets = with[3];
    float *matched = with[5], *log_probs = with[6], *opening = with[7], *means = with[8], *normalisers = with[9];
    float sharpness = of->sharpness, *buffer = row_buffers(with[4], of->size, 2), *restrict all = buffer + of->size;
    const float *starts = with[4] ? buffer + 2 * of->size : NULL;
    int many = of->number > of->size / LANES; /* then the probabilities of all tokens are computed first */
    if (!buffer) return 1;
    expect_rows(matched, FLOAT32, first, last, of->number);
    for (int64_t r = first; r < last; r++) {
        const float *x = read_row(with[1], of->kind, r, of->size, buffer, 0);
        const int64_t *of_sentence = ids + r / of->steps * of->number;
        float peak = row_peak(x, of->size), inverse;
        Sums sums = row_sums(x, starts, of->size, peak, sharpness, targets != NULL);
        normalisers[3 * r] = peak;
        normalisers[3 * r + 1] = logf(sums.plain);
        normalisers[3 * r + 2] = logf(sums.sharp);
        inverse = 1 / sums.sharp;
        for (int64_t i = 0; many && i < of->size; i++) all[i] = exp_nonpositive(sharpness * (x[i] - peak)) * inverse;
        for (int64_t j = 0; j < of->number; j++)
            matched[r * of->number + j] =
                many ? all[of_sentence[j]] : exp_nonpositive(sharpness * (x[of_sentence[j]] - peak)) * inverse;
        if (starts) opening[r] = sums.opening * inverse;
        if (targets) means[r] = sums.logits / of->size - normalisers[3 * r + 1];
        for (int64_t j = 0; targets && j < of->chosen; j++) {
            int64_t at = r * of->chosen + j;
            log_probs[at] = x[targets[at]] - peak - normalisers[3 * r + 1];
        }
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
    float sharpness, Factors by, int with_plain, int with_sharp, int with_starts
) {
    for (int64_t i = 0; i < size; i++) {
        float d = x[i] - peak, factor = by.sharp;
        if (with_starts) factor += starts[i] * by.opening;
        float found = factor * exp_nonpositive(with_sharp ? sharpness * d : d);
        if (with_plain) found += by.plain * exp_nonpositive(d);
        out[i] = found + by.all;
    }
}

static void row_gradient(
    const float *x, const float *starts, float *out, int64_t size, float peak, float sharpness, Factors by
) {
    int plain = by.plain != 0;
    if (sharpness == 1 && starts) scaled_softmax(x, starts, out, size, peak, 1, by, 0, 0, 1);
    else if (sharpness == 1) scaled_softmax(x, starts, out, size, peak, 1, by, 0, 0, 0);
    else if (plain && starts) scaled_softmax(x, starts, out, size, peak, sharpness, by, 1, 1, 1);
    else if (plain) scaled_softmax(x, starts, out, size, peak, sharpness, by, 1, 1, 0);
    else if (starts) scaled_softmax(x, starts, out, size, peak, sharpness, by, 0, 1, 1);
    else scaled_softmax(x, starts, out, size, peak, sharpness, by, 0, 1, 0);
}

/* A sum of many terms that cancel, in double precision. */
static double dot(const float *restrict x, const float *restrict y, int64_t size) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t full = size / LANES * LANES;
    for (int64_t i = 0; i < full; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[i + l] * y[i + l];
    for (int64_t i = full; i < size; i++) sum += x[i] * y[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* The gradients of the outputs may be NULL. The result may be the logits themselves. */
int row_probabilities_backward(void *const *with, int64_t first, int64_t last) {
    const Rows *of = with[0];
    const int64_t *ids = with[2], *targets = with[3];
    const float *matched = with[5], *opening = with[6], *normalisers = with[7];
    const float *of_matched = with[8], *of_opening = with[9], *of_log_probs = with[10], *of_means = with[11];
    float sharpness = of->sharpness, *buffers = row_buffers(of_opening ? with[4] : NULL, of->size, 2);
    const float *starts = of_opening ? buffers + 2 * of->size : NULL;
    if (!buffers) return 1;
    expect_rows(with[12], of->kind, first, last, of->size);
    for (int64_t r = first; r < last; r++) {
        const float *x = read_row(with[1], of->kind, r, of->size, buffers, with[1] == with[12]);
        const int64_t *of_sentence = ids + r / of->steps * of->number;
        float *out = place_of_row(with[12], of->kind, r, of->size, buffers + of->size);
        float peak = normalisers[3 * r], plain = normalisers[3 * r + 1], sharp = normalisers[3 * r + 2];
        const float *m = matched + r * of->number, *g = of_matched ? of_matched + r * of->number : NULL;
        double pulled = g ? dot(m, g, of->number) : 0, own = of_means ? of_means[r] : 0;
        if (!isfinite(peak + plain + sharp)) {
            memset(out, 0, of->size * sizeof(float));
            write_row(with[12], of->kind, r, of->size, out);
            continue;
        }
        if (starts) pulled += opening[r] * of_opening[r];
        for (int64_t j = 0; of_log_probs && j < of->chosen; j++) own += of_log_probs[r * of->chosen + j];
        Factors by = {-own * expf(-plain), -sharpness * pulled * expf(-sharp), 0, of_means ? of_means[r] / of->size : 0};
        if (starts) by.opening = sharpness * of_opening[r] * expf(-sharp);
        if (sharpness == 1) by.sharp += by.plain;
        row_gradient(x, starts, out, of->size, peak, sharpness, by);
        for (int64_t j = 0; g && j < of->number; j++) out[of_sentence[j]] += sharpness * m[j] * g[j];
        for (int64_t j = 0; of_log_probs && j < of->chosen; j++)
            out[targets[r * of->chosen + j]] += of_log_probs[r * of->chosen + j];
        write_row(with[12], of->kind, r, of->size, out);
    }
    free(buffers);
    return 0;
}
