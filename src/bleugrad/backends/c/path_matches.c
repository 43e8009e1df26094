/* Expected matches along the paths of a graph, and the distribution of path lengths, over a block of vertices.

   What a vertex holds, before or after its token, is a row of `width` numbers: the distribution of the length so far,
   T + 1; for each order n, the (n, padded) numbers A, x_1.., x_{n-1} of n-grams that count once and do not overlap
   themselves, by columns; and the states of the automata of all others, one after the other. Rows before a vertex are
   sums of rows after earlier ones; the caller adds those of earlier blocks.

   A part of the work is a sentence. */
#include "automaton.h"

typedef struct {
    int64_t width, first, last;         /* vertices first..last - 1 */
    Patterns patterns;
    const int64_t *ids;                 /* (B, L) */
    const REAL *transitions;            /* (B, T, T) */
    REAL *before, *after, *matches;     /* (B, T, width) twice, (B, N) */
    REAL *of_after, *of_before;         /* gradients; NULL in a forward pass */
    const REAL *of_matches;
    REAL *grad_tokens;                  /* (T, B, L) */
} Paths;

typedef struct {
    const Paths *paths;
    int64_t sentence, padded, specials;
    REAL *tokens, *grad_tokens, *made;             /* (padded + N) each; the new matches, or their gradient */
    REAL *weights;                                 /* (N, padded), 1 for n-grams without automaton */
    Automaton *automata;
} Walk;

static void walk_close(Walk *own) {
    for (int64_t i = 0; i < own->specials; i++) free(own->automata[i].table);
    free(own->automata);
    free(own->tokens);
}

/* Returns 1 if an allocation fails. */
static int walk_open(Walk *own, const Paths *paths, int64_t sentence) {
    const Patterns *of = &paths->patterns;
    int64_t padded = (of->columns + LANES - 1) / LANES * LANES, row = padded + of->orders;
    *own = (Walk){.paths = paths, .sentence = sentence, .padded = padded};
    own->tokens = calloc(3 * row + of->orders * padded, sizeof(REAL));
    own->automata = malloc((of->orders * of->columns + 1) * sizeof(Automaton));
    if (!own->tokens || !own->automata) return 1;
    own->grad_tokens = own->tokens + row;
    own->made = own->grad_tokens + row;
    own->weights = own->made + row;
    for (int64_t order = 1; order <= of->orders; order++)
        for (int64_t j = 0; j < of->columns; j++) {
            if (!of->clips[pattern_index(of, sentence, order, j)]) continue;
            if (pattern_is_special(of, sentence, order, j)) {
                if (automaton_open(own->automata + own->specials, of, paths->ids, sentence, order, j, 0)) return 1;
                own->specials++;
            } else own->weights[(order - 1) * padded + j] = 1;
        }
    return 0;
}

/* From a row of zeros. */
static void walk_start(const Walk *own, REAL *before) {
    const Patterns *of = &own->paths->patterns;
    before[0] = 1;
    before += of->steps + 1;
    for (int64_t order = 1; order <= of->orders; before += order++ * own->padded)
        for (int64_t j = 0; j < own->padded; j++) before[j] = 1;
    for (int64_t i = 0; i < own->specials; before += own->automata[i].levels * own->automata[i].size, i++)
        automaton_start(own->automata + i, before);
}

/* to = q * from */
static void times(REAL *restrict to, const REAL *restrict q, const REAL *restrict from, int64_t size) {
    for (int64_t j = 0; j < size; j++) to[j] = q[j] * from[j];
}

/* to += x * y */
static void add_product(REAL *restrict to, const REAL *restrict x, const REAL *restrict y, int64_t size) {
    for (int64_t j = 0; j < size; j++) to[j] += x[j] * y[j];
}

/* The n-grams of one order: (order, padded) after a token from those before it, and the sum of the new matches. */
static REAL emit_order(const Walk *own, int64_t order, const REAL *restrict before, REAL *restrict after, REAL *made) {
    int64_t size = own->padded;
    for (int64_t s = 1; s < order; s++) times(after + s * size, own->tokens + s - 1, before + (s - 1) * size, size);
    times(made, own->tokens + order - 1, before + (order - 1) * size, size);
    for (int64_t j = 0; j < size; j++) after[j] = before[j] - made[j];
    return dot(made, own->weights + (order - 1) * size, size);
}

static void walk_emit(const Walk *own, const REAL *before, REAL *after) {
    const Patterns *of = &own->paths->patterns;
    REAL *matches = own->paths->matches + own->sentence * of->orders;
    const REAL *end = after + own->paths->width; /* other sentences may have more automata */
    after[0] = 0;
    memcpy(after + 1, before, of->steps * sizeof(REAL));
    before += of->steps + 1, after += of->steps + 1;
    for (int64_t order = 1; order <= of->orders; order++) {
        matches[order - 1] += emit_order(own, order, before, after, own->made);
        before += order * own->padded, after += order * own->padded;
    }
    for (int64_t i = 0; i < own->specials; i++) {
        const Automaton *one = own->automata + i;
        matches[one->order - 1] += automaton_emit(one, own->tokens, NULL, before, after);
        before += one->levels * one->size, after += one->levels * one->size;
    }
    memset(after, 0, (end - after) * sizeof(REAL));
}

