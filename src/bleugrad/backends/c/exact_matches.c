/* Expected clipped matches: the renewal recursion of renewal.py, where it is stated and its names are explained.

   Patterns of tokens that match once at most and do not overlap themselves run side by side in token_stream.c. Other
   patterns that do not overlap themselves run in LANES: those of words that match once at most with the patterns of the
   adjacent columns, and those with a few states with others that have about as many. All other patterns run one by one,
   their states k = 1..c side by side.

   A part of the work is a chunk of columns of a sentence. */
#include "rows.h"
#include "token_stream.h"

#define FEW 16  /* largest number of states of a pattern that runs in lanes */
#define ALONE -1

/* LANES patterns of one order with up to `states` states each. */
typedef struct {
    const Block *block;
    int64_t order, states;
    REAL weights[FEW * LANES];      /* (states, LANES): 1 for the states that count */
    REAL *level, *moved, *coming;   /* (pad + T, states, LANES), (1 + T, ...), (T + pad, ...) */
} Lanes;

/* Fills level and, with `opening`, moved; adds the new matches to sums (T, LANES) unless that is NULL. */
INLINED void run_rows(const Lanes *own, REAL *sums, int64_t states, int opening, int same) {
    const Block *block = own->block;
    const Patterns of = *block->patterns; /* copies: no write to an array changes them */
    const Lag lag = block->lags[own->order - 1];
    const REAL *windows = block_windows(block, own->order), *weights = own->weights;
    int64_t stride = states * LANES, pad = block->pad, sentence = block->sentence;
    REAL *levels = own->level + pad * stride, *moves = own->moved + stride;
    Vector known[FEW * VECTORS] = {0};
    memset(own->level, 0, pad * stride * sizeof(REAL));
    memset(own->moved, 0, stride * sizeof(REAL));
    for (int64_t row = 0; row < pad; row++)
        for (int l = 0; l < LANES; l++) own->level[row * stride + l] = 1;
    for (int v = 0; v < VECTORS; v++) known[v] += 1;
    for (int64_t e = 0; e < of.steps; e++) {
        int64_t cell = e * of.batch + sentence;
        REAL alive = of.alive ? of.alive[cell] : 1, opens = opening ? of.opening[cell] : 0;
        const Vector *window = (const Vector *)(windows + e * LANES);
        Vector shorter[VECTORS] = {0}, sum[VECTORS] = {0};
        for (int64_t k = 0; k < states; k++) {
            REAL *level = levels + e * stride + k * LANES, *moved = moves + e * stride + k * LANES;
            for (int v = 0; v < VECTORS; v++) {
                Vector made = window[v] * look(level, &lag, same, -stride, v), move = made - shorter[v];
                if (opening) {
                    Vector *knew = known + k * VECTORS + v;
                    *knew = alive * *knew - opens * ((const Vector *)(moved - stride))[v];
                    ((Vector *)level)[v] = *knew - move;
                    ((Vector *)moved)[v] = move;
                } else ((Vector *)level)[v] = alive * ((const Vector *)(level - stride))[v] - move;
                sum[v] += ((const Vector *)(weights + k * LANES))[v] * made;
                if (states > 1) shorter[v] = made;
            }
        }
        for (int v = 0; sums && v < VECTORS; v++) ((Vector *)(sums + e * LANES))[v] += sum[v];
    }
}

