#include "token_stream.h"

#define BLOCK 32 /* steps whose windows and levels are in memory at a time */
#define AHEAD 4  /* rows of units that are fetched early */

/* Returns 1 if the allocation fails. */
int stream_open(Stream *own, const Patterns *of) {
    int64_t orders = of->orders, columns = of->chunk < of->columns ? of->chunk : of->columns;
    int64_t width = (columns + LANES - 1) / LANES * LANES, ring = orders * (orders + 1) / 2;
    int64_t blocks = (of->steps + BLOCK - 1) / BLOCK, history = orders * BLOCK + ring;
    int64_t rows = orders + orders * (1 + BLOCK) + 2 * history + 2 * orders + blocks * (orders + ring);
    *own = (Stream){.patterns = of, .width = width};
    own->weights = malloc((rows * width + (BLOCK + 1) * (width + orders)) * sizeof(REAL));
    if (!own->weights) return 1;
    own->windows = own->weights + orders * width;
    own->levels = own->windows + orders * (1 + BLOCK) * width;
    own->coming = own->levels + history * width;
    own->of_level = own->coming + history * width;
    own->of_window = own->of_level + orders * width;
    own->saved = own->of_window + orders * width;
    own->units = own->saved + blocks * (orders + ring) * width;
    own->grad_units = own->units + BLOCK * (width + orders);
    return 0;
}

static inline REAL *row_of_windows(const Stream *own, int64_t order, int64_t row) {
    return own->windows + ((order - 1) * (1 + BLOCK) + row) * own->width;
}

/* Row 0 of an order in levels or coming, which have n + BLOCK rows for order n. */
static inline REAL *rows_of(const Stream *own, REAL *histories, int64_t order) {
    return histories + ((order - 1) * BLOCK + order * (order - 1) / 2) * own->width;
}

/* Copies the rows that the block after this one starts with: from the last rows, or from those saved for a block. */
static void carry(Stream *own, int64_t block, int save, int restore) {
    int64_t orders = own->patterns->orders, width = own->width;
    REAL *saved = own->saved + block * orders * (orders + 3) / 2 * width;
    for (int64_t order = 1; order <= orders; order++) {
        REAL *window = row_of_windows(own, order, 0), *levels = rows_of(own, own->levels, order);
        if (!restore) memcpy(window, window + BLOCK * width, width * sizeof(REAL));
        if (!restore) memmove(levels, levels + BLOCK * width, order * width * sizeof(REAL));
        if (save) memcpy(saved, window, width * sizeof(REAL));
        if (save) memcpy(saved + width, levels, order * width * sizeof(REAL));
        if (restore) memcpy(window, saved, width * sizeof(REAL));
        if (restore) memcpy(levels, saved + width, order * width * sizeof(REAL));
        saved += (1 + order) * width;
    }
}

/* Windows and levels before the first position. */
static void start(Stream *own) {
    for (int64_t order = 1; order <= own->patterns->orders; order++) {
        REAL *levels = rows_of(own, own->levels, order);
        memset(row_of_windows(own, order, 0), 0, own->width * sizeof(REAL));
        for (int64_t i = 0; i < order * own->width; i++) levels[i] = 1;
    }
}

static void take_units(Stream *own, int64_t step, int64_t row) {
    const Patterns *of = own->patterns;
    int64_t wide = own->width + of->orders, there = of->columns - own->first < wide ? of->columns - own->first : wide;
    const REAL *from = of->units + unit_index(of, own->sentence, step) + own->first;
    for (int64_t i = 0; i < there && step + AHEAD < of->steps; i += LANES)
        __builtin_prefetch(from + AHEAD * of->step + i); /* rows lie on different pages */
    memcpy(own->units + row * wide, from, there * sizeof(REAL));
    memset(own->units + row * wide + there, 0, (wide - there) * sizeof(REAL));
}

/* One step of one order: its windows, new matches and levels. Returns the sum of the matches that count. */
INLINED REAL forward_step(const Stream *own, int64_t order, int64_t row, REAL alive, int sums) {
    const REAL *units = own->units + row * (own->width + own->patterns->orders) + order - 1;
    const REAL *shorter = order > 1 ? row_of_windows(own, order - 1, row) : units;
    const REAL *weights = own->weights + (order - 1) * own->width;
    const REAL *back = rows_of(own, own->levels, order) + row * own->width, *before = back + (order - 1) * own->width;
    REAL *windows = row_of_windows(own, order, row + 1), *levels = rows_of(own, own->levels, order);
    REAL lanes[LANES];
    Vector sum[VECTORS] = {0};
    levels += (row + order) * own->width;
    for (int64_t i = 0; i < own->width; i += LANES)
        for (int v = 0; v < VECTORS; v++) {
            Vector window = ((const Vector *)(units + i))[v];
            if (order > 1) window *= ((const Vector *)(shorter + i))[v];
            Vector made = window * ((const Vector *)(back + i))[v];
            ((Vector *)(windows + i))[v] = window;
            ((Vector *)(levels + i))[v] = alive * ((const Vector *)(before + i))[v] - made;
            if (sums) sum[v] += ((const Vector *)(weights + i))[v] * made;
        }
    memcpy(lanes, sum, sizeof(lanes));
    return sums ? lane_sum(lanes) : 0;
}

