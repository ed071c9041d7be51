/* Float rows times a constant matrix of 4- or 8-bit weights with a scale for each block of inputs.
 *
 * Weights stay as narrow as they are stored. Inputs become integers in steps of their block of 32:
 * of 8 bits where that is allowed, or of so many that sums err about as float sums do. Their digits
 * are of base 256, or 128 where two products of bytes are added in 16 bits: 2 * 255 * 64 fits.
 * Products of digits and weights are exact; sums of a block become floats, are less what the zero
 * point adds, and are scaled.
 *
 * Of 4-bit weights a byte holds two of an output: the low half belongs to input i, the high half to
 * input i + 16 of a block. Where three digits meet them in a dot product of four (BLOCK_BITS_IS_WHOLE),
 * the high half is never taken out of its byte: with x[i + 16] = 16 * q and x[i] = p + q,
 *
 *     low * x[i] + high * x[i + 16] = low * p + (low + 16 * high) * q
 *
 * so the low half meets digits of p and the whole byte digits of q.
 *
 * Sums of 32 products of weights less the middle of their range fit 32 bits: 8 * 32 * 2^23 and
 * 128 * 32 * 2^18. Parts of them may not: they wrap, and the whole comes out right.
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
    float low;         /* smallest result */
    float high;        /* largest result */
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

/* Whether SMLAL adds products of bytes to sums of 16 bits: on Arm before dot products. */
#define BLOCK_BITS_BY_SMLAL (CIRCLET_DOT_SIGNED && !CIRCLET_HAS_DOT4)
/* Whether sums of a block are of 16 bits until its end: each adds 16 products up to 15 * 128. */
#define BLOCK_BITS_IS_NARROW(BITS) ((CIRCLET_HAS_PAIRS || BLOCK_BITS_BY_SMLAL) && (BITS) == 4)
#define BLOCK_BITS_DIGIT(BITS) (CIRCLET_HAS_PAIRS && (BITS) == 8 ? 7 : 8)

#define BLOCK_BITS_IS_WHOLE(BITS, DIGITS) \
    (!BLOCK_BITS_IS_NARROW(BITS) && (BITS) == 4 && (DIGITS) == 3)

/* The greatest input in steps: p and q are of three digits together with what they share. */
CIRCLET_INLINE float block_bits_most(const int BITS, const int DIGITS) {
    if (DIGITS < 3) return 127.0f;
    if (BITS == 8) return 262143.0f;
    return BLOCK_BITS_IS_WHOLE(BITS, DIGITS) ? 7864000.0f : 4194303.0f;
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

/* Digits of integers, the low ones first, each BLOCK_BITS behind the one before. */
CIRCLET_INLINE void block_bits_digits(vi rest, int8_t *split, const int BITS, const int DIGITS) {
    CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++) {
        vi digit = rest;
        const int bits = BLOCK_BITS_DIGIT(BITS), half = 1 << (bits - 1);
        if (d < DIGITS - 1) digit = ((rest + half) & (2 * half - 1)) - half;
        v_narrow_i8(split + d * BLOCK_BITS, digit);
        rest = (rest - digit) >> bits;
    }
}

/* What weights are stored plus, times the inputs that meet them. `all` are the steps of a block,
 * `second` those of q, which are a sixteenth of the steps of its second half. */
CIRCLET_INLINE int32_t block_bits_correction(int32_t all, int32_t second, const int BITS,
                                             const int DIGITS) {
    if (BLOCK_BITS_IS_CENTRED(BITS)) return 0;
    /* Whole signed bytes are stored less 128. */
    if (BLOCK_BITS_IS_WHOLE(BITS, DIGITS) && CIRCLET_DOT_SIGNED) return 8 * (16 * second - all);
    return BITS == 4 ? -8 * all : -128 * all;
}

