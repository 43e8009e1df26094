/* Expected clipped matches: the renewal recursion of renewal.py, where it is stated and its names are explained.

   Patterns that match once at most and do not overlap themselves run side by side, LANES columns of one order at a
   time. The others run one by one, their states k = 1..c side by side. */
#include "windows.h"

/* 1 for the lanes whose pattern has one state. Returns whether there is any. */
static int common_lanes(const Block *block, int64_t order, REAL *restrict common) {
    const Patterns *of = block->patterns;
    int any = 0;
    for (int l = 0; l < LANES; l++) {
        int64_t column = block->first + l;
        int one = column < of->columns && of->clips[pattern_index(of, block->sentence, order, column)] == 1 &&
                  !pattern_is_special(of, block->sentence, order, column);
        common[l] = (REAL)one;
        any |= one;
    }
    return any;
}

/* Fills level and moved, and adds the new matches to out, (T, B, N), unless that is NULL. */
static void run_lanes(Block *block, int64_t order, const REAL *restrict common, REAL *out) {
    const Patterns *of = block->patterns;
    const REAL *windows = block_windows(block, order);
    const Lag *lag = block->lags + order - 1;
    REAL known[LANES], before[LANES], own[LANES];
    for (int64_t i = 0; i < block->pad * LANES; i++) block->level[i] = 1;
    for (int l = 0; l < LANES; l++) known[l] = 1, block->moved[l] = 0;
    for (int64_t e = 0; e < of->steps; e++) {
        int64_t cell = e * of->batch + block->sentence;
        REAL alive = of->alive ? of->alive[cell] : 1, opens = of->opening ? of->opening[cell] : 0;
        REAL *restrict level = block->level + (block->pad + e) * LANES;
        REAL *restrict moved = block->moved + (1 + e) * LANES;
        const REAL *restrict window = windows + e * LANES;
        look(before, level, lag, -1);
        for (int l = 0; l < LANES; l++) moved[l] = window[l] * before[l];
        if (of->opening)
            for (int l = 0; l < LANES; l++) {
                known[l] = alive * known[l] - opens * moved[l - LANES];
                level[l] = known[l] - moved[l];
            }
        else
            for (int l = 0; l < LANES; l++) level[l] = alive * level[l - LANES] - moved[l];
        if (out) {
            for (int l = 0; l < LANES; l++) own[l] = common[l] * moved[l];
            out[cell * of->orders + order - 1] += lane_sum(own);
        }
    }
}

/* After run_lanes: adds to grad_windows, and to grad_alive and grad_opening (T, B) where those are given. */
static void pull_lanes(
    Block *block, int64_t order, const REAL *restrict common, const REAL *grad, REAL *grad_alive, REAL *grad_opening
) {
    const Patterns *of = block->patterns;
    const REAL *windows = block_windows(block, order);
    const Lag *lag = block->lags + order - 1;
    REAL of_known[LANES] = {0}, of_level[LANES], of_moved[LANES], before[LANES], own[LANES];
    for (int64_t e = of->steps - 1; e >= 0; e--) {
        int64_t cell = e * of->batch + block->sentence, next = cell + of->batch;
        int last = e == of->steps - 1;
        REAL alive = of->alive && !last ? of->alive[next] : 1, opens = of->opening && !last ? of->opening[next] : 0;
        REAL given = grad[cell * of->orders + order - 1];
        const REAL *restrict level = block->level + (block->pad + e) * LANES, *restrict window = windows + e * LANES;
        const REAL *restrict moved = block->moved + (1 + e) * LANES;
        REAL *restrict coming = block->coming + e * LANES, *restrict to = block->grad_windows + e * LANES;
        look(of_level, coming, lag, 1);
        if (of->opening)
            for (int l = 0; l < LANES; l++) {
                of_moved[l] = given * common[l] - of_level[l] - opens * of_known[l];
                of_known[l] = of_level[l] + alive * of_known[l];
            }
        else
            for (int l = 0; l < LANES; l++) {
                of_known[l] = of_level[l] + alive * of_known[l];
                of_moved[l] = given * common[l] - of_known[l];
            }
        look(before, level, lag, -1);
        for (int l = 0; l < LANES; l++) coming[l] = window[l] * of_moved[l];
        for (int l = 0; l < LANES; l++) to[l] += of_moved[l] * before[l];
        if (of->opening) {
            for (int l = 0; l < LANES; l++) own[l] = of_known[l] * moved[l - LANES];
            grad_opening[cell] -= lane_sum(own);
        }
        if (of->alive) {
            for (int l = 0; l < LANES; l++) {
                REAL arrived = level[l - LANES] + (of->opening ? moved[l - LANES] : 0);
                own[l] = of_known[l] * arrived;
            }
            grad_alive[cell] += lane_sum(own);
        }
    }
}

