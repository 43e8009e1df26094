/* See automaton.h and automata.py. */
#include "automaton.h"

/* ends[k]: whether the first s tokens end in the first k; from s - 1 to s tokens. */
static void extend(uint8_t *ends, const int64_t *tokens, int64_t s) {
    for (int64_t k = s; k > 0; k--) ends[k] = ends[k - 1] && tokens[s - 1] == tokens[k - 1];
    ends[0] = 1;
}

/* Where each token of g leads from the state of s tokens. */
static void fill_state(Automaton *own, const uint8_t *ends, const int64_t *tokens, int64_t s, int merging) {
    int64_t n = own->targets;
    REAL *symbol = own->table + s * n, *blank = symbol + (merging ? own->states * n : 0);
    for (int64_t j = 1; j <= n; j++) {
        int leads = j <= s + 1 && ends[j - 1];
        for (int64_t longer = j + 1; longer <= s + 1; longer++)
            leads &= !(ends[longer - 1] && tokens[longer - 1] == tokens[j - 1]);
        blank[j - 1] = leads - (j == 1);
        if (merging) symbol[j - 1] = (leads && tokens[s - 1] != tokens[j - 1]) + (j == s) - (j == 1);
    }
}

/* Returns 1 if the allocation fails. */
int automaton_open(
    Automaton *own, const Patterns *of, const int64_t *ids, int64_t sentence, int64_t order, int64_t column, int merging
) {
    int64_t clip = of->clips[pattern_index(of, sentence, order, column)];
    const int64_t *tokens = ids + sentence * of->columns + column;
    *own = (Automaton){.order = order, .column = column, .levels = clip < of->steps ? clip : of->steps};
    own->states = merging && order == 1 ? 1 : order - 1;
    own->targets = own->states + 1;
    own->size = 1 + own->states * (merging ? 2 : 1);
    own->apart = order > 1;
    int64_t numbers = (own->size + 1) * own->targets + own->states;
    own->table = calloc(numbers * sizeof(REAL) + order + 1, 1);
    if (!own->table) return 1;
    uint8_t *ends = (uint8_t *)(own->table + numbers);
    own->pulled = own->table + own->size * own->targets;
    own->held = own->pulled + own->targets;
    if (merging && order == 1) { /* the state is that the last frame was g, which does not count again */
        own->table[1] = 1;
        own->table[2] = 1;
        own->table[3] = -1;
        own->landing = 1;
    } else {
        own->table[0] = 1;
        ends[0] = 1;
        for (int64_t s = 1; s <= order; s++) {
            extend(ends, tokens, s);
            if (s < order) fill_state(own, ends, tokens, s, merging);
        }
        for (int64_t k = 1; k < order; k++) if (ends[k]) own->landing = k;
    }
    return 0;
}

void automaton_start(const Automaton *own, REAL *state) {
    memset(state, 0, own->levels * own->size * sizeof(REAL));
    if (own->levels) state[0] = 1;
}

static inline REAL inflow(const Automaton *own, const REAL *level, int64_t target) {
    REAL sum = 0;
    for (int64_t w = 0; w < own->size; w++) sum += level[w] * own->table[w * own->targets + target];
    return sum;
}

REAL automaton_emit(const Automaton *own, const REAL *tokens, const REAL *blank, const REAL *old, REAL *now) {
    REAL risen = 0, sum = 0;
    for (int64_t k = 0; k < own->levels; k++, old += own->size, now += own->size) {
        for (int64_t s = 1; s <= own->states; s++)
            now[s] = tokens[own->column + (s - 1) * own->apart] * inflow(own, old, s - 1);
        REAL made = tokens[own->column + own->states * own->apart] * inflow(own, old, own->states);
        now[0] = old[0] - made + risen;
        if (own->landing) now[own->landing] += risen;
        for (int64_t s = 1; blank && s <= own->states; s++)
            now[own->states + s] = *blank * (old[s] + old[own->states + s]);
        risen = made;
        sum += made;
    }
    return sum;
}

void automaton_pull(
    const Automaton *own, const REAL *tokens, const REAL *blank, const REAL *old, REAL *of, REAL given,
    REAL *grad_tokens, REAL *grad_blank
) {
    for (int64_t k = 0; k < own->levels; k++, old += own->size, of += own->size) {
        const REAL *higher = of + own->size;
        REAL of_level = of[0], of_made = given - of_level;
        if (k + 1 < own->levels) of_made += higher[0] + (own->landing ? higher[own->landing] : 0);
        for (int64_t j = 0; j < own->targets; j++) {
            REAL flow = j < own->states ? of[1 + j] : of_made;
            int64_t at = own->column + j * own->apart;
            grad_tokens[at] += flow * inflow(own, old, j);
            own->pulled[j] = flow * tokens[at];
        }
        for (int64_t s = 1; blank && s <= own->states; s++) {
            REAL of_blank = of[own->states + s];
            *grad_blank += of_blank * (old[s] + old[own->states + s]);
            own->held[s - 1] = *blank * of_blank;
        }
        for (int64_t w = 0; w < own->size; w++) {
            REAL sum = w ? 0 : of_level;
            for (int64_t j = 0; j < own->targets; j++) sum += own->table[w * own->targets + j] * own->pulled[j];
            if (blank && w) sum += own->held[(w - 1) % own->states];
            of[w] = sum;
        }
    }
}
