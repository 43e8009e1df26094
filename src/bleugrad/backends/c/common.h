/* Shared by all kernels. REAL is float or double; one library is built for each. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef REAL
#define REAL float
#endif

/* A function that processes the sentences or rows first..last - 1 of a problem: a struct of sizes, then the addresses
   of inputs and outputs, NULL for those that are missing. library.py fills it. A backward function has a longer struct
   than its forward function. It returns 1 if an allocation fails. threads.c calls it. */
typedef int Part(const void *problem, int64_t first, int64_t last);

/* The compiler turns loops of this fixed length into vector instructions. */
#define LANES 16

/* Loops that the compiler does not vectorise use VECTORS of this type; they need no alignment. */
typedef REAL Vector __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#define WIDTH (int)(sizeof(Vector) / sizeof(REAL))
#define VECTORS (LANES / WIDTH)

/* Always inlined, so that the compiler specialises the function for constant arguments. */
#define INLINED static inline __attribute__((always_inline))

/* A pairwise sum. The compiler may vectorise it, because it need not reorder additions. */
static inline REAL lane_sum(const REAL *restrict x) {
    REAL half[LANES / 2];
    for (int l = 0; l < LANES / 2; l++) half[l] = x[l] + x[l + LANES / 2];
    for (int width = LANES / 4; width > 0; width /= 2)
        for (int l = 0; l < width; l++) half[l] += half[l + width];
    return half[0];
}

static inline REAL dot(const REAL *restrict x, const REAL *restrict y, int64_t size) {
    REAL sums[LANES] = {0};
    for (; size >= LANES; size -= LANES, x += LANES, y += LANES)
        for (int l = 0; l < LANES; l++) sums[l] += x[l] * y[l];
    for (int64_t l = 0; l < size; l++) sums[l] += x[l] * y[l];
    return lane_sum(sums);
}

/* to += factor * x, unless the factor is nearly 0, as in the tails of most distributions. Inlined, it is slower. */
static __attribute__((noinline, unused))
void add_scaled(REAL *restrict to, const REAL *restrict x, REAL factor, int64_t size) {
    if (factor < (REAL)1e-30 && factor > (REAL)-1e-30) return;
    for (int64_t i = 0; i < size; i++) to[i] += factor * x[i];
}
