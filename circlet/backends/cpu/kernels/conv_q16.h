/* Convolution, and products of rows, of int16 activations with weights of at most 16 bits.
 *
 * A tile is `pixels` neighbouring outputs of one row by `vectors` registers of channels. Taps that
 * lie side by side in memory form a run; weights are packed for each block of channels in the
 * order in which tiles read them, two taps of each channel together. A run of odd length ends in
 * its last two taps, the first of them with a weight of zero, so that nothing behind it is read.
 */
#ifndef CIRCLET_CONV_Q16_H
#define CIRCLET_CONV_Q16_H

#include "simd_int.h"
#include "sum_int.h"

struct conv_q16_params {
    int64_t in_batch;      /* input elements between images */
    int64_t in_row;        /* between the windows of two output rows */
    int64_t in_pixel;      /* between the windows of two output pixels */
    int64_t run_down;      /* between runs of two rows of taps */
    int64_t run_across;    /* between two runs of one row of taps */
    int64_t run;           /* elements of a run */
    int64_t out_batch;     /* output elements between images */
    int64_t out_row;       /* between rows */
    int64_t out_pixel;     /* between pixels */
    int64_t block_weights; /* packed weights of one block of channels */
    int32_t image_rows;    /* output rows of one image */
    int32_t row_pixels;    /* pixels of an output row */
    int32_t row_tiles;     /* tiles of an output row */
    int32_t tiles;         /* tiles of all images */
    int32_t runs_down;     /* rows of taps */
    int32_t runs_across;   /* runs of one row of taps */
    int32_t channels;      /* output channels */
    int32_t blocks;        /* blocks of output channels */
    int32_t splits;        /* parts of the blocks that are separate tasks */
    int32_t zero;          /* of the result */
    int32_t low;           /* smallest result */
    int32_t high;          /* largest result */
};

/* Scaled once; all sums fit 32 bits, and factors the upper 32: 9 to 30 % fewer instructions than
 * CONV_Q16_ONCE in a 1x1 convolution of 96 or 24 inputs. */
#define CONV_Q16_SMALL 0
#define CONV_Q16_ONCE 1  /* scaled once, from 64 bits (sum_int.h) */
#define CONV_Q16_TWICE 2 /* rounded twice, from sums that wrap to 32 bits (sum_int.h) */
#define CONV_Q16_REAL 3  /* times a double (sum_int.h) */
#define CONV_Q16_QPARAM (2 * CIRCLET_LANES) /* CONV_Q16_SMALL: bias, multiplier * 2^(32 - right) */

CIRCLET_INLINE vi16 conv_q16_pair(const int16_t *p, int alone) {
    int32_t pair;
    if (alone) return (vi16)v_splat_i32((uint16_t)*p);
    __builtin_memcpy(&pair, p, 4);
    return (vi16)v_splat_i32(pair);
}

CIRCLET_INLINE void conv_q16_step(vi *acc, const int16_t *at, int64_t in_pixel, const int16_t *w,
                                  int alone, const int pixels, const int vectors) {
    vi16 weights[4];
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
        weights[n] = *(const vi16_u *)(w + 2 * n * CIRCLET_LANES);
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        vi16 data = conv_q16_pair(at + m * in_pixel, alone);
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            acc[m * vectors + n] = v_dot2(acc[m * vectors + n], data, weights[n]);
    }
}

/* Accumulates one tile in `acc`, or, where 32 bits may not hold its sums, in `wide`. */
CIRCLET_INLINE void conv_q16_product(vi *acc, wl *wide, const struct conv_q16_params *p,
                                     const int16_t *in, const int16_t *w, const int pixels,
                                     const int vectors, const int flush) {
    const int64_t step = 2 * vectors * CIRCLET_LANES;
    for (int y = 0; y < p->runs_down; y++)
        for (int x = 0; x < p->runs_across; x++) {
            const int16_t *run = in + y * p->run_down + x * p->run_across;
            for (int64_t k = 0; k < p->run;) {
                int64_t stop = flush ? s_min_i64(p->run, k + SUM_INT_FLUSH) : p->run;
                for (; k + 2 <= stop; k += 2, w += step)
                    conv_q16_step(acc, run + k, p->in_pixel, w, 0, pixels, vectors);
                if (k < stop) {
                    const int16_t *tail = p->run == 1 ? run : run + p->run - 2;
                    conv_q16_step(acc, tail, p->in_pixel, w, p->run == 1, pixels, vectors);
                    k = stop, w += step;
                }
                if (!flush) continue;
                CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++)
                    wide[i] += v_to_i64(acc[i]), acc[i] = v_zero_i32();
            }
        }
}

