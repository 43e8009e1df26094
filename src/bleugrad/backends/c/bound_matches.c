/* The paper's formula for a fixed length, stated in bound.py. */
#include "windows.h"

#define TIE (REAL)1e-5 /* see bound.py */

static int lane_clips(const Block *block, int64_t order, REAL *restrict clips) {
    const Patterns *of = block->patterns;
    int any = 0;
    for (int l = 0; l < LANES; l++) {
        int64_t column = block->columns[l], clip = 0;
        if (column < of->columns) clip = of->clips[pattern_index(of, block->sentence, order, column)];
        clips[l] = (REAL)clip;
        any |= clip > 0;
    }
    return any;
}

/* The share min(1, c / (1 + z)) of each window that a boundary ends, z being the sum of the other ones, and its slope
   in z. */
static inline void shares(
    const REAL *restrict ended, const REAL *restrict sum, const REAL *restrict clips, REAL *restrict share,
    REAL *restrict slope
) {
    for (int l = 0; l < LANES; l++) {
        REAL others = sum[l] - ended[l], inverse, ratio;
        others = others < 0 ? 0 : others;
        inverse = 1 / (1 + others);
        ratio = clips[l] * inverse;
        share[l] = ratio < 1 ? ratio : 1;
        slope[l] = ratio <= 1 + TIE ? -ratio * inverse : 0;
    }
}

/* The bound of the patterns of one order. With its gradient `given`, adds to those of the windows and the boundary. */
INLINED REAL bound_order(Block *block, int64_t order, const REAL *boundary, const REAL *given, REAL *grad_boundary) {
    const int64_t steps = block->patterns->steps, batch = block->patterns->batch, sentence = block->sentence;
    const REAL *windows = block_windows(block, order);
    REAL clips[LANES], ended[LANES], share[LANES], slope[LANES], own[LANES];
    REAL sum[LANES] = {0}, total[LANES] = {0}, slopes[LANES] = {0};
    if (!lane_clips(block, order, clips)) return 0;
    for (int64_t e = 0; e < steps; e++) {
        REAL ends = boundary ? boundary[e * batch + sentence] : 1;
        for (int l = 0; l < LANES; l++) sum[l] += ends * windows[e * LANES + l];
    }
    for (int64_t e = 0; e < steps; e++) {
        REAL ends = boundary ? boundary[e * batch + sentence] : 1;
        for (int l = 0; l < LANES; l++) ended[l] = ends * windows[e * LANES + l];
        shares(ended, sum, clips, share, slope);
        for (int l = 0; l < LANES; l++) total[l] += ended[l] * share[l];
        for (int l = 0; given && l < LANES; l++) slopes[l] += ended[l] * slope[l];
    }
    for (int64_t e = 0; given && e < steps; e++) {
        REAL ends = boundary ? boundary[e * batch + sentence] : 1;
        const REAL *restrict window = windows + e * LANES;
        REAL *restrict to = block->grad_windows + e * LANES;
        for (int l = 0; l < LANES; l++) ended[l] = ends * window[l];
        shares(ended, sum, clips, share, slope);
        for (int l = 0; l < LANES; l++) {
            REAL of_ended = *given * (share[l] + slopes[l] - ended[l] * slope[l]);
            own[l] = of_ended * window[l];
            to[l] += of_ended * ends;
        }
        if (boundary) grad_boundary[e * batch + sentence] += lane_sum(own);
    }
    return lane_sum(total);
}

typedef struct {
    Patterns patterns;
    const REAL *boundary;               /* (T, B), or NULL */
    REAL *out;                          /* (B, N), or NULL in a backward pass */
    const REAL *grad;                   /* (B, N), or NULL in a forward pass */
    REAL *grad_units, *grad_boundary;   /* (T, B, L), (T, B) */
} Bound;

/* Adds to out, or to the gradients. */
int bound(const void *problem, int64_t first, int64_t last) {
    const Bound *own = problem;
    const Patterns *of = &own->patterns;
    int64_t columns[LANES];
    Block block;
    int failed = block_open(&block, of, LANES, 0);
    for (int64_t b = first; b < last && !failed; b++)
        for (int64_t column = 0; column < of->columns; column += LANES) {
            for (int l = 0; l < LANES; l++) columns[l] = column + l;
            block_take(&block, b, column);
            block_load(&block, columns, of->orders);
            for (int64_t order = 1; order <= of->orders; order++) {
                block_fill_windows(&block, order);
                if (own->out)
                    own->out[b * of->orders + order - 1] += bound_order(&block, order, own->boundary, NULL, NULL);
            }
            for (int64_t order = of->orders; own->grad && order > 0; order--) {
                bound_order(&block, order, own->boundary, own->grad + b * of->orders + order - 1, own->grad_boundary);
                block_pull_windows(&block, order);
            }
            if (own->grad) block_give(&block, own->grad_units);
        }
    free(block.units);
    return failed;
}
