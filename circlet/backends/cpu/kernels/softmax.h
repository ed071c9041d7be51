/* Softmax and log-softmax of dense rows of 8-bit values.
 *
 * Softmax: LiteRT's fixed point (reference/softmax.h), bit for bit. A row has at most 256
 * differences to its highest element: their powers, in Q0.31, and their terms of the sum, in
 * Q12.19, are tables made at compile time, and so is, per row, a table of results. Only the sum
 * goes over elements.
 */
#ifndef CIRCLET_SOFTMAX_H
#define CIRCLET_SOFTMAX_H

#include "element.h"
#include "fixed.h"
#include "lut.h"
#include "wide.h"

#define SOFTMAX_ENTRIES 256

struct softmax_q8_params {
    int64_t rows;          /* in all */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* elements of a row */
    int32_t low;           /* smallest stored value */
    int32_t falls;         /* whether no power is greater than that of a smaller difference */
};

CIRCLET_INLINE int32_t softmax_saturate(int64_t x) {
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

/* one_over_one_plus_x_for_x_in_0_1 of gemmlowp: 1 / (1 + fraction) in Q0.31 by Newton's method
 * on half the denominator d in Q2.29, from 48/17 - 32/17 d. */
CIRCLET_INLINE int32_t softmax_reciprocal(int32_t fraction) {
    int64_t total = (int64_t)fraction + INT32_MAX;
    int32_t half = (int32_t)(total >= 0 ? (total + 1) / 2 : -((1 - total) / 2));
    int32_t x = 1515870810 + s_srdhm(half, -1010580540);
    for (int i = 0; i < 3; i++) {
        int32_t error = (1 << 29) - s_srdhm(half, x);
        int64_t step = softmax_saturate((int64_t)s_srdhm(x, error) * 4);
        x = (int32_t)(uint32_t)(uint64_t)(x + step);
    }
    return softmax_saturate((int64_t)x * 2);
}

#define SOFTMAX_MAX(a, b) (((v16u8)((a) > (b)) & (a)) | (~(v16u8)((a) > (b)) & (b)))

#define SOFTMAX_FOLD(x, a, b, c, d, e, f, g, h) \
    SOFTMAX_MAX(x, __builtin_shufflevector(x, x, a, b, c, d, e, f, g, h, 8, 9, 10, 11, 12, 13, 14, 15))

CIRCLET_INLINE uint8_t softmax_fold_max(v16u8 x) {
    x = SOFTMAX_FOLD(x, 8, 9, 10, 11, 12, 13, 14, 15);
    x = SOFTMAX_FOLD(x, 4, 5, 6, 7, 4, 5, 6, 7);
    x = SOFTMAX_FOLD(x, 2, 3, 2, 3, 4, 5, 6, 7);
    x = SOFTMAX_FOLD(x, 1, 1, 2, 3, 4, 5, 6, 7);
    return x[0];
}

/* Sixteen elements at a time, the last of which may be some that were looked at before. */
CIRCLET_INLINE uint8_t softmax_highest_q8(const uint8_t *x, int64_t count, uint8_t flip) {
    uint8_t best = 0;
    if (count >= 16) {
        v16u8 most = {0};
        for (int64_t i = 0; i < count; i += 16) {
            v16u8 some = v16_load(x + s_min_i64(i, count - 16)) ^ flip;
            most = SOFTMAX_MAX(some, most);
        }
        return softmax_fold_max(most) ^ flip;
    }
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < count; i++) {
        uint8_t v = x[i] ^ flip;
        best = v > best ? v : best;
    }
    return best ^ flip;
}

/* The stored result of each difference to the highest element, up to `last` at least. The sum is shifted to 1 + fraction, whose reciprocal scales all powers; `right` undoes
 * that shift, the sum's 12 integer bits, and brings Q0.31 to the output's bits. */