/* After run_rows: adds to the gradient of the windows, and to sums (2, T, LANES) those of alive and opening. */
INLINED void pull_rows(
    const Lanes *own, const REAL *grad, REAL *sums, int64_t states, int opening, int lives, int same
) {
    const Block *block = own->block;
    const Patterns of = *block->patterns; /* copies: no write to an array changes them */
    const Lag lag = block->lags[own->order - 1];
    const REAL *windows = block_windows(block, own->order), *weights = own->weights;
    int64_t stride = states * LANES, pad = block->pad, sentence = block->sentence, order = own->order;
    const REAL *levels = own->level + pad * stride, *moves = own->moved + stride;
    REAL *grad_windows = block->grad_windows, *comings = own->coming;
    Vector of_known[FEW * VECTORS] = {0}, of_moved[(FEW + 1) * VECTORS] = {0};
    memset(comings + of.steps * stride, 0, pad * stride * sizeof(REAL));
    for (int64_t e = of.steps - 1; e >= 0; e--) {
        int64_t cell = e * of.batch + sentence, next = cell + of.batch;
        int last = e == of.steps - 1;
        REAL alive = lives && !last ? of.alive[next] : 1, opens = opening && !last ? of.opening[next] : alive;
        REAL given = grad[cell * of.orders + order - 1];
        const Vector *window = (const Vector *)(windows + e * LANES);
        Vector *to = (Vector *)(grad_windows + e * LANES);
        Vector *of_alive = (Vector *)(sums + e * LANES), *of_opening = (Vector *)(sums + (of.steps + e) * LANES);
        for (int64_t k = 0; k < states; k++) {
            const Vector *level = (const Vector *)(levels + (e - 1) * stride + k * LANES);
            const Vector *moved = (const Vector *)(moves + (e - 1) * stride + k * LANES);
            for (int v = 0; v < VECTORS; v++) {
                Vector *knew = of_known + k * VECTORS + v;
                Vector of_level = look(comings + e * stride + k * LANES, &lag, same, stride, v);
                Vector known = of_level + alive * *knew;
                of_moved[k * VECTORS + v] = -of_level - opens * *knew;
                *knew = known;
                if (opening) of_opening[v] -= known * moved[v];
                if (lives) of_alive[v] += known * level[v];
                if (lives && opening) of_alive[v] += known * moved[v];
            }
        }
        for (int64_t k = 0; k < states; k++) {
            const Vector *weight = (const Vector *)(weights + k * LANES);
            const REAL *level = levels + e * stride + k * LANES;
            for (int v = 0; v < VECTORS; v++) {
                Vector of_new = given * weight[v] + of_moved[k * VECTORS + v];
                if (states > 1) of_new -= of_moved[(k + 1) * VECTORS + v];
                ((Vector *)(comings + e * stride + k * LANES))[v] = window[v] * of_new;
                to[v] += of_new * look(level, &lag, same, -stride, v);
            }
        }
    }
}

/* Adds the new matches to sums or, with their gradient, those of alive and opening. */
static void run_lanes(const Lanes *own, const REAL *grad, REAL *sums) {
    const Patterns *of = own->block->patterns;
    int opening = of->opening != NULL, lives = of->alive != NULL, same = own->block->lags[own->order - 1].same;
    if (own->states > 1) run_rows(own, grad ? NULL : sums, own->states, opening, same);
    else run_rows(own, grad ? NULL : sums, 1, 1, same);
    if (grad && own->states > 1) pull_rows(own, grad, sums, own->states, opening, lives, same);
    else if (grad) pull_rows(own, grad, sums, 1, 1, lives, same);
}

/* A pattern that runs alone. Lane l of the block begins at its unit l, so that its last s units are lane n - s of order
   s. A block has LANES orders at most. */
typedef struct {
    Block *block;
    int64_t order, column, states, tokens;
    REAL *grad_tails;                   /* (N + 1, T): gradients of the windows of its last s units; first in memory */
    REAL *level, *moved;                /* (tokens + T, states), padded before */
    REAL *of_new;                       /* (T + tokens, states), padded after */
    REAL *known, *of_known, *of_moved;  /* (states,) */
} Special;

/* The windows of the last s units, LANES apart. */
static inline const REAL *special_tail(const Special *own, int64_t s) {
    return block_windows(own->block, s) + own->order - s;
}