/* A pattern with several states. `last` (N + 1, T): the windows of its last s units; `back`: their tokens. */
typedef struct {
    const Patterns *patterns;
    int64_t sentence, order, column, states, tokens;
    int64_t *back;
    REAL *memory, *last, *grad_last;    /* (N + 1, T) */
    REAL *level, *moved;                /* (tokens + T, states), padded before */
    REAL *of_new;                       /* (T + tokens, states), padded after */
    REAL *known, *of_known, *of_moved;  /* (states,) */
} Special;

static const REAL *special_unit(const Special *own, int64_t s, int64_t e) {
    const Patterns *of = own->patterns;
    return of->units + (e * of->batch + own->sentence) * of->columns + own->column + own->order - s;
}

/* Returns 1 where memory is short. */
static int special_open(Special *own, const Patterns *of, int64_t sentence, int64_t order, int64_t column) {
    int64_t steps = of->steps, clip = of->clips[pattern_index(of, sentence, order, column)];
    *own = (Special){.patterns = of, .sentence = sentence, .order = order, .column = column};
    own->states = clip < steps ? clip : steps; /* a hypothesis of T tokens matches T times at most */
    own->back = calloc(order + 1, sizeof(int64_t));
    if (!own->back) return 1;
    for (int64_t s = 1; s <= order; s++) own->back[s] = own->back[s - 1] + unit_span(of, sentence, column + order - s);
    own->tokens = own->back[order];
    if (own->tokens > steps) return 0; /* it does not fit, ever */
    int64_t last = (order + 1) * steps, history = (own->tokens + steps) * own->states;
    own->memory = calloc(2 * last + 3 * history + 3 * own->states, sizeof(REAL));
    if (!own->memory) return 1;
    own->last = own->memory;
    own->grad_last = own->last + last;
    own->level = own->grad_last + last;
    own->moved = own->level + history;
    own->of_new = own->moved + history;
    own->known = own->of_new + history;
    own->of_known = own->known + own->states;
    own->of_moved = own->of_known + own->states;
    for (int64_t e = 0; e < steps; e++) own->last[e] = 1;
    for (int64_t s = 1; s <= order; s++)
        for (int64_t e = own->back[s - 1]; e < steps; e++)
            own->last[s * steps + e] = *special_unit(own, s, e - own->back[s - 1]) * own->last[(s - 1) * steps + e];
    for (int64_t e = 0; e < own->tokens; e++) own->level[e * own->states] = 1;
    own->known[0] = 1;
    return 0;
}

static void special_close(Special *own) {
    free(own->back);
    free(own->memory);
}

static inline int special_overlaps(const Special *own, int64_t s) {
    return pattern_overlaps(own->patterns, own->sentence, own->order, own->column, s);
}

static void special_run(Special *own, REAL *out) {
    const Patterns *of = own->patterns;
    int64_t c = own->states, m = own->tokens;
    for (int64_t e = 0; e < of->steps; e++) {
        int64_t cell = e * of->batch + own->sentence;
        REAL alive = of->alive ? of->alive[cell] : 1, opens = of->opening ? of->opening[cell] : 0, sum = 0;
        REAL *level = own->level + (m + e) * c, *moved = own->moved + (m + e) * c, *made = own->of_moved;
        const REAL *window = own->last + own->order * of->steps;
        for (int64_t k = 0; k < c; k++) made[k] = window[e] * level[k - m * c];
        for (int64_t s = 1; s < own->order; s++)
            if (special_overlaps(own, s)) {
                REAL tail = own->last[s * of->steps + e];
                for (int64_t k = 0; k < c; k++) made[k] -= tail * moved[k - own->back[s] * c];
            }
        for (int64_t k = 0; k < c; k++) {
            moved[k] = made[k] - (k ? made[k - 1] : 0);
            if (of->opening) {
                own->known[k] = alive * own->known[k] - opens * moved[k - c];
                level[k] = own->known[k] - moved[k];
            } else level[k] = alive * level[k - c] - moved[k];
            sum += made[k];
        }
        if (out) out[cell * of->orders + own->order - 1] += sum;
    }
}

static void special_pull_windows(Special *own, REAL *grad_units) {
    const Patterns *of = own->patterns;
    for (int64_t s = own->order; s > 0; s--) {
        REAL *grad = own->grad_last + s * of->steps, *grad_shorter = grad - of->steps;
        const REAL *shorter = own->last + (s - 1) * of->steps;
        for (int64_t e = own->back[s - 1]; e < of->steps; e++) {
            const REAL *unit = special_unit(own, s, e - own->back[s - 1]);
            grad_units[unit - of->units] += grad[e] * shorter[e];
            grad_shorter[e] += grad[e] * *unit;
        }
    }
}

