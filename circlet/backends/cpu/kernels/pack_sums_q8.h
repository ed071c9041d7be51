/* 8-bit matrices packed as conv_q8.h reads constant ones, with what cross_sums.h asks of columns. */
#ifndef CIRCLET_PACK_SUMS_Q8_H
#define CIRCLET_PACK_SUMS_Q8_H

#include "element.h"
#include "pack_conv_q8.h"

struct pack_sums_q8_params {
    struct pack_conv_q8_params pack;
    int64_t zeros[7];   /* between the zero points of matrices */
    int64_t zero_step;  /* between those of columns: 1, or 0 where a matrix has one */
    int32_t zero_flip;  /* added to zero points, where bytes are unsigned */
};

/* The zero points of a block, and the sums of its columns less these. */
CIRCLET_INLINE void pack_sums_qparams(const struct pack_sums_q8_params *p, int32_t *to,
                                      const vi *sums, const uint8_t *zeros, int64_t channels,
                                      const int vectors, const int is_signed) {
    const uint32_t depth = (uint32_t)(p->pack.taps * p->pack.run);
    const int type = is_signed ? ELEMENT_I8 : ELEMENT_U8;
    int32_t first = p->zero_flip;
    if (zeros && !p->zero_step) first += is_signed ? (int8_t)*zeros : *zeros;
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++, to += Q8_QPARAM) {
        int64_t left = s_max_i64(channels - n * CIRCLET_LANES, 0);
        vi zero = v_splat_i32(first);
        if (zeros && p->zero_step)
            zero += element_load_i32(zeros + n * CIRCLET_LANES, s_min_i64(left, CIRCLET_LANES), type);
        v_store_i32(to, zero);
        v_store_i32(to + 2 * CIRCLET_LANES, (vi)((vu)sums[n] - (vu)zero * depth));
    }
}

/* Operands: matrices, zero points (or null), packed matrices, qparams. A task is a block of columns
 * of one matrix.
 *
 * across: Whether columns lie side by side.
 * is_signed: The type of the bytes, and of their zero points.
 */
CIRCLET_INLINE void pack_sums_q8(const struct pack_sums_q8_params *params, void *const *operands,
                                 void *scratch, int64_t begin, int64_t end, const int vectors,
                                 const int across, const int is_signed) {
    const struct pack_conv_q8_params *p = &params->pack;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t matrix = task / p->blocks, first = task % p->blocks * vectors * CIRCLET_LANES;
        vi sums[8];
        pack_conv_q8_block(p, operands[0], operands[2], task, sums, vectors, across,
                           PACK_CONV_Q8_IN_ORDER);
        const uint8_t *zeros = operands[1];
        if (zeros)
            zeros += rows_offset(matrix, p->sizes, params->zeros) + first * params->zero_step;
        int32_t *to = (int32_t *)operands[3] + task * vectors * Q8_QPARAM;
        pack_sums_qparams(params, to, sums, zeros, p->channels - first, vectors, is_signed);
    }
}

#endif
