/* What the kernels share. REAL is float or double; one library is built for each. */
#ifndef BLEUGRAD_COMMON_H
#define BLEUGRAD_COMMON_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef REAL
#define REAL float
#endif

/* A function that works off the sentences or rows first..last - 1; `with` points to what it reads and writes. It returns
   1 where memory is short. See threads.c for how it is called. */
typedef int Part(void *const *with, int64_t first, int64_t last);

/* Loops of this fixed length are what the compiler turns into vector instructions. */
#define LANES 16

/* Where the compiler does not find them, they are written as VECTORS of this type, anywhere in an array of REAL. */
typedef REAL Vector __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#define WIDTH (int)(sizeof(Vector) / sizeof(REAL))
#define VECTORS (LANES / WIDTH)

/* A function that is compiled anew for the constants it is called with. */
#define INLINED static inline __attribute__((always_inline))

/* A sum in pairs, so that it can be vectorised without reordering what the compiler may not. */
static inline REAL lane_sum(const REAL *restrict x) {
    REAL half[LANES / 2];
    for (int l = 0; l < LANES / 2; l++) half[l] = x[l] + x[l + LANES / 2];
    for (int width = LANES / 4; width > 0; width /= 2)
        for (int l = 0; l < width; l++) half[l] += half[l + width];
    return half[0];
}

#endif
