/* Layer normalisation of int16 gates in fixed point: PortableApplyLayerNorm of LiteRT's
 * portable_tensor_utils.cc, step by step. The names of its constants stand beside them. */
#ifndef CIRCLET_LSTM_NORM_Q8_H
#define CIRCLET_LSTM_NORM_Q8_H

#include "fixed.h"

struct lstm_norm {
    int32_t multiplier, shift, limit; /* of the result; the least variance */
};

/* SaturatingLeftShift. */
CIRCLET_INLINE int32_t norm_shift(int32_t x, int bits) {
    int64_t y = (int64_t)((uint64_t)(int64_t)x << bits);
    return y > INT32_MAX ? INT32_MAX : y < INT32_MIN ? INT32_MIN : (int32_t)y;
}

/* MultiplyByQuantizedMultiplier: x times a factor, rounded twice. */
CIRCLET_INLINE int32_t norm_scale(int32_t x, int32_t multiplier, int32_t shift) {
    int left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    int32_t y = s_srdhm((int32_t)((uint32_t)x << left), multiplier);
    int32_t mask = (int32_t)((1u << right) - 1), threshold = (mask >> 1) + (y < 0);
    return (y >> right) + ((y & mask) > threshold);
}

/* GetInvSqrtQuantizedMultiplierExp, the factor 1 / sqrt(value): Newton's method from 1 in Q3.28 on
 * half the value, shifted by pairs of bits as a root halves exponents; five times
 * x = x (3 - value x^2) / 2. */
CIRCLET_INLINE struct lstm_norm norm_inverse_square_root(int32_t value) {
    struct lstm_norm factor = {INT32_MAX, 0, 0};
    if (value <= 1) return factor;
    int right = 11;
    while (value >= 1 << 29) value /= 4, right++;
    int pairs = (__builtin_clz((uint32_t)value) - 1) / 2 - 1;
    right -= pairs;
    int32_t raw = (int32_t)((uint32_t)value << (2 * pairs)) >> 1, x = 1 << 28;
    int32_t half = (raw >> 1) + (raw & 1);
    for (int i = 0; i < 5; i++) {
        int32_t cube = norm_shift(s_srdhm(s_srdhm(x, x), x), 6);
        x = norm_shift(s_srdhm((1 << 28) + (1 << 27), x) - s_srdhm(half, cube), 3);
    }
    x = s_srdhm(x, 1518500250); /* sqrt(1/2) in Q0.31, as the value was halved */
    factor.multiplier = right < 0 ? (int32_t)((uint32_t)x << -right) : x;
    factor.shift = right < 0 ? 0 : -right;
    return factor;
}

/* In units of 2^-10: (1 << 20) is the square of that factor, kTwoToPower20. LiteRT divides it by
 * the count before it multiplies, and so does this; a variance below 1 becomes the limit, which
 * keeps rows of equal values from dividing by zero. */
CIRCLET_INLINE void lstm_norm_q8(int32_t *x, int64_t n, const int32_t *weights,
                                 const int32_t *bias, struct lstm_norm scale) {
    int32_t count = (int32_t)n;
    int64_t squares = 0;
    /* In double, since 32-bit processors have no 64-bit division. The sum is exact, and so is the
     * truncation: quotients stay below 2^26, and what is no integer is 1 / count off one. */
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i], squares += (int64_t)x[i] * x[i];
    int32_t mean = (int32_t)(sum * 1024.0 / count);
    int64_t scaled = squares * ((1 << 20) / count) - (int64_t)mean * mean;
    int32_t variance = (int32_t)(scaled / (1 << 20));
    struct lstm_norm factor = norm_inverse_square_root(variance < 1 ? scale.limit : variance);
    for (int64_t i = 0; i < n; i++) {
        int32_t y = norm_scale(1024 * x[i] - mean, factor.multiplier, factor.shift);
        y = (int32_t)((uint32_t)y * (uint32_t)weights[i] + (uint32_t)bias[i]);
        int64_t rounded = y > 0 ? (int64_t)y + 512 : (int64_t)y - 512;
        y = norm_scale((int32_t)(rounded / 1024), scale.multiplier, scale.shift + 12);
        x[i] = y > 32767 ? 32767 : y < -32768 ? -32768 : y;
    }
}

#endif
