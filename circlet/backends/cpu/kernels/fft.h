/* Fourier transforms of real rows whose length is a power of two, one row per lane.
 *
 * A row of N numbers is transformed as N / 2 complex ones, even elements as real and odd ones as
 * imaginary parts, whose spectra are then told apart by symmetry. The transform is radix 2,
 * decimated in time: elements are loaded in bit-reversed order, and stages of butterflies double
 * the length. A row in each lane needs no shuffles. Twiddles: cos(2 pi k / N) and sin(2 pi k / N)
 * for k <= N / 2, interleaved.
 */
#ifndef CIRCLET_FFT_H
#define CIRCLET_FFT_H

#include "simd.h"

struct rfft_params {
    int64_t rows;
    int64_t width;  /* elements of an input row */
    int64_t used;   /* of them that are transformed; zeros follow */
    int64_t length; /* N, at least 2 */
    int64_t bits;   /* 2^bits = N / 2 */
};

CIRCLET_INLINE int64_t rfft_reversed(int64_t index, int64_t bits) {
    int64_t result = 0;
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < bits; i++)
        result |= (index >> i & 1) << (bits - 1 - i);
    return result;
}

CIRCLET_INLINE void rfft_load(const struct rfft_params *p, float *z, const float *x, int64_t lanes) {
    for (int64_t k = 0; k < p->length / 2; k++) {
        float *to = z + rfft_reversed(k, p->bits) * 2 * CIRCLET_LANES;
        v_store(to, v_zero());
        v_store(to + CIRCLET_LANES, v_zero());
        CIRCLET_NO_UNROLL for (int64_t lane = 0; lane < lanes; lane++) {
            const float *from = x + lane * p->width + 2 * k;
            if (2 * k < p->used) to[lane] = from[0];
            if (2 * k + 1 < p->used) to[CIRCLET_LANES + lane] = from[1];
        }
    }
}

CIRCLET_INLINE void rfft_butterfly(float *a, float *b, float cosine, float sine) {
    vf c = v_splat(cosine), s = v_splat(sine);
    vf br = v_load(b), bi = v_load(b + CIRCLET_LANES);
    vf ar = v_load(a), ai = v_load(a + CIRCLET_LANES);
    vf tr = br * c + bi * s, ti = bi * c - br * s;
    v_store(a, ar + tr), v_store(a + CIRCLET_LANES, ai + ti);
    v_store(b, ar - tr), v_store(b + CIRCLET_LANES, ai - ti);
}

CIRCLET_INLINE void rfft_stages(const struct rfft_params *p, float *z, const float *twiddles) {
    int64_t points = p->length / 2;
    for (int64_t half = 1; half < points; half *= 2)
        for (int64_t first = 0; first < points; first += 2 * half)
            for (int64_t j = 0; j < half; j++) {
                const float *w = twiddles + 2 * (j * (p->length / (2 * half)));
                rfft_butterfly(z + (first + j) * 2 * CIRCLET_LANES,
                               z + (first + j + half) * 2 * CIRCLET_LANES, w[0], w[1]);
            }
}

/* Parts the spectra of even and odd elements, and joins them to that of the row. */
CIRCLET_INLINE void rfft_store(const struct rfft_params *p, float *out, const float *z,
                               const float *twiddles, int64_t lanes) {
    int64_t points = p->length / 2;
    const vf half = v_splat(0.5f);
    for (int64_t k = 0; k <= points; k++) {
        const float *a = z + (k % points) * 2 * CIRCLET_LANES;
        const float *b = z + ((points - k) % points) * 2 * CIRCLET_LANES;
        vf ar = v_load(a), ai = v_load(a + CIRCLET_LANES);
        vf br = v_load(b), bi = -v_load(b + CIRCLET_LANES);
        vf even_r = (ar + br) * half, even_i = (ai + bi) * half;
        vf odd_r = (ai - bi) * half, odd_i = (br - ar) * half;
        vf c = v_splat(twiddles[2 * k]), s = v_splat(twiddles[2 * k + 1]);
        union { vf v; float e[CIRCLET_LANES]; } real = {even_r + odd_r * c + odd_i * s};
        union { vf v; float e[CIRCLET_LANES]; } imaginary = {even_i + odd_i * c - odd_r * s};
        if (k == 0 || k == points) imaginary.v = v_splat(-0.0f); /* as LiteRT has them */
        CIRCLET_NO_UNROLL for (int64_t lane = 0; lane < lanes; lane++) {
            float *to = out + (lane * (points + 1) + k) * 2;
            to[0] = real.e[lane], to[1] = imaginary.e[lane];
        }
    }
}

/* Operands: source, twiddles, result. A task is one row per lane. */
CIRCLET_INLINE void rfft(const struct rfft_params *p, void *const *operands, void *scratch,
                         int64_t begin, int64_t end) {
    float *z = scratch;
    const float *twiddles = operands[1];
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task * CIRCLET_LANES, lanes = s_min_i64(CIRCLET_LANES, p->rows - row);
        rfft_load(p, z, (const float *)operands[0] + row * p->width, lanes);
        rfft_stages(p, z, twiddles);
        rfft_store(p, (float *)operands[2] + row * (p->length + 2), z, twiddles, lanes);
    }
}

struct complex_part_params {
    int64_t count;    /* elements */
    int64_t per_task; /* of a task */
};

enum { COMPLEX_REAL, COMPLEX_IMAG, COMPLEX_ABS };

/* Operands: source, result. */
CIRCLET_INLINE void complex_part(const struct complex_part_params *p, void *const *operands,
                                 void *scratch, int64_t begin, int64_t end, const int part) {
    (void)scratch;
    const float *x = operands[0];
    float *y = operands[1];
    int64_t last = s_min_i64(end * p->per_task, p->count);
    for (int64_t i = begin * p->per_task; i < last; i++) {
        double real = x[2 * i], imaginary = x[2 * i + 1];
        if (part != COMPLEX_ABS)
            y[i] = x[2 * i + (part == COMPLEX_IMAG)];
        else if (__builtin_isinf(real) || __builtin_isinf(imaginary)) /* beside NaN as well */
            y[i] = __builtin_inff();
        else
            y[i] = (float)__builtin_sqrt(real * real + imaginary * imaginary);
    }
}

#endif
