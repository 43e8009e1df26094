/* Words of token references: where they begin, how many tokens they have, and a number that equal words share. */
#include "common.h"

typedef struct {
    int64_t batch, references, width, most;                /* B, K, R, W */
    const int64_t *ids;                                 /* (B, K, R) */
    const int64_t *lengths;                             /* (B, K) */
    const uint8_t *opens;                               /* (V,) */
    int64_t *counts;                                    /* (B, K) */
    int64_t *starts, *spans, *numbers;                  /* (B, K, W) */
    uint8_t *continued;                                 /* (B, K, W) */
} Segments;

/* The slot of a hash table of distinct words: that of an equal word, or a free one. */
static int64_t *find_word(int64_t *table, int64_t size, const int64_t *ids, const int64_t *span_at, int64_t first) {
    int64_t span = span_at[first];
    uint64_t hash = (uint64_t)span;
    for (int64_t i = 0; i < span; i++) {
        hash = (hash ^ (uint64_t)ids[first + i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (int64_t at = (int64_t)(hash & (uint64_t)(size - 1));; at = (at + 1) & (size - 1)) {
        int64_t other = table[at];
        if (other < 0 || (span_at[other] == span && !memcmp(ids + other, ids + first, span * sizeof(int64_t))))
            return table + at;
    }
}

static void segment_reference(const Segments *of, int64_t row, int64_t *table, int64_t size, int64_t *span_at) {
    int64_t sentence = row / of->references, begin = row % of->references * of->width, length = of->lengths[row];
    const int64_t *ids = of->ids + sentence * of->references * of->width;
    int64_t to = row * of->most;
    for (int64_t first = begin; first < begin + length; to++) {
        int64_t span = 1;
        while (first + span < begin + length && !of->opens[ids[first + span]]) span++;
        span_at[first] = span;
        int64_t *place = find_word(table, size, ids, span_at, first);
        if (*place < 0) *place = first;
        of->starts[to] = first;
        of->spans[to] = span;
        of->numbers[to] = *place;
        of->continued[to] = !of->opens[ids[first]];
        first += span;
    }
    of->counts[row] = to - row * of->most;
    for (; to < (row + 1) * of->most; to++) {
        of->starts[to] = of->numbers[to] = of->continued[to] = 0;
        of->spans[to] = 1;
    }
}

/* Entries after the last word are start 0, span 1, number 0. */
int segment_words(const void *problem, int64_t first, int64_t last) {
    const Segments *of = problem;
    int64_t columns = of->references * of->width, size = 4;
    while (size < 2 * columns) size *= 2;
    int64_t *table = malloc((size + columns) * sizeof(int64_t));
    if (!table) return 1;
    for (int64_t row = first * of->references; row < last * of->references; row++) {
        if (row % of->references == 0) memset(table, 0xff, size * sizeof(int64_t)); /* -1: free */
        segment_reference(of, row, table, size, table + size);
    }
    free(table);
    return 0;
}
