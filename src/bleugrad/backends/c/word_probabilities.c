/* The probability that a window is a word: the product of its tokens' probabilities, and its gradient. */
#include "rows.h"

typedef struct {
    int64_t steps, batch, columns, words;
    int64_t step, sentence;              /* strides of probs; that of its columns is 1 */
    const REAL *probs;                   /* (T, B, L) */
    const int64_t *starts, *spans;       /* (B, W) */
    const uint8_t *continued;            /* (B, W) */
    REAL *products, *grad_probs;         /* (T, B, W), or their gradient; zeros that are laid out like probs */
} Words;

/* Whether the last token of the word can be at position e. */
static inline int word_fits(const Words *of, int64_t word, int64_t e) {
    return of->continued[word] ? e == of->spans[word] - 1 : e >= of->spans[word] - 1;
}

int word_products(const void *problem, int64_t first, int64_t last) {
    const Words *of = problem;
    int64_t next = of->step + 1; /* from one token of a word to that at the next position */
    expect_rows(of->products, 0, of->steps * of->batch, of->words, sizeof(REAL));
    for (int64_t e = 0; e < of->steps; e++)
        for (int64_t b = first; b < last; b++)
            for (int64_t w = b * of->words; w < (b + 1) * of->words; w++) {
                REAL product = 0;
                if (word_fits(of, w, e)) {
                    const REAL *from = of->probs + (e - of->spans[w] + 1) * of->step + b * of->sentence + of->starts[w];
                    product = *from;
                    for (int64_t k = 1; k < of->spans[w]; k++) product *= from[k * next];
                }
                of->products[e * of->batch * of->words + w] = product;
            }
    return 0;
}

int word_products_backward(const void *problem, int64_t first, int64_t last) {
    const Words *of = problem;
    int64_t next = of->step + 1; /* from one token of a word to that at the next position */
    REAL *before = malloc((of->steps + 1) * sizeof(REAL));
    if (!before) return 1;
    before[0] = 1;
    for (int64_t e = 0; e < of->steps; e++)
        for (int64_t b = first; b < last; b++)
            for (int64_t w = b * of->words; w < (b + 1) * of->words; w++) {
                if (!word_fits(of, w, e)) continue;
                int64_t span = of->spans[w], begin = (e - span + 1) * of->step + b * of->sentence + of->starts[w];
                REAL after = of->products[e * of->batch * of->words + w];
                for (int64_t k = 0; k + 1 < span; k++) before[k + 1] = before[k] * of->probs[begin + k * next];
                for (int64_t k = span - 1; k >= 0; k--) {
                    of->grad_probs[begin + k * next] += after * before[k];
                    if (k) after *= of->probs[begin + k * next];
                }
            }
    free(before);
    return 0;
}