/* A block as digits. */
CIRCLET_INLINE struct block_bits_scale block_bits_block(const float *x, int8_t *split,
                                                        const int BITS, const int DIGITS) {
    const float peak = block_bits_peak(x), most = block_bits_most(BITS, DIGITS);
    const int is_finite = peak * 0 == 0, is_whole = BLOCK_BITS_IS_WHOLE(BITS, DIGITS);
    const float inverse = is_finite && peak >= BLOCK_BITS_LEAST ? most / peak : 0;
    /* Rounded to 2 and to 16 steps: what is rounded stays below 2^22. */
    const vf first_scale = v_splat(is_whole ? inverse * 0.5f : inverse);
    const vf second_scale = v_splat(is_whole ? inverse * 0.0625f : inverse);
    vi first_sum = v_zero_i32(), second_sum = v_zero_i32();
    CIRCLET_UNROLL for (int i = 0; i < BLOCK_BITS / 2; i += CIRCLET_LANES) {
        vi first = v_round_i32(v_load(x + i) * first_scale);
        vi second = v_round_i32(v_load(x + i + BLOCK_BITS / 2) * second_scale);
        if (is_whole) first <<= 1;
        first_sum += first, second_sum += second;
        if (is_whole) first -= second;
        block_bits_digits(first, split + i, BITS, DIGITS);
        block_bits_digits(second, split + i + BLOCK_BITS / 2, BITS, DIGITS);
    }
    const int32_t second = v_fold_add_i32(second_sum);
    const int32_t all = v_fold_add_i32(first_sum) + (is_whole ? 16 * second : second);
    return (struct block_bits_scale){
        peak >= BLOCK_BITS_LEAST || !is_finite ? peak / most + peak * 0 : 0, (float)all,
        block_bits_correction(all, second, BITS, DIGITS)};
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
            scales[b] = block_bits_block(x + b * BLOCK_BITS, split + b * BLOCK_BITS * DIGITS,
                                         BITS, DIGITS);
        if (left) {
            float last[BLOCK_BITS];
            CIRCLET_NO_UNROLL for (int i = 0; i < BLOCK_BITS; i++)
                last[i] = i < left ? x[whole * BLOCK_BITS + i] : 0;
            scales[whole] = block_bits_block(last, split + whole * BLOCK_BITS * DIGITS, BITS,
                                             DIGITS);
        }
    }
}

/* The sums of a vector of outputs over a block: of 32 bits, or of the 16 bits that they stay in. */
struct block_bits_sum {
    vi all;
#if BLOCK_BITS_BY_SMLAL
    vi16 first, last; /* products of the first and the last two outputs */
#endif
};

CIRCLET_INLINE struct block_bits_sum block_bits_start(int32_t correction) {
    struct block_bits_sum sum = {v_splat_i32(correction)};
#if BLOCK_BITS_BY_SMLAL
    sum.first = sum.last = (vi16){0};
#endif
    return sum;
}

/* `data` is of block_bits_data for the same group j of digits. */
CIRCLET_INLINE void block_bits_add(struct block_bits_sum *sum, vu8 weights, vi8 data, const int j,
                                   const int BITS) {
    (void)j;
#if CIRCLET_HAS_DOT4_LANE
    (void)BITS;
    sum->all = v_dot4_lane(sum->all, (vu8)data, (vi8)weights, j % 4);
#elif CIRCLET_HAS_PAIRS
    if (BLOCK_BITS_IS_NARROW(BITS)) sum->all = (vi)((vi16)sum->all + v_pairs(weights, data));
    else sum->all = v_add_pairs(sum->all, v_pairs(weights, data));
#else
#if BLOCK_BITS_BY_SMLAL
    if (BLOCK_BITS_IS_NARROW(BITS)) {
        __asm__("smlal %0.8h, %1.8b, %2.8b" : "+w"(sum->first) : "w"(weights), "w"(data));
        __asm__("smlal2 %0.8h, %1.16b, %2.16b" : "+w"(sum->last) : "w"(weights), "w"(data));
        return;
    }
#endif
    sum->all = v_dot4(sum->all, weights, data);
#endif
}

/* The sum of a block as 32 bits. */
CIRCLET_INLINE vi block_bits_whole(struct block_bits_sum sum, const int BITS) {
#if CIRCLET_HAS_PAIRS
    if (BLOCK_BITS_IS_NARROW(BITS)) return v_madd_i16((vi16)sum.all, (vi16){0} + 1);
#elif BLOCK_BITS_BY_SMLAL
    if (BLOCK_BITS_IS_NARROW(BITS)) {
        __asm__("addp %0.8h, %0.8h, %1.8h" : "+w"(sum.first) : "w"(sum.last));
        __asm__("saddlp %0.4s, %1.8h" : "=w"(sum.all) : "w"(sum.first));
    }
#endif
    (void)BITS;
    return sum.all;
}

