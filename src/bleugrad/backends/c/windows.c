#include "windows.h"

/* A limit for the tokens of a pattern, which are clamped to T + 1 if units are words. */
int64_t longest_lag(const Patterns *of) {
    int64_t longest = 1;
    for (int64_t i = 0; of->spans && i < of->batch * of->columns; i++)
        longest = of->spans[i] > longest ? of->spans[i] : longest;
    return longest == 1 || longest * of->orders <= of->steps ? longest * of->orders : of->steps + of->orders;
}

/* Returns 1 if the allocation fails. */
int block_open(Block *block, const Patterns *of, int64_t columns, int64_t rows) {
    int64_t steps = of->steps, orders = of->orders, most = longest_lag(of);
    int64_t there = columns < of->columns ? columns : of->columns, width = (there + LANES + orders - 2) / LANES * LANES;
    *block = (Block){.patterns = of, .width = width, .most = most, .columns = {-1}};
    int64_t size = 2 * steps * width + (orders * steps + (orders + 1) * (most + steps) + rows) * LANES;
    block->units = malloc(size * sizeof(REAL) + 2 * orders * sizeof(Lag));
    if (!block->units) return 1;
    block->grad_units = block->units + steps * width;
    block->picked = block->grad_units + steps * width;
    block->windows = block->picked + orders * steps * LANES;
    block->grad_windows = block->windows + (orders * (most + steps) + most) * LANES;
    block->room = block->grad_windows + steps * LANES;
    block->unit_lags = (Lag *)(block->units + size);
    block->lags = block->unit_lags + orders;
    memset(block->grad_windows, 0, steps * LANES * sizeof(REAL));
    return 0;
}

static void load_lags(Block *block) {
    const Patterns *of = block->patterns;
    block->pad = 1;
    for (int64_t order = 1; order <= of->orders; order++) {
        Lag *own = block->unit_lags + order - 1, *all = block->lags + order - 1;
        own->same = all->same = 1;
        for (int l = 0; l < LANES; l++) {
            int64_t span = unit_span(of, block->sentence, block->columns[l] + order - 1);
            int64_t sum = span + (order > 1 ? all[-1].of[l] : 0);
            own->of[l] = (int32_t)span;
            all->of[l] = (int32_t)(sum <= of->steps ? sum : of->spans ? of->steps + 1 : sum);
            own->same &= own->of[l] == own->of[0];
            all->same &= all->of[l] == all->of[0];
            block->pad = all->of[l] > block->pad ? all->of[l] : block->pad;
        }
    }
}

/* Copies the columns from `left` on, 0 after the last column of the sentence, and clears their gradient. */
void block_take(Block *block, int64_t sentence, int64_t left) {
    const Patterns *of = block->patterns;
    int64_t width = block->width, there = of->columns - left < width ? of->columns - left : width;
    block->sentence = sentence;
    block->left = left;
    for (int64_t e = 0; e < of->steps; e++) {
        const REAL *from = of->units + unit_index(of, sentence, e) + left;
        memcpy(block->units + e * width, from, there * sizeof(REAL));
        memset(block->units + e * width + there, 0, (width - there) * sizeof(REAL));
    }
    memset(block->grad_units, 0, of->steps * width * sizeof(REAL));
}

/* The units that are last in the n-grams of one order; one row per position, `stride` apart. */
static const REAL *last_units(const Block *block, int64_t order, int64_t *stride) {
    *stride = block->adjacent ? block->width : LANES;
    if (block->adjacent) return block->units + block->columns[0] - block->left + order - 1;
    return block->picked + (order - 1) * block->patterns->steps * LANES;
}