/* Where the pattern can have begun again s units before its end: the tokens of its last s units, or 0. */
static inline int64_t special_overlap(const Special *own, int64_t s) {
    const Block *block = own->block;
    int overlaps = pattern_overlaps(block->patterns, block->sentence, own->order, own->column, s);
    return overlaps ? block->lags[s - 1].of[own->order - s] : 0;
}

/* Returns 1 if an allocation fails. */
static int special_open(Special *own, Block *block, int64_t order, int64_t column) {
    const Patterns *of = block->patterns;
    int64_t steps = of->steps, clip = of->clips[pattern_index(of, block->sentence, order, column)], columns[LANES];
    for (int l = 0; l < LANES; l++) columns[l] = column + l;
    block_load(block, columns, order);
    for (int64_t s = 1; s <= order; s++) block_fill_windows(block, s);
    *own = (Special){.block = block, .order = order, .column = column, .tokens = block->lags[order - 1].of[0]};
    own->states = clip < steps ? clip : steps; /* a hypothesis of T tokens matches T times at most */
    int64_t tails = (order + 1) * steps, history = (own->tokens + steps) * own->states;
    own->grad_tails = calloc(tails + 3 * history + 3 * own->states, sizeof(REAL));
    if (!own->grad_tails) return 1;
    own->level = own->grad_tails + tails;
    own->moved = own->level + history;
    own->of_new = own->moved + history;
    own->known = own->of_new + history;
    own->of_known = own->known + own->states;
    own->of_moved = own->of_known + own->states;
    for (int64_t e = 0; e < own->tokens; e++) own->level[e * own->states] = 1;
    own->known[0] = 1;
    return 0;
}

static void special_run(Special *own, REAL *out) {
    const Patterns *of = own->block->patterns;
    int64_t c = own->states, m = own->tokens;
    const REAL *window = special_tail(own, own->order);
    for (int64_t e = 0; e < of->steps; e++) {
        int64_t cell = e * of->batch + own->block->sentence;
        REAL alive = of->alive ? of->alive[cell] : 1, opens = of->opening ? of->opening[cell] : alive, sum = 0;
        REAL *level = own->level + (m + e) * c, *moved = own->moved + (m + e) * c, *made = own->of_moved;
        for (int64_t k = 0; k < c; k++) made[k] = window[e * LANES] * level[k - m * c];
        for (int64_t s = 1, back; s < own->order; s++)
            if ((back = special_overlap(own, s))) {
                REAL tail = special_tail(own, s)[e * LANES];
                for (int64_t k = 0; k < c; k++) made[k] -= tail * moved[k - back * c];
            }
        for (int64_t k = 0; k < c; k++) {
            moved[k] = made[k] - (k ? made[k - 1] : 0);
            own->known[k] = alive * own->known[k] - opens * moved[k - c];
            level[k] = own->known[k] - moved[k];
            sum += made[k];
        }
        if (out) out[cell * of->orders + own->order - 1] += sum;
    }
}

