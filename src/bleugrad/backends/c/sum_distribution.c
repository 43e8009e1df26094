/* Distributions of sums of a few independent numbers: adds one number after the other. */
#include "common.h"

typedef struct {
    int64_t numbers, size, wide; /* B, S, at least B (S - 1) + 1 */
    const REAL *mass;            /* (P, B, S) */
    REAL *sums;                  /* (P, B, wide), of the first number, the first two, ...; used up by the gradient */
    const REAL *grad;            /* (P, wide), of the sum of all */
    REAL *grad_mass;             /* (P, B, S) */
} Sums;

int sum_rows(const void *problem, int64_t first, int64_t last) {
    const Sums *of = problem;
    for (int64_t row = first * of->numbers; row < last * of->numbers; row++) {
        int64_t before = row % of->numbers, reach = before * (of->size - 1) + 1;
        const REAL *mass = of->mass + row * of->size;
        REAL *sums = of->sums + row * of->wide;
        memset(sums, 0, of->wide * sizeof(REAL));
        if (!before) memcpy(sums, mass, of->size * sizeof(REAL));
        for (int64_t k = 0; before && k < of->size; k++) add_scaled(sums + k, sums - of->wide, mass[k], reach);
    }
    return 0;
}

/* From the last number on; the gradient of the sums before it takes the place of the sums with it. */
int sum_rows_backward(const void *problem, int64_t first, int64_t last) {
    const Sums *of = problem;
    for (int64_t row = last * of->numbers - 1; row >= first * of->numbers; row--) {
        int64_t before = row % of->numbers, reach = before * (of->size - 1) + 1;
        const REAL *mass = of->mass + row * of->size;
        REAL *sums = of->sums + row * of->wide, *grad_mass = of->grad_mass + row * of->size;
        const REAL *grad = before + 1 < of->numbers ? sums + of->wide : of->grad + row / of->numbers * of->wide;
        if (!before) memcpy(grad_mass, grad, of->size * sizeof(REAL));
        else memset(sums, 0, reach * sizeof(REAL));
        for (int64_t k = 0; before && k < of->size; k++) {
            grad_mass[k] = dot(sums - of->wide, grad + k, reach);
            add_scaled(sums, grad + k, mass[k], reach);
        }
    }
    return 0;
}
