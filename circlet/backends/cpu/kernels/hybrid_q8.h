/* Float images to 8 bits, with a scale of their own, as TFLite's hybrid kernels quantise them. */
#ifndef CIRCLET_HYBRID_Q8_H
#define CIRCLET_HYBRID_Q8_H

#include "stores.h"
#include "strides.h"

/* real = scale * (stored - zero), where stored values are as v_dot4 wants them. */
struct hybrid_scale {
    float scale;
    int32_t zero;
};

struct hybrid_image_params {
    struct image_strides in; /* of float images */
    int64_t out_batch; /* bytes between quantised images */
    int64_t height;
    int64_t width;
    int64_t depth;
    int64_t top; /* border: rows and pixels */
    int64_t left;
    int64_t bottom;
    int64_t right;
};

#define HYBRID_STORED (CIRCLET_DOT_SIGNED ? 0 : 128)

/* Least and greatest elements so far, zero among them; symmetric: the greatest magnitude alone. */
#define HYBRID_CHAINS 4
struct hybrid_range {
    vf least[HYBRID_CHAINS], most[HYBRID_CHAINS];
};

CIRCLET_INLINE void hybrid_widen(struct hybrid_range *range, int chain, vf x,
                                 const int asymmetric) {
    if (asymmetric) range->least[chain] = v_min(x, range->least[chain]);
    else x = v_abs(x);
    range->most[chain] = v_max(x, range->most[chain]);
}

CIRCLET_INLINE void hybrid_row_range(struct hybrid_range *range, const float *p, int64_t n,
                                     const int asymmetric) {
    const int64_t step = HYBRID_CHAINS * CIRCLET_LANES;
    int64_t i = 0;
    for (; i + step <= n; i += step)
        CIRCLET_UNROLL for (int c = 0; c < HYBRID_CHAINS; c++)
            hybrid_widen(range, c, v_load(p + i + c * CIRCLET_LANES), asymmetric);
    for (; i + CIRCLET_LANES <= n; i += CIRCLET_LANES)
        hybrid_widen(range, 0, v_load(p + i), asymmetric);
    if (i < n) hybrid_widen(range, 1, v_load_n(p + i, n - i), asymmetric);
}

/* To the nearest whole number, halves away from zero, of a small number. */
CIRCLET_INLINE double hybrid_round(double x) {
    return (double)(int32_t)(x < 0 ? x - 0.5 : x + 0.5);
}

struct hybrid_factors {
    float scale, inverse;
    int32_t zero;
};

/* Symmetric: the greatest magnitude becomes 127. */
CIRCLET_INLINE struct hybrid_factors hybrid_symmetric(float peak) {
    if (peak == 0.0f) return (struct hybrid_factors){1.0f, 127.0f, 0};
    return (struct hybrid_factors){peak / 127.0f, 127.0f / peak, 0};
}

/* Asymmetric: zero stays exact; the zero point comes from the end whose rounding errs less. */
CIRCLET_INLINE struct hybrid_factors hybrid_asymmetric(float least, float most) {
    double low = least, high = most;
    if (low == high) return (struct hybrid_factors){1.0f, 1.0f, 0};
    double scale = (double)(most - least) / 255.0;
    double below = low / scale, above = high / scale;
    double low_error = 128.0 + (below < 0 ? -below : below);
    double high_error = 127.0 + (above < 0 ? -above : above);
    double zero = hybrid_round(low_error < high_error ? -128.0 - below : 127.0 - above);
    zero = zero < -128.0 ? -128.0 : zero > 127.0 ? 127.0 : zero;
    float stored_scale = (float)scale;
    return (struct hybrid_factors){stored_scale, 1.0f / stored_scale, (int32_t)zero};
}

/* Out of range by a rounding error at most; the symmetric form by none. */
CIRCLET_INLINE vi hybrid_quantise_lanes(vf x, struct hybrid_factors f, const int asymmetric) {
    vf y = x * v_splat(f.inverse);
    vi whole = v_to_i32(y + v_copysign(v_splat(0.5f), y));
    return asymmetric ? (vi)(whole + f.zero) : whole;
}