/* Adjoint of emit_order: `of` are the gradients after the token, `back` those before it. */
static void pull_order(
    const Walk *own, int64_t order, const REAL *restrict before, const REAL *restrict of, REAL *restrict back,
    REAL given, REAL *restrict of_made
) {
    const REAL *weights = own->weights + (order - 1) * own->padded;
    int64_t size = own->padded;
    for (int64_t j = 0; j < size; j++) of_made[j] = given * weights[j] - of[j];
    for (int64_t s = order; s > 0; s--) {
        const REAL *flow = s == order ? of_made : of + s * size;
        times(back + (s - 1) * size, own->tokens + s - 1, flow, size);
        add_product(own->grad_tokens + s - 1, flow, before + (s - 1) * size, size);
    }
    for (int64_t j = 0; j < size; j++) back[j] += of[j];
}

static void walk_pull(const Walk *own, const REAL *before, const REAL *of, REAL *back) {
    const Patterns *patterns = &own->paths->patterns;
    const REAL *given = own->paths->of_matches + own->sentence * patterns->orders;
    int64_t steps = patterns->steps;
    const REAL *end = back + own->paths->width;
    memcpy(back, of + 1, steps * sizeof(REAL));
    back[steps] = 0;
    before += steps + 1, of += steps + 1, back += steps + 1;
    for (int64_t order = 1; order <= patterns->orders; order++) {
        pull_order(own, order, before, of, back, given[order - 1], own->made);
        before += order * own->padded, of += order * own->padded, back += order * own->padded;
    }
    for (int64_t i = 0; i < own->specials; i++) {
        const Automaton *one = own->automata + i;
        int64_t size = one->levels * one->size;
        memcpy(back, of, size * sizeof(REAL));
        automaton_pull(one, own->tokens, NULL, before, back, given[one->order - 1], own->grad_tokens, NULL);
        before += size, of += size, back += size;
    }
    memset(back, 0, (end - back) * sizeof(REAL));
}

/* Fills the rows before and after the vertices of a block, and adds to the matches (B, N). */
static void walk_forward(Walk *own, const REAL *transitions, REAL *before, REAL *after) {
    const Paths *paths = own->paths;
    const Patterns *of = &paths->patterns;
    int64_t steps = of->steps, width = paths->width;
    for (int64_t u = paths->first; u < paths->last; u++) {
        if (!paths->first) memset(before + u * width, 0, width * sizeof(REAL));
        if (!u) walk_start(own, before);
        for (int64_t w = paths->first; w < u; w++)
            add_scaled(before + u * width, after + w * width, transitions[w * steps + u], width);
        memcpy(own->tokens, of->units + unit_index(of, own->sentence, u), of->columns * sizeof(REAL));
        walk_emit(own, before + u * width, after + u * width);
    }
}

/* From the gradients of the rows after the vertices of a block: those of the rows before them, and of the tokens. */
static void walk_backward(Walk *own, const REAL *transitions, const REAL *before, REAL *of_after, REAL *of_before) {
    const Paths *paths = own->paths;
    const Patterns *of = &paths->patterns;
    int64_t steps = of->steps, width = paths->width;
    for (int64_t u = paths->last - 1; u >= paths->first; u--) {
        memcpy(own->tokens, of->units + unit_index(of, own->sentence, u), of->columns * sizeof(REAL));
        memset(own->grad_tokens, 0, (own->padded + of->orders) * sizeof(REAL));
        walk_pull(own, before + u * width, of_after + u * width, of_before + u * width);
        memcpy(paths->grad_tokens + unit_index(of, own->sentence, u), own->grad_tokens, of->columns * sizeof(REAL));
        for (int64_t w = paths->first; w < u; w++)
            add_scaled(of_after + w * width, of_before + u * width, transitions[w * steps + u], width);
    }
}

int path_matches(const void *problem, int64_t first, int64_t last) {
    const Paths *paths = problem;
    int64_t steps = paths->patterns.steps, failed = 0;
    for (int64_t b = first; !failed && b < last; b++) {
        const REAL *transitions = paths->transitions + b * steps * steps;
        int64_t rows = b * steps * paths->width;
        REAL *before = paths->before + rows;
        Walk own;
        failed = walk_open(&own, paths, b);
        if (!failed && !paths->of_after) walk_forward(&own, transitions, before, paths->after + rows);
        else if (!failed) walk_backward(&own, transitions, before, paths->of_after + rows, paths->of_before + rows);
        walk_close(&own);
    }
    return failed;
}