/* (x * multiplier + 2^31) >> 32. The reference scales sums of 64 bits by a multiplier of 16 bits
 * and a right shift of 16 to 32, rounded once; the lowering moves both up to a shift of 32. */
CIRCLET_INLINE vi conv_q16_scale(vi x, vi multiplier) {
    vl half = (vl){0} + (1ll << 31);
    vul even = (vul)(v_mul_even(x, multiplier) + half);
    vl odd = v_mul_even((vi)((vul)x >> 32), (vi)((vul)multiplier >> 32)) + half;
    vl upper = (vl){0} + ~0xffffffffll;
    return (vi)((vl)(even >> 32) | (odd & upper));
}

CIRCLET_INLINE void conv_q16_store(int16_t *to, const vi *acc, const wl *wide,
                                   const struct conv_q16_params *p, const void *qparams,
                                   int64_t left, const int pixels, const int vectors,
                                   const int form, const int flush) {
    struct sum_int_bounds bounds = {p->zero, p->low, p->high};
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        int64_t at = n * CIRCLET_LANES, count = s_min_i64(left - at, CIRCLET_LANES);
        if (count <= 0) continue;
        const int32_t *small = (const int32_t *)qparams + n * CONV_Q16_QPARAM;
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
            int16_t *out = to + m * p->out_pixel + at;
            int i = m * vectors + n;
            if (form != CONV_Q16_SMALL) {
                sum_int_store((char *)out, flush ? wide[i] : v_to_i64(acc[i]),
                              (const int64_t *)qparams + at, vectors * CIRCLET_LANES, bounds,
                              count, ELEMENT_I16,
                              form == CONV_Q16_REAL   ? SUM_INT_REAL
                              : form == CONV_Q16_ONCE ? SUM_INT_ONCE
                                                      : SUM_INT_TWICE);
                continue;
            }
            vi y = conv_q16_scale(acc[i], v_load_i32(small + CIRCLET_LANES)) + p->zero;
            y = v_clamp_i32(y, v_splat_i32(p->low), v_splat_i32(p->high));
            element_store_i32(out, y, count, ELEMENT_I16);
        }
    }
}

/* Operands: input, packed weights, qparams, output. A task is a tile of one part of the blocks.
 *
 * pixels, vectors: The tile.
 * form: How outputs are scaled, see above.
 * flush: Whether sums may need more than 32 bits.
 */
CIRCLET_INLINE void conv_q16(const struct conv_q16_params *p, void *const *operands, void *scratch,
                             int64_t begin, int64_t end, const int pixels, const int vectors,
                             const int form, const int flush) {
    (void)scratch;
    const int64_t width = vectors * CIRCLET_LANES;
    const int64_t qparam_bytes =
        form == CONV_Q16_SMALL ? 4 * vectors * CONV_Q16_QPARAM : 8 * SUM_INT_QPARAM * width;
    for (int64_t task = begin; task < end; task++) {
        int32_t split = (int32_t)(task / p->tiles), tile = (int32_t)(task % p->tiles);
        int32_t row = tile / p->row_tiles, column = tile % p->row_tiles * pixels;
        if (column > p->row_pixels - pixels) column = p->row_pixels - pixels;
        int32_t image = row / p->image_rows;
        row -= image * p->image_rows;
        const int16_t *in = (const int16_t *)operands[0] + image * p->in_batch;
        in += row * p->in_row + column * p->in_pixel;
        int16_t *out = (int16_t *)operands[3] + image * p->out_batch;
        out += row * p->out_row + column * p->out_pixel;
        int64_t block = (int64_t)p->blocks * split / p->splits;
        int64_t last = (int64_t)p->blocks * (split + 1) / p->splits;
        for (; block < last; block++) {
            const char *qparams = (const char *)operands[2] + block * qparam_bytes;
            vi acc[32];
            wl wide[32];
            CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++) {
                const int32_t *bias = (const int32_t *)qparams + i % vectors * CONV_Q16_QPARAM;
                acc[i] = form == CONV_Q16_SMALL ? v_load_i32(bias) : v_zero_i32();
                if (flush) wide[i] = v_splat_i64(0);
            }
            const int16_t *weights = (const int16_t *)operands[1] + block * p->block_weights;
            conv_q16_product(acc, wide, p, in, weights, pixels, vectors, flush);
            conv_q16_store(out + block * width, acc, wide, p, qparams, p->channels - block * width,
                           pixels, vectors, form, flush);
        }
    }
}

#endif
