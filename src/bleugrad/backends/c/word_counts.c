/* The number of words of a hypothesis: token by token, in double precision. */
#include "common.h"

typedef struct {
    int64_t steps, batch;
    const REAL *opening;        /* (T, B) */
    const int64_t *limits;      /* (B,) */
    const REAL *alive, *stop;   /* (T, B) and (B, T + 1), or NULL if every hypothesis ends at its limit */
    REAL *probs;                /* (B, T + 1), or its gradient */
    REAL *grad_opening, *grad_alive, *grad_stop;
} Counts;

/* Probabilities that token t does not end the sequence, and that it opens a word, as the first token always does. */
typedef struct {
    double lives, opens;
} Token;

static Token token_at(const Counts *of, int64_t sentence, int64_t step) {
    int64_t cell = step * of->batch + sentence;
    double lives = of->alive ? (double)of->alive[cell] : 1.0;
    return (Token){lives, step ? (double)of->opening[cell] : lives};
}

/* The probability that a hypothesis of `length` tokens ends there. */
static double ends(const Counts *of, int64_t sentence, int64_t length) {
    return of->stop ? (double)of->stop[sentence * (of->steps + 1) + length] : length == of->limits[sentence];
}

/* after[w] = before[w] (a - o) + before[w - 1] o, for the words 0..size of `size` + 1 tokens. */
static void add_token(double *restrict after, const double *restrict before, Token token, int64_t size) {
    double o = token.opens, stays = token.lives - o;
    after[0] = before[0] * stays;
    for (int64_t w = 1; w <= size; w++) after[w] = before[w] * stays + before[w - 1] * o;
    after[size + 1] = before[size] * o;
}

static void add_end(double *restrict sum, const double *restrict reached, double share, int64_t length) {
    for (int64_t w = 0; share != 0 && w <= length; w++) sum[w] += share * reached[w];
}

int word_counts(const void *problem, int64_t first, int64_t last) {
    const Counts *of = problem;
    int64_t size = of->steps + 1;
    double *room = malloc(3 * size * sizeof(double)), *sum = room + 2 * size;
    if (!room) return 1;
    for (int64_t b = first; b < last; b++) {
        double *now = room, *next = room + size;
        memset(sum, 0, size * sizeof(double));
        now[0] = 1;
        add_end(sum, now, ends(of, b, 0), 0);
        for (int64_t t = 0; t < of->limits[b]; t++) {
            add_token(next, now, token_at(of, b, t), t);
            double *other = now;
            now = next, next = other;
            add_end(sum, now, ends(of, b, t + 1), t + 1);
        }
        for (int64_t w = 0; w < size; w++) of->probs[b * size + w] = (REAL)sum[w];
    }
    free(room);
    return 0;
}

static double double_dot(const double *restrict x, const double *restrict y, int64_t size) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[i + l] * y[i + l];
    for (; i < size; i++) sum += x[i] * y[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* About sqrt(T) of the distributions before tokens are kept, each `height`-th; the `rows` between are recomputed. */
int word_counts_backward(const void *problem, int64_t first, int64_t last) {
    const Counts *of = problem;
    REAL *grad_opening = of->grad_opening, *grad_alive = of->grad_alive, *grad_stop = of->grad_stop;
    int64_t size = of->steps + 1, height = 1;
    while (height * height < size) height++;
    double *kept = malloc((2 * height + 2) * size * sizeof(double)), *rows = kept + height * size;
    double *given = rows + height * size, *back = given + size;
    if (!kept) return 1;
    for (int64_t b = first; b < last; b++) {
        int64_t limit = of->limits[b];
        for (int64_t w = 0; w < size; w++) given[w] = of->probs[b * size + w], back[w] = 0;
        for (int64_t t = of->steps - 1; t >= limit; t--) {
            grad_opening[t * of->batch + b] = 0;
            if (of->stop) grad_alive[t * of->batch + b] = grad_stop[b * size + t + 1] = 0;
        }
        kept[0] = 1;
        for (int64_t t = 0; t < limit; t++) {
            double *now = t % height ? rows + t % 2 * size : kept + t / height * size;
            double *next = (t + 1) % height ? rows + (t + 1) % 2 * size : kept + (t + 1) / height * size;
            add_token(next, now, token_at(of, b, t), t);
        }
        for (int64_t begin = limit / height * height; begin >= 0; begin -= height) {
            int64_t end = begin + height <= limit + 1 ? begin + height : limit + 1;
            memcpy(rows, kept + begin / height * size, (begin + 1) * sizeof(double));
            for (int64_t t = begin; t + 1 < end; t++)
                add_token(rows + (t + 1 - begin) * size, rows + (t - begin) * size, token_at(of, b, t), t);
            for (int64_t t = end - 1; t >= begin; t--) { /* before token t, which is the end where t is the limit */
                const double *before = rows + (t - begin) * size;
                int64_t cell = t * of->batch + b;
                if (t < limit) {
                    Token token = token_at(of, b, t);
                    double stays = token.lives - token.opens, stayed = double_dot(before, back, t + 1);
                    double moved = double_dot(before, back + 1, t + 1);
                    grad_opening[cell] = t ? (REAL)(moved - stayed) : 0;
                    if (of->stop) grad_alive[cell] = (REAL)(t ? stayed : moved);
                    for (int64_t w = 0; w <= t; w++) back[w] = back[w] * stays + back[w + 1] * token.opens;
                }
                if (of->stop) grad_stop[b * size + t] = (REAL)double_dot(before, given, t + 1);
                add_end(back, given, ends(of, b, t), t);
            }
        }
    }
    free(kept);
    return 0;
}