static void forward_block(Stream *own, const Pass *pass, int64_t first, int64_t last) {
    const Patterns *of = own->patterns;
    for (int64_t e = first; e < last; e++) {
        int64_t cell = e * of->batch + own->sentence;
        REAL alive = of->alive ? of->alive[cell] : 1;
        take_units(own, e, e - first);
        for (int64_t order = 1; order <= of->orders; order++)
            if (pass->out) pass->out[cell * of->orders + order - 1] += forward_step(own, order, e - first, alive, 1);
            else forward_step(own, order, e - first, alive, 0);
    }
}

/* The adjoint of forward_step. Returns the sum of the gradient of alive. */
INLINED REAL backward_step(Stream *own, int64_t order, int64_t row, REAL alive, REAL given, int lives) {
    int64_t width = own->width;
    const REAL *units = own->units + row * (width + own->patterns->orders) + order - 1;
    const REAL *shorter = order > 1 ? row_of_windows(own, order - 1, row) : units;
    const REAL *windows = row_of_windows(own, order, row + 1), *weights = own->weights + (order - 1) * width;
    const REAL *back = rows_of(own, own->levels, order) + row * width, *before = back + (order - 1) * width;
    REAL *coming = rows_of(own, own->coming, order) + row * width, *ahead = coming + order * width;
    REAL *of_level = own->of_level + (order - 1) * width, *of_window = own->of_window + (order - 1) * width;
    REAL *grad_units = own->grad_units + order - 1, lanes[LANES];
    Vector sum[VECTORS] = {0};
    for (int64_t i = 0; i < width; i += LANES)
        for (int v = 0; v < VECTORS; v++) {
            Vector known = ((Vector *)(ahead + i))[v] + alive * ((Vector *)(of_level + i))[v];
            Vector of_new = given * ((const Vector *)(weights + i))[v] - known;
            Vector grad = of_new * ((const Vector *)(back + i))[v] + ((Vector *)(of_window + i))[v];
            ((Vector *)(of_level + i))[v] = known;
            ((Vector *)(coming + i))[v] = of_new * ((const Vector *)(windows + i))[v];
            if (lives) sum[v] += known * ((const Vector *)(before + i))[v];
            if (order > 1) ((Vector *)(of_window - width + i))[v] = grad * ((const Vector *)(units + i))[v];
            if (order > 1) grad *= ((const Vector *)(shorter + i))[v];
            ((Vector *)(grad_units + i))[v] += grad;
        }
    memcpy(lanes, sum, sizeof(lanes));
    return lives ? lane_sum(lanes) : 0;
}

static void backward_block(Stream *own, const Pass *pass, int64_t first, int64_t last) {
    const Patterns *of = own->patterns;
    int64_t wide = own->width + of->orders, there = of->columns - own->first < wide ? of->columns - own->first : wide;
    for (int64_t e = last - 1; e >= first; e--) {
        int64_t cell = e * of->batch + own->sentence;
        REAL alive = of->alive && e + 1 < of->steps ? of->alive[cell + of->batch] : 1;
        REAL *restrict to = pass->grad_units + unit_index(of, own->sentence, e) + own->first;
        for (int64_t i = 0; i < there && e >= AHEAD; i += LANES)
            __builtin_prefetch(to - AHEAD * of->step + i, 1);
        memset(own->grad_units, 0, wide * sizeof(REAL));
        for (int64_t order = 1; order <= of->orders; order++) {
            REAL given = pass->grad[cell * of->orders + order - 1];
            if (of->alive) pass->grad_alive[cell] += backward_step(own, order, e - first, alive, given, 1);
            else backward_step(own, order, e - first, alive, given, 0);
        }
        memset(own->of_window + (of->orders - 1) * own->width, 0, own->width * sizeof(REAL));
        for (int64_t i = 0; i < there; i++) to[i] += own->grad_units[i];
    }
    for (int64_t order = 1; order <= of->orders; order++) { /* what the block before this one looks ahead to */
        REAL *coming = rows_of(own, own->coming, order);
        memmove(coming + BLOCK * own->width, coming, order * own->width * sizeof(REAL));
    }
}

/* The columns from `first` on of a sentence, after the weights are set. */
void stream_run(Stream *own, const Pass *pass, int64_t sentence, int64_t first) {
    const Patterns *of = own->patterns;
    int64_t steps = of->steps, blocks = (steps + BLOCK - 1) / BLOCK;
    own->sentence = sentence;
    own->first = first;
    start(own);
    for (int64_t block = 0; block < blocks; block++) {
        int64_t begin = block * BLOCK, end = begin + BLOCK < steps ? begin + BLOCK : steps;
        if (block) carry(own, block, pass->grad != NULL, 0);
        if (!pass->grad || block + 1 < blocks) forward_block(own, pass, begin, end);
    }
    if (!pass->grad) return;
    memset(own->coming, 0, (own->saved - own->coming) * sizeof(REAL)); /* coming, of_level and of_window */
    for (int64_t block = blocks - 1; block >= 0; block--) {
        int64_t begin = block * BLOCK, end = begin + BLOCK < steps ? begin + BLOCK : steps;
        if (!block) start(own);
        else if (block + 1 < blocks) carry(own, block, 0, 1);
        forward_block(own, pass, begin, end);
        backward_block(own, pass, begin, end);
    }
}
