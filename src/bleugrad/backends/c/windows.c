#include "windows.h"

static REAL *take(REAL **rest, int64_t rows, int64_t width) {
    REAL *taken = *rest;
    *rest += rows * width;
    return taken;
}

/* Tokens of the longest pattern; at most T + 1 where units are words. */
int64_t longest_lag(const Patterns *of) {
    int64_t longest = of->orders;
    for (int64_t b = 0; of->spans && b < of->batch; b++)
        for (int64_t column = 0; column < of->columns; column++) {
            int64_t sum = 0;
            for (int64_t order = 0; order < of->orders; order++) sum += unit_span(of, b, column + order);
            sum = sum <= of->steps ? sum : of->steps + 1;
            longest = sum > longest ? sum : longest;
        }
    return longest;
}

/* Returns 1 where memory is short. */
int block_open(Block *block, const Patterns *of, int64_t columns, int64_t most, int64_t pad) {
    int64_t width = (columns + of->orders - 1 + LANES - 1) / LANES * LANES;
    int64_t rows = of->orders * (2 * pad + most) + 5 * most + 2 * pad;
    *block = (Block){.patterns = of, .pad = pad, .width = width, .most = most, .sentence = -1, .first = -1};
    block->memory = calloc(rows * LANES + 2 * (pad + most) * width, sizeof(REAL));
    block->unit_lags = malloc(2 * of->orders * sizeof(Lag));
    if (!block->memory || !block->unit_lags) {
        block_close(block);
        return 1;
    }
    block->lags = block->unit_lags + of->orders;
    REAL *rest = block->memory;
    block->units = take(&rest, pad + most, width) + pad * width;
    block->grad_units = take(&rest, pad + most, width) + pad * width;
    block->windows = take(&rest, of->orders * (2 * pad + most), LANES);
    block->grad_windows = take(&rest, most, LANES);
    block->product = take(&rest, most + pad, LANES);
    block->room = take(&rest, 3 * most + pad, LANES);
    return 0;
}

void block_close(Block *block) {
    free(block->memory);
    free(block->unit_lags);
}

static void load_lags(Block *block) {
    const Patterns *of = block->patterns;
    for (int64_t order = 1; order <= of->orders; order++) {
        Lag *own = block->unit_lags + order - 1, *all = block->lags + order - 1;
        own->same = all->same = 1;
        for (int l = 0; l < LANES; l++) {
            int64_t span = unit_span(of, block->sentence, block->first + l + order - 1);
            int64_t sum = span + (order > 1 ? all[-1].of[l] : 0);
            own->of[l] = (int32_t)span;
            all->of[l] = (int32_t)(sum <= of->steps ? sum : of->spans ? of->steps + 1 : sum);
            own->same &= own->of[l] == own->of[0];
            all->same &= all->of[l] == all->of[0];
        }
    }
}

/* Copies the units, 0 before the first position and after the last column, and clears their gradient. */
void block_take(Block *block, int64_t sentence, int64_t left, int64_t begin) {
    const Patterns *of = block->patterns;
    int64_t width = block->width, there = of->columns - left < width ? of->columns - left : width;
    if (sentence != block->sentence) block->first = -1;
    block->sentence = sentence;
    block->left = left;
    block->begin = begin;
    block->rows = of->steps - begin < block->most ? of->steps - begin : block->most;
    for (int64_t e = -block->pad; e < block->rows; e++) {
        int64_t here = begin + e < 0 ? 0 : there;
        const REAL *from = of->units + ((begin + e) * of->batch + sentence) * of->columns + left;
        if (here) memcpy(block->units + e * width, from, here * sizeof(REAL));
        memset(block->units + e * width + here, 0, (width - here) * sizeof(REAL));
    }
    memset(block->grad_units - block->pad * width, 0, (block->pad + block->rows) * width * sizeof(REAL));
}

static inline __attribute__((always_inline)) void fill_windows(Block *block, int64_t order, int same) {
    const Lag lag = block->unit_lags[order - 1];
    const REAL *units = block->units + block->first - block->left + order - 1;
    const REAL *shorter = block_windows(block, order > 1 ? order - 1 : 1);
    REAL *windows = block_windows(block, order);
    int64_t width = block->width, rows = block->rows;
    for (int64_t e = -block->pad; e < rows; e++)
        for (int v = 0; v < VECTORS; v++) {
            Vector window = ((const Vector *)(units + e * width))[v];
            if (order > 1) window *= look(shorter + e * LANES, &lag, same, -LANES, v);
            ((Vector *)(windows + e * LANES))[v] = window;
        }
}

/* q[n][e] = q[n-1][e - span] * unit[e], 0 before the start. The first rows of the padding of q[n] are not right, and no
   right row looks back to them: q[1] is right from -pad on, and no pattern is longer than that. */
void block_load(Block *block, int64_t first) {
    const Patterns *of = block->patterns;
    int known = block->first == first || (block->first >= 0 && !of->spans);
    block->first = first;
    if (!known) load_lags(block);
    for (int64_t order = 1; order <= of->orders; order++)
        if (block->unit_lags[order - 1].same) fill_windows(block, order, 1);
        else fill_windows(block, order, 0);
    memset(block->grad_windows, 0, block->rows * LANES * sizeof(REAL));
}

/* From the cotangent of the windows of one order to that of its last units and to that of the order below. `later`
   (pad, LANES) is what the positions after these leave for them, and becomes what these leave for those before. */
void block_pull_windows(Block *block, int64_t order, REAL *later) {
    int64_t rows = block->rows, width = block->width, kept = block->pad * LANES * sizeof(REAL);
    int64_t column = block->first - block->left + order - 1;
    const Lag lag = block->unit_lags[order - 1];
    const REAL *units = block->units + column, *shorter = block_windows(block, order > 1 ? order - 1 : 1);
    REAL *grad_units = block->grad_units + column, *grad_windows = block->grad_windows, *product = block->product;
    memcpy(product + rows * LANES, later, kept);
    for (int64_t e = 0; e < rows; e++)
        for (int v = 0; v < VECTORS; v++) {
            Vector grad = ((const Vector *)(grad_windows + e * LANES))[v], *to = (Vector *)(grad_units + e * width) + v;
            ((Vector *)(product + e * LANES))[v] = grad * ((const Vector *)(units + e * width))[v];
            if (order > 1) grad *= look(shorter + e * LANES, &lag, lag.same, -LANES, v);
            *to += grad;
        }
    for (int64_t e = 0; order > 1 && e < rows; e++)
        for (int v = 0; v < VECTORS; v++)
            ((Vector *)(grad_windows + e * LANES))[v] = look(product + e * LANES, &lag, lag.same, LANES, v);
    if (order > 1) memcpy(later, block->product, kept);
}

void block_give(const Block *block, REAL *grad_units) {
    const Patterns *of = block->patterns;
    int64_t width = block->width, there = of->columns - block->left < width ? of->columns - block->left : width;
    for (int64_t e = block->begin < block->pad ? -block->begin : -block->pad; e < block->rows; e++) {
        const REAL *restrict from = block->grad_units + e * width;
        REAL *restrict to = grad_units + ((block->begin + e) * of->batch + block->sentence) * of->columns + block->left;
        for (int64_t l = 0; l < there; l++) to[l] += from[l];
    }
}
