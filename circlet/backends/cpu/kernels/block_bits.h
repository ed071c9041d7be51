/* Float rows times a constant matrix of 4- or 8-bit weights with a scale for each block of inputs.
 *
 * Weights stay as narrow as they are stored. Inputs become integers in steps of their block of 32:
 * of 8 bits where that is allowed, or of so many that sums err about as float sums do. Their digits
 * are of base 256, or 128 where two products of bytes are added in 16 bits: 2 * 255 * 64 fits.
 * Products of digits and weights are exact; sums of a block become floats, are less what the zero
 * point adds, and are scaled.
 *
 * Of 4-bit weights a byte holds two of an output: the low half belongs to input i, the high half to
 * input i + 16 of a block. Sums of 32 products fit 32 bits: 15 * 32 * 2^22 and 255 * 32 * 2^18.
 */
#ifndef CIRCLET_BLOCK_BITS_H
#define CIRCLET_BLOCK_BITS_H

#include "simd_int.h"

struct block_bits_split_params {
    int64_t depth; /* inputs of a row */
};

struct block_bits_params {
    int64_t rows;
    int64_t blocks;    /* of inputs of a row */
    int64_t units;     /* outputs */
    int64_t per_scale; /* blocks that share a scale of the weights */
};

#define BLOCK_BITS 32
#define BLOCK_BITS_LEAST 1e-30f /* blocks of inputs all below this count as 0 */
#define BLOCK_BITS_AHEAD 2048   /* bytes between the weights at work and those that are fetched */

/* A block of inputs: what a step is worth, the sum of its steps, and what the offset at which
 * weights are stored adds to a sum. */
struct block_bits_scale {
    float step;
    float total;
    int32_t correction;
};

/* Weights of 8 bits are stored less 128 where the dot product takes signed bytes. */
#define BLOCK_BITS_IS_CENTRED(BITS) ((BITS) == 8 && CIRCLET_DOT_SIGNED)

#if CIRCLET_HAS_PAIRS
#define BLOCK_BITS_PAIRS(BITS) 1
#else
#define BLOCK_BITS_PAIRS(BITS) 0
#endif
/* Whether sums of a block are of 16 bits until its end: a lane adds 16 products up to 15 * 128. */
#define BLOCK_BITS_IS_NARROW(BITS) (BLOCK_BITS_PAIRS(BITS) && (BITS) == 4)
#define BLOCK_BITS_DIGIT(BITS) (BLOCK_BITS_PAIRS(BITS) && (BITS) == 8 ? 7 : 8)

CIRCLET_INLINE float block_bits_most(const int BITS, const int DIGITS) {
    return DIGITS < 3 ? 127.0f : BITS == 4 ? 4194303.0f : 262143.0f;
}

/* The greatest magnitude; infinite or NaN where one is. */
CIRCLET_INLINE float block_bits_peak(const float *x) {
    vi peaks = v_zero_i32();
    CIRCLET_UNROLL for (int i = 0; i < BLOCK_BITS; i += CIRCLET_LANES)
        peaks = v_max_i32((vi)v_abs(v_load(x + i)), peaks);
    int32_t bits = v_fold_max_i32(peaks);
    float peak;
    __builtin_memcpy(&peak, &bits, sizeof peak);
    return peak;
}

