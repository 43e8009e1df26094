/* Rows of logits: float32, bfloat16 or float16 in memory, computed in float32. */
#pragma once

#include "common.h"

enum { FLOAT32, BFLOAT16, FLOAT16 };

#define WIDE (2 * LANES)

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

/* exp(sharpness (x - peak)) * scale, in place. */
static inline void sharpened(float *restrict x, int64_t size, float peak, float sharpness, float scale) {
    for (int64_t i = 0; i < size; i++) x[i] = exp_nonpositive(sharpness * (x[i] - peak)) * scale;
}

/* The largest number of a row. NaN is passed over, unless it comes first. */
float row_peak(const float *x, int64_t size);

/* The sum of products, or of x if y is NULL, in double precision, because many terms cancel. */
double row_dot(const float *x, const float *y, int64_t size);

/* Asks the system for large pages for rows that will be written, (rows, size) numbers of so many bytes. Fresh memory of
   the usual pages costs several times the computation. */
void expect_rows(void *x, int64_t first, int64_t last, int64_t size, int64_t bytes);

static inline int64_t bytes_of(int kind) { return kind == FLOAT32 ? 4 : 2; }

/* Row r of a tensor (rows, size) as float32: the row itself, or converted into `buffer`, or copied there. */
const float *read_row(const void *x, int kind, int64_t r, int64_t size, float *buffer, int copied);

/* Converts a row to the type of the tensor and writes it; nothing if it stands there already. */
void write_row(void *x, int kind, int64_t r, int64_t size, const float *row);

/* Where a row of a float32 tensor is computed: in its place. Rows of other types are computed in `buffer`. */
static inline float *place_of_row(void *x, int kind, int64_t r, int64_t size, float *buffer) {
    return kind == FLOAT32 ? (float *)x + r * size : buffer;
}
