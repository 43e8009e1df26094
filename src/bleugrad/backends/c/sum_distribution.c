/* Distributions of sums: convolves adjacent pairs, level by level, where that is faster than a transform. */
#include "common.h"

typedef struct {
    int64_t problems, numbers, size, levels;
    const REAL *mass;   /* (P, B, S) */
    REAL *sums;         /* the levels above it, concatenated, (P, (B + 1) / 2, 2 S - 1) and so on */
    const REAL *grad;   /* of the highest level */
    REAL *grad_mass, *room; /* the result, and the gradients of the other levels */
} Sums;

#define TINY (REAL)1e-30

static __attribute__((noinline)) void add_scaled(REAL *restrict to, const REAL *restrict x, REAL factor, int64_t size) {
    if (factor < TINY && factor > -TINY) return; /* the tails of most distributions */
    for (int64_t i = 0; i < size; i++) to[i] += factor * x[i];
}

/* From one level to the next; the last one of an odd number is copied. */
static void pair_sums(const REAL *below, REAL *above, int64_t problems, int64_t numbers, int64_t size) {
    int64_t wide = 2 * size - 1;
    for (int64_t p = 0; p < problems; p++, below += numbers * size)
        for (int64_t i = 0; i < numbers; i += 2, above += wide) {
            const REAL *left = below + i * size, *right = left + size;
            memset(above, 0, wide * sizeof(REAL));
            if (i + 1 == numbers) memcpy(above, left, size * sizeof(REAL));
            else
                for (int64_t k = 0; k < size; k++) add_scaled(above + k, right, left[k], size);
        }
}

static void pair_sums_backward(
    const REAL *below, const REAL *grad, REAL *grad_below, int64_t problems, int64_t numbers, int64_t size
) {
    int64_t wide = 2 * size - 1;
    for (int64_t p = 0; p < problems; p++, below += numbers * size, grad_below += numbers * size)
        for (int64_t i = 0; i < numbers; i += 2, grad += wide) {
            const REAL *left = below + i * size, *right = left + size;
            REAL *grad_left = grad_below + i * size, *grad_right = grad_left + size;
            if (i + 1 == numbers) memcpy(grad_left, grad, size * sizeof(REAL));
            else {
                memset(grad_left, 0, 2 * size * sizeof(REAL));
                for (int64_t k = 0; k < size; k++) {
                    add_scaled(grad_left, grad + k, right[k], size);
                    add_scaled(grad_right, grad + k, left[k], size);
                }
            }
        }
}

/* One part of work is all of it. */
int sum_levels(const void *problem, int64_t first, int64_t last) {
    const Sums *of = problem;
    const REAL *below = of->mass;
    REAL *above = of->sums;
    int64_t numbers = of->numbers, size = of->size;
    for (int64_t level = 0; level < of->levels; level++) {
        pair_sums(below, above, of->problems, numbers, size);
        numbers = (numbers + 1) / 2, size = 2 * size - 1;
        below = above, above += of->problems * numbers * size;
    }
    return 0;
}

int sum_levels_backward(const void *problem, int64_t first, int64_t last) {
    const Sums *of = problem;
    const REAL *grad = of->grad;
    for (int64_t level = of->levels - 1; level >= 0; level--) {
        const REAL *below = of->mass;
        REAL *grad_below = of->grad_mass;
        int64_t numbers = of->numbers, size = of->size;
        for (int64_t up = 0; up < level; up++) {
            below = up ? below + of->problems * numbers * size : of->sums;
            grad_below = up ? grad_below + of->problems * numbers * size : of->room;
            numbers = (numbers + 1) / 2, size = 2 * size - 1;
        }
        pair_sums_backward(below, grad, grad_below, of->problems, numbers, size);
        grad = grad_below;
    }
    return 0;
}
