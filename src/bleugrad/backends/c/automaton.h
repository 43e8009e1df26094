/* The automaton of one n-gram, as in automata.py, where its names are explained. */
#pragma once

#include "windows.h"

/* Whether an n-gram can match several times or overlaps itself. */
static inline int pattern_is_special(const Patterns *of, int64_t sentence, int64_t order, int64_t column) {
    int64_t clip = of->clips[pattern_index(of, sentence, order, column)];
    int special = clip > 1;
    for (int64_t shift = 1; clip == 1 && shift < order; shift++)
        special |= pattern_overlaps(of, sentence, order, column, shift);
    return special;
}

/* A state is (levels, size): A, x_1.., and for CTC z_1.. of each level. */
typedef struct {
    int64_t order, column, levels, size;
    int64_t states, targets;                       /* targets = states + 1; the last one is the occurrence */
    int64_t apart;                                 /* columns from the token of a target to that of the next, 1 or 0 */
    int64_t landing;                               /* the state after an occurrence, from 1 on; 0 for none */
    REAL *table, *pulled, *held;                   /* (size, targets), (targets,), (states,); free(table) frees all */
} Automaton;

int automaton_open(
    Automaton *own, const Patterns *of, const int64_t *ids, int64_t sentence, int64_t order, int64_t column, int merging
);
void automaton_start(const Automaton *own, REAL *state);

/* The state after a token from that before it, `old`, and the sum of the new matches. `tokens` and `grad_tokens` are a
   row of all columns; `blank` is NULL for outputs without a blank. */
REAL automaton_emit(const Automaton *own, const REAL *tokens, const REAL *blank, const REAL *old, REAL *now);

/* The adjoint: `of` is the gradient of the state after the token and becomes that of the state before it. */
void automaton_pull(
    const Automaton *own, const REAL *tokens, const REAL *blank, const REAL *old, REAL *of, REAL given,
    REAL *grad_tokens, REAL *grad_blank
);
