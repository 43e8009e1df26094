/* Expected matches of CTC frames. matches/frames.py states the recursion of n-grams that count once and do not overlap
   themselves, which run side by side in LANES; the others run one by one through the automaton of automata.py.

   A part of the work is a sentence. */
#include "automaton.h"

typedef struct {
    Patterns patterns;
    const REAL *blank;                  /* (T, B) */
    const int64_t *ids;                 /* (B, L) */
    REAL *out;                          /* (B, N), the expected matches; NULL in a backward pass */
    const REAL *given;                  /* (B, N), their gradient; NULL in a forward pass */
    REAL *grad_tokens, *grad_blank;     /* (T, B, L), (T, B) */
} Frames;

/* Tokens of a sentence are the units of a block, (T, width). Its room holds the states of LANES n-grams, (T + 1, 2 N,
   LANES), that is A, x_1.., z_1.. before each frame, and behind them their gradients and `differs`, (N, LANES). */
typedef struct {
    const Frames *frames;
    Block block;
    REAL *states, *grad_states, *differs;
} Sentence;

/* Which of LANES n-grams run side by side, and for each step s to s + 1, (N, LANES), whether the tokens differ. */
static int lanes_load(const Sentence *own, int64_t order, int64_t column, REAL *weights) {
    const Patterns *of = own->block.patterns;
    int64_t sentence = own->block.sentence;
    int any = 0;
    for (int l = 0; l < LANES; l++) {
        int64_t j = column + l;
        weights[l] = j < of->columns && of->clips[pattern_index(of, sentence, order, j)] == 1 &&
            !pattern_is_special(of, sentence, order, j);
        any |= weights[l] > 0;
        for (int64_t s = 0; s + 1 < order; s++) {
            const int64_t *id = own->frames->ids + sentence * of->columns + j + s;
            own->differs[s * LANES + l] = j + s + 1 < of->columns && id[0] != id[1];
        }
    }
    return any;
}

/* One frame: the states after it from those before it, (2 order - 1, LANES) each, and the new matches. */
static inline void lanes_frame(
    const REAL *restrict q, REAL blank, const REAL *restrict differs, const REAL *restrict old, REAL *restrict now,
    REAL *restrict made, int64_t order
) {
    int64_t inner = order - 1;
    REAL ready[LANES];
    for (int l = 0; l < LANES; l++) ready[l] = old[l];
    for (int l = 0; inner && l < LANES; l++) now[LANES + l] = q[l] * old[l];
    for (int64_t s = 1; s <= inner; s++) {
        const REAL *x = old + s * LANES, *z = x + inner * LANES, *differ = differs + (s - 1) * LANES;
        REAL *to_x = now + s * LANES, *to_z = to_x + inner * LANES;
        for (int l = 0; l < LANES; l++) ready[l] = z[l] + x[l] * differ[l], to_z[l] = blank * (x[l] + z[l]);
        for (int l = 0; s < inner && l < LANES; l++) to_x[LANES + l] = q[s + l] * (ready[l] + x[LANES + l]);
    }
    for (int l = 0; l < LANES; l++) made[l] = q[inner + l] * ready[l], now[l] = old[l] - made[l];
}

static REAL lanes_run(const Sentence *own, int64_t order, int64_t column, const REAL *weights, int keep) {
    const Patterns *of = own->block.patterns;
    int64_t size = 2 * order * LANES;
    REAL sum[LANES] = {0}, made[LANES];
    memset(own->states, 0, size * sizeof(REAL));
    for (int l = 0; l < LANES; l++) own->states[l] = 1;
    for (int64_t t = 0; t < of->steps; t++) {
        const REAL *old = own->states + (keep ? t : t % 2) * size;
        REAL *now = own->states + (keep ? t + 1 : (t + 1) % 2) * size;
        REAL blank = own->frames->blank[t * of->batch + own->block.sentence];
        lanes_frame(own->block.units + t * own->block.width + column, blank, own->differs, old, now, made, order);
        for (int l = 0; l < LANES; l++) sum[l] += made[l];
    }
    for (int l = 0; l < LANES; l++) sum[l] *= weights[l];
    return lane_sum(sum);
}

