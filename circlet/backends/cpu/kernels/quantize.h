/* Floats to int8 or uint8 of an affine scale: divided, rounded with halves away from zero or to even,
 * saturated. Products with the inverse scale are fast but not always the quotients; where a
 * number is so near to a half that they may round apart, its vector is divided. */
#ifndef CIRCLET_QUANTIZE_H
#define CIRCLET_QUANTIZE_H

#include "elementwise.h"
#include "simd_int.h"

#define QUANTIZE_ONE 65536    /* fixed point: the upper half of a lane holds the whole number */
#define QUANTIZE_DOUBT 0xfff8 /* digits that are all zero near halves */
#define QUANTIZE_STEP (4 * CIRCLET_LANES)

struct quantize_params {
    struct row_loops rows;
    int64_t source[7];     /* strides, elements */
    int64_t result[7];     /* strides, elements */
    int64_t flip; /* 128 where the result's type has no sign, else 0 */
    float scale;
    int32_t zero; /* zero point */
};

/* How the numbers of a run are stored. */
typedef struct quantize_affine {
    float scale;
    float low, high; /* of the result's type, less the zero point */
    int32_t zero, flip;
} quantize_affine;

CIRCLET_INLINE quantize_affine quantize_affine_of(float scale, int32_t zero, int64_t flip) {
    int32_t low = (int32_t)flip - 128 - zero;
    return (quantize_affine){scale, (float)low, (float)(low + 255), zero, (int32_t)flip};
}

