#define _DEFAULT_SOURCE /* madvise */
#include "rows.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#define LARGE_PAGE ((uintptr_t)1 << 21)

void expect_rows(void *x, int64_t first, int64_t last, int64_t size, int64_t bytes) {
#ifdef MADV_HUGEPAGE
    uintptr_t start = (uintptr_t)x + first * size * bytes, end = (uintptr_t)x + last * size * bytes;
    start = (start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    end = end / LARGE_PAGE * LARGE_PAGE;
    if (start < end) (void)madvise((void *)start, end - start, MADV_HUGEPAGE); /* only advice: it may fail */
#endif
}

float row_peak(const float *x, int64_t size) {
    float top[WIDE], peak = x[0];
    int64_t full = size / WIDE * WIDE;
    for (int l = 0; l < WIDE; l++) top[l] = peak;
    for (int64_t i = 0; i < full; i += WIDE)
        for (int l = 0; l < WIDE; l++) top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
    for (int l = 0; l < WIDE; l++) peak = top[l] > peak ? top[l] : peak;
    for (int64_t i = full; i < size; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

double row_dot(const float *restrict x, const float *restrict y, int64_t size) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t full = size / LANES * LANES;
    for (int64_t i = 0; i < full; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += y ? x[i + l] * y[i + l] : x[i + l];
    for (int64_t i = full; i < size; i++) sum += y ? x[i] * y[i] : x[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

typedef union { float value; uint32_t bits; } Bits;

/* The bits of a float16 as those of a float32 have the exponent 112 too small; a product mends it, also for numbers
   below the normal range. */
static inline float from_float16(uint16_t half) {
    Bits scale = {.bits = 0x77800000}, found = {.bits = (uint32_t)(half & 0x7fff) << 13};
    int special = (half & 0x7c00) == 0x7c00; /* infinity or NaN */
    found.value *= scale.value;
    found.bits = (special ? (found.bits & 0x007fffff) | 0x7f800000 : found.bits) | (uint32_t)(half & 0x8000) << 16;
    return found.value;
}

/* Rounded to the nearest, ties to even. Below the normal range, adding 0.5 leaves the digits that stay. */
static inline uint16_t to_float16(float value) {
    Bits given = {value}, half = {.value = 0.5f}, size, small;
    uint32_t sign = given.bits >> 16 & 0x8000;
    size.bits = given.bits & 0x7fffffff;
    small.value = size.value + half.value;
    uint32_t normal = (size.bits - (112u << 23) + 0xfff + (size.bits >> 13 & 1)) >> 13;
    uint32_t found = size.bits < 113u << 23 ? small.bits - half.bits : normal;
    found = size.bits >= 0x477ff000 ? 0x7c00 : found; /* 65520 and more */
    found = size.bits > 0x7f800000 ? 0x7e00 : found;
    return (uint16_t)(found | sign);
}

static inline float from_bfloat16(uint16_t half) {
    Bits found = {.bits = (uint32_t)half << 16};
    return found.value;
}

static inline uint16_t to_bfloat16(float value) {
    Bits given = {value};
    uint32_t rounded = (given.bits + 0x7fff + (given.bits >> 16 & 1)) >> 16;
    return (uint16_t)(value != value ? 0x7fc0 : rounded);
}

const float *read_row(const void *x, int kind, int64_t r, int64_t size, float *restrict buffer, int copied) {
    const uint16_t *restrict row = (const uint16_t *)x + r * size;
    if (kind == FLOAT32 && !copied) return (const float *)x + r * size;
    if (kind == FLOAT32) memcpy(buffer, (const float *)x + r * size, size * sizeof(float));
    else if (kind == BFLOAT16)
        for (int64_t i = 0; i < size; i++) buffer[i] = from_bfloat16(row[i]);
    else
        for (int64_t i = 0; i < size; i++) buffer[i] = from_float16(row[i]);
    return buffer;
}

void write_row(void *x, int kind, int64_t r, int64_t size, const float *restrict row) {
    uint16_t *restrict to = (uint16_t *)x + r * size;
    if (kind == BFLOAT16)
        for (int64_t i = 0; i < size; i++) to[i] = to_bfloat16(row[i]);
    else if (kind == FLOAT16)
        for (int64_t i = 0; i < size; i++) to[i] = to_float16(row[i]);
}