static void special_pull(Special *own, const Pass *pass) {
    const Patterns *of = own->block->patterns;
    int64_t c = own->states, m = own->tokens, steps = of->steps;
    const REAL *window = special_tail(own, own->order);
    for (int64_t e = steps - 1; e >= 0; e--) {
        int64_t cell = e * of->batch + own->block->sentence, next = cell + of->batch;
        REAL alive = of->alive && e + 1 < steps ? of->alive[next] : 1;
        REAL opens = of->opening && e + 1 < steps ? of->opening[next] : alive;
        REAL given = pass->grad[cell * of->orders + own->order - 1], sum_alive = 0, sum_opening = 0;
        REAL *level = own->level + (m + e) * c, *moved = own->moved + (m + e) * c, *of_new = own->of_new + e * c;
        for (int64_t k = 0; k < c; k++) {
            REAL of_level = e + m < steps ? window[(e + m) * LANES] * of_new[k + m * c] : 0;
            own->of_moved[k] = -of_level - opens * own->of_known[k];
            own->of_known[k] = of_level + alive * own->of_known[k];
            sum_opening -= own->of_known[k] * moved[k - c];
            sum_alive += own->of_known[k] * (level[k - c] + moved[k - c]);
        }
        for (int64_t s = 1, back; s < own->order; s++)
            if ((back = special_overlap(own, s)) && e + back < steps) {
                REAL tail = special_tail(own, s)[(e + back) * LANES];
                for (int64_t k = 0; k < c; k++) own->of_moved[k] -= tail * of_new[k + back * c];
            }
        for (int64_t k = 0; k < c; k++)
            of_new[k] = given + own->of_moved[k] - (k + 1 < c ? own->of_moved[k + 1] : 0);
        for (int64_t k = 0; k < c; k++) own->grad_tails[own->order * steps + e] += of_new[k] * level[k - m * c];
        for (int64_t s = 1, back; s < own->order; s++)
            if ((back = special_overlap(own, s)))
                for (int64_t k = 0; k < c; k++) own->grad_tails[s * steps + e] -= of_new[k] * moved[k - back * c];
        if (of->opening) pass->grad_opening[cell] += sum_opening;
        if (of->alive) pass->grad_alive[cell] += sum_alive + (of->opening ? 0 : sum_opening);
    }
    for (int64_t s = own->order; s > 0; s--) {
        REAL *grad = own->block->grad_windows + own->order - s;
        for (int64_t e = 0; e < steps; e++) grad[e * LANES] += own->grad_tails[s * steps + e];
        block_pull_windows(own->block, s);
    }
}

/* The columns first..last - 1 of a sentence. */
typedef struct {
    const Patterns *patterns;
    Block block;
    Lanes lanes;
    Stream stream;
    int64_t sentence, first, last;
    int64_t most;           /* largest number of states in lanes */
    int alone;              /* some pattern runs alone */
    int64_t *states;        /* (1 + N, chunk): most of a column in lanes; of each order, 0 if not counted, or ALONE */
    REAL *sums;             /* (N or 2, T, LANES) */
} Chunk;

/* Returns 1 if an allocation fails; the caller frees the arrays also then. */
static int chunk_open(Chunk *own, const Patterns *of) {
    int64_t history = FEW * (longest_lag(of) + of->steps), sums = (of->orders > 2 ? of->orders : 2) * of->steps;
    *own = (Chunk){.patterns = of, .states = malloc((1 + of->orders) * of->chunk * sizeof(int64_t))};
    if (!own->states || stream_open(&own->stream, of) || block_open(&own->block, of, of->chunk, 3 * history + sums))
        return 1;
    own->sums = own->block.room;
    own->lanes.block = &own->block;
    own->lanes.level = own->sums + sums * LANES;
    own->lanes.moved = own->lanes.level + history * LANES;
    own->lanes.coming = own->lanes.moved + history * LANES;
    return 0;
}

/* The states of the patterns of one order. */
static void count_states(const Chunk *own, int64_t order, int64_t *restrict states) {
    const Patterns *of = own->patterns;
    int64_t at = pattern_index(of, own->sentence, order, own->first), all = of->batch * of->orders * of->columns;
    int64_t few = of->steps < FEW ? of->steps : FEW; /* a hypothesis of T tokens matches T times at most */
    for (int64_t i = 0; i < own->last - own->first; i++) {
        int64_t clip = of->clips[at + i];
        states[i] = clip <= few ? clip : of->steps <= FEW ? few : ALONE;
    }
    for (int64_t shift = 1; shift < order; shift++)
        for (int64_t i = 0; i < own->last - own->first; i++)
            if (of->overlaps[(shift - 1) * all + at + i]) states[i] = states[i] ? ALONE : 0;
}

