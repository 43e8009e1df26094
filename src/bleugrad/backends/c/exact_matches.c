/* Expected clipped matches: the renewal recursion of renewal.py, where it is stated and its names are explained.

   Patterns that do not overlap themselves run side by side in LANES: those that match once at most by columns, which
   share their windows from order to order, and those with a few states in packs. They run over TILE positions at a time,
   so that everything stays in the nearest cache; the backward pass keeps the states between tiles and forms the rest
   again. All other patterns run one by one, their states k = 1..c side by side.

   A part of the work is a chunk of columns of a sentence. */
#include "windows.h"

#define TILE 64
#define FEW 16 /* states of a pattern in a pack, at most */

#define INLINED static inline __attribute__((always_inline))

/* LANES patterns of one order and sentence with up to `states` states each, over the rows of a tile. */
typedef struct {
    const Patterns *patterns;
    int64_t sentence, order, begin, rows, pad, states;
    const REAL *windows, *weights;  /* (rows, LANES); (states, LANES), 1 for the states that count */
    const Lag *lag;
    REAL *level, *moved, *coming;   /* (pad + rows, states, LANES), (1 + rows, ...), (rows + pad, ...) */
} Lanes;

/* Rows of (states, LANES) that the run of a tile takes from the tile before it: levels, known and moved. And those the
   way back takes from the tile after it: coming, and the cotangent of known. */
static int64_t forward_rows(int64_t pad) { return pad + 2; }
static int64_t backward_rows(int64_t pad) { return pad + 1; }

static void start_states(REAL *kept, int64_t pad, int64_t states) {
    memset(kept, 0, forward_rows(pad) * states * LANES * sizeof(REAL));
    for (int64_t row = 0; row <= pad; row++)
        for (int l = 0; l < LANES; l++) kept[row * states * LANES + l] = 1;
}

/* Fills level and moved from `kept`, which becomes that of the next tile, and adds the new matches to sums (rows, LANES)
   unless that is NULL. The flags are constants where they are called. */
INLINED void run_tile(const Lanes *lanes, REAL *kept, REAL *sums, int64_t states, int opening, int same) {
    const Lanes copy = *lanes, *own = &copy; /* which no write to an array changes */
    const Patterns all = *own->patterns, *of = &all;
    const Lag lag = *own->lag;
    int64_t stride = states * LANES, pad = own->pad;
    REAL *known = kept + pad * stride;
    memcpy(own->level, kept, pad * stride * sizeof(REAL));
    memcpy(own->moved, kept + (pad + 1) * stride, stride * sizeof(REAL));
    for (int64_t e = 0; e < own->rows; e++) {
        int64_t cell = (own->begin + e) * of->batch + own->sentence;
        REAL alive = of->alive ? of->alive[cell] : 1, opens = opening ? of->opening[cell] : 0;
        const Vector *window = (const Vector *)(own->windows + e * LANES);
        Vector shorter[VECTORS] = {0}, sum[VECTORS] = {0};
        for (int64_t k = 0; k < states; k++) {
            REAL *level = own->level + (pad + e) * stride + k * LANES, *moved = own->moved + (1 + e) * stride + k * LANES;
            for (int v = 0; v < VECTORS; v++) {
                Vector made = window[v] * look(level, &lag, same, -stride, v), move = made - shorter[v];
                ((Vector *)moved)[v] = move;
                if (opening) {
                    Vector *knew = (Vector *)(known + k * LANES) + v;
                    *knew = alive * *knew - opens * ((const Vector *)(moved - stride))[v];
                    ((Vector *)level)[v] = *knew - move;
                } else ((Vector *)level)[v] = alive * ((const Vector *)(level - stride))[v] - move;
                sum[v] += ((const Vector *)(own->weights + k * LANES))[v] * made;
                if (states > 1) shorter[v] = made;
            }
        }
        for (int v = 0; sums && v < VECTORS; v++) ((Vector *)(sums + e * LANES))[v] += sum[v];
    }
    memcpy(kept, own->level + own->rows * stride, pad * stride * sizeof(REAL));
    memcpy(kept + (pad + 1) * stride, own->moved + own->rows * stride, stride * sizeof(REAL));
}

