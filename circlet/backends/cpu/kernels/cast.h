/* Elements of any numeric type as another. Floats become integers towards zero, what lies outside
 * goes to the nearest end, and NaN is 0; integers keep their low bits. Half precision is made and
 * read with integer arithmetic where a target has no instructions for it. */
#ifndef CIRCLET_CAST_H
#define CIRCLET_CAST_H

#include "rows.h"

enum {
    CAST_FLOAT32, CAST_FLOAT16, CAST_FLOAT64, CAST_BOOL, CAST_INT8, CAST_UINT8,
    CAST_INT16, CAST_UINT16, CAST_INT32, CAST_UINT32, CAST_INT64, CAST_UINT64
};

struct cast_params {
    struct row_loops rows;
    int64_t source[7]; /* strides, bytes; the last one's is of the inner loop */
    int64_t result[7]; /* strides, bytes; the last one's is of the inner loop */
};

CIRCLET_INLINE float cast_float_of(uint32_t bits) {
    union { uint32_t bits; float value; } u = {bits};
    return u.value;
}

CIRCLET_INLINE uint32_t cast_bits_of(float value) {
    union { float value; uint32_t bits; } u = {value};
    return u.bits;
}

#if defined(__F16C__) || defined(__aarch64__)

CIRCLET_INLINE float cast_from_half(uint16_t half) {
    union { uint16_t bits; _Float16 value; } u = {half};
    return (float)u.value;
}

CIRCLET_INLINE uint16_t cast_to_half(float value) {
    union { _Float16 value; uint16_t bits; } u = {(_Float16)value};
    return u.bits;
}

#else

/* The exponent is moved; numbers without one, and those that are none, are set right after it. */
CIRCLET_INLINE float cast_from_half(uint16_t half) {
    uint32_t digits = (uint32_t)(half & 0x7fff) << 13, exponent = digits & (0x7c00u << 13);
    uint32_t normal = digits + ((uint32_t)(127 - 15) << 23);
    uint32_t not_finite = normal + ((uint32_t)(128 - 16) << 23);
    float least = cast_float_of((uint32_t)(127 - 14) << 23);
    uint32_t small = cast_bits_of(cast_float_of(normal + (1u << 23)) - least);
    uint32_t made = exponent == (0x7c00u << 13) ? not_finite : exponent == 0 ? small : normal;
    return cast_float_of(made | (uint32_t)(half & 0x8000) << 16);
}

/* To the nearest, halves to even. Below the least normal half, adding a number whose last digit is
 * that of such halves rounds there. */
CIRCLET_INLINE uint16_t cast_to_half(float value) {
    uint32_t bits = cast_bits_of(value), sign = bits & 0x80000000u, rest = bits ^ sign;
    const uint32_t magic = ((127 - 15) + (23 - 10) + 1) << 23;
    uint32_t small = cast_bits_of(cast_float_of(rest) + cast_float_of(magic)) - magic;
    uint32_t odd = (rest >> 13) & 1;
    uint32_t normal = (rest - ((uint32_t)(127 - 15) << 23) + 0xfff + odd) >> 13;
    uint32_t not_finite = rest > (255u << 23) ? 0x7e00 : 0x7c00;
    uint32_t made = rest >= ((uint32_t)(127 + 16) << 23) ? not_finite
                    : rest < (113u << 23)                ? small
                                                         : normal;
    return (uint16_t)(made | sign >> 16);
}

#endif

/* A double as a half, rounded once: what 24 digits cannot hold is noted in the last of them. */
CIRCLET_INLINE uint16_t cast_double_to_half(double value) {
    float near = (float)value;
    uint32_t bits = cast_bits_of(near);
    double back = (double)near;
    if (back != value && value == value && (bits & 0x7fffffffu) < (255u << 23)) {
        int is_above = value < 0 ? back < value : back > value; /* it was rounded away from zero */
        if (is_above) bits--;
        bits |= 1;
    }
    return cast_to_half(cast_float_of(bits));
}

CIRCLET_INLINE int64_t cast_bytes(int type) {
    return type == CAST_BOOL || type == CAST_INT8 || type == CAST_UINT8                         ? 1
           : type == CAST_FLOAT16 || type == CAST_INT16 || type == CAST_UINT16                  ? 2
           : type == CAST_FLOAT64 || type == CAST_INT64 || type == CAST_UINT64                  ? 8
                                                                                                : 4;
}

CIRCLET_INLINE int cast_is_float(int type) { return type <= CAST_FLOAT64; }

/* A float of up to 32 bits. */
CIRCLET_INLINE float cast_load_f32(const char *at, int type) {
    return type == CAST_FLOAT16 ? cast_from_half(*(const uint16_t *)at) : *(const float *)at;
}

