/* The paper's formula for a fixed length, stated in bound.py. */
#include "windows.h"

#define TIE (REAL)1e-5 /* see bound.py */

/* Windows times the boundary, their sum, and the share min(1, c / (1 + z)) of each with its slope in z. */
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

/* `room` becomes the windows times the boundary (T, B); their sum over the positions is `sum`. */
static void end_windows(const Block *block, int64_t order, const REAL *boundary, REAL *restrict sum) {
    const Patterns *of = block->patterns;
    for (int l = 0; l < LANES; l++) sum[l] = 0;
    for (int64_t e = 0; e < of->steps; e++) {
        REAL ends = boundary ? boundary[e * of->batch + block->sentence] : 1;
        const REAL *restrict window = block_windows(block, order) + e * LANES;
        REAL *restrict ended = block->room + e * LANES;
        for (int l = 0; l < LANES; l++) {
            ended[l] = ends * window[l];
            sum[l] += ended[l];
        }
    }
}

static int lane_clips(const Block *block, int64_t order, REAL *restrict clips) {
    const Patterns *of = block->patterns;
    int any = 0;
    for (int l = 0; l < LANES; l++) {
        int64_t column = block->first + l, clip = 0;
        if (column < of->columns) clip = of->clips[pattern_index(of, block->sentence, order, column)];
        clips[l] = (REAL)clip;
        any |= clip > 0;
    }
    return any;
}

/* Adds to out, (B, N), for some sentences. Returns 1 where memory is short. */
int bound(void *const *with, int64_t first, int64_t last) {
    const Patterns *of = with[0];
    const REAL *boundary = with[1];
    REAL *out = with[2];
    Block block;
    REAL clips[LANES], sum[LANES], share[LANES], slope[LANES], total[LANES];
    if (block_open(&block, of, LANES, of->steps, longest_lag(of))) return 1;
    for (int64_t b = first; b < last; b++)
        for (int64_t column = 0; column < of->columns; column += LANES) {
            block_take(&block, b, column, 0);
            block_load(&block, column);
            for (int64_t order = 1; order <= of->orders; order++) {
                if (!lane_clips(&block, order, clips)) continue;
                end_windows(&block, order, boundary, sum);
                for (int l = 0; l < LANES; l++) total[l] = 0;
                for (int64_t e = 0; e < of->steps; e++) {
                    const REAL *restrict ended = block.room + e * LANES;
                    shares(ended, sum, clips, share, slope);
                    for (int l = 0; l < LANES; l++) total[l] += ended[l] * share[l];
                }
                out[b * of->orders + order - 1] += lane_sum(total);
            }
        }
    block_close(&block);
    return 0;
}

/* Adds to grad_windows what `given`, the cotangent of one order's bound, gives it, and to that of the boundary. */
static void pull_bound(Block *block, int64_t order, const REAL *boundary, REAL given, REAL *grad_boundary) {
    const Patterns *of = block->patterns;
    REAL clips[LANES], sum[LANES], share[LANES], slope[LANES], pulls[LANES] = {0}, own[LANES];
    if (!lane_clips(block, order, clips)) return;
    end_windows(block, order, boundary, sum);
    for (int64_t e = 0; e < of->steps; e++) {
        const REAL *restrict ended = block->room + e * LANES;
        REAL *restrict kept = block->room + (of->steps + e) * LANES, *restrict pull = kept + of->steps * LANES;
        shares(ended, sum, clips, share, slope);
        for (int l = 0; l < LANES; l++) {
            pull[l] = ended[l] * slope[l];
            pulls[l] += pull[l];
            kept[l] = share[l];
        }
    }
    for (int64_t e = 0; e < of->steps; e++) {
        int64_t cell = e * of->batch + block->sentence;
        REAL ends = boundary ? boundary[cell] : 1;
        const REAL *restrict kept = block->room + (of->steps + e) * LANES, *restrict pull = kept + of->steps * LANES;
        const REAL *restrict window = block_windows(block, order) + e * LANES;
        REAL *restrict to = block->grad_windows + e * LANES;
        for (int l = 0; l < LANES; l++) {
            REAL of_ended = given * (kept[l] + pulls[l] - pull[l]);
            own[l] = of_ended * window[l];
            to[l] += of_ended * ends;
        }
        if (boundary) grad_boundary[cell] += lane_sum(own);
    }
}

/* Adds to the cotangents of units (T, B, L) and boundary (T, B) what that of the bound, (B, N), gives them. */
int bound_backward(void *const *with, int64_t first, int64_t last) {
    const Patterns *of = with[0];
    const REAL *boundary = with[1], *grad = with[2];
    REAL *grad_units = with[3], *grad_boundary = with[4];
    Block block;
    if (block_open(&block, of, LANES, of->steps, longest_lag(of))) return 1;
    for (int64_t b = first; b < last; b++)
        for (int64_t column = 0; column < of->columns; column += LANES) {
            block_take(&block, b, column, 0);
            block_load(&block, column);
            for (int64_t order = of->orders; order > 0; order--) {
                pull_bound(&block, order, boundary, grad[b * of->orders + order - 1], grad_boundary);
                memset(block.room, 0, block.pad * LANES * sizeof(REAL)); /* nothing comes after the last position */
                block_pull_windows(&block, order, block.room);
            }
            block_give(&block, grad_units);
        }
    block_close(&block);
    return 0;
}
