/* Distributions of sums: convolves adjacent pairs, level by level, where that is faster than a transform. */
#include "common.h"

typedef struct {
    int64_t problems, numbers, size, levels;
    const REAL *mass;   /* (P, B, S) */
    REAL *sums;         /* the levels above it, concatenated, (P, (B + 1) / 2, 2 S - 1) and so on */
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

void sum_levels(const Sums *of) {
    const REAL *below = of->mass;
    REAL *above = of->sums;
    int64_t numbers = of->numbers, size = of->size;
    for (int64_t level = 0; level < of->levels; level++) {
        pair_sums(below, above, of->problems, numbers, size);
        numbers = (numbers + 1) / 2, size = 2 * size - 1;
        below = above, above += of->problems * numbers * size;
    }
}

/* The gradient of the mass from that of the highest level. `room` is as large as all levels but the highest. */
void sum_levels_backward(const Sums *of, const REAL *grad, REAL *grad_mass, REAL *room) {
    for (int64_t level = of->levels - 1; level >= 0; level--) {
        const REAL *below = of->mass;
        REAL *grad_below = grad_mass;
        int64_t numbers = of->numbers, size = of->size;
        for (int64_t up = 0; up < level; up++) {
            below = up ? below + of->problems * numbers * size : of->sums;
            grad_below = up ? grad_below + of->problems * numbers * size : room;
            numbers = (numbers + 1) / 2, size = 2 * size - 1;
        }
        pair_sums_backward(below, grad, grad_below, of->problems, numbers, size);
        grad = grad_below;
    }
}
