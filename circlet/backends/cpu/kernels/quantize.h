/* Floats as bytes of an affine scale: divided, rounded with halves away from zero, saturated. */
#ifndef CIRCLET_QUANTIZE_H
#define CIRCLET_QUANTIZE_H

#include "elementwise.h"

#define QUANTIZE_ONE 65536   /* fixed point: the third byte of a lane holds the whole number */
#define QUANTIZE_DOUBT 0xfff8 /* digits that are all zero near halves */
#define QUANTIZE_STEP (4 * CIRCLET_LANES)

struct quantize_params {
    int64_t rows;          /* inner runs in all */
    int64_t rows_per_task; /* of a task */
    int64_t inner;         /* elements of a run, contiguous on both sides */
    int64_t chunk;         /* elements of a run that one task does */
    int64_t sizes[6];      /* outer sizes */
    int64_t source[7];     /* strides, elements */
    int64_t result[7];     /* strides, elements */
    float scale;
    float low;    /* of the result's type, less the zero point */
    float high;   /* of the result's type, less the zero point */
    int32_t zero; /* zero point */
};

/* The third bytes of all lanes of a, of b, of c and of d. */
CIRCLET_INLINE vu8 quantize_bytes(vi a, vi b, vi c, vi d) {
#if CIRCLET_VBYTES == 64 && defined(__AVX512VBMI__) && defined(__clang__)
    typedef char bytes __attribute__((vector_size(64)));
    bytes lanes;
    CIRCLET_UNROLL for (int i = 0; i < 64; i++) lanes[i] = (char)(4 * i + 2);
    vl low = (vl)__builtin_ia32_vpermi2varqi512((bytes)a, lanes, (bytes)b);
    vl high = (vl)__builtin_ia32_vpermi2varqi512((bytes)c, lanes, (bytes)d);
    return (vu8)__builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
#else
    union { vqu8 part[4]; vu8 whole; } u;
    u.part[0] = __builtin_convertvector((vu)a >> 16, vqu8);
    u.part[1] = __builtin_convertvector((vu)b >> 16, vqu8);
    u.part[2] = __builtin_convertvector((vu)c >> 16, vqu8);
    u.part[3] = __builtin_convertvector((vu)d >> 16, vqu8);
    return u.whole;
#endif
}

CIRCLET_INLINE vi quantize_exact(const struct quantize_params *p, vf x) {
    return v_nearest_ratio(x, v_splat(p->scale), v_splat(p->low), v_splat(p->high)) + p->zero;
}

/* What is computed once for a run. */
typedef struct quantize_line {
    vf inverse, low, high, offset;
    int is_fit; /* whether the inverse is a normal number */
} quantize_line;

CIRCLET_INLINE quantize_line quantize_line_of(const struct quantize_params *p) {
    const float one = QUANTIZE_ONE, half = QUANTIZE_ONE / 2, middle = 4;
    float inverse = 1.0f / p->scale;
    return (quantize_line){v_splat(inverse * one), v_splat((p->low - 0.25f) * p->scale),
                           v_splat((p->high + 0.25f) * p->scale),
                           v_splat((float)p->zero * one + half + middle),
                           inverse > 1e-32f && inverse < 1e32f};
}

/* In which lanes a fixed-point number may round apart from the quotient: those near to halves, and
 * NaN, which x86 and Arm convert to a number without digits. */
CIRCLET_INLINE vi quantize_doubts(vi digits, vf x) {
    vi near = (vi)((digits & QUANTIZE_DOUBT) == 0);
#if defined(__x86_64__) || defined(__aarch64__) || defined(__arm__)
    (void)x;
    return near;
#else
    return near | (vi)(x != x);
#endif
}

/* Four registers, rounded down after a half is added. Products with the inverse are less than four
 * units of the fixed point off. */
CIRCLET_INLINE void quantize_step(const struct quantize_params *p, const quantize_line *line,
                                  const float *from, uint8_t *to) {
    vi y[4], doubt = v_zero_i32();
    CIRCLET_UNROLL for (int u = 0; u < 4; u++) {
        vf x = v_load(from + u * CIRCLET_LANES);
        y[u] = v_to_i32(v_fma(v_clamp(x, line->low, line->high), line->inverse, line->offset));
        doubt |= quantize_doubts(y[u], x);
    }
    if (CIRCLET_LIKELY(elementwise_all(~doubt))) {
        v_store_u8(to, quantize_bytes(y[0], y[1], y[2], y[3]));
        return;
    }
    CIRCLET_NO_UNROLL for (int u = 0; u < 4; u++)
        v_narrow_u8(to + u * CIRCLET_LANES, quantize_exact(p, v_load(from + u * CIRCLET_LANES)));
}

CIRCLET_INLINE void quantize_run(const struct quantize_params *p, const float *from, uint8_t *to,
                                 int64_t count) {
    quantize_line line = quantize_line_of(p);
    int64_t i = 0;
    for (; line.is_fit && i + QUANTIZE_STEP <= count; i += QUANTIZE_STEP)
        quantize_step(p, &line, from + i, to + i);
    CIRCLET_NO_UNROLL for (; i < count; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, count - i);
        vf x = element_load_f32(from + i, n, ELEMENT_F32);
        element_store_i32(to + i, quantize_exact(p, x), n, ELEMENT_U8);
    }
}

/* Operands: source, result. */
CIRCLET_INLINE void quantize(const struct quantize_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end) {
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = ROWS_SPAN(p, task);
        for (int64_t row = span.first; row < span.last; row++)
            quantize_run(p, (const float *)x[0] + rows_offset(row, p->sizes, p->source) + span.begin,
                         (uint8_t *)x[1] + rows_offset(row, p->sizes, p->result) + span.begin,
                         span.end - span.begin);
    }
}

#endif
