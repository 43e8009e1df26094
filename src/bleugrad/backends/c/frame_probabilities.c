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

/* `repeated` is the probability that a counted frame repeats the symbol (not blank) of the counted frame before it, and
   0 for the first. */
int frame_probabilities(const void *problem, int64_t first, int64_t last) {
    const Frames *of = problem;
    const int64_t *ids = of->ids, size = of->size;
    float *matched = of->matched, *repeated = of->repeated, *normalisers = of->normalisers;
    float *buffers = malloc(2 * size * sizeof(float)), *current = buffers, *earlier = buffers + size;
    if (!buffers) return 1;
    for (int64_t b = first; b < last; b++) {
        float before = 0; /* the inverse of the sum of the earlier frame, 0 if there is none */
        for (int64_t r = b * of->steps; r < (b + 1) * of->steps; r++) {
            read_row(of->logits, of->kind, r, size, current, 1);
            float peak = row_peak(current, size);
            sharpened(current, size, peak, of->sharpness, 1);
            float total = row_dot(current, NULL, size), inverse = 1 / total;
            normalisers[2 * r] = peak;
            normalisers[2 * r + 1] = logf(total);
            for (int64_t j = 0; j < of->number; j++)
                matched[r * of->number + j] = current[ids[b * of->number + j]] * inverse;
            repeated[r] = 0;
            if (of->counted && !of->counted[r]) continue;
            if (before) {
                double same = row_dot(current, earlier, size) - current[of->blank] * earlier[of->blank];
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
static void frame_softmax(const Frames *of, int64_t r, float *out) {
    read_row(of->logits, of->kind, r, of->size, out, 1);
    sharpened(out, of->size, of->normalisers[2 * r], of->sharpness, expf(-of->normalisers[2 * r + 1]));
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
    expect_rows(of->out, first * of->steps, last * of->steps, size, bytes_of(of->kind));
    for (int64_t b = first; b < last; b++) {
        int64_t end = (b + 1) * of->steps, known = -1; /* the frame whose softmax is `later` */
        float *rows[3] = {buffers + 2 * size, buffers + 3 * size, buffers + 4 * size}, *before = NULL;
        for (int64_t r = b * of->steps; r < end; r++) {
            float *out = place_of_row(of->out, of->kind, r, size, buffers);
            const float *m = of->matched + r * of->number, *g = of->of_matched ? of->of_matched + r * of->number : NULL;
            int counts = !counted || counted[r];
            int64_t next = r + 1;
            while (next < end && counted && !counted[next]) next++;
            float factor = g ? -row_dot(m, g, of->number) : 0, share = 0, after = 0, *p = rows[1], *later = zero;
            if (known != r) frame_softmax(of, r, p);
            else p = rows[2], rows[2] = rows[1], rows[1] = p;
            float blank = p[of->blank];
            if (counts && weight) {
                if (before) share = weight[r], factor -= weight[r] * repeated[r];
                if (next < end) {
                    frame_softmax(of, next, rows[2]);
                    later = rows[2], known = next, after = weight[next], factor -= after * repeated[next];
                }
            }
            factor *= sharpness;
            scale_frame(out, p, share ? before : zero, later, factor, sharpness * share, sharpness * after, size);
            out[of->blank] = factor * blank;
            for (int64_t j = 0; g && j < of->number; j++) out[ids[b * of->number + j]] += sharpness * m[j] * g[j];
            if (!isfinite(normalisers[2 * r] + normalisers[2 * r + 1])) memset(out, 0, size * sizeof(float));
            write_row(of->out, of->kind, r, size, out);
            if (counts) before = p, rows[1] = rows[0], rows[0] = p;
        }
    }
    free(buffers);
    return 0;
}