/* Digits' sums as one, modulo 2^32. */
CIRCLET_INLINE vi block_bits_joined(const struct block_bits_sum *sums, int32_t correction,
                                    const int BITS, const int DIGITS) {
    vu all = (vu)v_zero_i32();
    CIRCLET_UNROLL for (int d = DIGITS - 1; d >= 0; d--) {
        all = (all << BLOCK_BITS_DIGIT(BITS)) + (vu)block_bits_whole(sums[d], BITS);
    }
    if (BLOCK_BITS_IS_NARROW(BITS)) all += (vu)v_splat_i32(correction);
    return (vi)all;
}

/* The j-th four digits: in every lane, or where products take a lane, the sixteen that hold them.
 * Several products share a splat, which the compiler would load again for each of them. */
CIRCLET_INLINE vi8 block_bits_data(const int8_t *digits, const int j, const int NV) {
#if CIRCLET_HAS_DOT4_LANE
    (void)NV;
    return v_load_i8(digits + j / 4 * CIRCLET_VBYTES);
#else
    vi8 data = (vi8)v_splat_4u8((const uint8_t *)digits + 4 * j);
#if CIRCLET_VBYTES == 64
    if (NV > 1) __asm__("" : "+v"(data));
#else
    (void)NV;
#endif
    return data;
#endif
}

/* What a block of inputs of MR rows adds to NV of PACK vectors of outputs, in steps. */
CIRCLET_INLINE void block_bits_sums(struct block_bits_sum (*sums)[4][3], const uint8_t *w,
                                    const int8_t *digits, int64_t step, const int BITS,
                                    const int DIGITS, const int MR, const int NV,
                                    const int PACK) {
    CIRCLET_UNROLL for (int j = 0; j < BITS; j++) {
        vu8 low[4], high[4];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            low[v] = high[v] = v_load_u8(w + (j * PACK + v) * CIRCLET_VBYTES);
            if (BITS == 8) continue;
            if (!BLOCK_BITS_IS_WHOLE(BITS, DIGITS)) high[v] = low[v] >> 4;
            low[v] &= 15;
        }
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++) {
                const int8_t *at = digits + m * step + d * BLOCK_BITS;
                vi8 data = block_bits_data(at, j, NV);
                CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                    block_bits_add(&sums[m][v][d], low[v], data, j, BITS);
                if (BITS == 8) continue;
                data = block_bits_data(at + BLOCK_BITS / 2, j, NV);
                CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                    block_bits_add(&sums[m][v][d], high[v], data, j, BITS);
            }
        }
    }
}

/* Where the weights of a task stand: packed bytes, scales, and zero points or null. */
struct block_bits_weights {
    const uint8_t *bytes;
    const float *factors;
    const int8_t *zeros;
};

/* A block of inputs of MR rows times NV vectors of outputs, scaled and added. */
CIRCLET_INLINE void block_bits_tile(vf (*acc)[4], struct block_bits_weights w,
                                    const int8_t *digits, const struct block_bits_scale *scales,
                                    int64_t blocks, const int BITS, const int DIGITS,
                                    const int ZEROS, const int MR, const int NV,
                                    const int PACK) {
    struct block_bits_sum sums[8][4][3];
    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            const int is_late = BLOCK_BITS_IS_NARROW(BITS);
            CIRCLET_UNROLL for (int d = 0; d < DIGITS; d++)
                sums[m][v][d] = block_bits_start(d || is_late ? 0 : scales[m * blocks].correction);
        }
    }
    block_bits_sums(sums, w.bytes, digits, blocks * BLOCK_BITS * DIGITS, BITS, DIGITS, MR, NV,
                    PACK);
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
        vf factor = v_load(w.factors + v * CIRCLET_LANES), zero = v_zero();
        if (ZEROS) zero = v_to_f32(v_widen_i8(w.zeros + v * CIRCLET_LANES));
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            const struct block_bits_scale *s = scales + m * blocks;
            vf sum = v_to_f32(block_bits_joined(sums[m][v], s->correction, BITS, DIGITS));
            if (ZEROS) sum = v_fma(zero, v_splat(-s->total), sum);
            acc[m][v] = v_fma(sum, factor * v_splat(s->step), acc[m][v]);
        }
    }
}

