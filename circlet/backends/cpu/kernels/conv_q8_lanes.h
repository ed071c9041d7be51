/* Sums of conv_q8.h on Arm, sixteen bytes of every pixel at a time.
 *
 * With a dot product, groups of four bytes are taken by lane from one register of a pixel, so that a
 * group takes no load of its own:
 *
 *     x[m]  g0 g1 g2 g3      sdot acc[m][n], w[g][n], x[m].4b[g]
 *
 * Without one, products of bytes are 16 bits wide and are added in pairs (SMULL, SADALP): those of
 * the first two and of the last two channels of a register have sums of their own, whose neighbours
 * are added when all is done. No product of two bytes leaves 16 bits, nor does the sum of two where
 * no weight is -128 (SMLAL), so that all of it is exact:
 *
 *     first  c0: t0 + t1 | t2 + t3 | c1: ..      last  c2: t0 + t1 | t2 + t3 | c3: ..
 */
#ifndef CIRCLET_CONV_Q8_LANES_H
#define CIRCLET_CONV_Q8_LANES_H

#include "simd_int.h"

#define CONV_Q8_LANE_BYTES 16 /* of a pixel that are loaded at once */

#define CONV_Q8_HAS_LANES CIRCLET_HAS_DOT4_LANE

#if CONV_Q8_HAS_LANES

/* Sixteen bytes of each pixel; `acc` is [pixels][vectors]. */
CIRCLET_INLINE void conv_q8_lanes(vi *acc, const uint8_t *at, int64_t in_pixel, const int8_t *w,
                                  const int pixels, const int vectors, const int flip) {
    const int changes = CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_LOADS;
    vu8 data[16];
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        data[m] = v_load_u8(at + m * in_pixel);
        if (changes) data[m] ^= 0x80;
    }
    CIRCLET_UNROLL for (int lane = 0; lane < 4; lane++)
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
            vi8 weights = v_load_i8(w + (lane * vectors + n) * CIRCLET_VBYTES);
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                acc[m * vectors + n] =
                    flip & CONV_Q8_UNSIGNED
                        ? v_dot4_unsigned_lane(acc[m * vectors + n], data[m], weights, lane)
                        : v_dot4_lane(acc[m * vectors + n], data[m], weights, lane);
        }
}
#endif

#if defined(__aarch64__) && !defined(__ARM_FEATURE_DOTPROD)
#define CONV_Q8_HAS_HALVES 1

/* Sums of the first two and of the last two channels of a register. */
struct conv_q8_halves {
    vi first, last;
};

CIRCLET_INLINE void conv_q8_halves_add(struct conv_q8_halves *sum, vu8 data, vi8 weights) {
    vi16 first, last;
    __asm__("smull %0.8h, %1.8b, %2.8b" : "=w"(first) : "w"(data), "w"(weights));
    __asm__("smull2 %0.8h, %1.16b, %2.16b" : "=w"(last) : "w"(data), "w"(weights));
    __asm__("sadalp %0.4s, %1.8h" : "+w"(sum->first) : "w"(first));
    __asm__("sadalp %0.4s, %1.8h" : "+w"(sum->last) : "w"(last));
}

/* One group of four bytes of each pixel, in every lane of `data`. */
CIRCLET_INLINE void conv_q8_halves_group(struct conv_q8_halves *sums, const vu8 *data,
                                         const int8_t *w, const int pixels, const int vectors) {
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        vi8 weights = v_load_i8(w + n * CIRCLET_VBYTES);
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
            conv_q8_halves_add(&sums[m * vectors + n], data[m], weights);
    }
}

/* sums + data[0] * weights + data[1] * next, none of which holds -128. */
CIRCLET_INLINE void conv_q8_halves_add_two(struct conv_q8_halves *sum, const vu8 *data,
                                           vi8 weights, vi8 next) {
    vi16 first, last;
    __asm__("smull %0.8h, %1.8b, %2.8b" : "=w"(first) : "w"(data[0]), "w"(weights));
    __asm__("smull2 %0.8h, %1.16b, %2.16b" : "=w"(last) : "w"(data[0]), "w"(weights));
    __asm__("smlal %0.8h, %1.8b, %2.8b" : "+w"(first) : "w"(data[1]), "w"(next));
    __asm__("smlal2 %0.8h, %1.16b, %2.16b" : "+w"(last) : "w"(data[1]), "w"(next));
    __asm__("sadalp %0.4s, %1.8h" : "+w"(sum->first) : "w"(first));
    __asm__("sadalp %0.4s, %1.8h" : "+w"(sum->last) : "w"(last));
}

