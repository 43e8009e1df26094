/* The positions that count, moved to the front, time first, and how a sequence and its words end. */
#include "rows.h"

typedef struct {
    int64_t batch, steps, width, columns, extra;    /* B, T, L or L + 1, L, positions after the last */
    const REAL *probs, *opening;                    /* (B, T, width), (B, T) or NULL */
    const int64_t *order, *limits, *ends;           /* (B, T) or NULL, (B,), (B,) */
    REAL *units, *opened, *boundary, *alive, *stop; /* (T', B, L), (T', B) three times, (B, T' + 1), T' = T + extra */
    REAL *grad_probs, *grad_opening;                /* (B, T, width), (B, T) or NULL */
} Counted;

/* Where the position that counts as number t of a sentence stands in (B, T). */
static inline int64_t place(const Counted *of, int64_t sentence, int64_t t) {
    return sentence * of->steps + (of->order ? of->order[sentence * of->steps + t] : t);
}

int counted_rows(const void *problem, int64_t first, int64_t last) {
    const Counted *of = problem;
    REAL *units = of->units, *opened = of->opened, *boundary = of->boundary, *alive = of->alive, *stop = of->stop;
    int64_t steps = of->steps + of->extra, size = of->columns * sizeof(REAL);
    expect_rows(units, 0, steps * of->batch, of->columns, sizeof(REAL));
    for (int64_t b = first; b < last; b++)
        for (int64_t t = 0; t <= steps; t++) {
            int counts = t < of->limits[b];
            int64_t from = counts ? place(of, b, t) : 0, cell = t * of->batch + b;
            REAL end = counts && stop ? of->probs[from * of->width + of->columns] : 0, opens = of->extra > 0;
            if (of->opening && counts) opens = of->opening[from];
            if (stop) stop[b * (steps + 1) + t] = end + (t == of->ends[b]);
            if (boundary && t) boundary[cell - of->batch] = t < of->ends[b] ? opens + end : 1;
            if (t == steps) break;
            if (size && counts) memcpy(units + cell * of->columns, of->probs + from * of->width, size);
            else if (size) memset(units + cell * of->columns, 0, size);
            if (alive) alive[cell] = 1 - end;
            if (opened) opened[cell] = opens;
        }
    return 0;
}

/* Outputs are replaced with their gradients. */
int counted_rows_backward(const void *problem, int64_t first, int64_t last) {
    const Counted *of = problem;
    const REAL *units = of->units, *opened = of->opened, *boundary = of->boundary, *alive = of->alive, *stop = of->stop;
    int64_t steps = of->steps + of->extra, cells = (last - first) * of->steps;
    expect_rows(of->grad_probs, first * of->steps, last * of->steps, of->width, sizeof(REAL));
    if (of->width) memset(of->grad_probs + first * of->steps * of->width, 0, cells * of->width * sizeof(REAL));
    if (of->grad_opening) memset(of->grad_opening + first * of->steps, 0, cells * sizeof(REAL));
    for (int64_t b = first; b < last; b++)
        for (int64_t t = 0; t < of->limits[b]; t++) {
            int64_t to = place(of, b, t), cell = t * of->batch + b;
            REAL *grad = of->grad_probs + to * of->width;
            REAL bound = boundary && t ? boundary[cell - of->batch] : 0;
            if (units && of->columns) memcpy(grad, units + cell * of->columns, of->columns * sizeof(REAL));
            if (of->width > of->columns)
                grad[of->columns] = bound + (stop ? stop[b * (steps + 1) + t] : 0) - (alive ? alive[cell] : 0);
            if (of->grad_opening) of->grad_opening[to] = bound + (opened ? opened[cell] : 0);
        }
    return 0;
}
