/* Probabilities of single tokens of CTC frames and of repetitions, and their gradient; see operations.py. */
#include <math.h>

#include "rows.h"

typedef struct {
    int64_t batch, steps, size, number; /* sentences, frames, vocabulary, ids of a sentence */
    int64_t kind, blank;                /* type of the logits and their gradient; id of blank */
    double sharpness;
    void *logits;
    const int64_t *ids;
    const uint8_t *counted;             /* (B, T), or NULL */
    float *matched, *repeated, *normalisers;
    const float *of_matched, *of_repeated; /* gradients */
    void *out;                             /* may be the logits themselves */
} Frames;

/* exp(sharpness (x - peak)) into `out`; returns its sum, and in `same` that of its product with `other`, if any. */
INLINED float exponentials(
    const float *restrict x, const float *restrict other, float *restrict out, int64_t size, float peak,
    float sharpness, float *same
) {
    float all[WIDE] = {0}, both[WIDE] = {0}, total = 0, product = 0;
    int64_t full = size / WIDE * WIDE;
    for (int64_t i = 0; i < full; i += WIDE)
        for (int l = 0; l < WIDE; l++) {
            float e = exp_nonpositive(sharpness * (x[i + l] - peak));
            out[i + l] = e;
            all[l] += e;
            if (other) both[l] += other[i + l] * e;
        }
    for (int64_t i = full; i < size; i++) {
        out[i] = exp_nonpositive(sharpness * (x[i] - peak));
        total += out[i];
        if (other) product += other[i] * out[i];
    }
    for (int l = 0; l < WIDE; l++) total += all[l], product += both[l];
    *same = product;
    return total;
}

/* `repeated` is the probability that a counted frame repeats the symbol (not blank) of the counted frame before it, and
   0 for the first. */
int frame_probabilities(const void *problem, int64_t first, int64_t last) {
    const Frames *of = problem;
    const int64_t *ids = of->ids, size = of->size;
    float *matched = of->matched, *repeated = of->repeated, *normalisers = of->normalisers;
    float *buffers = malloc(3 * size * sizeof(float)), *current = buffers + size, *earlier = buffers + 2 * size;
    if (!buffers) return 1;
    for (int64_t b = first; b < last; b++) {
        float before = 0; /* the inverse of the sum of the earlier frame, 0 if there is none */
        for (int64_t r = b * of->steps; r < (b + 1) * of->steps; r++) {
            const float *x = read_row(of->logits, of->kind, r, size, buffers, 0);
            float same, total, inverse, peak = row_peak(x, size);
            int counts = !of->counted || of->counted[r];
            if (counts && before) total = exponentials(x, earlier, current, size, peak, of->sharpness, &same);
            else total = exponentials(x, NULL, current, size, peak, of->sharpness, &same);
            inverse = 1 / total;
            normalisers[2 * r] = peak;
            normalisers[2 * r + 1] = logf(total);
            for (int64_t j = 0; j < of->number; j++)
                matched[r * of->number + j] = current[ids[b * of->number + j]] * inverse;
            repeated[r] = 0;
            if (!counts) continue;
            if (before) {
                same -= current[of->blank] * earlier[of->blank];
                repeated[r] = (same > 0 ? same : 0) * inverse * before;
            }
            float *swapped = earlier;
            earlier = current, current = swapped, before = inverse;
        }
    }
    free(buffers);
    return 0;
}

/* The softmax of frame r, from its normalisers. */
static void frame_softmax(const Frames *of, int64_t r, float *restrict buffer, float *restrict out) {
    const float *restrict x = read_row(of->logits, of->kind, r, of->size, buffer, 0);
    float peak = of->normalisers[2 * r], inverse = expf(-of->normalisers[2 * r + 1]), sharpness = of->sharpness;
    for (int64_t i = 0; i < of->size; i++) out[i] = exp_nonpositive(sharpness * (x[i] - peak)) * inverse;
}

/* out = p (factor + before * earlier + after * later) */
static void scale_frame(
    float *restrict out, const float *restrict p, const float *restrict earlier, const float *restrict later,
    float factor, float before, float after, int64_t size
) {
    for (int64_t i = 0; i < size; i++) out[i] = p[i] * (factor + before * earlier[i] + after * later[i]);
}

/* A frame is written after the counted frame behind it was read, because the result may be the logits themselves. */
int frame_probabilities_backward(const void *problem, int64_t first, int64_t last) {
    const Frames *of = problem;
    const int64_t *ids = of->ids, size = of->size;
    const uint8_t *counted = of->counted;
    const float *repeated = of->repeated, *normalisers = of->normalisers, *weight = of->of_repeated;
    float *buffers = calloc(5 * size, sizeof(float)), *zero = buffers + size, sharpness = of->sharpness;
    if (!buffers) return 1;
    expect_rows(of->out, of->kind, first * of->steps, last * of->steps, size);
    for (int64_t b = first; b < last; b++) {
        int64_t end = (b + 1) * of->steps, known = -1; /* the frame whose softmax is `later` */
        float *rows[3] = {buffers + 2 * size, buffers + 3 * size, buffers + 4 * size}, *before = NULL;
        for (int64_t r = b * of->steps; r < end; r++) {
            float *out = place_of_row(of->out, of->kind, r, size, buffers);
            double pulled = 0;
            const float *m = of->matched + r * of->number, *g = of->of_matched ? of->of_matched + r * of->number : NULL;
            int counts = !counted || counted[r];
            int64_t next = r + 1;
            while (next < end && counted && !counted[next]) next++;
            for (int64_t j = 0; g && j < of->number; j++) pulled += m[j] * g[j];
            float factor = -pulled, share = 0, after = 0, *p = rows[1], *later = zero;
            if (known != r) frame_softmax(of, r, buffers, p);
            else p = rows[2], rows[2] = rows[1], rows[1] = p;
            float blank = p[of->blank];
            if (counts && weight) {
                if (before) share = weight[r], factor -= weight[r] * repeated[r];
                if (next < end) {
                    frame_softmax(of, next, buffers, rows[2]);
                    later = rows[2], known = next, after = weight[next], factor -= after * repeated[next];
                }
            }
            scale_frame(out, p, share ? before : zero, later, sharpness * factor, sharpness * share, sharpness * after, size);
            out[of->blank] = sharpness * factor * blank;
            for (int64_t j = 0; g && j < of->number; j++) out[ids[b * of->number + j]] += sharpness * m[j] * g[j];
            if (!isfinite(normalisers[2 * r] + normalisers[2 * r + 1])) memset(out, 0, size * sizeof(float));
            write_row(of->out, of->kind, r, size, out);
            if (counts) before = p, rows[1] = rows[0], rows[0] = p;
        }
    }
    free(buffers);
    return 0;
}