CIRCLET_INLINE void softmax_results(const struct softmax_q8_params *p, void *results,
                                    const int32_t *powers, uint32_t sum, int last,
                                    const int bits) {
    int headroom = __builtin_clz(sum), right = 12 - headroom + 31 - bits;
    vi scale = v_splat_i32(softmax_reciprocal((int32_t)((sum << headroom) - (1u << 31))));
    vi low = v_splat_i32(p->low), high = low + ((1 << bits) - 1);
    int i = 0, goes_on = 1;
    for (; goes_on && i <= last; i += CIRCLET_LANES) {
        vi v = v_srdhm(v_load_i32(powers + i), scale);
        v = right > 31 ? v_zero_i32() : v_rdbpot(v, v_splat_i32(right));
        v = v_clamp_i32(v + low, low, high);
        if (bits == 8) v_narrow_u8((uint8_t *)results + i, v);
        else v_narrow_i16((int16_t *)results + i, v);
        goes_on = bits != 8 || !p->falls || !v_all((vi)(v == low));
    }
    for (; bits == 8 && i < SOFTMAX_ENTRIES; i += CIRCLET_LANES)
        v_narrow_u8((uint8_t *)results + i, low);
}

#define SOFTMAX_TERM_BYTES 3 /* of terms of the sum: 1 is 2^19 in Q12.19 */

/* The terms' bytes of each place value: vectors look up bytes, and sum each plane by psadbw. */
CIRCLET_INLINE void softmax_planes(uint8_t *planes, const int32_t *terms) {
    for (int b = 0; b < SOFTMAX_TERM_BYTES; b++)
        for (int i = 0; i < SOFTMAX_ENTRIES; i++)
            planes[b * SOFTMAX_ENTRIES + i] = (uint8_t)(terms[i] >> 8 * b);
}

/* Sum of the terms of whole vectors of differences; adds how many those are to `done`. */
CIRCLET_INLINE uint32_t softmax_sum_vectors(const uint8_t *differences, int64_t count,
                                            const uint8_t *planes, int64_t *done) {
#if LUT_HAS_VECTORS && LUT_ROWS == 4
    uint32_t total = 0;
    *done = count / 64 * 64;
    CIRCLET_UNROLL for (int b = 0; b < SOFTMAX_TERM_BYTES; b++) {
        typedef CIRCLET_VECTOR(uint64_t, 64) sums;
        lut_table plane;
        sums sum = {0};
        lut_load(&plane, planes + b * SOFTMAX_ENTRIES);
        for (int64_t i = 0; i < *done; i += 64) {
            vu8 bytes = v_load_u8(differences + i);
            lut_of(&plane, &bytes, 1);
            sum += (sums)__builtin_ia32_psadbw512((lut_chars)bytes, (lut_chars){0});
        }
        for (int k = 0; k < 8; k++) total += (uint32_t)sum[k] << 8 * b;
    }
    return total;
#else
    (void)differences, (void)count, (void)planes;
    *done = 0;
    return 0;
#endif
}

CIRCLET_INLINE uint32_t softmax_sum(const uint8_t *differences, int64_t count,
                                    const uint8_t *planes, const int32_t *terms) {
    int64_t i;
    uint32_t sum = softmax_sum_vectors(differences, count, planes, &i), other = 0;
    CIRCLET_NO_UNROLL for (; i + 4 <= count; i += 4) { /* gathers take longer */
        sum += (uint32_t)terms[differences[i]] + (uint32_t)terms[differences[i + 1]];
        other += (uint32_t)terms[differences[i + 2]] + (uint32_t)terms[differences[i + 3]];
    }
    CIRCLET_NO_UNROLL for (; i < count; i++) sum += (uint32_t)terms[differences[i]];
    return sum + other;
}

/* A row of at least 16 8-bit results, in which the differences to the highest element stand meanwhile. */
CIRCLET_INLINE void softmax_row_8(const struct softmax_q8_params *p, uint8_t *to,
                                  const uint8_t *from, const int32_t *powers, const int32_t *terms,
                                  const uint8_t *planes, uint8_t highest) {
    uint8_t table[SOFTMAX_ENTRIES];
    lut_table loaded;
    v16u8 most = {0};
    const int64_t count = p->count; /* which stores of bytes might change */
    for (int64_t i = 0; i < count; i += 16) {
        int64_t at = s_min_i64(i, count - 16);
        v16u8 differences = highest - v16_load(from + at);
        *(v16u8_u *)(to + at) = differences;
        most = SOFTMAX_MAX(differences, most);
    }
    uint32_t sum = softmax_sum(to, count, planes, terms);
    softmax_results(p, table, powers, sum, softmax_fold_max(most), 8);
    lut_load(&loaded, table);
    lut_run(to, to, table, &loaded, count);
}

