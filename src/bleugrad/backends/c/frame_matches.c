/* Expected matches of CTC frames. matches/frames.py states the recursion of n-grams that count once and do not overlap
   themselves, which run side by side in LANES; the others run one by one through the automaton of automata.py.

   A part of the work is a sentence. */
#include "automaton.h"

/* Tokens of a sentence, (T, width) with LANES + N columns of zeros at the end, and room for the states of LANES n-grams,
   (T, 2 N, LANES): A, x_1.., z_1.. before each frame. */
typedef struct {
    const Patterns *patterns;
    int64_t sentence, width;
    const REAL *blank;
    const int64_t *ids;
    REAL *memory, *tokens, *grad_tokens, *states;
} Sentence;

static int sentence_open(Sentence *own, const Patterns *of, const REAL *blank, const int64_t *ids) {
    *own = (Sentence){.patterns = of, .width = of->columns + LANES + of->orders, .blank = blank, .ids = ids};
    own->memory = calloc(2 * of->steps * own->width + (of->steps + 1) * 2 * of->orders * LANES, sizeof(REAL));
    own->tokens = own->memory;
    own->grad_tokens = own->tokens + of->steps * own->width;
    own->states = own->grad_tokens + of->steps * own->width;
    return !own->memory;
}

static void sentence_take(Sentence *own, int64_t sentence) {
    const Patterns *of = own->patterns;
    own->sentence = sentence;
    memset(own->grad_tokens, 0, of->steps * own->width * sizeof(REAL));
    for (int64_t t = 0; t < of->steps; t++)
        memcpy(own->tokens + t * own->width, of->units + (t * of->batch + sentence) * of->columns, of->columns * sizeof(REAL));
}