static void run_lanes(const Lanes *own, REAL *kept, REAL *sums) {
    int opening = own->patterns->opening != NULL, same = own->lag->same;
    if (own->states > 1) run_tile(own, kept, sums, own->states, opening, same);
    else if (opening) run_tile(own, kept, sums, 1, 1, same);
    else if (same) run_tile(own, kept, sums, 1, 0, 1);
    else run_tile(own, kept, sums, 1, 0, 0);
}

/* Sums of a tile by position and lane, (rows, LANES) each: cotangents of alive and opening. */
typedef struct {
    REAL *alive, *opening;
} TileSums;

/* After run_tile: adds to grad_windows (rows, LANES) and to the sums. `kept` is that of the way back. */
INLINED void pull_tile(
    const Lanes *lanes, REAL *kept, const REAL *grad, REAL *grad_windows, TileSums sums, int64_t states, int opening,
    int lives, int same
) {
    const Lanes copy = *lanes, *own = &copy; /* which no write to an array changes */
    const Patterns all = *own->patterns, *of = &all;
    const Lag lag = *own->lag;
    int64_t stride = states * LANES, pad = own->pad;
    REAL *of_known = kept + pad * stride;
    Vector of_moved[(FEW + 1) * VECTORS];
    memcpy(own->coming + own->rows * stride, kept, pad * stride * sizeof(REAL));
    for (int64_t e = own->rows - 1; e >= 0; e--) {
        int64_t cell = (own->begin + e) * of->batch + own->sentence, next = cell + of->batch;
        int last = own->begin + e == of->steps - 1;
        REAL alive = lives && !last ? of->alive[next] : 1, opens = opening && !last ? of->opening[next] : 0;
        REAL given = grad[cell * of->orders + own->order - 1];
        const Vector *window = (const Vector *)(own->windows + e * LANES);
        Vector *to = (Vector *)(grad_windows + e * LANES);
        for (int64_t k = 0; k < states; k++) {
            const Vector *level = (const Vector *)(own->level + (pad + e - 1) * stride + k * LANES);
            const Vector *moved = (const Vector *)(own->moved + e * stride + k * LANES);
            Vector *knew = (Vector *)(of_known + k * LANES);
            for (int v = 0; v < VECTORS; v++) {
                Vector of_level = look(own->coming + e * stride + k * LANES, &lag, same, stride, v);
                Vector known = of_level + alive * knew[v];
                if (opening) of_moved[k * VECTORS + v] = -of_level - opens * knew[v];
                else of_moved[k * VECTORS + v] = -known;
                knew[v] = known;
                if (opening) ((Vector *)(sums.opening + e * LANES))[v] -= known * moved[v];
                if (lives) ((Vector *)(sums.alive + e * LANES))[v] += known * level[v];
                if (lives && opening) ((Vector *)(sums.alive + e * LANES))[v] += known * moved[v];
            }
        }
        for (int v = 0; v < VECTORS; v++) of_moved[states * VECTORS + v] = (Vector){0};
        for (int64_t k = 0; k < states; k++) {
            const Vector *weight = (const Vector *)(own->weights + k * LANES);
            const REAL *level = own->level + (pad + e) * stride + k * LANES;
            for (int v = 0; v < VECTORS; v++) {
                Vector of_new = given * weight[v] + of_moved[k * VECTORS + v] - of_moved[(k + 1) * VECTORS + v];
                ((Vector *)(own->coming + e * stride + k * LANES))[v] = window[v] * of_new;
                to[v] += of_new * look(level, &lag, same, -stride, v);
            }
        }
    }
    memcpy(kept, own->coming, pad * stride * sizeof(REAL));
}