CIRCLET_INLINE void softmax_row_16(const struct softmax_q8_params *p, int16_t *to,
                                   const uint8_t *from, const int32_t *powers,
                                   const int32_t *terms, uint8_t highest) {
    int16_t results[SOFTMAX_ENTRIES];
    uint32_t sum = 0;
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < p->count; i++)
        sum += (uint32_t)terms[(uint8_t)(highest - from[i])];
    softmax_results(p, results, powers, sum, SOFTMAX_ENTRIES - 1, 16);
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < p->count; i++)
        to[i] = results[(uint8_t)(highest - from[i])];
}

/* Elements of rows of which as many as lanes are done together: there the reciprocal of each row
 * takes longest, a chain of products that lanes share. */
#define SOFTMAX_SHORT 32

/* Results of short rows: sums and differences' powers, then what they are multiplied by. */
typedef struct softmax_lines {
    int32_t fractions[CIRCLET_LANES], rights[CIRCLET_LANES], scales[CIRCLET_LANES];
    int32_t powers[SOFTMAX_SHORT * CIRCLET_LANES];
    int32_t element_scales[SOFTMAX_SHORT * CIRCLET_LANES];
    int32_t element_rights[SOFTMAX_SHORT * CIRCLET_LANES];
} softmax_lines;

CIRCLET_INLINE wl softmax_high_muls(wl a, wl b) { return (a * b + (1ll << 30)) >> 31; }

CIRCLET_INLINE wl softmax_saturates(wl x) {
    wl low = (wl){0} + INT32_MIN, high = (wl){0} + INT32_MAX, below = (wl)(x < low);
    x = (below & low) | (~below & x);
    wl above = (wl)(x > high);
    return (above & high) | (~above & x);
}

/* softmax_reciprocal of fractions that are not negative. */
CIRCLET_INLINE vi softmax_reciprocals(vi fractions) {
    wl half = (__builtin_convertvector(fractions, wl) + INT32_MAX + 1) >> 1;
    wl x = softmax_high_muls(half, (wl){0} - 1010580540) + 1515870810;
    for (int i = 0; i < 3; i++) {
        wl error = (1 << 29) - softmax_high_muls(half, x);
        wl step = softmax_saturates(softmax_high_muls(x, error) * 4);
        x = (x + step) << 32 >> 32;
    }
    return __builtin_convertvector(softmax_saturates(x * 2), vi);
}

/* A row's powers, and what its sum gives. */
CIRCLET_INLINE void softmax_line(const struct softmax_q8_params *p, softmax_lines *l, int row,
                                 const uint8_t *from, const int32_t *powers, const int32_t *terms,
                                 uint8_t highest) {
    const int64_t count = p->count;
    int32_t *own = l->powers + row * count;
    uint32_t sum = 0, other = 0;
    int64_t i = 0;
    CIRCLET_NO_UNROLL for (; i + 2 <= count; i += 2) {
        const uint8_t a = (uint8_t)(highest - from[i]), b = (uint8_t)(highest - from[i + 1]);
        sum += (uint32_t)terms[a], other += (uint32_t)terms[b];
        own[i] = powers[a], own[i + 1] = powers[b];
    }
    if (i < count) {
        const uint8_t a = (uint8_t)(highest - from[i]);
        sum += (uint32_t)terms[a], own[i] = powers[a];
    }
    sum += other;
    int headroom = __builtin_clz(sum);
    l->fractions[row] = (int32_t)((sum << headroom) - (1u << 31));
    l->rights[row] = 12 - headroom + 31 - 8;
}

