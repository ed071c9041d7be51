/* Few float rows times a constant matrix of 4-bit weights with a float scale per block of inputs.
 *
 * The arithmetic is float's: inputs enter the integer dot product as three digits of base 128,
 * 22 bits under a power-free scale per BLOCK_Q4 of them, so that sums err by less than float sums.
 * Weights stay 4 bits wide in memory and are stored plus 8.
 */
#ifndef CIRCLET_BLOCK_Q4_H
#define CIRCLET_BLOCK_Q4_H

#include "simd_int.h"

struct block_q4_digits_params {
    int64_t depth; /* inputs of a row, whole blocks of BLOCK_Q4 */
};

struct block_q4_params {
    int64_t rows;
    int64_t depth;     /* inputs, whole blocks of BLOCK_Q4 */
    int64_t units;     /* outputs */
    int64_t per_scale; /* blocks of BLOCK_Q4 inputs that share one scale of the weights */
    float low;
    float high;
};

#define BLOCK_Q4 32
#define BLOCK_Q4_DIGITS 3
#define BLOCK_Q4_MOST 2080768.0f /* 127 * 2^14: the first digit fits a byte */
#define BLOCK_Q4_LEAST 1e-30f    /* inputs below this count as 0 */

/* A block of inputs: what a step is worth, and -8 times the sum of its numbers of steps. */
struct block_q4_scale {
    float step;
    int32_t correction;
};

/* Digits to `digits`, each kind `depth` bytes behind the one before. Returns 0, or NaN where an
 * input is not finite. */
CIRCLET_INLINE float block_q4_quantise(const float *x, int64_t depth, int8_t *digits,
                                       struct block_q4_scale *scales) {
    vf poison = v_zero();
    for (int64_t b = 0; b < depth; b += BLOCK_Q4, scales++) {
        vf peaks = v_zero();
        CIRCLET_UNROLL for (int i = 0; i < BLOCK_Q4; i += CIRCLET_LANES) {
            vf value = v_load(x + b + i);
            peaks = v_max(v_abs(value), peaks), poison = poison + value * v_zero();
        }
        float peak = v_fold_max(peaks), inverse = peak < BLOCK_Q4_LEAST ? 0 : BLOCK_Q4_MOST / peak;
        vi sum = v_zero_i32();
        CIRCLET_UNROLL for (int i = 0; i < BLOCK_Q4; i += CIRCLET_LANES) {
            vf y = v_load(x + b + i) * v_splat(inverse);
            vi rest = v_to_i32(y + v_copysign(v_splat(0.5f), y));
            sum = sum + rest;
            vi first = (rest + 8192) >> 14;
            rest = rest - (first << 14);
            vi second = (rest + 64) >> 7;
            v_narrow_i8(digits + b + i, first);
            v_narrow_i8(digits + depth + b + i, second);
            v_narrow_i8(digits + 2 * depth + b + i, rest - (second << 7));
        }
        scales->step = peak / BLOCK_Q4_MOST;
        scales->correction = -8 * v_fold_add_i32(sum);
    }
    return v_fold_add(poison);
}

/* Operands: input, digits, and scales, behind those of each row one whose step is 0, or NaN where
 * an input is not finite. A task is a row. */
CIRCLET_INLINE void block_q4_digits(const struct block_q4_digits_params *p, void *const *operands,
                                    void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t blocks = p->depth / BLOCK_Q4;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)operands[0] + row * p->depth;
        int8_t *digits = (int8_t *)operands[1] + row * p->depth * BLOCK_Q4_DIGITS;
        struct block_q4_scale *scales = (struct block_q4_scale *)operands[2] + row * (blocks + 1);
        scales[blocks].step = block_q4_quantise(x, p->depth, digits, scales);
    }
}

/* Adds four bytes of inputs of each digit, times the low or high halves of packed weights. */
CIRCLET_INLINE void block_q4_step(vi *sums, vu8 weights, const int8_t *digits, int64_t depth) {
    CIRCLET_UNROLL for (int d = 0; d < BLOCK_Q4_DIGITS; d++) {
        vi8 data = (vi8)v_splat_4u8((const uint8_t *)digits + d * depth);
        sums[d] = v_dot4(sums[d], weights, data);
    }
}

/* What one block of inputs adds to a vector of outputs, in steps. */
CIRCLET_INLINE vi block_q4_sum(const uint8_t *w, const int8_t *digits, int64_t depth,
                               int32_t correction) {
    vi sums[BLOCK_Q4_DIGITS] = {v_zero_i32(), v_zero_i32(), v_splat_i32(correction)};
    CIRCLET_UNROLL for (int j = 0; j < 4; j++) {
        vu8 bytes = v_load_u8(w + j * CIRCLET_VBYTES);
        block_q4_step(sums, bytes & 15, digits + 4 * j, depth);
        block_q4_step(sums, (vu8)((vu16)bytes >> 4) & 15, digits + 4 * j + 16, depth);
    }
    return (sums[0] << 14) + (sums[1] << 7) + sums[2];
}

/* Operands: digits, packed weights, scales of weights, biases, output, scales of the input. A task
 * is `vectors` registers of outputs; their weights stand together, block by block. */
CIRCLET_INLINE void block_q4(const struct block_q4_params *p, void *const *operands, void *scratch,
                             int64_t begin, int64_t end, const int vectors) {
    const int64_t width = vectors * CIRCLET_LANES, blocks = p->depth / BLOCK_Q4;
    const int64_t scales_of_row = blocks / p->per_scale * width;
    (void)scratch;
    for (int64_t row = 0; row < p->rows; row++) {
        const int8_t *digits = (const int8_t *)operands[0] + row * p->depth * BLOCK_Q4_DIGITS;
        const struct block_q4_scale *scales = operands[5];
        scales += row * (blocks + 1);
        float poison = scales[blocks].step;
        for (int64_t task = begin; task < end; task++) {
            const uint8_t *w = (const uint8_t *)operands[1] + task * width * p->depth / 2;
            const float *factors = (const float *)operands[2] + task * scales_of_row;
            vf acc[4];
            CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
                acc[v] = v_load((const float *)operands[3] + task * width + v * CIRCLET_LANES) +
                         v_splat(poison);
            for (int64_t b = 0; b < blocks; b++) {
                const float *factor = factors + b / p->per_scale * width;
                CIRCLET_UNROLL for (int v = 0; v < vectors; v++, w += 4 * CIRCLET_VBYTES) {
                    vi steps = block_q4_sum(w, digits + b * BLOCK_Q4, p->depth,
                                            scales[b].correction);
                    vf sum = v_to_f32(steps) * v_splat(scales[b].step);
                    acc[v] = v_fma(sum, v_load(factor + v * CIRCLET_LANES), acc[v]);
                }
            }
            float *out = (float *)operands[4] + row * p->units + task * width;
            CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
                vf y = v_clamp(acc[v], v_splat(p->low), v_splat(p->high));
                int64_t left = p->units - task * width - v * CIRCLET_LANES;
                if (left >= CIRCLET_LANES) v_store(out + v * CIRCLET_LANES, y);
                else if (left > 0) v_store_n(out + v * CIRCLET_LANES, y, left);
            }
        }
    }
}

#endif
