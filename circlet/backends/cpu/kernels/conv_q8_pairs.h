/* Sums of conv_q8.h by products of bytes that are added in 16 bits (VPMADDUBSW), which would
 * saturate: two such products, of eight taps, are added before their sum is widened once.
 *
 *     data      x0 x1 x2 x3    x4 x5 x6 x7      16 bits: x0*w0 + x1*w1 + x4*w4 + x5*w5
 *     weights   w0 w1 w2 w3    w4 w5 w6 w7               x2*w2 + x3*w3 + x6*w6 + x7*w7
 *
 * Weights are packed so that no sum leaves 16 bits (lower/integers/pairs_q8.py): what they exceed
 * that by stands apart, as weights of one register that are added to it in steps of their own.
 */
#ifndef CIRCLET_CONV_Q8_PAIRS_H
#define CIRCLET_CONV_Q8_PAIRS_H

#include "simd_int.h"

#if CIRCLET_HAS_PAIRS

/* Where four taps of an excess are; behind it stand its weights, a register of them. */
struct conv_q8_excess {
    int32_t row, column; /* the run */
    int32_t byte;        /* of the run */
    int32_t unused;
};

CIRCLET_INLINE vu8 conv_q8_taps(const uint8_t *p, const int flip_loads, const int short_run) {
    vu8 data = short_run ? v_splat_nu8(p, short_run) : v_splat_4u8(p);
    if (flip_loads) data ^= 0x80;
    return data;
}

/* Four taps or, with `two`, eight. */
CIRCLET_INLINE void conv_q8_pairs_step(vi *acc, const uint8_t *at, int64_t in_pixel,
                                       const int8_t *w, const int pixels, const int vectors,
                                       const int flip_loads, const int short_run, const int two) {
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        const uint8_t *p = at + m * in_pixel;
        vu8 data = conv_q8_taps(p, flip_loads, short_run);
        vu8 next = two ? conv_q8_taps(p + 4, flip_loads, 0) : data;
        /* Where sums take most of 16 registers, weights are operands in memory, pixel by pixel. */
        if (CIRCLET_VBYTES < 64 && pixels * vectors <= 10) __asm__("" : "+r"(w));
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
            vi16 sum = v_pairs(data, v_load_i8(w + n * CIRCLET_VBYTES));
            if (two) sum += v_pairs(next, v_load_i8(w + (vectors + n) * CIRCLET_VBYTES));
            acc[m * vectors + n] = v_add_pairs(acc[m * vectors + n], sum);
        }
    }
}

CIRCLET_INLINE void conv_q8_pairs(vi *acc, const struct conv_q8_params *p, const uint8_t *in,
                                  const int8_t *w, const int pixels, const int vectors,
                                  const int flip, const int short_run) {
    const int flip_loads = CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_LOADS;
    int64_t in_pixel = p->in.pixel, length = p->run_bytes, whole = length & ~3ll;
    const int64_t step = vectors * CIRCLET_VBYTES;
    for (int y = 0; y < CONV_Q8_DOWN(p, flip); y++)
        for (int x = 0; x < CONV_Q8_ACROSS(p, flip); x++) {
            const uint8_t *run = in + y * p->run_down + x * p->run_across;
            int64_t k = 0;
            for (; k + 8 <= whole; k += 8, w += 2 * step) {
                conv_q8_fetch(w, 2 * step);
                conv_q8_pairs_step(acc, run + k, in_pixel, w, pixels, vectors, flip_loads, 0, 1);
            }
            if (k < whole) {
                conv_q8_pairs_step(acc, run + k, in_pixel, w, pixels, vectors, flip_loads, 0, 0);
                w += step;
            }
            if (whole == length) continue;
            const uint8_t *tail = short_run ? run : run + length - 4;
            conv_q8_pairs_step(acc, tail, in_pixel, w, pixels, vectors, flip_loads, short_run, 0);
            w += step;
        }
}

/* Adds what weights exceed their bounds by. `excess` is where those of each register begin, so many
 * registers and one more, then all of them. */
CIRCLET_INLINE void conv_q8_pairs_excess(vi *acc, const struct conv_q8_params *p,
                                         const uint8_t *in, const int32_t *excess, int64_t block,
                                         const int pixels, const int vectors,
                                         const int flip_loads, const int short_run) {
    const int64_t registers = (int64_t)p->blocks * vectors, each = 16 + CIRCLET_VBYTES;
    const char *first = (const char *)(excess + (registers + 4) / 4 * 4);
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        const int32_t *at = excess + block * vectors + n;
        CIRCLET_NO_UNROLL for (int64_t i = at[0]; i < at[1]; i++) {
            const struct conv_q8_excess *e = (const void *)(first + i * each);
            vi8 weights = v_load_i8((const int8_t *)(e + 1));
            const uint8_t *taps = in + e->row * p->run_down + e->column * p->run_across + e->byte;
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
                vu8 data = conv_q8_taps(taps + m * p->in.pixel, flip_loads, short_run);
                acc[m * vectors + n] = v_add_pairs(acc[m * vectors + n], v_pairs(data, weights));
            }
        }
    }
}

#endif
#endif