/* Adjoint of lanes_frame: `of` (2 order - 1, LANES) are the gradients of the states after, then before the frame. */
static inline REAL lanes_pull_frame(
    const REAL *restrict q, REAL blank, const REAL *restrict differs, const REAL *restrict old, REAL *restrict of,
    const REAL *restrict given, REAL *restrict grad_q, int64_t order
) {
    int64_t inner = order - 1;
    REAL of_made[LANES], sums[LANES] = {0};
    for (int l = 0; l < LANES; l++) of_made[l] = given[l] - of[l];
    for (int64_t s = inner; s > 0; s--) { /* from the last step down: the flow into s + 1 is of_made, or of[x_{s+1}] */
        const REAL *x = old + s * LANES, *z = x + inner * LANES, *differ = differs + (s - 1) * LANES;
        REAL *of_x = of + s * LANES, *of_z = of_x + inner * LANES;
        for (int l = 0; l < LANES; l++) {
            REAL flow = of_made[l], pulled = flow * q[s + l], held = blank * of_z[l];
            grad_q[s + l] += flow * (z[l] + x[l] * differ[l] + (s < inner ? x[LANES + l] : 0));
            if (s < inner) of_x[LANES + l] += pulled; /* x_{s+1} stays */
            sums[l] += of_z[l] * (x[l] + z[l]);
            of_made[l] = of_x[l]; /* the flow into s */
            of_x[l] = pulled * differ[l] + held;
            of_z[l] = pulled + held;
        }
    }
    for (int l = 0; l < LANES; l++) {
        grad_q[l] += of_made[l] * old[l];
        of[l] += of_made[l] * q[l];
    }
    return lane_sum(sums);
}

static void lanes_pull(const Sentence *own, int64_t order, int64_t column, const REAL *weights, REAL given) {
    const Patterns *of = own->block.patterns;
    int64_t size = 2 * order * LANES;
    REAL scaled[LANES];
    memset(own->grad_states, 0, size * sizeof(REAL));
    for (int l = 0; l < LANES; l++) scaled[l] = given * weights[l];
    for (int64_t t = of->steps - 1; t >= 0; t--) {
        int64_t cell = t * of->batch + own->block.sentence, at = t * own->block.width + column;
        own->frames->grad_blank[cell] += lanes_pull_frame(
            own->block.units + at, own->frames->blank[cell], own->differs, own->states + t * size, own->grad_states,
            scaled, own->block.grad_units + at, order
        );
    }
}

/* One n-gram: the sum of its matches or, if the gradient `given` of that sum is not NULL, its part of the gradients.
   Returns 1 if an allocation fails. */
static int special_run(Sentence *own, int64_t order, int64_t column, REAL *out, const REAL *given) {
    const Patterns *of = own->block.patterns;
    Automaton one;
    int64_t sentence = own->block.sentence, width = own->block.width;
    if (automaton_open(&one, of, own->frames->ids, sentence, order, column, 1)) return 1;
    int64_t size = one.levels * one.size, kept = given ? of->steps + 1 : 2;
    REAL *states = calloc((kept + 1) * size, sizeof(REAL)), *grad_state = states + kept * size;
    if (states) automaton_start(&one, states);
    for (int64_t t = 0; states && t < of->steps; t++) {
        const REAL *blank = own->frames->blank + t * of->batch + sentence, *old = states + t % kept * size;
        REAL new = automaton_emit(&one, own->block.units + t * width, blank, old, states + (t + 1) % kept * size);
        if (out) *out += new;
    }
    for (int64_t t = of->steps - 1; states && given && t >= 0; t--) {
        int64_t cell = t * of->batch + sentence;
        automaton_pull(
            &one, own->block.units + t * width, own->frames->blank + cell, states + t * size, grad_state, *given,
            own->block.grad_units + t * width, own->frames->grad_blank + cell
        );
    }
    free(states);
    free(one.table);
    return !states;
}

/* All n-grams of an order. */
static int order_run(Sentence *own, int64_t order, REAL *out, const REAL *given) {
    const Patterns *of = own->block.patterns;
    REAL weights[LANES];
    int failed = 0;
    for (int64_t column = 0; column < of->columns; column += LANES) {
        if (lanes_load(own, order, column, weights)) {
            REAL sum = lanes_run(own, order, column, weights, given != NULL);
            if (out) *out += sum;
            if (given) lanes_pull(own, order, column, weights, *given);
        }
        for (int64_t j = column; j < column + LANES && j < of->columns; j++)
            if (pattern_is_special(of, own->block.sentence, order, j)) failed |= special_run(own, order, j, out, given);
    }
    return failed;
}

int frame_matches(const void *problem, int64_t first, int64_t last) {
    const Frames *all = problem;
    const Patterns *of = &all->patterns;
    Sentence own = {.frames = all};
    int failed = block_open(&own.block, of, of->columns, (of->steps + 2) * 2 * of->orders + of->orders);
    own.states = own.block.room;
    own.grad_states = own.states + (of->steps + 1) * 2 * of->orders * LANES;
    own.differs = own.grad_states + 2 * of->orders * LANES;
    for (int64_t b = first; !failed && b < last; b++) {
        block_take(&own.block, b, 0);
        for (int64_t order = 1; order <= of->orders; order++) {
            int64_t at = b * of->orders + order - 1;
            failed |= order_run(&own, order, all->out ? all->out + at : NULL, all->given ? all->given + at : NULL);
        }
        if (all->given) block_give(&own.block, all->grad_tokens);
    }
    free(own.block.units);
    return failed;
}
