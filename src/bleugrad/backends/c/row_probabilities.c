/* Rows of logits, float32 only: the exponentials with their sums, and the scaling that makes them the gradient. */
#include "common.h"

typedef struct {
    int64_t batch, size; /* of x, (batch, size) */
} Rows;

/* exp(x) for x <= 0 to two units in the last place; 0 below e^-87.3, about 2^-126; NaN stays NaN.

   x = k ln 2 + r. Adding 1.5 * 2^23 leaves no room for a fraction, so that k, and with 127 more the exponent of 2^k,
   stand in the last bits of the sum. */
static inline float exp_nonpositive(float x) {
    const float shift = 12582912.0f + 127.0f;
    union { float value; uint32_t bits; } shifted = {x * 1.44269504088896341f + shift}, power = {0};
    power.bits = shifted.bits << 23;
    float k = shifted.value - shift, r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return x < -87.3f ? 0.0f : p * power.value;
}

#define WIDE (2 * LANES)

static __attribute__((noinline)) float row_peak(const float *restrict x, int64_t size) {
    float top[WIDE], peak = x[0];
    int64_t full = size / WIDE * WIDE;
    for (int l = 0; l < WIDE; l++) top[l] = peak;
    for (int64_t i = 0; i < full; i += WIDE)
        for (int l = 0; l < WIDE; l++) top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
    for (int l = 0; l < WIDE; l++) peak = top[l] > peak ? top[l] : peak;
    for (int64_t i = full; i < size; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

INLINED void row_exponentials(
    const float *restrict x, const float *restrict chosen, float *restrict out, int64_t size, float peak,
    float *restrict total, float *restrict picked
) {
    float all[WIDE] = {0}, some[WIDE] = {0};
    int64_t full = size / WIDE * WIDE;
    for (int64_t i = 0; i < full; i += WIDE)
        for (int l = 0; l < WIDE; l++) {
            float e = exp_nonpositive(x[i + l] - peak);
            out[i + l] = e;
            all[l] += e;
            if (chosen) some[l] += chosen[i + l] * e;
        }
    *total = *picked = 0;
    for (int64_t i = full; i < size; i++) {
        float e = exp_nonpositive(x[i] - peak);
        out[i] = e;
        *total += e;
        if (chosen) *picked += chosen[i] * e;
    }
    for (int l = 0; l < WIDE; l++) *total += all[l], *picked += some[l];
}

/* exp(x - maximum of the row), the inverse of its sum, and the sum of the softmax over the chosen columns, if any. */
int exponentials(void *const *with, int64_t first, int64_t last) {
    const int64_t size = ((const Rows *)with[0])->size;
    const float *x = with[1], *chosen = with[2];
    float *out = with[3], *inverse = with[4], *picked = with[5];
    for (int64_t r = first; r < last; r++) {
        const float *row = x + r * size;
        float total, some, peak = row_peak(row, size);
        if (chosen) row_exponentials(row, chosen, out + r * size, size, peak, &total, &some);
        else row_exponentials(row, NULL, out + r * size, size, peak, &total, &some);
        inverse[r] = 1 / total;
        if (chosen) picked[r] = some * inverse[r];
    }
    return 0;
}

/* x[r, v] *= inverse[r] * (scale[r] + more[r] where v is chosen); chosen and more may be NULL. */
int scale_rows(void *const *with, int64_t first, int64_t last) {
    const int64_t size = ((const Rows *)with[0])->size;
    const float *inverse = with[2], *scale = with[3], *more = with[5];
    const uint8_t *restrict chosen = with[4];
    for (int64_t r = first; r < last; r++) {
        float *restrict x = (float *)with[1] + r * size;
        float factor = inverse[r] * scale[r], factor_chosen = chosen ? inverse[r] * (scale[r] + more[r]) : 0;
        if (chosen)
            for (int64_t i = 0; i < size; i++) x[i] *= chosen[i] ? factor_chosen : factor;
        else
            for (int64_t i = 0; i < size; i++) x[i] *= factor;
    }
    return 0;
}

typedef struct {
    int64_t batch, steps, size, blank; /* of x, (batch, steps, size) */
} Frames;

/* Like `exponentials`, sentence by sentence. Also computes the probability that a counted frame repeats the symbol (not
   blank) of the counted frame before it; it is 0 for the first. `counted` may be NULL. */
int frame_exponentials(void *const *with, int64_t first, int64_t last) {
    const Frames *of = with[0];
    const float *x = with[1];
    const uint8_t *counted = with[2];
    float *out = with[3], *inverse = with[4], *repeated = with[5];
    for (int64_t b = first; b < last; b++) {
        int64_t before = -1;
        for (int64_t r = b * of->steps; r < (b + 1) * of->steps; r++) {
            const float *row = x + r * of->size, *earlier = before < 0 ? NULL : out + before * of->size;
            float *to = out + r * of->size, total, same, peak = row_peak(row, of->size);
            int counts = !counted || counted[r];
            if (counts && earlier) row_exponentials(row, earlier, to, of->size, peak, &total, &same);
            else row_exponentials(row, NULL, to, of->size, peak, &total, &same);
            inverse[r] = 1 / total;
            repeated[r] = 0;
            if (counts && earlier) {
                same -= to[of->blank] * earlier[of->blank];
                repeated[r] = (same > 0 ? same : 0) * inverse[r] * inverse[before];
            }
            if (counts) before = r;
        }
    }
    return 0;
}

/* x[i] *= factor + before * earlier[i] + after * later[i]; `earlier` takes the old x. */
static __attribute__((noinline)) void scale_between(
    float *restrict x, float *restrict earlier, const float *restrict later, float factor, float before, float after,
    int64_t size
) {
    for (int64_t i = 0; i < size; i++) {
        float old = x[i];
        x[i] = old * (factor + before * earlier[i] + after * later[i]);
        earlier[i] = old;
    }
}

static __attribute__((noinline)) void scale_last(
    float *restrict x, float *restrict earlier, float factor, float before, int64_t size
) {
    for (int64_t i = 0; i < size; i++) {
        float old = x[i];
        x[i] = old * (factor + before * earlier[i]);
        earlier[i] = old;
    }
}

/* Exponentials become the gradient of the logits, apart from single tokens: scale[r] p, and what `weight`, the gradient
   of `repeated`, gives the frame before and the frame itself. */
int frame_gradient(void *const *with, int64_t first, int64_t last) {
    const Frames *of = with[0];
    float *x = with[1];
    const uint8_t *counted = with[2];
    const float *inverse = with[3], *scale = with[4], *weight = with[5], *repeated = with[6];
    float *earlier = malloc((of->size + 1) * sizeof(float));
    if (!earlier) return 1;
    for (int64_t b = first; b < last; b++) {
        int64_t before = -1, end = (b + 1) * of->steps;
        memset(earlier, 0, of->size * sizeof(float));
        for (int64_t r = b * of->steps; r < end; r++) {
            float *row = x + r * of->size, blank = row[of->blank], factor = scale[r];
            int64_t next = r + 1;
            if (counted && !counted[r]) {
                for (int64_t i = 0; i < of->size; i++) row[i] *= inverse[r] * factor;
                continue;
            }
            while (next < end && counted && !counted[next]) next++;
            float share = before < 0 ? 0 : weight[r] * inverse[before] * inverse[r];
            if (before >= 0) factor -= weight[r] * repeated[r];
            if (next < end) factor -= weight[next] * repeated[next];
            factor *= inverse[r];
            if (next == end) scale_last(row, earlier, factor, share, of->size);
            else {
                float after = weight[next] * inverse[r] * inverse[next];
                scale_between(row, earlier, x + next * of->size, factor, share, after, of->size);
            }
            row[of->blank] = blank * factor;
            before = r;
        }
    }
    free(earlier);
    return 0;
}