/* Sixteen bytes of each pixel. */
CIRCLET_INLINE void conv_q8_halves_load(struct conv_q8_halves *sums, const uint8_t *at,
                                        int64_t in_pixel, const int8_t *w, const int pixels,
                                        const int vectors, const uint8_t change,
                                        const int narrow) {
    vi data[16];
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
        data[m] = (vi)(v_load_u8(at + m * in_pixel) ^ change);
    CIRCLET_UNROLL for (int lane = 0; lane < 4; lane += 2) {
        vu8 groups[16][2];
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
            groups[m][0] = (vu8)v_splat_lane(data[m], lane);
            groups[m][1] = (vu8)v_splat_lane(data[m], lane + 1);
        }
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
            vi8 weights = v_load_i8(w + (lane * vectors + n) * CIRCLET_VBYTES);
            vi8 next = v_load_i8(w + ((lane + 1) * vectors + n) * CIRCLET_VBYTES);
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
                struct conv_q8_halves *sum = &sums[m * vectors + n];
                if (narrow) {
                    conv_q8_halves_add_two(sum, groups[m], weights, next);
                    continue;
                }
                conv_q8_halves_add(sum, groups[m][0], weights);
                conv_q8_halves_add(sum, groups[m][1], next);
            }
        }
    }
}

/* The groups of a run, until fewer than four bytes are left. */
CIRCLET_INLINE const int8_t *conv_q8_halves_run(struct conv_q8_halves *sums, const uint8_t *run,
                                                int64_t in_pixel, int64_t whole, const int8_t *w,
                                                const int pixels, const int vectors,
                                                const int flip, const int narrow) {
    const uint8_t change = flip ? 0x80 : 0;
    const int64_t step = vectors * CIRCLET_VBYTES;
    int64_t k = 0;
    for (; k + CONV_Q8_LANE_BYTES <= whole; k += CONV_Q8_LANE_BYTES, w += 4 * step)
        conv_q8_halves_load(sums, run + k, in_pixel, w, pixels, vectors, change, narrow);
    for (; k < whole; k += 4, w += step) {
        vu8 group[16];
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
            group[m] = v_splat_4u8(run + k + m * in_pixel) ^ change;
        conv_q8_halves_group(sums, group, w, pixels, vectors);
    }
    return w;
}

/* All runs of a tile of at most sixteen registers of sums. */
CIRCLET_INLINE void conv_q8_halves(vi *acc, const struct conv_q8_params *p, const uint8_t *in,
                                   const int8_t *w, const int pixels, const int vectors,
                                   const int flip, const int short_run) {
    const int flip_each = CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_LOADS;
    const uint8_t change = flip_each ? 0x80 : 0;
    const int64_t length = p->run_bytes, whole = length & ~3ll;
    struct conv_q8_halves sums[32];
    CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++)
        sums[i] = (struct conv_q8_halves){{0}, {0}};
    for (int y = 0; y < CONV_Q8_DOWN(p, flip); y++)
        for (int x = 0; x < CONV_Q8_ACROSS(p, flip); x++) {
            const uint8_t *run = in + y * p->run_down + x * p->run_across;
            w = conv_q8_halves_run(sums, run, p->in.pixel, whole, w, pixels, vectors, flip_each,
                                   flip & CONV_Q8_NARROW);
            if (whole == length) continue;
            vu8 group[16];
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
                const uint8_t *at = run + m * p->in.pixel;
                vu8 data = short_run ? v_splat_nu8(at, short_run) : v_splat_4u8(at + length - 4);
                group[m] = data ^ change;
            }
            conv_q8_halves_group(sums, group, w, pixels, vectors);
            w += vectors * CIRCLET_VBYTES;
        }
    CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++) {
        vi both;
        __asm__("addp %0.4s, %1.4s, %2.4s" : "=w"(both) : "w"(sums[i].first), "w"(sums[i].last));
        acc[i] += both;
    }
}
#else
#define CONV_Q8_HAS_HALVES 0
#endif

#endif
