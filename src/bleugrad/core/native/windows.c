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
int block_open(Block *block, const Patterns *of, int64_t most, int64_t pad) {
    int64_t width = (LANES + of->orders - 1 + LANES - 1) / LANES * LANES;
    int64_t rows = of->orders * (2 * pad + most) + 5 * most + 2 * pad;
    *block = (Block){.patterns = of, .pad = pad, .width = width, .most = most, .sentence = -1};
    block->memory = calloc(rows * LANES + (pad + 2 * most) * width, sizeof(REAL));
    block->unit_lags = malloc(2 * of->orders * sizeof(Lag));
    if (!block->memory || !block->unit_lags) {
        block_close(block);
        return 1;
    }
    block->lags = block->unit_lags + of->orders;
    REAL *rest = block->memory;
    block->units = take(&rest, pad + most, width) + pad * width;
    block->grad_units = take(&rest, most, width);
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

static inline __attribute__((always_inline)) void fill_windows(Block *block, int64_t order, int same) {
    const REAL *shorter = block_windows(block, order > 1 ? order - 1 : 1);
    for (int64_t e = -block->pad; e < block->rows; e++) {
        const Vector *unit = (const Vector *)(block->units + e * block->width + order - 1);
        Vector *out = (Vector *)(block_windows(block, order) + e * LANES);
        for (int v = 0; v < VECTORS; v++) {
            out[v] = unit[v];
            if (order > 1) out[v] *= look(shorter + e * LANES, block->unit_lags + order - 1, same, -LANES, v);
        }
    }
}

/* q[n][e] = q[n-1][e - span] * unit[e], 0 before the start. The first rows of the padding of q[n] are not right, and no
   right row looks back to them: q[1] is right from -pad on, and no pattern is longer than that. */
void block_load(Block *block, int64_t sentence, int64_t first, int64_t begin) {
    const Patterns *of = block->patterns;
    int64_t width = block->width, pad = block->pad, reach = LANES + of->orders - 1;
    int known = block->sentence >= 0 && (!of->spans || (block->sentence == sentence && block->first == first));
    block->sentence = sentence;
    block->first = first;
    block->begin = begin;
    block->rows = of->steps - begin < block->most ? of->steps - begin : block->most;
    if (!known) load_lags(block);
    int64_t there = of->columns - first < reach ? of->columns - first : reach;
    for (int64_t e = -pad; e < block->rows; e++) {
        REAL *restrict to = block->units + e * width;
        int64_t here = begin + e < 0 ? 0 : there;
        const REAL *from = of->units + ((begin + e) * of->batch + sentence) * of->columns + first;
        if (here == reach) memcpy(to, from, LANES * sizeof(REAL));
        for (int64_t l = here == reach ? LANES : 0; l < reach; l++) to[l] = l < here ? from[l] : 0;
    }
    for (int64_t order = 1; order <= of->orders; order++) {
        const Lag *lag = block->unit_lags + order - 1;
        if (order == 1 || lag->same) fill_windows(block, order, 1);
        else fill_windows(block, order, 0);
    }
}

void block_clear_gradient(Block *block) {
    memset(block->grad_units, 0, block->rows * block->width * sizeof(REAL));
    memset(block->grad_windows, 0, block->rows * LANES * sizeof(REAL));
}

/* From the cotangent of the windows of one order to that of its last units and to that of the order below. `later`
   (pad, LANES) is what the positions after these leave for them, and becomes what these leave for those before. */
void block_pull_windows(Block *block, int64_t order, REAL *later) {
    int64_t rows = block->rows, width = block->width, kept = block->pad * LANES * sizeof(REAL);
    const Lag *lag = block->unit_lags + order - 1;
    const REAL *shorter = block_windows(block, order > 1 ? order - 1 : 1);
    memcpy(block->product + rows * LANES, later, kept);
    for (int64_t e = 0; e < rows; e++) {
        const Vector *grad = (const Vector *)(block->grad_windows + e * LANES);
        const Vector *unit = (const Vector *)(block->units + e * width + order - 1);
        Vector *to = (Vector *)(block->grad_units + e * width + order - 1);
        Vector *product = (Vector *)(block->product + e * LANES);
        for (int v = 0; v < VECTORS; v++) {
            if (order > 1) product[v] = grad[v] * unit[v];
            if (order > 1) to[v] += grad[v] * look(shorter + e * LANES, lag, lag->same, -LANES, v);
            else to[v] += grad[v];
        }
    }
    for (int64_t e = 0; order > 1 && e < rows; e++)
        for (int v = 0; v < VECTORS; v++)
            ((Vector *)(block->grad_windows + e * LANES))[v] = look(block->product + e * LANES, lag, lag->same, LANES, v);
    if (order > 1) memcpy(later, block->product, kept);
}

void block_store_gradient(const Block *block, REAL *grad_units) {
    const Patterns *of = block->patterns;
    int64_t reach = LANES + of->orders - 1;
    int64_t there = of->columns - block->first < reach ? of->columns - block->first : reach;
    for (int64_t e = 0; e < block->rows; e++) {
        const REAL *restrict from = block->grad_units + e * block->width;
        REAL *restrict to = grad_units + ((block->begin + e) * of->batch + block->sentence) * of->columns + block->first;
        if (there == reach)
            for (int l = 0; l < LANES; l++) to[l] += from[l];
        for (int64_t l = there == reach ? LANES : 0; l < there; l++) to[l] += from[l];
    }
}