/* An integer; of 64 bits without a sign, its bits. */
CIRCLET_INLINE int64_t cast_load_whole(const char *at, int type) {
    switch (type) {
    case CAST_BOOL:
    case CAST_UINT8: return *(const uint8_t *)at;
    case CAST_INT8: return *(const int8_t *)at;
    case CAST_UINT16: return *(const uint16_t *)at;
    case CAST_INT16: return *(const int16_t *)at;
    case CAST_UINT32: return *(const uint32_t *)at;
    case CAST_INT32: return *(const int32_t *)at;
    default: return *(const int64_t *)at;
    }
}

CIRCLET_INLINE void cast_store_whole(char *at, int64_t value, int type) {
    switch (cast_bytes(type)) {
    case 1: *(uint8_t *)at = (uint8_t)value; return;
    case 2: *(uint16_t *)at = (uint16_t)value; return;
    case 4: *(uint32_t *)at = (uint32_t)value; return;
    default: *(int64_t *)at = value;
    }
}

#define CAST_CLAMPED(type, low, high, below, above) \
    (value != value       ? (type)0                 \
     : value < (below)    ? (type)(low)             \
     : value >= (above)   ? (type)(high)            \
                          : (type)value)

/* A float towards zero, at the ends of the type where it lies outside. */
CIRCLET_INLINE int64_t cast_truncated(double value, int type) {
    switch (type) {
    case CAST_INT8: return CAST_CLAMPED(int32_t, -128, 127, -128.0, 127.0);
    case CAST_UINT8: return CAST_CLAMPED(int32_t, 0, 255, 0.0, 255.0);
    case CAST_INT16: return CAST_CLAMPED(int32_t, -32768, 32767, -32768.0, 32767.0);
    case CAST_UINT16: return CAST_CLAMPED(int32_t, 0, 65535, 0.0, 65535.0);
    case CAST_INT32:
        return CAST_CLAMPED(int32_t, INT32_MIN, INT32_MAX, -2147483648.0, 2147483647.0);
    case CAST_UINT32: return CAST_CLAMPED(int64_t, 0, UINT32_MAX, 0.0, 4294967295.0);
    case CAST_UINT64:
        return (int64_t)CAST_CLAMPED(uint64_t, 0, UINT64_MAX, 0.0, 18446744073709551616.0);
    default:
        return CAST_CLAMPED(int64_t, INT64_MIN, INT64_MAX, -9223372036854775808.0,
                            9223372036854775808.0);
    }
}

CIRCLET_INLINE void cast_from_double(const double value, char *at, int result) {
    if (result == CAST_BOOL) *(uint8_t *)at = value != 0;
    else if (result == CAST_FLOAT64) *(double *)at = value;
    else if (result == CAST_FLOAT32) *(float *)at = (float)value;
    else if (result == CAST_FLOAT16) *(uint16_t *)at = cast_double_to_half(value);
    else cast_store_whole(at, cast_truncated(value, result), result);
}

CIRCLET_INLINE void cast_from_float(const float value, char *at, int result) {
    if (result == CAST_BOOL) *(uint8_t *)at = value != 0;
    else if (result == CAST_FLOAT64) *(double *)at = value;
    else if (result == CAST_FLOAT32) *(float *)at = value;
    else if (result == CAST_FLOAT16) *(uint16_t *)at = cast_to_half(value);
    else cast_store_whole(at, cast_truncated(value, result), result);
}

CIRCLET_INLINE void cast_from_whole(const int64_t value, char *at, int source, int result) {
    int is_big = source == CAST_UINT64;
    float near = is_big ? (float)(uint64_t)value : (float)value;
    double nearer = is_big ? (double)(uint64_t)value : (double)value;
    if (result == CAST_BOOL) *(uint8_t *)at = value != 0;
    else if (result == CAST_FLOAT64) *(double *)at = nearer;
    else if (result == CAST_FLOAT32) *(float *)at = near;
    else if (result == CAST_FLOAT16) *(uint16_t *)at = cast_to_half(near);
    else cast_store_whole(at, value, result);
}

CIRCLET_INLINE void cast_one(const char *from, char *to, int source, int result) {
    if (source == CAST_FLOAT64) cast_from_double(*(const double *)from, to, result);
    else if (cast_is_float(source)) cast_from_float(cast_load_f32(from, source), to, result);
    else cast_from_whole(cast_load_whole(from, source), to, source, result);
}

/* Operands: source, result. */
CIRCLET_INLINE void cast(const struct cast_params *p, void *const *x, void *scratch, int64_t begin,
                         int64_t end, int source, int result) {
    (void)scratch;
    const int64_t step = p->source[ROWS_OUTER], made = p->result[ROWS_OUTER];
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first; row < span.last; row++) {
            const char *from = (const char *)x[0] + rows_offset(row, p->rows.sizes, p->source);
            char *to = (char *)x[1] + rows_offset(row, p->rows.sizes, p->result);
            if (step == cast_bytes(source) && made == cast_bytes(result))
                for (int64_t i = span.begin; i < span.end; i++)
                    cast_one(from + i * cast_bytes(source), to + i * cast_bytes(result), source,
                             result);
            else
                for (int64_t i = span.begin; i < span.end; i++)
                    cast_one(from + i * step, to + i * made, source, result);
        }
    }
}

#endif
