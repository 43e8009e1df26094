/* The renewal recursion of patterns of tokens that count once and do not overlap themselves. All columns of a chunk
   take a step at the same time, so what the next steps need stays in the cache. */
#pragma once

#include "windows.h"

/* Outputs of a forward pass, or inputs and outputs of a backward pass; what the other one needs is NULL. */
typedef struct {
    REAL *out;                                      /* (T, B, N) */
    const REAL *grad;                               /* (T, B, N) */
    REAL *grad_units, *grad_alive, *grad_opening;   /* (T, B, L), (T, B), (T, B) */
} Pass;

/* Rows have `width` numbers, those of units N more. A block of steps is in memory at a time; a backward pass runs the
   recursion of a block again, from what a first run saved before it. */
typedef struct {
    const Patterns *patterns;
    int64_t width, sentence, first;
    REAL *weights;                  /* (N, width): 1 for the patterns that count; free(weights) frees all arrays */
    REAL *units, *grad_units;       /* (BLOCK, width + N), (width + N) */
    REAL *windows;                  /* (N, 1 + BLOCK, width), the first row from the block before */
    REAL *levels, *coming;          /* of order n: n + BLOCK rows, the first or last n from the block beside it */
    REAL *of_level, *of_window;     /* (N, width): gradients that the step after this one leaves */
    REAL *saved;                    /* (blocks, N (N + 3) / 2, width): windows and levels before each block */
} Stream;

int stream_open(Stream *own, const Patterns *of);
void stream_run(Stream *own, const Pass *pass, int64_t sentence, int64_t first);
