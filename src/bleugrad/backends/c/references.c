/* Words and n-grams of references: which are equal, how often each n-gram counts, and which shifts of it equal it. */
#include "common.h"

/* Of one sentence with L columns. A sequence of tokens is named by the first column where it is found. It is given by
   the name of its tokens but the last, and by its last token. */
typedef struct {
    const int64_t *ids;
    int64_t columns, size;
    int64_t *table;         /* (size,), columns; -1 is free */
    int64_t *names;         /* (L,), of the tokens but the last */
    int64_t *counts, *last; /* (L,), of each name; `last` is the reference that `counts` is about */
    int64_t *longer;        /* (L,), names of the next order */
} Names;

/* Returns 1 if the allocation fails. */
static int names_open(Names *own, int64_t columns) {
    *own = (Names){.columns = columns, .size = 4};
    while (own->size < 2 * columns) own->size *= 2;
    own->table = calloc(own->size + 4 * columns, sizeof(int64_t));
    own->names = own->table + own->size;
    own->counts = own->names + columns;
    own->last = own->counts + columns;
    own->longer = own->last + columns;
    return !own->table;
}

/* The name of the tokens at `column` whose last one is `back` columns later. */
static int64_t find_name(const Names *own, int64_t column, int64_t back) {
    uint64_t hash = (uint64_t)own->ids[column + back] * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 29 ^ (uint64_t)own->names[column]) * 0xbf58476d1ce4e5b9u;
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        int64_t *found = own->table + (at & (uint64_t)(own->size - 1)), other = *found;
        if (other < 0) return *found = column;
        if (own->names[other] == own->names[column] && own->ids[other + back] == own->ids[column + back]) return other;
    }
}

typedef struct {
    int64_t batch, references, width;                   /* B, K, R */
    const int64_t *ids;                                 /* (B, K, R) */
    const int64_t *lengths;                             /* (B, K) */
    const uint8_t *opens;                               /* (V,) */
    int64_t *starts, *spans, *numbers;                  /* (B, K, R) */
    uint8_t *continued;                                 /* (B, K, R) */
    int64_t *counts;                                    /* (B, K) */
} Segments;

/* Entries after the last word are start 0, span 1, number 0. */
static void segment_reference(const Segments *of, Names *own, int64_t row) {
    int64_t begin = row % of->references * of->width, end = begin + of->lengths[row], to = row * of->width;
    for (int64_t first = begin, next; first < end; first = next, to++) {
        int64_t name = -1;
        for (next = first; next < end && (next == first || !of->opens[own->ids[next]]); next++) {
            own->names[next] = name;
            name = find_name(own, next, 0);
        }
        of->starts[to] = first;
        of->spans[to] = next - first;
        of->numbers[to] = name;
        of->continued[to] = !of->opens[own->ids[first]];
    }
    of->counts[row] = to - row * of->width;
    for (; to < (row + 1) * of->width; to++) {
        of->starts[to] = of->numbers[to] = of->continued[to] = 0;
        of->spans[to] = 1;
    }
}

int segment_words(const void *problem, int64_t first, int64_t last) {
    const Segments *of = problem;
    Names own;
    if (names_open(&own, of->references * of->width)) return 1;
    for (int64_t row = first * of->references; row < last * of->references; row++) {
        own.ids = of->ids + row / of->references * own.columns;
        if (row % of->references == 0) memset(own.table, 0xff, own.size * sizeof(int64_t));
        segment_reference(of, &own, row);
    }
    free(own.table);
    return 0;
}

typedef struct {
    int64_t batch, references, width, orders;   /* B, K, R, N */
    const int64_t *ids;                         /* (B, K, R) */
    const int64_t *lengths;                     /* (B, K) */
    int64_t *clips;                             /* (B, N, L), with L = K R */
    uint8_t *overlaps;                          /* (N - 1, B, N, L) */
} Ngrams;

/* The largest count over references of each n-gram of one order, at its first column; names those n-grams. */
static void count_ngrams(const Ngrams *of, Names *own, const int64_t *lengths, int64_t order, int64_t *clips) {
    memset(own->table, 0xff, own->size * sizeof(int64_t));
    memset(clips, 0, own->columns * sizeof(int64_t));
    for (int64_t k = 0; k < of->references; k++)
        for (int64_t column = k * of->width; column + order <= k * of->width + lengths[k]; column++) {
            int64_t name = own->longer[column] = find_name(own, column, order - 1);
            if (name == column || own->last[name] != k) own->counts[name] = 0;
            own->last[name] = k;
            own->counts[name]++;
            clips[name] = own->counts[name] > clips[name] ? own->counts[name] : clips[name];
        }
    memcpy(own->names, own->longer, own->columns * sizeof(int64_t));
}

/* An n-gram equals itself shifted by `shift` where at least n - shift tokens equal those `shift` columns later. */
static void find_overlaps(const Ngrams *of, const Names *own, int64_t sentence) {
    for (int64_t shift = 1; shift < of->orders; shift++) {
        uint8_t *overlaps = of->overlaps + ((shift - 1) * of->batch + sentence) * of->orders * own->columns;
        int64_t run = 0;
        memset(overlaps, 0, of->orders * own->columns);
        for (int64_t column = own->columns - shift - 1; column >= 0; column--) {
            run = own->ids[column] == own->ids[column + shift] ? run + 1 : 0;
            for (int64_t order = shift + 1; order <= of->orders && order <= shift + run; order++)
                overlaps[(order - 1) * own->columns + column] = 1;
        }
    }
}

int ngram_clips(const void *problem, int64_t first, int64_t last) {
    const Ngrams *of = problem;
    Names own;
    if (names_open(&own, of->references * of->width)) return 1;
    for (int64_t sentence = first; sentence < last; sentence++) {
        own.ids = of->ids + sentence * own.columns;
        memset(own.names, 0, own.columns * sizeof(int64_t));
        for (int64_t order = 1; order <= of->orders; order++) {
            int64_t *clips = of->clips + (sentence * of->orders + order - 1) * own.columns;
            count_ngrams(of, &own, of->lengths + sentence * of->references, order, clips);
        }
        find_overlaps(of, &own, sentence);
    }
    free(own.table);
    return 0;
}
