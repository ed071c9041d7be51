/* Sums of windows, which the zero point of the weights subtracts from the accumulators of conv_q8.h. */
#ifndef CIRCLET_CONV_Q8_SUMS_H
#define CIRCLET_CONV_Q8_SUMS_H

/* How the sums of windows are found: not needed, by a pass over weights of one, 16 bytes at a
 * time, or in the last lane of the tile, whose weights are one. */
#define CONV_Q8_NO_SUMS 0
#define CONV_Q8_SUMS_SPLAT 1
#define CONV_Q8_SUMS_ALONG 2
#define CONV_Q8_SUMS_IN 3

/* The sum of one window's bytes as v_dot4 sees them, in every lane; runs are of 16 bytes or more.
 * The last 16 of a run may overlap those before them: `ends` leaves out what was counted. */
CIRCLET_INLINE vi conv_q8_sum_along(const struct conv_q8_params *p, const uint8_t *in,
                                    v16u8 ends, const int flip) {
    v4i32 sum = {0};
    const int is_signed = CIRCLET_DOT_SIGNED && !(flip & CONV_Q8_UNSIGNED);
    uint8_t change = (CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_LOADS) != is_signed ? 0x80 : 0;
    int64_t last = p->run_bytes - 16;
    for (int y = 0; y < CONV_Q8_DOWN(p, flip); y++)
        for (int x = 0; x < CONV_Q8_ACROSS(p, flip); x++) {
            const uint8_t *run = in + y * p->run_down + x * p->run_across;
            for (int64_t k = 0; k < last; k += 16)
                sum = v16_sum_4(sum, v16_load(run + k) ^ change, (v16u8){0} + 1);
            sum = v16_sum_4(sum, v16_load(run + last) ^ change, ends);
        }
    sum += __builtin_shufflevector(sum, sum, 2, 3, 0, 1);
    sum += __builtin_shufflevector(sum, sum, 1, 0, 3, 2);
    int32_t bytes = p->runs_down * p->runs_across * p->run_bytes;
    return v_splat_first(sum) - (is_signed ? 128 * bytes : 0);
}

/* What the zero point of the weights subtracts from each pixel's accumulators. */
CIRCLET_INLINE void conv_q8_corrections(vi *out, const struct conv_q8_params *p,
                                        const uint8_t *in, const int8_t *ones, const int pixels,
                                        const int flip, const int short_run, const int sums) {
    if (sums == CONV_Q8_SUMS_ALONG) {
        v16u8 places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        uint8_t counted = (uint8_t)(-p->run_bytes & 15);
        v16u8 ends = (v16u8)(places >= (v16u8)(counted - (v16u8){0})) & 1;
        CIRCLET_NO_UNROLL for (int m = 0; m < pixels; m++)
            out[m] = conv_q8_sum_along(p, in + m * p->in.pixel, ends, flip) * p->weight_zero;
        return;
    }
    vi acc[16];
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) acc[m] = v_zero_i32();
    conv_q8_product(acc, p, in, ones, pixels, 1, flip, short_run);
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) out[m] = acc[m] * p->weight_zero;
}

/* Subtracts the sums of windows, in the last lane of each pixel, times the zero of the weights. */
CIRCLET_INLINE void conv_q8_correct(vi *acc, int32_t weight_zero, const int pixels,
                                    const int vectors) {
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        vi sum = acc[m * vectors + vectors - 1];
        vi off = v_splat_lane(sum, CIRCLET_LANES - 1) * weight_zero;
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++) acc[m * vectors + n] -= off;
    }
}

#endif