/* Finds which patterns run in lanes. */
static void chunk_load(Chunk *own, int64_t sentence, int64_t first) {
    const Patterns *of = own->patterns;
    int64_t chunk = of->chunk;
    own->sentence = sentence;
    own->first = first;
    own->last = first + chunk < of->columns ? first + chunk : of->columns;
    own->most = own->alone = 0;
    memset(own->states, 0, chunk * sizeof(int64_t));
    for (int64_t order = 1; order <= of->orders; order++) {
        const int64_t *states = own->states + order * chunk;
        count_states(own, order, own->states + order * chunk);
        for (int64_t i = 0; i < own->last - first; i++) {
            own->states[i] = states[i] > own->states[i] ? states[i] : own->states[i];
            own->most = states[i] > own->most ? states[i] : own->most;
            own->alone |= states[i] == ALONE;
        }
    }
}

/* Selects, in LANES columns of which the first `count` are used, the patterns of one order with one state, or those
   with `several` states. Returns the number of states they need. */
static int64_t choose_lanes(Chunk *own, const int64_t *columns, int64_t count, int64_t order, int several) {
    int64_t states[LANES] = {0}, most = 0;
    for (int64_t l = 0; l < count; l++) {
        int64_t found = own->states[order * own->patterns->chunk + columns[l] - own->first];
        states[l] = (several ? found > 1 : found == 1) ? found : 0;
        most = states[l] > most ? states[l] : most;
    }
    for (int64_t k = 0; k < most; k++)
        for (int l = 0; l < LANES; l++) own->lanes.weights[k * LANES + l] = k < states[l];
    own->lanes.order = order;
    return own->lanes.states = most;
}

static void run_block(Chunk *own, const Pass *pass, const int64_t *columns, int64_t count, int several) {
    int64_t most = own->patterns->orders;
    while (most && !choose_lanes(own, columns, count, most, several)) most--;
    block_load(&own->block, columns, most);
    for (int64_t order = 1; order <= most; order++) {
        block_fill_windows(&own->block, order);
        if (pass->out && choose_lanes(own, columns, count, order, several))
            run_lanes(&own->lanes, NULL, own->sums + (order - 1) * own->patterns->steps * LANES);
    }
    for (int64_t order = most; pass->grad && order > 0; order--) {
        if (choose_lanes(own, columns, count, order, several)) run_lanes(&own->lanes, pass->grad, own->sums);
        block_pull_windows(&own->block, order);
    }
}

/* The patterns of tokens with one state. */
static void run_stream(Chunk *own, const Pass *pass) {
    int64_t width = own->stream.width, count = own->last - own->first, chunk = own->patterns->chunk;
    for (int64_t order = 1; order <= own->patterns->orders; order++)
        for (int64_t i = 0; i < width; i++)
            own->stream.weights[(order - 1) * width + i] = i < count && own->states[order * chunk + i] == 1;
    stream_run(&own->stream, pass, own->sentence, own->first);
}

/* The patterns in lanes; in words first those with one state, then the columns of the others, most states first. */
static void run_blocks(Chunk *own, const Pass *pass) {
    int64_t columns[LANES], count = 0;
    for (int64_t first = own->first; own->patterns->opening && first < own->last; first += LANES) {
        for (int l = 0; l < LANES; l++) columns[l] = first + l;
        run_block(own, pass, columns, own->last - first < LANES ? own->last - first : LANES, 0);
    }
    for (int64_t states = own->most; states > 1; states--)
        for (int64_t column = own->first; column < own->last; column++) {
            if (own->states[column - own->first] != states) continue;
            columns[count++] = column;
            if (count == LANES) run_block(own, pass, columns, LANES, 1), count = 0;
        }
    for (int64_t l = count; count && l < LANES; l++) columns[l] = columns[0];
    if (count) run_block(own, pass, columns, count, 1);
}