static void special_pull(Special *own, const REAL *grad, REAL *grad_units, REAL *grad_alive, REAL *grad_opening) {
    const Patterns *of = own->patterns;
    int64_t c = own->states, m = own->tokens, steps = of->steps;
    const REAL *window = own->last + own->order * steps;
    for (int64_t e = steps - 1; e >= 0; e--) {
        int64_t cell = e * of->batch + own->sentence, next = cell + of->batch;
        REAL alive = of->alive && e + 1 < steps ? of->alive[next] : 1;
        REAL opens = of->opening && e + 1 < steps ? of->opening[next] : 0;
        REAL given = grad[cell * of->orders + own->order - 1], sum_alive = 0, sum_opening = 0;
        REAL *level = own->level + (m + e) * c, *moved = own->moved + (m + e) * c, *of_new = own->of_new + e * c;
        for (int64_t k = 0; k < c; k++) {
            REAL of_level = e + m < steps ? window[e + m] * of_new[k + m * c] : 0;
            own->of_moved[k] = -of_level - (of->opening ? opens : alive) * own->of_known[k];
            own->of_known[k] = of_level + alive * own->of_known[k];
            sum_opening -= own->of_known[k] * moved[k - c];
            sum_alive += own->of_known[k] * (level[k - c] + (of->opening ? moved[k - c] : 0));
        }
        for (int64_t s = 1; s < own->order; s++)
            if (special_overlaps(own, s) && e + own->back[s] < steps)
                for (int64_t k = 0; k < c; k++)
                    own->of_moved[k] -= own->last[s * steps + e + own->back[s]] * of_new[k + own->back[s] * c];
        for (int64_t k = 0; k < c; k++)
            of_new[k] = given + own->of_moved[k] - (k + 1 < c ? own->of_moved[k + 1] : 0);
        for (int64_t k = 0; k < c; k++) own->grad_last[own->order * steps + e] += of_new[k] * level[k - m * c];
        for (int64_t s = 1; s < own->order; s++)
            if (special_overlaps(own, s))
                for (int64_t k = 0; k < c; k++)
                    own->grad_last[s * steps + e] -= of_new[k] * moved[k - own->back[s] * c];
        if (of->opening) grad_opening[cell] += sum_opening;
        if (of->alive) grad_alive[cell] += sum_alive;
    }
    special_pull_windows(own, grad_units);
}

/* Runs the special patterns of a sentence, forward (grad is NULL) or forward and back. Returns 1 if memory is short. */
static int specials(
    const Patterns *of, int64_t sentence, REAL *out, const REAL *grad, REAL *grad_units, REAL *grad_alive,
    REAL *grad_opening
) {
    for (int64_t order = 1; order <= of->orders; order++)
        for (int64_t column = 0; column < of->columns; column++) {
            if (!pattern_is_special(of, sentence, order, column)) continue;
            Special own;
            int failed = special_open(&own, of, sentence, order, column);
            if (!failed && own.memory) {
                special_run(&own, out);
                if (grad) special_pull(&own, grad, grad_units, grad_alive, grad_opening);
            }
            special_close(&own);
            if (failed) return 1;
        }
    return 0;
}

/* Adds the new matches of some sentences at each position to out, (T, B, N). Returns 1 where memory is short. */
int matches(void *const *with, int64_t first, int64_t last) {
    const Patterns *of = with[0];
    REAL *out = with[1];
    Block block;
    REAL common[LANES];
    if (block_open(&block, of)) return 1;
    int failed = 0;
    for (int64_t b = first; b < last && !failed; b++) {
        for (int64_t column = 0; column < of->columns; column += LANES) {
            block_load(&block, b, column);
            for (int64_t order = 1; order <= of->orders; order++)
                if (common_lanes(&block, order, common)) run_lanes(&block, order, common, out);
        }
        failed = specials(of, b, out, NULL, NULL, NULL, NULL);
    }
    block_close(&block);
    return failed;
}

/* Adds to the cotangents of the inputs what that of the new matches, (T, B, N), gives them. */
int matches_backward(void *const *with, int64_t first, int64_t last) {
    const Patterns *of = with[0];
    const REAL *grad = with[1];
    REAL *grad_units = with[2], *grad_alive = with[3], *grad_opening = with[4];
    Block block;
    REAL common[LANES];
    if (block_open(&block, of)) return 1;
    int failed = 0;
    for (int64_t b = first; b < last && !failed; b++) {
        for (int64_t column = 0; column < of->columns; column += LANES) {
            block_load(&block, b, column);
            block_clear_gradient(&block);
            for (int64_t order = of->orders; order > 0; order--) {
                if (common_lanes(&block, order, common)) {
                    run_lanes(&block, order, common, NULL);
                    pull_lanes(&block, order, common, grad, grad_alive, grad_opening);
                }
                block_pull_windows(&block, order);
            }
            block_store_gradient(&block, grad_units);
        }
        failed = specials(of, b, NULL, grad, grad_units, grad_alive, grad_opening);
    }
    block_close(&block);
    return failed;
}
