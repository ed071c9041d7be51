/* Few float rows times a constant matrix of 4-bit weights with a float scale per block of inputs.
 *
 * The arithmetic is float's: inputs enter the integer dot product with 20 bits under a scale per
 * BLOCK_Q4_GROUP blocks of them, so that sums err about as float sums do. Weights stay 4 bits wide
 * in memory, plus 8, two inputs of an output in a byte: the low half belongs to input i, the high
 * half to input i + 16 of a block.
 *
 * Two inputs take five products of bytes, not six. In units of a step, with digits of base 256,
 *
 *     x[i] = 256 * (256 * low1 + low0) + rest,  x[i + 16] = 256 * (256 * high1 + high0) + 16 * rest
 *
 * and `rest` meets the whole byte, low + 16 * high. Its lower half is what x[i + 16] lacks, its
 * upper half what x[i] then lacks, both to 16 steps; `high` takes the upper half off again.
 */
#ifndef CIRCLET_BLOCK_Q4_H
#define CIRCLET_BLOCK_Q4_H

#include "simd_int.h"

struct block_q4_split_params {
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
#define BLOCK_Q4_PAIRS 16
#define BLOCK_Q4_GROUP 4        /* blocks of inputs that share a step */
#define BLOCK_Q4_BYTES 80       /* of a split block: low1, high1, low0, high0, rest */
#define BLOCK_Q4_MOST 522080.0f /* the greatest input in units of 16 steps: sums fit 32 bits */
#define BLOCK_Q4_LEAST 1e-30f   /* inputs below this count as 0 */

/* A block of inputs: what a step is worth, which the first block of a group tells, and what the 8
 * that weights are stored plus adds. */
struct block_q4_scale {
    float step;
    int32_t correction;
};

/* Four kinds of integers, which fit int8. */
CIRCLET_INLINE void block_q4_store(int8_t *split, vi a, vi b, vi c, vi d) {
    union { vu8 whole; vqi8 part[4]; } kinds;
    kinds.whole = v_ungroup((vu8)v_saturate_4_i8(a, b, c, d), 1);
    CIRCLET_UNROLL for (int k = 0; k < 4; k++)
        *(vqi8_u *)(split + k * BLOCK_Q4_PAIRS) = kinds.part[k];
}

/* Splits pairs of inputs, in units of 16 steps. Returns what the 8 adds to their lanes. */
CIRCLET_INLINE vi block_q4_pairs(int8_t *split, vf low, vf high) {
    vi second = v_round_i32(high), lower = second & 15;
    vi first = v_round_i32(low - v_to_f32(lower) * v_splat(0.0625f));
    vi upper = ((first + 8) & 15) - 8, rest = (upper << 4) + lower;
    first = (first - upper) >> 4, second = (second >> 4) - upper;
    vi first_upper = (first + 128) >> 8, second_upper = (second + 128) >> 8;
    block_q4_store(split, first_upper, second_upper, first - (first_upper << 8),
                   second - (second_upper << 8));
    v_narrow_i8(split + 4 * BLOCK_Q4_PAIRS, rest);
    vi steps = (first << 8) + rest;
    if (!CIRCLET_DOT_SIGNED) steps += (second << 8) + (rest << 4);
    return steps;
}

/* The greatest magnitude; infinite or NaN where one is. */
CIRCLET_INLINE float block_q4_peak(const float *x, int64_t inputs) {
    vi peaks = v_zero_i32();
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < inputs; i += BLOCK_Q4) {
        CIRCLET_UNROLL for (int j = 0; j < BLOCK_Q4; j += CIRCLET_LANES)
            peaks = v_max_i32((vi)v_abs(v_load(x + i + j)), peaks);
    }
    int32_t bits = v_fold_max_i32(peaks);
    float peak;
    __builtin_memcpy(&peak, &bits, sizeof peak);
    return peak;
}

/* Steps become the greatest magnitudes. Returns 0, or NaN where an input is not finite. */
CIRCLET_INLINE float block_q4_peaks(const float *x, int64_t blocks, struct block_q4_scale *scales) {
    float poison = 0;
    CIRCLET_NO_UNROLL for (int64_t first = 0; first < blocks; first += BLOCK_Q4_GROUP) {
        const int64_t count = s_min_i64(BLOCK_Q4_GROUP, blocks - first);
        scales[first].step = block_q4_peak(x + first * BLOCK_Q4, count * BLOCK_Q4);
        poison += scales[first].step * 0;
    }
    return poison;
}

/* Splits a block, in steps of which `inverse` make 1. Returns what the 8 adds. */
CIRCLET_INLINE int32_t block_q4_block(const float *x, float inverse, int8_t *split) {
    vi sum = v_zero_i32();
    CIRCLET_UNROLL for (int i = 0; i < BLOCK_Q4_PAIRS; i += CIRCLET_LANES)
        sum += block_q4_pairs(split + i, v_load(x + i) * v_splat(inverse),
                              v_load(x + i + BLOCK_Q4_PAIRS) * v_splat(inverse));
    return -8 * v_fold_add_i32(sum);
}

