/* Images whose channels are normalised, each by its own mean and deviation; channels are last.
 *
 * An image is cut into parts of pixels that stay in a cache. Means and squares of differences of a
 * part are sums of floats; those of the parts are joined in double, in order, so that results do
 * not depend on who computed which part.
 */
#ifndef CIRCLET_INSTANCE_NORM_H
#define CIRCLET_INSTANCE_NORM_H

#include "vmath.h"

#define INSTANCE_CHAINS 4 /* sums that overlap: vectors of channels, or pixels of one vector */

struct instance_images {
    int64_t pixels; /* of an image */
    int64_t channels;
    int64_t parts; /* of an image */
    int64_t part;  /* pixels of each part but the last */
};

struct instance_moments_params {
    struct instance_images in;
};

struct instance_factors_params {
    struct instance_images in;
    double epsilon;
};

struct instance_norm_params {
    struct instance_images in;
    float low;
    float high;
};

/* The pixels of a part; those before it in all images are `*first`. */
CIRCLET_INLINE int64_t instance_pixels(const struct instance_images *p, int64_t task,
                                       int64_t *first) {
    int64_t at = task % p->parts * p->part;
    *first = task / p->parts * p->pixels + at;
    return s_min_i64(p->part, p->pixels - at);
}

/* Sums over pixels of what channels are above `centre`, or of its squares, in `vectors` vectors of
 * `n` channels. */
CIRCLET_INLINE void instance_sums(const float *x, int64_t pixels, int64_t step, int64_t n,
                                  const vf *centre, vf *sums, int squares, int vectors) {
    const int chains = INSTANCE_CHAINS / vectors;
    vf chain[INSTANCE_CHAINS];
    CIRCLET_UNROLL for (int c = 0; c < INSTANCE_CHAINS; c++) chain[c] = v_zero();
    for (int64_t pixel = 0; pixel < pixels; pixel += chains)
        CIRCLET_UNROLL for (int c = 0; c < chains; c++) {
            if (pixel + c >= pixels) break;
            const float *from = x + (pixel + c) * step;
            CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
                vf *sum = &chain[c * vectors + v];
                vf above = v_load_n(from + v * CIRCLET_LANES, n) - centre[v];
                *sum = squares ? v_fma(above, above, *sum) : (vf)(*sum + above);
            }
        }
    CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
        sums[v] = chain[v];
        CIRCLET_UNROLL for (int c = 1; c < chains; c++) sums[v] += chain[c * vectors + v];
    }
}

/* Means of some channels of a part, then the sums of their squared differences, `step` behind. */
CIRCLET_INLINE void instance_channels(const float *x, int64_t pixels, int64_t step, int64_t n,
                                      float *moments, int vectors) {
    vf means[INSTANCE_CHAINS], sums[INSTANCE_CHAINS];
    CIRCLET_UNROLL for (int v = 0; v < vectors; v++) means[v] = v_load_n(x + v * CIRCLET_LANES, n);
    instance_sums(x, pixels, step, n, means, sums, 0, vectors);
    CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
        means[v] += sums[v] / v_splat((float)pixels);
        v_store_n(moments + v * CIRCLET_LANES, means[v], n);
    }
    instance_sums(x, pixels, step, n, means, sums, 1, vectors);
    CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
        v_store_n(moments + step + v * CIRCLET_LANES, sums[v], n);
}

/* Operands: images, the moments of each part. A task is a part. */
CIRCLET_INLINE void instance_moments(const struct instance_moments_params *p, void *const *operands,
                                     void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t wide = INSTANCE_CHAINS * CIRCLET_LANES, step = p->in.channels;
    for (int64_t task = begin; task < end; task++) {
        int64_t first, pixels = instance_pixels(&p->in, task, &first), c = 0;
        const float *x = (const float *)operands[0] + first * step;
        float *moments = (float *)operands[1] + task * 2 * step;
        for (; c + wide <= step; c += wide)
            instance_channels(x + c, pixels, step, CIRCLET_LANES, moments + c, INSTANCE_CHAINS);
        for (; c + CIRCLET_LANES <= step; c += CIRCLET_LANES)
            instance_channels(x + c, pixels, step, CIRCLET_LANES, moments + c, 1);
        if (c < step) instance_channels(x + c, pixels, step, step - c, moments + c, 1);
    }
}

/* The mean of a channel, from the moments of its parts, and its variance, `*variance`. */
CIRCLET_INLINE double instance_mean(const struct instance_images *p, const float *moments,
                                    double *variance) {
    const int64_t step = 2 * p->channels;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < p->parts; i++)
        sum += (double)moments[i * step] * (double)s_min_i64(p->part, p->pixels - i * p->part);
    double mean = sum / (double)p->pixels;
    for (int64_t i = 0; i < p->parts; i++) {
        double pixels = (double)s_min_i64(p->part, p->pixels - i * p->part);
        double apart = (double)moments[i * step] - mean;
        squares += (double)moments[i * step + p->channels] + apart * apart * pixels;
    }
    *variance = squares / (double)p->pixels;
    return mean;
}

/* Operands: moments of the parts, scales, means and factors of images. A task is an image. */
CIRCLET_INLINE void instance_factors(const struct instance_factors_params *p,
                                     void *const *operands, void *scratch, int64_t begin,
                                     int64_t end) {
    (void)scratch;
    const float *gamma = (const float *)operands[1];
    const int64_t step = p->in.channels;
    for (int64_t image = begin; image < end; image++) {
        const float *moments = (const float *)operands[0] + image * p->in.parts * 2 * step;
        float *means = (float *)operands[2] + image * 2 * step, *factors = means + step;
        for (int64_t c = 0; c < step; c++) {
            double variance;
            means[c] = (float)instance_mean(&p->in, moments + c, &variance);
            factors[c] = (float)(variance + p->epsilon);
        }
        for (int64_t c = 0; c < step; c += CIRCLET_LANES) {
            int64_t n = s_min_i64(CIRCLET_LANES, step - c);
            vf root = v_sqrt(v_load_n(factors + c, n));
            v_store_n(factors + c, v_load_n(gamma + c, n) / root, n);
        }
    }
}

CIRCLET_INLINE vf instance_value(const float *x, const float *mean, const float *factor,
                                 const float *beta, vf low, vf high, int64_t n) {
    vf apart = v_load_n(x, n) - v_load_n(mean, n);
    return v_clamp(v_fma(apart, v_load_n(factor, n), v_load_n(beta, n)), low, high);
}

/* Operands: images, means and factors, offsets, results. A task is a part. */
CIRCLET_INLINE void instance_norm(const struct instance_norm_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t step = p->in.channels, full = step - step % CIRCLET_LANES;
    const float *beta = (const float *)operands[2];
    vf low = v_splat(p->low), high = v_splat(p->high);
    for (int64_t task = begin; task < end; task++) {
        int64_t first, pixels = instance_pixels(&p->in, task, &first);
        const float *x = (const float *)operands[0] + first * step;
        const float *mean = (const float *)operands[1] + task / p->in.parts * 2 * step;
        float *y = (float *)operands[3] + first * step;
        for (int64_t pixel = 0; pixel < pixels; pixel++, x += step, y += step) {
            int64_t c = 0;
            for (; c < full; c += CIRCLET_LANES)
                v_store(y + c, instance_value(x + c, mean + c, mean + step + c, beta + c, low, high,
                                              CIRCLET_LANES));
            if (c < step)
                v_store_n(y + c, instance_value(x + c, mean + c, mean + step + c, beta + c, low,
                                                high, step - c), step - c);
        }
    }
}

#endif