/* Which of LANES n-grams run side by side, and for each step s to s + 1, (N, LANES), whether the tokens differ. */
static int lanes_load(const Sentence *own, int64_t order, int64_t column, REAL *weights, REAL *differs) {
    const Patterns *of = own->patterns;
    int any = 0;
    for (int l = 0; l < LANES; l++) {
        int64_t j = column + l;
        weights[l] = j < of->columns && of->clips[pattern_index(of, own->sentence, order, j)] == 1 &&
            !pattern_is_special(of, own->sentence, order, j);
        any |= weights[l] > 0;
        for (int64_t s = 0; s + 1 < order; s++) {
            const int64_t *id = own->ids + own->sentence * of->columns + j + s;
            differs[s * LANES + l] = j + s + 1 < of->columns && id[0] != id[1];
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
    if (!inner) {
        for (int l = 0; l < LANES; l++) made[l] = q[l] * old[l], now[l] = old[l] - made[l];
        return;
    }
    const REAL *x = old + LANES, *z = x + inner * LANES;
    REAL *to_x = now + LANES, *to_z = to_x + inner * LANES;
    for (int l = 0; l < LANES; l++) to_x[l] = q[l] * old[l];
    for (int64_t s = 0; s < inner; s++, x += LANES, z += LANES, to_z += LANES, differs += LANES) {
        REAL ready[LANES];
        for (int l = 0; l < LANES; l++) ready[l] = z[l] + x[l] * differs[l], to_z[l] = blank * (x[l] + z[l]);
        q++;
        to_x += LANES;
        if (s + 1 < inner) for (int l = 0; l < LANES; l++) to_x[l] = q[l] * (ready[l] + x[LANES + l]);
        else for (int l = 0; l < LANES; l++) made[l] = q[l] * ready[l], now[l] = old[l] - made[l];
    }
}

static REAL lanes_run(const Sentence *own, int64_t order, int64_t column, const REAL *weights, const REAL *differs, int keep) {
    const Patterns *of = own->patterns;
    int64_t size = 2 * order * LANES;
    REAL sum[LANES] = {0}, made[LANES];
    memset(own->states, 0, size * sizeof(REAL));
    for (int l = 0; l < LANES; l++) own->states[l] = 1;
    for (int64_t t = 0; t < of->steps; t++) {
        const REAL *old = own->states + (keep ? t : t % 2) * size;
        REAL *now = own->states + (keep ? t + 1 : (t + 1) % 2) * size;
        REAL blank = own->blank[t * of->batch + own->sentence];
        lanes_frame(own->tokens + t * own->width + column, blank, differs, old, now, made, order);
        for (int l = 0; l < LANES; l++) sum[l] += made[l];
    }
    for (int l = 0; l < LANES; l++) sum[l] *= weights[l];
    return lane_sum(sum);
}

/* Adjoint of lanes_frame: `of` (2 order - 1, LANES) are the gradients of the states, after the frame and then before. */
static inline REAL lanes_pull_frame(
    const REAL *restrict q, REAL blank, const REAL *restrict differs, const REAL *restrict old, REAL *restrict of,
    const REAL *restrict given, REAL *restrict grad_q, int64_t order
) {
    int64_t inner = order - 1;
    REAL of_made[LANES], sums[LANES] = {0};
    for (int l = 0; l < LANES; l++) of_made[l] = given[l] - of[l];
    if (!inner) {
        for (int l = 0; l < LANES; l++) grad_q[l] += of_made[l] * old[l], of[l] += of_made[l] * q[l];
        return 0;
    }
    for (int64_t s = inner; s > 0; s--) { /* from the last step down: the flow into s + 1 is of_made, or of[x_{s+1}] */
        const REAL *x = old + s * LANES, *z = x + inner * LANES, *differ = differs + (s - 1) * LANES, *after = x + LANES;
        REAL *of_x = of + s * LANES, *of_z = of_x + inner * LANES;
        for (int l = 0; l < LANES; l++) {
            REAL flow = of_made[l], pulled = flow * q[s + l], held = blank * of_z[l];
            grad_q[s + l] += flow * (z[l] + x[l] * differ[l] + (s < inner ? after[l] : 0));
            if (s < inner) of_x[LANES + l] += pulled; /* x_{s+1} stays */
            sums[l] += of_z[l] * (x[l] + z[l]);
            of_made[l] = of_x[l]; /* the flow into s */
            of_x[l] = pulled * differ[l] + held;
            of_z[l] = pulled + held;
        }
    }
    for (int l = 0; l < LANES; l++) {
        grad_q[l] += of_made[l] * old[l];
        of[l] = of[l] + of_made[l] * q[l];
    }
    return lane_sum(sums);
}

static void lanes_pull(
    const Sentence *own, int64_t order, int64_t column, const REAL *weights, const REAL *differs, REAL given,
    REAL *grad_states, REAL *grad_blank
) {
    const Patterns *of = own->patterns;
    int64_t size = 2 * order * LANES;
    REAL scaled[LANES];
    memset(grad_states, 0, size * sizeof(REAL));
    for (int l = 0; l < LANES; l++) scaled[l] = given * weights[l];
    for (int64_t t = of->steps - 1; t >= 0; t--) {
        int64_t cell = t * of->batch + own->sentence, at = t * own->width + column;
        grad_blank[cell] += lanes_pull_frame(
            own->tokens + at, own->blank[cell], differs, own->states + t * size, grad_states, scaled,
            own->grad_tokens + at, order
        );
    }
}

/* One n-gram: the sum of its matches or, if the gradient `given` of that sum is not NULL, its part of the gradients.
   Returns 1 if an allocation fails. */
static int special_run(Sentence *own, int64_t order, int64_t column, REAL *out, const REAL *given, REAL *grad_blank) {
    const Patterns *of = own->patterns;
    Automaton one;
    if (automaton_open(&one, of, own->ids, own->sentence, order, column, 1)) return 1;
    int64_t size = one.levels * one.size, kept = given ? of->steps + 1 : 2;
    REAL *states = calloc((kept + 1) * size, sizeof(REAL)), *grad_state = states + kept * size;
    if (states) {
        automaton_start(&one, states);
        for (int64_t t = 0; t < of->steps; t++) {
            const REAL *blank = own->blank + t * of->batch + own->sentence;
            REAL *now = states + (t + 1) % kept * size;
            REAL new = automaton_emit(&one, own->tokens + t * own->width, blank, states + t % kept * size, now);
            if (out) *out += new;
        }
        for (int64_t t = of->steps - 1; given && t >= 0; t--) {
            int64_t cell = t * of->batch + own->sentence;
            automaton_pull(
                &one, own->tokens + t * own->width, own->blank + cell, states + t * size, grad_state, *given,
                own->grad_tokens + t * own->width, grad_blank + cell
            );
        }
    }
    free(states);
    automaton_close(&one);
    return !states;
}

/* All n-grams of an order. */
static int order_run(Sentence *own, int64_t order, REAL *out, const REAL *given, REAL *grad_blank, REAL *differs) {
    const Patterns *of = own->patterns;
    REAL weights[LANES], *grad_states = differs + of->orders * LANES;
    int failed = 0;
    for (int64_t column = 0; column < of->columns; column += LANES) {
        if (lanes_load(own, order, column, weights, differs)) {
            REAL sum = lanes_run(own, order, column, weights, differs, given != NULL);
            if (out) *out += sum;
            if (given) lanes_pull(own, order, column, weights, differs, *given, grad_states, grad_blank);
        }
        for (int64_t j = column; j < column + LANES && j < of->columns; j++)
            if (pattern_is_special(of, own->sentence, order, j))
                failed |= special_run(own, order, j, out, given, grad_blank);
    }
    return failed;
}

typedef struct {
    Patterns patterns;
    const REAL *blank;                  /* (T, B) */
    const int64_t *ids;                 /* (B, L) */
    REAL *out;                          /* (B, N), the expected matches; NULL in a backward pass */
    const REAL *given;                  /* (B, N), their gradient; NULL in a forward pass */
    REAL *grad_tokens, *grad_blank;     /* (T, B, L), (T, B) */
} Frames;

int frame_matches(const void *problem, int64_t first, int64_t last) {
    const Frames *all = problem;
    const Patterns *of = &all->patterns;
    Sentence own;
    REAL *room = calloc(3 * of->orders * LANES, sizeof(REAL));
    int failed = !room || sentence_open(&own, of, all->blank, all->ids);
    for (int64_t b = first; !failed && b < last; b++) {
        sentence_take(&own, b);
        for (int64_t order = 1; order <= of->orders; order++) {
            int64_t at = b * of->orders + order - 1;
            REAL *out = all->out ? all->out + at : NULL;
            failed |= order_run(&own, order, out, all->given ? all->given + at : NULL, all->grad_blank, room);
        }
        for (int64_t t = 0; all->given && t < of->steps; t++) {
            REAL *to = all->grad_tokens + (t * of->batch + b) * of->columns;
            memcpy(to, own.grad_tokens + t * own.width, of->columns * sizeof(REAL));
        }
    }
    if (room) free(own.memory);
    free(room);
    return failed;
}