INLINED void fill_windows(const Block *block, int64_t order, int same) {
    const Lag lag = block->unit_lags[order - 1];
    int64_t steps = block->patterns->steps, stride;
    const REAL *units = last_units(block, order, &stride);
    const REAL *shorter = block_windows(block, order > 1 ? order - 1 : 1);
    REAL *windows = block_windows(block, order);
    int64_t pad = block->pad * LANES;
    memset(windows - pad, 0, pad * sizeof(REAL));
    for (int64_t e = 0; e < steps; e++)
        for (int v = 0; v < VECTORS; v++) {
            Vector window = ((const Vector *)(units + e * stride))[v];
            if (order > 1) window *= look(shorter + e * LANES, &lag, same, -LANES, v);
            ((Vector *)(windows + e * LANES))[v] = window;
        }
}

/* The windows of one order from those of the order below: q[n][e] = q[n-1][e - span] * unit[e], 0 before the start. */
void block_fill_windows(Block *block, int64_t order) {
    if (block->unit_lags[order - 1].same) fill_windows(block, order, 1);
    else fill_windows(block, order, 0);
}

/* Goes to the patterns of 1..orders units that begin at LANES columns. */
void block_load(Block *block, const int64_t *columns, int64_t orders) {
    REAL *restrict to = block->picked;
    block->adjacent = 1;
    for (int l = 0; l < LANES; l++) block->adjacent &= columns[l] == columns[0] + l;
    memcpy(block->columns, columns, sizeof(block->columns));
    load_lags(block);
    for (int64_t order = 1; order <= orders && !block->adjacent; order++) {
        const REAL *units = block->units + order - 1 - block->left;
        for (int64_t e = 0; e < block->patterns->steps; e++, units += block->width, to += LANES)
            for (int l = 0; l < LANES; l++) to[l] = units[columns[l]];
    }
}

INLINED void pull_windows(Block *block, int64_t order, int same, int adjacent) {
    const Lag lag = block->unit_lags[order - 1];
    int64_t steps = block->patterns->steps, stride;
    const REAL *units = last_units(block, order, &stride);
    const REAL *shorter = block_windows(block, order > 1 ? order - 1 : 1);
    REAL *grad_windows = block->grad_windows, *grad_units = block->grad_units - block->left + order - 1;
    for (int64_t e = 0; e < steps; e++)
        for (int v = 0; v < VECTORS; v++) {
            Vector *here = (Vector *)(grad_windows + e * LANES) + v, grad = *here;
            Vector of_shorter = grad * ((const Vector *)(units + e * stride))[v];
            REAL *to = grad_windows + e * LANES;
            *here = (Vector){0};
            if (order > 1) grad *= look(shorter + e * LANES, &lag, same, -LANES, v);
            if (adjacent) ((Vector *)(grad_units + e * block->width + block->columns[0]))[v] += grad;
            if (order > 1 && same) ((Vector *)(to - lag.of[0] * LANES))[v] = of_shorter;
            for (int l = 0; l < WIDTH; l++) {
                int64_t lane = v * WIDTH + l;
                if (!adjacent) grad_units[e * block->width + block->columns[lane]] += grad[l];
                if (order > 1 && !same) to[lane - lag.of[lane] * LANES] = of_shorter[l];
            }
        }
}

/* From the gradient of the windows of one order to that of its last units and, in its place, to that of the windows of
   the order below. */
void block_pull_windows(Block *block, int64_t order) {
    int same = block->unit_lags[order - 1].same;
    if (!block->adjacent) pull_windows(block, order, same, 0);
    else if (same) pull_windows(block, order, 1, 1);
    else pull_windows(block, order, 0, 1);
}

/* Adds the gradient of the columns to that of all units, (T, B, L). */
void block_give(const Block *block, REAL *grad_units) {
    const Patterns *of = block->patterns;
    int64_t width = block->width, there = of->columns - block->left < width ? of->columns - block->left : width;
    for (int64_t e = 0; e < of->steps; e++) {
        const REAL *restrict from = block->grad_units + e * width;
        REAL *restrict to = grad_units + unit_index(of, block->sentence, e) + block->left;
        for (int64_t l = 0; l < there; l++) to[l] += from[l];
    }
}