static void pull_lanes(const Lanes *own, REAL *kept, const REAL *grad, REAL *grad_windows, TileSums sums) {
    int opening = own->patterns->opening != NULL, lives = own->patterns->alive != NULL, same = own->lag->same;
    if (own->states > 1) pull_tile(own, kept, grad, grad_windows, sums, own->states, opening, lives, same);
    else if (opening) pull_tile(own, kept, grad, grad_windows, sums, 1, 1, lives, same);
    else if (lives || !same) pull_tile(own, kept, grad, grad_windows, sums, 1, 0, lives, same);
    else pull_tile(own, kept, grad, grad_windows, sums, 1, 0, 0, 1);
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

/* LANES patterns that run together: those of a block of columns, or a pack of patterns with a few states. */
typedef struct {
    int64_t order, states;          /* no states: nothing to do */
    int64_t kept, later;            /* where the states between tiles are, forward and on the way back */
    REAL weights[FEW * LANES];
    int64_t count, columns[LANES];  /* of a pack */
    Lag lag;
} Group;

/* The columns first..last - 1 of a sentence. */
typedef struct {
    const Patterns *patterns;
    Block block;
    int64_t sentence, first, last, few, tile, tiles;
    int64_t blocks, packs;
    int64_t kept_size, later_size;  /* of the states between two tiles */
    Group *groups;                  /* (blocks, N), then the packs */
    REAL *memory, *windows, *grad_windows, *sums, *products; /* (tile, LANES), the same, (N + 2, tile, LANES), (N + 1,) */
    REAL *level, *moved, *coming;   /* (pad + tile, few, LANES) and so on */
    REAL *kept, *later;             /* (tiles, kept_size), (later_size,) */
} Chunk;

static void chunk_close(Chunk *own) {
    block_close(&own->block);
    free(own->groups);
    free(own->memory);
}

/* Returns 1 where memory is short. */
static int chunk_open(Chunk *own, const Patterns *of) {
    int64_t pad = longest_lag(of), tile = 2 * pad > TILE ? 2 * pad : TILE, few = pad < TILE ? FEW : 1;
    tile = tile < of->steps ? tile : of->steps;
    int64_t most = of->orders * (2 * (of->chunk / LANES + 2) + few);
    *own = (Chunk){.patterns = of, .few = few, .tile = tile, .tiles = tile ? (of->steps + tile - 1) / tile : 0};
    if (block_open(&own->block, of, of->chunk, tile, pad)) return 1;
    own->groups = malloc(most * sizeof(Group));
    own->memory = malloc(((4 + of->orders) * tile + (3 * tile + 2 * pad + 1) * few) * LANES * sizeof(REAL)
                         + (of->orders + 1) * sizeof(REAL));
    if (!own->groups || !own->memory) {
        chunk_close(own);
        return 1;
    }
    own->windows = own->memory;
    own->grad_windows = own->windows + tile * LANES;
    own->sums = own->grad_windows + tile * LANES;
    own->level = own->sums + (of->orders + 2) * tile * LANES;
    own->moved = own->level + (pad + tile) * few * LANES;
    own->coming = own->moved + (1 + tile) * few * LANES;
    own->products = own->coming + (tile + pad) * few * LANES;
    return 0;
}

static int64_t pattern_tokens(const Chunk *own, int64_t order, int64_t column) {
    int64_t tokens = 0;
    for (int64_t s = 0; s < order; s++) tokens += unit_span(own->patterns, own->sentence, column + s);
    return tokens;
}

/* The states a pattern runs with in lanes, 0 where it does not count or runs on its own. */
static int64_t lane_states(const Chunk *own, int64_t order, int64_t column) {
    const Patterns *of = own->patterns;
    int64_t clip = column < own->last ? of->clips[pattern_index(of, own->sentence, order, column)] : 0;
    clip = clip < of->steps ? clip : of->steps; /* a hypothesis of T tokens matches T times at most */
    for (int64_t shift = 1; clip && shift < order; shift++)
        if (pattern_overlaps(of, own->sentence, order, column, shift)) return 0;
    if (clip > own->few || (clip > 1 && pattern_tokens(own, order, column) > of->steps)) return 0;
    return clip;
}

static void pack_add(const Chunk *own, Group *pack, int64_t column, int64_t states) {
    int64_t l = pack->count++;
    pack->columns[l] = column;
    for (int64_t k = 0; k < states; k++) pack->weights[k * LANES + l] = 1;
    for (; l < LANES; l++) pack->lag.of[l] = (int32_t)pattern_tokens(own, pack->order, column);
    pack->lag.same &= pack->lag.of[pack->count - 1] == pack->lag.of[0];
}

/* The patterns of one order with two states or more, those with the most first. */
static void chunk_pack(Chunk *own, int64_t order) {
    Group *pack = NULL;
    int64_t left = 0;
    for (int64_t column = own->first; column < own->last; column++) left += lane_states(own, order, column) > 1;
    for (int64_t states = own->few; left && states > 1; states--)
        for (int64_t column = own->first; column < own->last; column++) {
            if (lane_states(own, order, column) != states) continue;
            if (!pack || pack->count == LANES) {
                pack = own->groups + own->blocks * own->patterns->orders + own->packs++;
                *pack = (Group){.order = order, .states = states, .lag = {.same = 1}};
            }
            pack_add(own, pack, column, states);
            left--;
        }
}

/* Finds what runs together, and makes room for its states. Returns 1 where memory is short. */
static int chunk_load(Chunk *own, int64_t sentence, int64_t first) {
    const Patterns *of = own->patterns;
    int64_t pad = own->block.pad, all;
    own->sentence = sentence;
    own->first = first;
    own->last = first + of->chunk < of->columns ? first + of->chunk : of->columns;
    own->blocks = (own->last - first + LANES - 1) / LANES;
    own->packs = own->kept_size = own->later_size = 0;
    for (int64_t i = 0; i < own->blocks * of->orders; i++) {
        Group *group = own->groups + i;
        int64_t order = i % of->orders + 1, column = first + i / of->orders * LANES;
        group->order = order, group->states = 0;
        for (int l = 0; l < LANES; l++) {
            group->weights[l] = lane_states(own, order, column + l) == 1;
            if (group->weights[l]) group->states = 1;
        }
    }
    for (int64_t order = 1; order <= of->orders; order++) chunk_pack(own, order);
    all = own->blocks * of->orders + own->packs;
    for (Group *group = own->groups; group < own->groups + all; group++) {
        int64_t states = group->states ? group->states : 1; /* the windows go back through every order */
        int64_t kept = forward_rows(pad) * states * LANES, later = (backward_rows(pad) * states + pad) * LANES;
        int one = own->tiles == 1; /* then nothing is kept from tile to tile, and all share one place */
        group->kept = one ? 0 : own->kept_size;
        group->later = one ? 0 : own->later_size;
        own->kept_size = one && kept < own->kept_size ? own->kept_size : group->kept + kept;
        own->later_size = one && later < own->later_size ? own->later_size : group->later + later;
    }
    own->kept = malloc((own->tiles * own->kept_size + own->later_size) * sizeof(REAL));
    own->later = own->kept + own->tiles * own->kept_size;
    return own->kept == NULL;
}

static void pack_windows(Chunk *own, const Group *pack) {
    const Block *block = &own->block;
    memset(own->windows, 0, block->rows * LANES * sizeof(REAL));
    for (int64_t l = 0; l < pack->count; l++) {
        const REAL *unit = block->units + pack->columns[l] - block->left + pack->order - 1;
        for (int64_t e = 0; e < block->rows; e++) own->windows[e * LANES + l] = unit[e * block->width];
        for (int64_t s = 1; s < pack->order; s++) {
            unit -= unit_span(own->patterns, own->sentence, pack->columns[l] + pack->order - s) * block->width + 1;
            for (int64_t e = 0; e < block->rows; e++) own->windows[e * LANES + l] *= unit[e * block->width];
        }
    }
}

static void pack_pull_windows(Chunk *own, const Group *pack) {
    const Block *block = &own->block;
    REAL *products = own->products; /* of the last units */
    for (int64_t l = 0; l < pack->count; l++) {
        int64_t order = pack->order, column = pack->columns[l], last = column - block->left + order - 1;
        for (int64_t e = 0; e < block->rows; e++, last += block->width) {
            REAL grad = own->grad_windows[e * LANES + l];
            int64_t at = last; /* of the last unit, then of those before it */
            products[order] = 1;
            for (int64_t s = order - 1; s > 0; s--) {
                products[s] = products[s + 1] * block->units[at];
                at -= unit_span(own->patterns, own->sentence, column + s) * block->width + 1;
            }
            for (int64_t s = 0; s < order; s++) {
                block->grad_units[at] += grad * products[s + 1];
                grad *= block->units[at];
                if (s + 1 < order) at += unit_span(own->patterns, own->sentence, column + s + 1) * block->width + 1;
            }
        }
    }
}

static Lanes group_lanes(Chunk *own, const Group *group, int64_t begin, int pack) {
    const Patterns *of = own->patterns;
    if (pack) pack_windows(own, group);
    return (Lanes){
        .patterns = of, .sentence = own->sentence, .order = group->order, .begin = begin, .rows = own->block.rows,
        .pad = own->block.pad, .states = group->states, .weights = group->weights,
        .windows = pack ? own->windows : block_windows(&own->block, group->order),
        .lag = pack ? &group->lag : own->block.lags + group->order - 1,
        .level = own->level, .moved = own->moved, .coming = own->coming,
    };
}

static void group_run(Chunk *own, Group *group, int64_t tile, REAL *kept, int pack) {
    if (!group->states) return;
    Lanes lanes = group_lanes(own, group, tile * own->tile, pack);
    if (tile == 0) start_states(kept + group->kept, lanes.pad, lanes.states);
    run_lanes(&lanes, kept + group->kept, own->sums + (group->order - 1) * own->tile * LANES);
}

/* One tile forward; its new matches go to the sums. */
static void chunk_run(Chunk *own, int64_t tile, REAL *kept) {
    int64_t orders = own->patterns->orders;
    memset(own->sums, 0, orders * own->tile * LANES * sizeof(REAL));
    block_take(&own->block, own->sentence, own->first, tile * own->tile);
    for (int64_t i = 0; i < own->blocks; i++) {
        block_load(&own->block, own->first + i * LANES);
        for (int64_t n = 0; n < orders; n++) group_run(own, own->groups + i * orders + n, tile, kept, 0);
    }
    for (int64_t i = 0; i < own->packs; i++) group_run(own, own->groups + own->blocks * orders + i, tile, kept, 1);
}

static void group_pull(
    Chunk *own, Group *group, int64_t tile, const REAL *grad, REAL *grad_windows, TileSums sums, int pack
) {
    if (!group->states) return;
    REAL *kept = own->kept + tile * own->kept_size + group->kept, *later = own->later + group->later;
    Lanes lanes = group_lanes(own, group, tile * own->tile, pack);
    if (tile == 0) start_states(kept, lanes.pad, lanes.states);
    run_lanes(&lanes, kept, NULL);
    pull_lanes(&lanes, later, grad, grad_windows, sums);
}

/* One tile back. */
static void chunk_pull(Chunk *own, int64_t tile, const REAL *grad, REAL *grad_units, TileSums sums) {
    const Patterns *of = own->patterns;
    Block *block = &own->block;
    block_take(block, own->sentence, own->first, tile * own->tile);
    for (int64_t i = 0; i < own->blocks; i++) {
        block_load(block, own->first + i * LANES);
        for (int64_t order = of->orders; order > 0; order--) {
            Group *group = own->groups + i * of->orders + order - 1;
            REAL *later = own->later + group->later;
            int64_t products = backward_rows(block->pad) * LANES;
            if (own->tiles == 1) memset(later, 0, (products + block->pad * LANES) * sizeof(REAL));
            group_pull(own, group, tile, grad, block->grad_windows, sums, 0);
            block_pull_windows(block, order, later + products);
        }
    }
    for (int64_t i = 0; i < own->packs; i++) {
        Group *pack = own->groups + own->blocks * of->orders + i;
        int64_t size = backward_rows(block->pad) * pack->states * LANES;
        if (own->tiles == 1) memset(own->later + pack->later, 0, size * sizeof(REAL));
        memset(own->grad_windows, 0, block->rows * LANES * sizeof(REAL));
        group_pull(own, pack, tile, grad, own->grad_windows, sums, 1);
        pack_pull_windows(own, pack);
    }
    block_give(block, grad_units);
}

/* The patterns of a chunk that run one by one: forward (grad is NULL) or forward and back. 1 if memory is short. */
static int specials(
    const Chunk *chunk, REAL *out, const REAL *grad, REAL *grad_units, REAL *grad_alive, REAL *grad_opening
) {
    const Patterns *of = chunk->patterns;
    for (int64_t order = 1; order <= of->orders; order++)
        for (int64_t column = chunk->first; column < chunk->last; column++) {
            if (!of->clips[pattern_index(of, chunk->sentence, order, column)]) continue;
            if (lane_states(chunk, order, column)) continue;
            Special own;
            int failed = special_open(&own, of, chunk->sentence, order, column);
            if (!failed && own.memory) {
                special_run(&own, out);
                if (grad) special_pull(&own, grad, grad_units, grad_alive, grad_opening);
            }
            special_close(&own);
            if (failed) return 1;
        }
    return 0;
}

/* Part `index` of the work; the number of its chunk within the sentence. */
static int64_t part_chunk(const Patterns *of, int64_t index, int64_t *sentence) {
    int64_t chunks = (of->columns + of->chunk - 1) / of->chunk, taken = (chunks - of->begin + of->apart - 1) / of->apart;
    *sentence = index / taken;
    return of->begin + index % taken * of->apart;
}

/* Adds the new matches of some parts at each position to out, (chunks, T, B, N). Returns 1 where memory is short. */
int matches(void *const *with, int64_t first, int64_t last) {
    const Patterns *of = with[0];
    Chunk own;
    int failed = chunk_open(&own, of);
    if (failed) return 1;
    for (int64_t part = first; part < last && !failed; part++) {
        int64_t sentence, chunk = part_chunk(of, part, &sentence);
        REAL *out = (REAL *)with[1] + chunk * of->steps * of->batch * of->orders;
        if ((failed = chunk_load(&own, sentence, chunk * of->chunk))) break;
        for (int64_t tile = 0; tile < own.tiles; tile++) {
            chunk_run(&own, tile, own.kept);
            for (int64_t e = tile * own.tile; e < of->steps && e < (tile + 1) * own.tile; e++)
                for (int64_t n = 0; n < of->orders; n++)
                    out[(e * of->batch + sentence) * of->orders + n] +=
                        lane_sum(own.sums + (n * own.tile + e - tile * own.tile) * LANES);
        }
        free(own.kept);
        failed = specials(&own, out, NULL, NULL, NULL, NULL);
    }
    chunk_close(&own);
    return failed;
}

/* Adds to the cotangents of the inputs what that of the new matches, (T, B, N), gives them: to units (T, B, L), of which
   a chunk also changes the first N - 1 columns of the next, and to alive and opening, (chunks, T, B). */
int matches_backward(void *const *with, int64_t first, int64_t last) {
    const Patterns *of = with[0];
    const REAL *grad = with[1];
    REAL *grad_units = with[2];
    Chunk own;
    int failed = chunk_open(&own, of);
    if (failed) return 1;
    for (int64_t part = first; part < last && !failed; part++) {
        int64_t sentence, chunk = part_chunk(of, part, &sentence), cells = chunk * of->steps * of->batch;
        REAL *grad_alive = (REAL *)with[3] + cells, *grad_opening = (REAL *)with[4] + cells;
        if ((failed = chunk_load(&own, sentence, chunk * of->chunk))) break;
        for (int64_t tile = 0; tile + 1 < own.tiles; tile++) {
            REAL *kept = own.kept + tile * own.kept_size, *next = kept + own.kept_size;
            if (tile) memcpy(next, kept, own.kept_size * sizeof(REAL));
            chunk_run(&own, tile, next);
        }
        memset(own.later, 0, own.later_size * sizeof(REAL));
        for (int64_t tile = own.tiles - 1; tile >= 0; tile--) {
            TileSums sums = {own.sums, own.sums + own.tile * LANES};
            memset(own.sums, 0, 2 * own.tile * LANES * sizeof(REAL));
            chunk_pull(&own, tile, grad, grad_units, sums);
            for (int64_t e = tile * own.tile; e < of->steps && e < (tile + 1) * own.tile; e++) {
                int64_t cell = e * of->batch + sentence, row = (e - tile * own.tile) * LANES;
                if (of->alive) grad_alive[cell] += lane_sum(sums.alive + row);
                if (of->opening) grad_opening[cell] += lane_sum(sums.opening + row);
            }
        }
        free(own.kept);
        failed = specials(&own, NULL, grad, grad_units, grad_alive, grad_opening);
    }
    chunk_close(&own);
    return failed;
}