/* A block as digits, the low ones of all inputs first. */
CIRCLET_INLINE struct block_bits_scale block_bits_digits(const float *x, int8_t *split,
                                                         const int BITS, const int DIGITS) {
    const float peak = block_bits_peak(x), most = block_bits_most(BITS, DIGITS);
    const int is_finite = peak * 0 == 0;
    vf inverse = v_splat(is_finite && peak >= BLOCK_BITS_LEAST ? most / peak : 0);
    vi sum = v_zero_i32();
    CIRCLET_UNROLL for (int i = 0; i < BLOCK_BITS; i += CIRCLET_LANES) {
        vi rest = v_round_i32(v_load(x + i) * inverse);
        sum += rest;
        CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++) {
            vi digit = rest;
            const int bits = BLOCK_BITS_DIGIT(BITS), half = 1 << (bits - 1);
            if (d < DIGITS - 1) digit = ((rest + half) & (2 * half - 1)) - half;
            v_narrow_i8(split + d * BLOCK_BITS + i, digit);
            rest = (rest - digit) >> bits;
        }
    }
    const int32_t total = v_fold_add_i32(sum);
    const int32_t middle = BLOCK_BITS_IS_CENTRED(BITS) ? 0 : BITS == 4 ? 8 : 128;
    return (struct block_bits_scale){peak >= BLOCK_BITS_LEAST || !is_finite
                                         ? peak / most + peak * 0 : 0,
                                     (float)total, -middle * total};
}

/* Operands: input, digits, scales. A task is a row; behind its last input there are zeros. */
CIRCLET_INLINE void block_bits_split(const struct block_bits_split_params *p,
                                     void *const *operands, void *scratch, int64_t begin,
                                     int64_t end, const int BITS, const int DIGITS) {
    (void)scratch;
    const int64_t whole = p->depth / BLOCK_BITS, left = p->depth % BLOCK_BITS;
    const int64_t blocks = whole + (left > 0);
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)operands[0] + row * p->depth;
        int8_t *split = (int8_t *)operands[1] + row * blocks * BLOCK_BITS * DIGITS;
        struct block_bits_scale *scales = (struct block_bits_scale *)operands[2] + row * blocks;
        CIRCLET_NO_UNROLL for (int64_t b = 0; b < whole; b++)
            scales[b] = block_bits_digits(x + b * BLOCK_BITS, split + b * BLOCK_BITS * DIGITS,
                                          BITS, DIGITS);
        if (left) {
            float last[BLOCK_BITS];
            CIRCLET_NO_UNROLL for (int i = 0; i < BLOCK_BITS; i++)
                last[i] = i < left ? x[whole * BLOCK_BITS + i] : 0;
            scales[whole] = block_bits_digits(last, split + whole * BLOCK_BITS * DIGITS, BITS,
                                              DIGITS);
        }
    }
}

CIRCLET_INLINE vi block_bits_add(vi sum, vu8 weights, const int8_t *digits, const int BITS) {
    vi8 data = (vi8)v_splat_4u8((const uint8_t *)digits);
#if CIRCLET_HAS_PAIRS
    if (BLOCK_BITS_IS_NARROW(BITS)) return (vi)((vi16)sum + v_pairs(weights, data));
    return v_add_pairs(sum, v_pairs(weights, data));
#else
    (void)BITS;
    return v_dot4(sum, weights, data);
#endif
}

/* Digits' sums as one, modulo 2^32. */
CIRCLET_INLINE vi block_bits_joined(const vi *sums, const int BITS, const int DIGITS) {
    vu all = (vu)v_zero_i32();
    (void)BITS;
    CIRCLET_UNROLL for (int d = DIGITS - 1; d >= 0; d--) {
        vi sum = sums[d];
        if (BLOCK_BITS_IS_NARROW(BITS)) sum = v_madd_i16((vi16)sum, (vi16){0} + 1);
        all = (all << BLOCK_BITS_DIGIT(BITS)) + (vu)sum;
    }
    return (vi)all;
}

