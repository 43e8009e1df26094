/* The number of words of a hypothesis of known length: token by token, in double precision. */
#include "common.h"

typedef struct {
    int64_t steps, batch;
    const REAL *opening;        /* (T, B) */
    const int64_t *limits;      /* (B,) */
} Counts;

/* The first token opens a word whatever it is. */
static double opens(const Counts *of, int64_t sentence, int64_t step) {
    return step ? (double)of->opening[step * of->batch + sentence] : 1.0;
}

/* after[w] = before[w] (1 - o) + before[w - 1] o, for the words 0..size of `size` + 1 tokens. */
static void add_token(double *restrict after, const double *restrict before, double o, int64_t size) {
    after[0] = before[0] * (1 - o);
    for (int64_t w = 1; w <= size; w++) after[w] = before[w] * (1 - o) + before[w - 1] * o;
    after[size + 1] = before[size] * o;
}

/* probs (B, T + 1). Returns 1 where memory is short. */
int word_counts(void *const *with, int64_t first, int64_t last) {
    const Counts *of = with[0];
    REAL *probs = with[1];
    double *room = malloc(2 * (of->steps + 1) * sizeof(double));
    if (!room) return 1;
    for (int64_t b = first; b < last; b++) {
        double *now = room, *next = room + of->steps + 1;
        int64_t limit = of->limits[b];
        now[0] = 1;
        for (int64_t t = 0; t < limit; t++) {
            add_token(next, now, opens(of, b, t), t);
            double *other = now;
            now = next, next = other;
        }
        REAL *out = probs + b * (of->steps + 1);
        for (int64_t w = 0; w <= of->steps; w++) out[w] = w <= limit ? (REAL)now[w] : 0;
    }
    free(room);
    return 0;
}

/* What one token gives: the slope in o, while `grad`, by the words after it, becomes that by the words before it. */
static double pull_token(double *restrict grad, const double *restrict before, double o, int64_t size) {
    double lanes[LANES] = {0}, slope = 0;
    int64_t w = 0;
    for (; w + LANES <= size + 1; w += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += before[w + l] * (grad[w + l + 1] - grad[w + l]);
    for (; w <= size; w++) slope += before[w] * (grad[w + 1] - grad[w]);
    for (int l = 0; l < LANES; l++) slope += lanes[l];
    for (w = 0; w <= size; w++) grad[w] = grad[w] * (1 - o) + grad[w + 1] * o;
    return slope;
}

/* grad_opening (T, B) from grad (B, T + 1). Returns 1 where memory is short. */
int word_counts_backward(void *const *with, int64_t first, int64_t last) {
    const Counts *of = with[0];
    const REAL *grad = with[1];
    REAL *grad_opening = with[2];
    int64_t steps = of->steps, all = (steps + 1) * (steps + 2) / 2; /* the words of 0..T tokens end to end */
    double *room = malloc((all + steps + 1) * sizeof(double)), *back = room + all;
    if (!room) return 1;
    for (int64_t b = first; b < last; b++) {
        int64_t limit = of->limits[b];
        double *now = room;
        now[0] = 1;
        for (int64_t t = 0; t < limit; now += t + 1, t++) add_token(now + t + 1, now, opens(of, b, t), t);
        for (int64_t w = 0; w <= limit; w++) back[w] = grad[b * (steps + 1) + w];
        for (int64_t t = steps - 1; t >= limit; t--) grad_opening[t * of->batch + b] = 0;
        for (int64_t t = limit - 1; t >= 0; t--) {
            now -= t + 1;
            double slope = pull_token(back, now, opens(of, b, t), t);
            grad_opening[t * of->batch + b] = t ? (REAL)slope : 0;
        }
    }
    free(room);
    return 0;
}