CIRCLET_INLINE void hybrid_quantise_row(const float *p, int64_t n, uint8_t *out,
                                        struct hybrid_factors f, const int asymmetric) {
    int64_t i = 0;
    for (; i + 4 * CIRCLET_LANES <= n; i += 4 * CIRCLET_LANES) {
        vi steps[4];
        CIRCLET_UNROLL for (int c = 0; c < 4; c++)
            steps[c] = hybrid_quantise_lanes(v_load(p + i + c * CIRCLET_LANES), f, asymmetric);
        vi8 bytes = v_saturate_4_i8(steps[0], steps[1], steps[2], steps[3]);
        v_store_u8(out + i, v_ungroup((vu8)bytes, 1) ^ HYBRID_STORED);
    }
    for (; i < n; i += CIRCLET_LANES) {
        int64_t count = s_min_i64(n - i, CIRCLET_LANES);
        vf x = count == CIRCLET_LANES ? v_load(p + i) : v_load_n(p + i, count);
        vi steps = hybrid_quantise_lanes(x, f, asymmetric);
        vqu8 bytes = (vqu8)v_saturate_i8(steps) ^ HYBRID_STORED;
        v_store_bytes(out + i, bytes, count);
    }
}

CIRCLET_INLINE void hybrid_fill(uint8_t *p, int64_t n, int32_t value) {
    for (int64_t i = 0; i < n; i++) p[i] = (uint8_t)value;
}

CIRCLET_INLINE struct hybrid_factors hybrid_fold(const struct hybrid_range *range,
                                                 const int asymmetric) {
    vf least = range->least[0], most = range->most[0];
    CIRCLET_UNROLL for (int c = 1; c < HYBRID_CHAINS; c++)
        least = v_min(range->least[c], least), most = v_max(range->most[c], most);
    float high = v_fold_max(most);
    return asymmetric ? hybrid_asymmetric(v_fold_min(least), high) : hybrid_symmetric(high);
}

/* Whether the pixels of a row lie side by side. */
CIRCLET_INLINE int hybrid_together(const struct hybrid_image_params *p) {
    return p->in.pixel == p->depth;
}

CIRCLET_INLINE void hybrid_rows_range(const struct hybrid_image_params *p, const float *in,
                                      int64_t begin, int64_t end, struct hybrid_range *range,
                                      const int asymmetric) {
    int together = hybrid_together(p);
    int64_t parts = together ? 1 : p->width, length = together ? p->width * p->depth : p->depth;
    for (int64_t y = begin; y < end; y++)
        for (int64_t x = 0; x < parts; x++)
            hybrid_row_range(range, in + strides_at(&p->in, 0, y, x), length, asymmetric);
}

/* Writes rows of the bordered image, that begins at `out`, with what borders on them. */
CIRCLET_INLINE void hybrid_quantise_rows(const struct hybrid_image_params *p, const float *in,
                                         uint8_t *out, int64_t begin, int64_t end,
                                         struct hybrid_factors f, const int asymmetric) {
    int together = hybrid_together(p);
    int64_t parts = together ? 1 : p->width, length = together ? p->width * p->depth : p->depth;
    int32_t zero = f.zero + HYBRID_STORED;
    int64_t row_bytes = (p->left + p->width + p->right) * p->depth;
    if (begin == 0) hybrid_fill(out, p->top * row_bytes, zero);
    out += (p->top + begin) * row_bytes;
    for (int64_t y = begin; y < end; y++, out += row_bytes) {
        int64_t left = p->left * p->depth, inner = p->width * p->depth;
        hybrid_fill(out, left, zero);
        for (int64_t x = 0; x < parts; x++) {
            const float *from = in + strides_at(&p->in, 0, y, x);
            hybrid_quantise_row(from, length, out + left + x * length, f, asymmetric);
        }
        hybrid_fill(out + left + inner, p->right * p->depth, zero);
    }
    if (end == p->height) hybrid_fill(out, p->bottom * row_bytes, zero);
}

CIRCLET_INLINE struct hybrid_scale hybrid_stored(struct hybrid_factors f) {
    return (struct hybrid_scale){f.scale, f.zero + HYBRID_STORED};
}