/* From peaks to steps; splits rows. */
CIRCLET_INLINE void block_q4_quantise(const float *x, int64_t blocks, int8_t *split,
                                      struct block_q4_scale *scales) {
    CIRCLET_NO_UNROLL for (int64_t first = 0; first < blocks; first += BLOCK_Q4_GROUP) {
        const int64_t last = s_min_i64(first + BLOCK_Q4_GROUP, blocks);
        float peak = scales[first].step, inverse = peak < BLOCK_Q4_LEAST ? 0 : BLOCK_Q4_MOST / peak;
        scales[first].step = peak * (0.0625f / BLOCK_Q4_MOST);
        CIRCLET_NO_UNROLL for (int64_t b = first; b < last; b++)
            scales[b].correction =
                block_q4_block(x + b * BLOCK_Q4, inverse, split + b * BLOCK_Q4_BYTES);
    }
}

/* Operands: input, split rows, and scales, behind those of each row one whose step is 0, or NaN
 * where an input is not finite. A task is a row. */
CIRCLET_INLINE void block_q4_split(const struct block_q4_split_params *p, void *const *operands,
                                    void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t blocks = p->depth / BLOCK_Q4;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)operands[0] + row * p->depth;
        int8_t *split = (int8_t *)operands[1] + row * blocks * BLOCK_Q4_BYTES;
        struct block_q4_scale *scales = (struct block_q4_scale *)operands[2] + row * (blocks + 1);
        scales[blocks].step = block_q4_peaks(x, blocks, scales);
        block_q4_quantise(x, blocks, split, scales);
    }
}

/* What one block of inputs adds to a vector of outputs, in steps. Parts of it may not fit 32 bits:
 * they wrap, and the whole comes out right. */
CIRCLET_INLINE vi block_q4_sum(const uint8_t *w, const int8_t *split, int32_t correction) {
    vi sums[5] = {v_zero_i32(), v_zero_i32(), v_zero_i32(), v_zero_i32(), v_splat_i32(correction)};
    CIRCLET_UNROLL for (int j = 0; j < 4; j++) {
        vu8 both = v_load_u8(w + j * CIRCLET_VBYTES), low = both & 15, high = both & 240;
        const vu8 weights[5] = {low, high, low, high, both};
        CIRCLET_UNROLL for (int d = 0; d < 5; d++) {
            const int8_t *data = split + d * BLOCK_Q4_PAIRS + 4 * j;
            sums[d] = v_dot4(sums[d], weights[d], (vi8)v_splat_4u8((const uint8_t *)data));
        }
    }
    vu upper = ((vu)sums[0] << 4) + (vu)sums[1], lower = ((vu)sums[2] << 4) + (vu)sums[3];
    return (vi)((((upper << 8) + lower) << 4) + (vu)sums[4]);
}

/* Operands: split rows, packed weights, scales of weights, biases, output, scales of the input. A
 * task is `vectors` registers of outputs; their weights stand together, block by block. */
CIRCLET_INLINE void block_q4(const struct block_q4_params *p, void *const *operands, void *scratch,
                             int64_t begin, int64_t end, const int vectors) {
    const int64_t width = vectors * CIRCLET_LANES, blocks = p->depth / BLOCK_Q4;
    const int64_t scales_of_row = blocks / p->per_scale * width;
    (void)scratch;
    for (int64_t row = 0; row < p->rows; row++) {
        const int8_t *split = (const int8_t *)operands[0] + row * blocks * BLOCK_Q4_BYTES;
        const struct block_q4_scale *scales = operands[5];
        scales += row * (blocks + 1);
        float poison = scales[blocks].step;
        for (int64_t task = begin; task < end; task++) {
            const uint8_t *w = (const uint8_t *)operands[1] + task * width * p->depth / 2;
            const float *factors = (const float *)operands[2] + task * scales_of_row;
            int64_t done = 0; /* blocks of those that share a scale of weights */
            vf acc[4];
            CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
                acc[v] = v_load((const float *)operands[3] + task * width + v * CIRCLET_LANES) +
                         v_splat(poison);
            for (int64_t first = 0; first < blocks; first += BLOCK_Q4_GROUP) {
                const int64_t last = s_min_i64(first + BLOCK_Q4_GROUP, blocks);
                vf part[4];
                CIRCLET_UNROLL for (int v = 0; v < vectors; v++) part[v] = v_zero();
                CIRCLET_NO_UNROLL for (int64_t b = first; b < last; b++) {
                    CIRCLET_UNROLL for (int v = 0; v < vectors; v++, w += 4 * CIRCLET_VBYTES) {
                        vi sum =
                            block_q4_sum(w, split + b * BLOCK_Q4_BYTES, scales[b].correction);
                        vf factor = v_load(factors + v * CIRCLET_LANES);
                        part[v] = v_fma(v_to_f32(sum), factor, part[v]);
                    }
                    if (++done == p->per_scale) factors += width, done = 0;
                }
                CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
                    acc[v] = v_fma(part[v], v_splat(scales[first].step), acc[v]);
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