/* `rows` neighbouring short rows, at most CIRCLET_LANES. */
CIRCLET_INLINE void softmax_short(const struct softmax_q8_params *p, uint8_t *to,
                                  const uint8_t *from, int64_t rows, const int32_t *powers,
                                  const int32_t *terms, int flip) {
    softmax_lines l;
    for (int r = 0; r < CIRCLET_LANES; r++) {
        const uint8_t *row = from + s_min_i64(r, rows - 1) * p->count;
        softmax_line(p, &l, r, row, powers, terms,
                     softmax_highest_q8(row, p->count, (uint8_t)flip));
    }
    v_store_i32(l.scales, softmax_reciprocals(v_load_i32(l.fractions)));
    for (int r = 0; r < CIRCLET_LANES; r++) /* what is behind a row, the next one's, is next */
        for (int64_t i = 0; i < p->count; i += CIRCLET_LANES) {
            v_store_i32(l.element_scales + r * p->count + i, v_splat_i32(l.scales[r]));
            v_store_i32(l.element_rights + r * p->count + i, v_splat_i32(l.rights[r]));
        }
    const vi low = v_splat_i32(p->low), high = low + 255;
    for (int64_t i = 0; i < rows * p->count; i += CIRCLET_LANES) {
        vi v = v_srdhm(v_load_i32(l.powers + i), v_load_i32(l.element_scales + i));
        vi right = v_load_i32(l.element_rights + i), gone = (vi)(right > 31);
        v = v_rdbpot(v, v_min_i32(right, v_splat_i32(31))) & ~gone;
        int64_t left = rows * p->count - i;
        v = v_clamp_i32(v + low, low, high);
        if (left < CIRCLET_LANES) v_narrow_n_8(to + i, v, left);
        else v_narrow_u8(to + i, v);
    }
}

/* Operands: source, result, fixed-point powers of each difference, their terms of the sum. The
 * sign bit of int8 elements is flipped by `flip`; results have 8 or 16 bits. */
CIRCLET_INLINE void softmax_q8(const struct softmax_q8_params *p, void *const *x, void *scratch,
                               int64_t begin, int64_t end, int flip, int bits) {
    (void)scratch;
    uint8_t planes[SOFTMAX_TERM_BYTES * SOFTMAX_ENTRIES];
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    int64_t row = begin * p->rows_per_task;
    for (; bits == 8 && p->count <= SOFTMAX_SHORT && row < last; row += CIRCLET_LANES)
        softmax_short(p, (uint8_t *)x[1] + row * p->count, (const uint8_t *)x[0] + row * p->count,
                      s_min_i64(CIRCLET_LANES, last - row), x[2], x[3], flip);
    if (bits == 8 && row < last) softmax_planes(planes, x[3]);
    for (; row < last; row++) {
        const uint8_t *from = (const uint8_t *)x[0] + row * p->count;
        uint8_t highest = softmax_highest_q8(from, p->count, (uint8_t)flip);
        if (bits == 8)
            softmax_row_8(p, (uint8_t *)x[1] + row * p->count, from, x[2], x[3], planes, highest);
        else softmax_row_16(p, (int16_t *)x[1] + row * p->count, from, x[2], x[3], highest);
    }
}

struct log_softmax_q8_params {
    int64_t rows;          /* in all */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* elements of a row */
    double scale;          /* of the input */
    double result_scale;
    double zero; /* of the result, in 0 .. 255 */
};

/* The stored result of each difference to the highest element. */
CIRCLET_INLINE void log_softmax_results(const struct log_softmax_q8_params *p, uint8_t *results,
                                        double sum) {
    wd rest = wide_log(w_splat(sum)), low = w_splat(0.0), high = w_splat(255.0);
    for (int i = 0; i < SOFTMAX_ENTRIES; i += CIRCLET_LANES) {
        wd steps = w_splat(0.0) - w_of_i32(v_iota() + i) * w_splat(p->scale) - rest;
        steps = w_round(steps / w_splat(p->result_scale) + w_splat(p->zero));
        steps = w_select((wl)(steps < low), low, steps);
        steps = w_select((wl)(steps > high), high, steps);
        v_narrow_u8(results + i, w_to_i32(steps));
    }
}

/* Operands: source, result, powers of each difference to the highest element. flip: 128 where
 * elements have a sign. */
CIRCLET_INLINE void log_softmax_q8(const struct log_softmax_q8_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, int flip) {
    (void)scratch;
    uint8_t results[SOFTMAX_ENTRIES];
    const double *powers = x[2];
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        const uint8_t *from = (const uint8_t *)x[0] + row * p->count;
        uint8_t *to = (uint8_t *)x[1] + row * p->count;
        uint8_t highest = softmax_highest_q8(from, p->count, (uint8_t)flip);
        double sum = 0;
        for (int64_t i = 0; i < p->count; i++) sum += powers[(uint8_t)(highest - from[i])];
        log_softmax_results(p, results, sum);
        CIRCLET_NO_UNROLL for (int64_t i = 0; i < p->count; i++)
            to[i] = (uint8_t)(results[(uint8_t)(highest - from[i])] ^ flip);
    }
}

#endif
