/* The n-grams of references: how often each counts, and which shifts of it equal it. */
#include "common.h"

typedef struct {
    int64_t batch, references, width, orders;   /* B, K, R, N */
    const int64_t *ids;                         /* (B, K, R) */
    const int64_t *lengths;                     /* (B, K) */
    int64_t *clips;                             /* (B, N, L), with L = K R */
    uint8_t *overlaps;                          /* (N - 1, B, N, L) */
} Ngrams;

/* Of one sentence. An n-gram is named by the column of its first occurrence. Arrays have L entries, `table` has `size`. */
typedef struct {
    const int64_t *ids;
    int64_t columns, size;
    int64_t *table, *names, *counts, *last;     /* last: the reference that `counts` is about */
} Names;

/* The first column with the same n-gram, which is given by its first n - 1 tokens and its last one. */
static int64_t find_name(const Names *own, int64_t order, int64_t column) {
    uint64_t hash = (uint64_t)own->ids[column + order - 1] * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 29 ^ (uint64_t)own->names[column]) * 0xbf58476d1ce4e5b9u;
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        int64_t *found = own->table + (at & (uint64_t)(own->size - 1)), other = *found;
        if (other < 0) return *found = column;
        if (own->names[other] != own->names[column]) continue;
        if (own->ids[other + order - 1] == own->ids[column + order - 1]) return other;
    }
}

/* The largest count over references of each n-gram of one order, at its first column; names those n-grams. */
static void count_ngrams(const Ngrams *of, Names *own, const int64_t *lengths, int64_t order, int64_t *clips) {
    int64_t *shorter = own->names, *names = own->last + own->columns;
    memset(own->table, 0xff, own->size * sizeof(int64_t)); /* -1: free */
    memset(clips, 0, own->columns * sizeof(int64_t));
    for (int64_t k = 0; k < of->references; k++)
        for (int64_t column = k * of->width; column + order <= k * of->width + lengths[k]; column++) {
            int64_t name = names[column] = find_name(own, order, column);
            if (name == column || own->last[name] != k) own->counts[name] = 0;
            own->last[name] = k;
            own->counts[name]++;
            clips[name] = own->counts[name] > clips[name] ? own->counts[name] : clips[name];
        }
    memcpy(shorter, names, own->columns * sizeof(int64_t));
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
    Names own = {.columns = of->references * of->width, .size = 4};
    while (own.size < 2 * own.columns) own.size *= 2;
    own.table = calloc(own.size + 4 * own.columns, sizeof(int64_t));
    if (!own.table) return 1;
    own.names = own.table + own.size;
    own.counts = own.names + own.columns;
    own.last = own.counts + own.columns;
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