/* The patterns that run one by one. Returns 1 if an allocation fails. */
static int run_specials(Chunk *own, const Pass *pass) {
    const Patterns *of = own->patterns;
    int failed = 0;
    for (int64_t order = 1; order <= of->orders; order++)
        for (int64_t column = own->first; column < own->last && !failed; column++) {
            if (own->states[order * of->chunk + column - own->first] != ALONE) continue;
            Special special;
            failed = special_open(&special, &own->block, order, column);
            if (!failed) special_run(&special, pass->out);
            if (!failed && pass->grad) special_pull(&special, pass);
            free(special.grad_tails);
        }
    return failed;
}

/* Adds the sums of the lanes to the outputs. */
static void give_sums(const Chunk *own, const Pass *pass) {
    const Patterns *of = own->patterns;
    for (int64_t e = 0; e < of->steps; e++) {
        int64_t cell = e * of->batch + own->sentence;
        const REAL *sums = own->sums + e * LANES;
        for (int64_t n = 0; pass->out && n < of->orders; n++)
            pass->out[cell * of->orders + n] += lane_sum(sums + n * of->steps * LANES);
        if (pass->grad && of->alive) pass->grad_alive[cell] += lane_sum(sums);
        if (pass->grad && of->opening) pass->grad_opening[cell] += lane_sum(sums + of->steps * LANES);
    }
}

/* One chunk of columns, after chunk_load. Returns 1 if an allocation fails. */
static int run_chunk(Chunk *own, const Pass *pass) {
    const Patterns *of = own->patterns;
    if (!of->opening) run_stream(own, pass);
    if (!of->opening && own->most <= 1 && !own->alone) return 0;
    memset(own->sums, 0, (pass->grad ? 2 : of->orders) * of->steps * LANES * sizeof(REAL));
    block_take(&own->block, own->sentence, own->first);
    run_blocks(own, pass);
    give_sums(own, pass);
    int failed = run_specials(own, pass);
    if (pass->grad) block_give(&own->block, pass->grad_units);
    return failed;
}

/* Clears the gradient of the columns of a chunk and of the next one, of a sentence. */
static void clear_units(const Patterns *of, REAL *grad_units, int64_t sentence, int64_t first) {
    int64_t count = of->columns - first < 2 * of->chunk ? of->columns - first : 2 * of->chunk;
    for (int64_t e = 0; e < of->steps; e++)
        memset(grad_units + unit_index(of, sentence, e) + first, 0, count * sizeof(REAL));
}

typedef struct {
    Patterns patterns;
    Pass pass;
} Matches;

/* Forward, adds the new matches of some parts at each position to `out`, (chunks, T, B, N). Backward, from their
   gradient, (T, B, N), adds to those of the inputs: alive and opening, (chunks, T, B), and units (T, B, L), of which a
   chunk also changes the first N - 1 columns of the next. The call of every second chunk from the first one on clears
   units before. A part is a chunk of a sentence. */
int matches(const void *problem, int64_t first, int64_t last) {
    const Patterns *of = &((const Matches *)problem)->patterns;
    const Pass *pass = &((const Matches *)problem)->pass;
    int64_t chunks = (of->columns + of->chunk - 1) / of->chunk;
    int64_t taken = (chunks - of->begin + of->apart - 1) / of->apart;
    Chunk own;
    int failed = chunk_open(&own, of);
    if (pass->grad) expect_rows(pass->grad_units, 0, of->steps * of->batch, of->columns, sizeof(REAL));
    for (int64_t part = first; part < last && !failed; part++) {
        int64_t chunk = of->begin + part % taken * of->apart, cells = chunk * of->steps * of->batch;
        Pass here = *pass;
        if (pass->out) here.out += cells * of->orders;
        if (pass->grad && of->alive) here.grad_alive += cells;
        if (pass->grad && of->opening) here.grad_opening += cells;
        if (pass->grad && of->begin == 0) clear_units(of, pass->grad_units, part / taken, chunk * of->chunk);
        chunk_load(&own, part / taken, chunk * of->chunk);
        failed = run_chunk(&own, &here);
    }
    free(own.block.units);
    free(own.stream.weights);
    free(own.states);
    return failed;
}