CIRCLET_INLINE void block_bits_store(const struct block_bits_params *p, float *out,
                                     int64_t channel, vf (*acc)[4], const int MR, const int NV) {
    CIRCLET_UNROLL for (int m = 0; m < MR; m++, out += p->units) {
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            const int64_t at = channel + v * CIRCLET_LANES, left = p->units - at;
            vf y = v_clamp(acc[m][v], v_splat(p->low), v_splat(p->high));
            if (left >= CIRCLET_LANES) v_store(out + at, y);
            else if (left > 0) v_store_n(out + at, y, left);
        }
    }
}

/* Asks for weights that are needed a little later, in the second level of caches: more of them are
 * on their way from memory at a time than reads in order alone have. */
CIRCLET_INLINE void block_bits_fetch(const uint8_t *w, int64_t bytes) {
    CIRCLET_UNROLL for (int64_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(w + BLOCK_BITS_AHEAD + line, 0, 2);
}

/* MR rows of NV vectors of outputs; the first rows fetch weights. */
CIRCLET_INLINE void block_bits_rows(const struct block_bits_params *p, void *const *operands,
                                    struct block_bits_weights w, int64_t row, int64_t channel,
                                    const int BITS, const int DIGITS, const int ZEROS,
                                    const int MR, const int NV, const int PACK) {
    const int64_t width = PACK * CIRCLET_LANES, bytes = PACK * BITS * CIRCLET_VBYTES;
    const struct block_bits_scale *scales = operands[5];
    const int8_t *digits = operands[0];
    int64_t done = 0; /* blocks of those that share a scale of weights */
    vf acc[8][4];
    digits += row * p->blocks * BLOCK_BITS * DIGITS, scales += row * p->blocks;
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            acc[m][v] = v_load((const float *)operands[3] + channel + v * CIRCLET_LANES);
    CIRCLET_NO_UNROLL for (int64_t b = 0; b < p->blocks; b++) {
        if (row == 0) block_bits_fetch(w.bytes, bytes);
        block_bits_tile(acc, w, digits, scales + b, p->blocks, BITS, DIGITS, ZEROS, MR, NV, PACK);
        w.bytes += bytes, digits += BLOCK_BITS * DIGITS;
        if (++done == p->per_scale) {
            w.factors += width, done = 0;
            if (ZEROS) w.zeros += width;
        }
    }
    block_bits_store(p, (float *)operands[4] + row * p->units, channel, acc, MR, NV);
}

/* Operands: digits, packed weights, scales of weights, biases, output, scales of the input, zero
 * points of the weights (less the middle of their range; null where all are there). A task is PACK
 * vectors of outputs, NV of which meet MR rows at a time. Its weights are stored block by block,
 * four inputs of all its vectors: where NV is PACK they are read from their first byte to their
 * last. */
CIRCLET_INLINE void block_bits(const struct block_bits_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, const int BITS,
                               const int DIGITS, const int ZEROS, const int MR, const int NV,
                               const int PACK) {
    (void)scratch;
    const int64_t bytes = PACK * BITS * CIRCLET_VBYTES, width = PACK * CIRCLET_LANES;
    const int64_t groups = (p->blocks + p->per_scale - 1) / p->per_scale;
    for (int64_t part = begin * (PACK / NV); part < end * (PACK / NV); part++) {
        const int64_t task = part / (PACK / NV), first = part % (PACK / NV) * NV;
        const int64_t scale = task * groups * width + first * CIRCLET_LANES;
        const struct block_bits_weights w = {
            (const uint8_t *)operands[1] + task * p->blocks * bytes + first * CIRCLET_VBYTES,
            (const float *)operands[2] + scale,
            ZEROS ? (const int8_t *)operands[6] + scale : 0,
        };
        const int64_t channel = task * width + first * CIRCLET_LANES;
        if (channel >= p->units) break;
        for (int64_t row = 0; row < p->rows; row += MR)
            block_bits_rows(p, operands, w, s_min_i64(row, p->rows - MR), channel, BITS, DIGITS,
                            ZEROS, MR, NV, PACK);
    }
}

#endif