/* The upper halves of lanes as int8, out of range to the nearest end. */
CIRCLET_INLINE vi8 quantize_saturate(const vi *x) {
#if CIRCLET_VBYTES == 64 && defined(__clang__)
    typedef short words __attribute__((vector_size(64)));
    words half[2];
    CIRCLET_UNROLL for (int h = 0; h < 2; h++) {
        half[h] = (words)__builtin_shufflevector(
            (vi16)x[2 * h], (vi16)x[2 * h + 1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
            29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
    }
    vl bytes = (vl)__builtin_ia32_packsswb512(half[0], half[1]);
    return (vi8)__builtin_shufflevector(bytes, bytes, 0, 2, 4, 6, 1, 3, 5, 7);
#else
    return (vi8)v_ungroup((vu8)v_saturate_4_i8(x[0] >> 16, x[1] >> 16, x[2] >> 16, x[3] >> 16), 1);
#endif
}

CIRCLET_INLINE vu16 v_min_u16(vu16 a, vu16 b) {
    vu16 mask = (vu16)(a < b);
    return (mask & a) | (~mask & b);
}

/* EVEN: whether halves go to even. NaN is 0. */
CIRCLET_INLINE vi quantize_exact(const quantize_affine *p, vf x, const int EVEN) {
    if (EVEN) {
        vf y = v_round_even(x / v_splat(p->scale));
        y = v_select((vi)(y == y), y, v_zero());
        return v_to_i32(v_clamp(y, v_splat(p->low), v_splat(p->high))) + p->zero;
    }
    return v_nearest_ratio(x, v_splat(p->scale), v_splat(p->low), v_splat(p->high)) + p->zero;
}

/* What is computed once for a run. */
typedef struct quantize_line {
    vf inverse, offset;
    vi8 flip;
    int is_fit; /* whether the inverse is a normal number */
} quantize_line;

CIRCLET_INLINE quantize_line quantize_line_of(const quantize_affine *p) {
    const float one = QUANTIZE_ONE, half = QUANTIZE_ONE / 2, middle = 4;
    float inverse = 1.0f / p->scale;
    return (quantize_line){v_splat(inverse * one),
                           v_splat((float)(p->zero - p->flip) * one + half + middle),
                           v_splat_i8((int8_t)p->flip), inverse > 1e-32f && inverse < 1e32f};
}

/* What does not fit 32 bits, and NaN, become numbers without digits on x86; on Arm such numbers, or
 * the greatest, which is right. Elsewhere they are kept away. */
CIRCLET_INLINE vi quantize_digits(vf x, const quantize_line *line) {
    vf y = v_fma(x, line->inverse, line->offset);
#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(__arm__)
    y = v_select((vi)(v_abs(y) < v_splat(2e9f)), y, v_zero());
#endif
    return v_to_i32(y);
}

/* Rounded down after a half is added. Products with the inverse are less than four units of the
 * fixed point off, where results are in range: only numbers near to halves may round apart from the
 * quotient. */
CIRCLET_INLINE void quantize_step(const quantize_affine *p, const quantize_line *line,
                                  const float *from, uint8_t *to, const int EVEN) {
    vi y[4];
    CIRCLET_UNROLL for (int u = 0; u < 4; u++)
        y[u] = quantize_digits(v_load(from + u * CIRCLET_LANES), line);
    vu16 least = v_min_u16(v_min_u16((vu16)y[0], (vu16)y[1]), v_min_u16((vu16)y[2], (vu16)y[3]));
    if (CIRCLET_LIKELY(v_all((vi)(((vi)least & QUANTIZE_DOUBT) != 0)))) {
        v_store_u8(to, (vu8)(quantize_saturate(y) ^ line->flip));
        return;
    }
    CIRCLET_NO_UNROLL for (int u = 0; u < 4; u++)
        v_narrow_u8(to + u * CIRCLET_LANES, quantize_exact(p, v_load(from + u * CIRCLET_LANES), EVEN));
}

CIRCLET_INLINE void quantize_run(const quantize_affine *p, const float *from, uint8_t *to,
                                 int64_t count, const int EVEN) {
    quantize_line line = quantize_line_of(p);
    int64_t i = 0;
    for (; line.is_fit && i + QUANTIZE_STEP <= count; i += QUANTIZE_STEP)
        quantize_step(p, &line, from + i, to + i, EVEN);
    CIRCLET_NO_UNROLL for (; i < count; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, count - i);
        vf x = element_load_f32(from + i, n, ELEMENT_F32);
        element_store_i32(to + i, quantize_exact(p, x, EVEN), n, ELEMENT_U8);
    }
}

/* Operands: source, result. */
CIRCLET_INLINE void quantize(const struct quantize_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end, const int EVEN) {
    quantize_affine affine = quantize_affine_of(p->scale, p->zero, p->flip);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first; row < span.last; row++)
            quantize_run(
                &affine,
                (const float *)x[0] + rows_offset(row, p->rows.sizes, p->source) + span.begin,
                (uint8_t *)x[1] + rows_offset(row, p->rows.sizes, p->result) + span.begin,
                span.end - span.begin, EVEN);
    }
}

struct quantize_rows_params {
    struct row_loops rows; /* each of one scale */
    int64_t source[7];     /* strides, elements */
    int64_t scale[7];      /* strides, elements */
    int64_t zero[7];       /* strides, elements */
    int64_t result[7];     /* strides, elements */
    int64_t flip;          /* 128 where the result's type has no sign, else 0 */
};

/* Operands: source, scales, zero points, result. */
CIRCLET_INLINE void quantize_rows(const struct quantize_rows_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end, const int EVEN) {
    const int64_t *sizes = p->rows.sizes;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first; row < span.last; row++) {
            float scale = ((const float *)x[1])[rows_offset(row, sizes, p->scale)];
            int8_t zero = ((const int8_t *)x[2])[rows_offset(row, sizes, p->zero)];
            quantize_affine affine =
                quantize_affine_of(scale, p->flip ? (uint8_t)zero : zero, p->flip);
            quantize_run(&affine,
                         (const float *)x[0] + rows_offset(row, sizes, p->source) + span.begin,
                         (uint8_t *)x[3] + rows_offset(row, sizes, p->result) + span.begin,
                         span.end - span.begin, EVEN);
        }
    }
}

#endif