/* What a block of inputs of MR rows adds to a vector of outputs, in steps. */
CIRCLET_INLINE void block_bits_sums(vi *made, const uint8_t *w, const int8_t *digits, int64_t step,
                                    const int BITS, const int DIGITS, const int MR) {
    vi sums[8][3];
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++) sums[m][d] = v_zero_i32();
    CIRCLET_UNROLL for (int j = 0; j < BITS; j++) {
        vu8 both = v_load_u8(w + j * CIRCLET_VBYTES);
        if (BITS == 8) {
            CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++)
                    sums[m][d] = block_bits_add(
                        sums[m][d], both, digits + m * step + d * BLOCK_BITS + 4 * j, BITS);
            continue;
        }
        vu8 low = both & 15, high = (vu8)((vu16)both >> 4) & 15;
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++) {
                const int8_t *at = digits + m * step + d * BLOCK_BITS + 4 * j;
                sums[m][d] = block_bits_add(sums[m][d], low, at, BITS);
                sums[m][d] = block_bits_add(sums[m][d], high, at + BLOCK_BITS / 2, BITS);
            }
        }
    }
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        made[m] = block_bits_joined(sums[m], BITS, DIGITS);
}

/* Operands: digits, packed weights, scales of weights, biases, output, scales of the input, zero
 * points of the weights (less the middle of their range; null where all are there). A task is NV
 * registers of outputs; their weights stand together, block by block, and meet MR rows at a time. */
CIRCLET_INLINE void block_bits(const struct block_bits_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, const int BITS,
                               const int DIGITS, const int ZEROS, const int MR, const int NV) {
    (void)scratch;
    const int64_t width = NV * CIRCLET_LANES, bytes = BITS * CIRCLET_VBYTES;
    const int64_t groups = (p->blocks + p->per_scale - 1) / p->per_scale;
    const int64_t digits_of_row = p->blocks * BLOCK_BITS * DIGITS;
    for (int64_t task = begin; task < end; task++) {
        for (int64_t next = 0; next < p->rows; next += MR) {
            const int64_t row = s_min_i64(next, p->rows - MR);
            const int8_t *digits = (const int8_t *)operands[0] + row * digits_of_row;
            const struct block_bits_scale *scales = operands[5];
            const uint8_t *w = (const uint8_t *)operands[1] + task * p->blocks * NV * bytes;
            const float *factors = (const float *)operands[2] + task * groups * width;
            const int8_t *zeros = operands[6];
            int64_t done = 0; /* blocks of those that share a scale of weights */
            vf acc[8][4];
            scales += row * p->blocks;
            if (ZEROS) zeros += task * groups * width;
            CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                    acc[m][v] = v_load((const float *)operands[3] + task * width +
                                       v * CIRCLET_LANES);
            CIRCLET_NO_UNROLL for (int64_t b = 0; b < p->blocks; b++) {
                CIRCLET_UNROLL for (int v = 0; v < NV; v++, w += bytes) {
                    vi sums[8];
                    if (next == 0) {
                        CIRCLET_UNROLL for (int line = 0; line < bytes; line += 64)
                            __builtin_prefetch(w + BLOCK_BITS_AHEAD + line);
                    }
                    block_bits_sums(sums, w, digits, digits_of_row, BITS, DIGITS, MR);
                    vf factor = v_load(factors + v * CIRCLET_LANES), zero = v_zero();
                    if (ZEROS) zero = v_to_f32(v_widen_i8(zeros + v * CIRCLET_LANES));
                    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                        const struct block_bits_scale *s = scales + m * p->blocks + b;
                        vf sum = v_to_f32(sums[m] + v_splat_i32(s->correction));
                        if (ZEROS) sum = v_fma(zero, v_splat(-s->total), sum);
                        acc[m][v] = v_fma(sum, factor * v_splat(s->step), acc[m][v]);
                    }
                }
                digits += BLOCK_BITS * DIGITS;
                if (++done == p->per_scale) {
                    factors += width, done = 0;
                    if (ZEROS) zeros += width;
                }
            }
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                float *out = (float *)operands[4] + (row + m) * p->units + task * width;
                CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
                    const int64_t left = p->units - task * width - v * CIRCLET_LANES;
                    if (left >= CIRCLET_LANES) v_store(out + v * CIRCLET_LANES, acc[m][v]);
                    else if (left > 0) v_store_n(out + v * CIRCLET_LANES, acc[m][v], left);
                }
            }
        }
    }
}

#endif
