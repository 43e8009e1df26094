#include "windows.h"

static REAL *take(REAL **rest, int64_t rows, int64_t width) {
    REAL *taken = *rest;
    *rest += rows * width;
    return taken;
}

int block_open(Block *block, const Patterns *of) {
    int64_t steps = of->steps, pad = of->spans ? steps + 1 : of->orders;
    int64_t width = (LANES + of->orders - 1 + LANES - 1) / LANES * LANES;
    int64_t rows = of->orders * (pad + steps) + 5 * steps + 3 * pad + 1;
    block->patterns = of;
    block->width = width;
    block->memory = malloc((rows * LANES + 2 * steps * width) * sizeof(REAL));
    block->unit_lags = malloc(2 * of->orders * sizeof(Lag));
    if (!block->memory || !block->unit_lags) {
        block_close(block);
        return 1;
    }
    block->lags = block->unit_lags + of->orders;
    REAL *rest = block->memory;
    block->units = take(&rest, steps, width);
    block->grad_units = take(&rest, steps, width);
    block->windows = take(&rest, of->orders * (pad + steps), LANES);
    block->grad_windows = take(&rest, steps, LANES);
    block->product = take(&rest, steps + pad, LANES);
    block->level = take(&rest, pad + steps, LANES);
    block->moved = take(&rest, 1 + steps, LANES);
    block->coming = take(&rest, steps + pad, LANES);
    return 0;
}

void block_close(Block *block) {
    free(block->memory);
    free(block->unit_lags);
}

static void load_lags(Block *block) {
    const Patterns *of = block->patterns;
    block->pad = 1;
    for (int64_t order = 1; order <= of->orders; order++) {
        Lag *own = block->unit_lags + order - 1, *all = block->lags + order - 1;
        own->longest = all->longest = own->same = all->same = 1;
        for (int l = 0; l < LANES; l++) {
            int64_t span = unit_span(of, block->sentence, block->first + l + order - 1);
            int64_t sum = span + (order > 1 ? all[-1].of[l] : 0);
            own->of[l] = (int32_t)span;
            all->of[l] = (int32_t)(sum <= of->steps ? sum : of->spans ? of->steps + 1 : sum);
            own->same &= own->of[l] == own->of[0];
            all->same &= all->of[l] == all->of[0];
            own->longest = own->of[l] > own->longest ? own->of[l] : own->longest;
            all->longest = all->of[l] > all->longest ? all->of[l] : all->longest;
        }
        block->pad = all->longest > block->pad ? all->longest : block->pad;
    }
}

/* q[n][e] = q[n-1][e - span] * unit[e], 0 before the start. */
void block_load(Block *block, int64_t sentence, int64_t first) {
    const Patterns *of = block->patterns;
    int64_t steps = of->steps, width = block->width, reach = LANES + of->orders - 1;
    block->sentence = sentence;
    block->first = first;
    load_lags(block);
    int64_t there = of->columns - first < reach ? of->columns - first : reach;
    for (int64_t e = 0; e < steps; e++) {
        const REAL *from = of->units + (e * of->batch + sentence) * of->columns + first;
        for (int64_t l = 0; l < there; l++) block->units[e * width + l] = from[l];
        for (int64_t l = there; l < reach; l++) block->units[e * width + l] = 0;
    }
    for (int64_t order = 1; order <= of->orders; order++) {
        REAL *to = block_windows(block, order), *below = order > 1 ? block_windows(block, order - 1) : NULL;
        memset(to - block->pad * LANES, 0, block->pad * LANES * sizeof(REAL));
        for (int64_t e = 0; e < steps; e++) {
            const REAL *restrict unit = block->units + e * width + order - 1;
            REAL *restrict out = to + e * LANES, shorter[LANES];
            if (!below) memcpy(out, unit, LANES * sizeof(REAL));
            else {
                look(shorter, below + e * LANES, block->unit_lags + order - 1, -1);
                for (int l = 0; l < LANES; l++) out[l] = shorter[l] * unit[l];
            }
        }
    }
}

void block_clear_gradient(Block *block) {
    int64_t steps = block->patterns->steps;
    memset(block->grad_units, 0, steps * block->width * sizeof(REAL));
    memset(block->grad_windows, 0, steps * LANES * sizeof(REAL));
    memset(block->product + steps * LANES, 0, block->pad * LANES * sizeof(REAL));
    memset(block->coming + steps * LANES, 0, block->pad * LANES * sizeof(REAL));
}

/* From the cotangent of the windows of one order to that of its last units and to that of the order below. */
void block_pull_windows(Block *block, int64_t order) {
    int64_t steps = block->patterns->steps, width = block->width;
    const Lag *lag = block->unit_lags + order - 1;
    for (int64_t e = 0; e < steps; e++) {
        const REAL *restrict grad = block->grad_windows + e * LANES;
        const REAL *restrict unit = block->units + e * width + order - 1;
        REAL *restrict to = block->grad_units + e * width + order - 1, *restrict product = block->product + e * LANES;
        REAL shorter[LANES];
        if (order == 1) {
            for (int l = 0; l < LANES; l++) to[l] += grad[l];
            continue;
        }
        look(shorter, block_windows(block, order - 1) + e * LANES, lag, -1);
        for (int l = 0; l < LANES; l++) to[l] += grad[l] * shorter[l];
        for (int l = 0; l < LANES; l++) product[l] = grad[l] * unit[l];
    }
    for (int64_t e = 0; order > 1 && e < steps; e++)
        look(block->grad_windows + e * LANES, block->product + e * LANES, lag, 1);
}

void block_store_gradient(const Block *block, REAL *grad_units) {
    const Patterns *of = block->patterns;
    int64_t reach = LANES + of->orders - 1;
    int64_t there = of->columns - block->first < reach ? of->columns - block->first : reach;
    for (int64_t e = 0; e < of->steps; e++) {
        REAL *to = grad_units + (e * of->batch + block->sentence) * of->columns + block->first;
        for (int64_t l = 0; l < there; l++) to[l] += block->grad_units[e * block->width + l];
    }
}
