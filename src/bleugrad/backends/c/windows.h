/* Patterns of a batch, and a block of LANES columns of one sentence with the windows of all their n-grams.

   Arrays of a block are (T, LANES), one row per position. They look back or ahead by a lag that differs from lane to
   lane, so they have rows of padding for the positions before their first, or after their last. */
#pragma once

#include "common.h"

typedef struct {
    int64_t steps, batch, columns, orders;
    int64_t chunk, apart, begin;    /* columns of a chunk; a call takes every `apart`-th chunk from `begin` on */
    int64_t step, row;              /* of units and their gradient, from a position and from a sentence to the next */
    const REAL *units;              /* (T, B, L), in memory also (B, T, L) */
    const int64_t *clips;           /* (B, N, L) */
    const uint8_t *overlaps;        /* (N - 1, B, N, L) */
    const int64_t *spans;           /* (B, L), or NULL if all are 1 */
    const REAL *alive, *opening;    /* (T, B), or NULL */
} Patterns;

typedef struct {
    int same;                       /* all lanes have the same lag */
    int32_t of[LANES];
} Lag;

/* Vector v of a row of (rows, stride), each lane its lag times the stride further on. */
INLINED Vector look(const REAL *row, const Lag *restrict lag, int same, int64_t stride, int v) {
    Vector found;
    if (same) return ((const Vector *)(row + stride * lag->of[0]))[v];
    for (int l = 0; l < WIDTH; l++) found[l] = row[stride * lag->of[v * WIDTH + l] + v * WIDTH + l];
    return found;
}

/* Adjacent columns of a sentence, from `left` on, and the windows of the patterns that begin at LANES of them. */
typedef struct {
    const Patterns *patterns;
    int64_t sentence, left, width;  /* width: the columns, with N - 1 more */
    int64_t pad, most;              /* no lag of these lanes is longer than pad, no lag of the batch longer than most */
    int64_t columns[LANES];
    int adjacent;                   /* the lanes are adjacent columns */
    REAL *units, *grad_units;       /* (T, width); free(units) frees all arrays */
    REAL *picked;                   /* (N, T, LANES): the units of lanes that are not adjacent */
    REAL *windows;                  /* (N, most + T, LANES), padded before */
    REAL *grad_windows;             /* (T, LANES), padded before */
    REAL *room;                     /* (rows, LANES), scratch space of the function that uses the windows */
    Lag *unit_lags, *lags;          /* (N,): tokens of the last unit of each n-gram, and of all its units */
} Block;

int64_t longest_lag(const Patterns *of);
int block_open(Block *block, const Patterns *patterns, int64_t columns, int64_t rows);
void block_take(Block *block, int64_t sentence, int64_t left);
void block_load(Block *block, const int64_t *columns, int64_t orders);
void block_fill_windows(Block *block, int64_t order);
void block_pull_windows(Block *block, int64_t order);
void block_give(const Block *block, REAL *grad_units);

static inline REAL *block_windows(const Block *block, int64_t order) {
    return block->windows + ((order - 1) * (block->most + block->patterns->steps) + block->most) * LANES;
}

/* Tokens of unit `column` of a sentence; clamped to T + 1, since no longer word fits. */
static inline int64_t unit_span(const Patterns *of, int64_t sentence, int64_t column) {
    int64_t span = of->spans && column < of->columns ? of->spans[sentence * of->columns + column] : 1;
    return span <= of->steps ? span : of->steps + 1;
}

/* The first unit of a sentence at a position. */
static inline int64_t unit_index(const Patterns *of, int64_t sentence, int64_t e) {
    return e * of->step + sentence * of->row;
}

static inline int64_t pattern_index(const Patterns *of, int64_t sentence, int64_t order, int64_t column) {
    return (sentence * of->orders + order - 1) * of->columns + column;
}

static inline int pattern_overlaps(const Patterns *of, int64_t sentence, int64_t order, int64_t column, int64_t shift) {
    int64_t all = of->batch * of->orders * of->columns;
    return of->overlaps[(shift - 1) * all + pattern_index(of, sentence, order, column)];
}