/* Writes the bordered image to `out` and returns its scale. */
CIRCLET_INLINE struct hybrid_scale hybrid_quantise(const struct hybrid_image_params *p,
                                                   const float *in, uint8_t *out,
                                                   const int asymmetric) {
    struct hybrid_range range = {{{0}}};
    hybrid_rows_range(p, in, 0, p->height, &range, asymmetric);
    struct hybrid_factors f = hybrid_fold(&range, asymmetric);
    hybrid_quantise_rows(p, in, out, 0, p->height, f, asymmetric);
    return hybrid_stored(f);
}

/* Operands: float images, bytes, scales. A task is one image. */
CIRCLET_INLINE void hybrid_image(const struct hybrid_image_params *p, void *const *operands,
                                 void *scratch, int64_t begin, int64_t end, const int asymmetric) {
    (void)scratch;
    for (int64_t image = begin; image < end; image++) {
        const float *in = (const float *)operands[0] + image * p->in.batch;
        uint8_t *out = (uint8_t *)operands[1] + image * p->out_batch;
        struct hybrid_scale *scales = operands[2];
        scales[image] = hybrid_quantise(p, in, out, asymmetric);
    }
}

/* Large images in parts, some rows each: hybrid_ranges finds the ranges of all parts, and
 * hybrid_parts quantises each part by the range of its image. */
struct hybrid_ranges_params {
    struct hybrid_image_params image;
    int64_t parts; /* of an image, at most as many as it has rows */
};
struct hybrid_parts_params {
    struct hybrid_ranges_params ranges;
};

/* Least and greatest of a part. */
struct hybrid_bounds {
    float least, most;
};

CIRCLET_INLINE int64_t hybrid_part_row(const struct hybrid_ranges_params *p, int64_t part) {
    return p->image.height * part / p->parts;
}

/* Operands: float images, bounds of parts. A task is a part. */
CIRCLET_INLINE void hybrid_ranges(const struct hybrid_ranges_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end,
                                  const int asymmetric) {
    (void)scratch;
    struct hybrid_bounds *bounds = operands[1];
    for (int64_t task = begin; task < end; task++) {
        int64_t part = task % p->parts;
        const float *in = (const float *)operands[0] + task / p->parts * p->image.in.batch;
        struct hybrid_range range = {{{0}}};
        hybrid_rows_range(&p->image, in, hybrid_part_row(p, part), hybrid_part_row(p, part + 1),
                          &range, asymmetric);
        vf least = range.least[0], most = range.most[0];
        CIRCLET_UNROLL for (int c = 1; c < HYBRID_CHAINS; c++)
            least = v_min(range.least[c], least), most = v_max(range.most[c], most);
        bounds[task] = (struct hybrid_bounds){v_fold_min(least), v_fold_max(most)};
    }
}

/* Operands: float images, bounds of parts, bytes, scales. A task is a part. */
CIRCLET_INLINE void hybrid_parts(const struct hybrid_parts_params *params, void *const *operands,
                                 void *scratch, int64_t begin, int64_t end, const int asymmetric) {
    (void)scratch;
    const struct hybrid_ranges_params *p = &params->ranges;
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->parts, part = task % p->parts;
        const struct hybrid_bounds *bounds = operands[1];
        struct hybrid_range range = {{{0}}};
        for (int64_t i = image * p->parts; i < (image + 1) * p->parts; i++) {
            if (asymmetric) range.least[0] = v_min(v_splat(bounds[i].least), range.least[0]);
            range.most[0] = v_max(v_splat(bounds[i].most), range.most[0]);
        }
        struct hybrid_factors f = hybrid_fold(&range, asymmetric);
        const float *in = (const float *)operands[0] + image * p->image.in.batch;
        uint8_t *out = (uint8_t *)operands[2] + image * p->image.out_batch;
        hybrid_quantise_rows(&p->image, in, out, hybrid_part_row(p, part),
                             hybrid_part_row(p, part + 1), f, asymmetric);
        struct hybrid_scale *scales = operands[3];
        if (part == 0) scales[image] = hybrid_stored(f);
    }
}

#endif
