/* Resizing of NHWC images by tables of source positions and weights. */
#ifndef CIRCLET_RESIZE_H
#define CIRCLET_RESIZE_H

#include "copy.h"
#include "element.h"

/* Fixed-point weights are in units of 1/1024 along each axis. */
#define RESIZE_SHIFT 20

struct resize_bilinear_params {
    int64_t channels;         /* of both images */
    int64_t out_height;       /* of the result */
    int64_t out_width;        /* of the result */
    int64_t in_batch_stride;  /* elements */
    int64_t in_row_stride;    /* elements */
    int64_t in_pixel_stride;  /* elements */
    int64_t out_batch_stride; /* elements */
    int64_t out_row_stride;   /* elements */
    int64_t out_pixel_stride; /* elements */
};

/* The four pixels around a sample, in the order of summation, and their weights. */
typedef struct resize_sample {
    const char *corner[4];
    float down, right;
    int32_t fixed_down, fixed_right;
} resize_sample;

CIRCLET_INLINE vf resize_real(const resize_sample *s, int64_t at, int64_t n, int type) {
    float vertical[2] = {1.0f - s->down, s->down}, horizontal[2] = {1.0f - s->right, s->right};
    vf total = v_zero();
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
        vf v = element_load_f32(s->corner[i] + at, n, type);
        v = v * v_splat(vertical[i & 1]) * v_splat(horizontal[i >> 1]);
        if (i) v += total;
        total = v;
    }
    return total;
}

/* To nearest, halves up; 0.5 itself would move 0.49999997 up. */
CIRCLET_INLINE vi resize_rounded(vf x) { return v_to_i32(x + v_splat(0.49999997f)); }

/* Rounded to nearest, halves away from zero. */
CIRCLET_INLINE vi resize_fixed(const resize_sample *s, int64_t at, int64_t n, int type) {
    int32_t vertical[2] = {1024 - s->fixed_down, s->fixed_down};
    int32_t horizontal[2] = {1024 - s->fixed_right, s->fixed_right};
    vi total = v_zero_i32();
    CIRCLET_UNROLL for (int i = 0; i < 4; i++)
        total += element_load_i32(s->corner[i] + at, n, type) *
                 v_splat_i32(vertical[i & 1] * horizontal[i >> 1]);
    vi sign = total >> 31;
    vi rounded = ((total ^ sign) - sign + (1 << (RESIZE_SHIFT - 1))) >> RESIZE_SHIFT;
    return (rounded ^ sign) - sign;
}

CIRCLET_INLINE void resize_channels(const resize_sample *s, char *to, int64_t c, int64_t n,
                                    int type) {
    int64_t at = c * element_size(type);
    if (type == ELEMENT_F32) element_store_f32(to + at, resize_real(s, at, n, type), n);
    else if (type == ELEMENT_U8)
        element_store_i32(to + at, resize_rounded(resize_real(s, at, n, type)), n, type);
    else element_store_i32(to + at, resize_fixed(s, at, n, type), n, type);
}

/* The last vector of a pixel starts where it ends with the channels: it repeats some of them. */
CIRCLET_INLINE void resize_row(const struct resize_bilinear_params *p, resize_sample s,
                               const char *upper, const char *lower, char *to, const int32_t *x0,
                               const int32_t *x1, const void *right, int type) {
    int64_t size = element_size(type), pixel = p->in_pixel_stride * size;
    for (int64_t x = 0; x < p->out_width; x++, to += p->out_pixel_stride * size) {
        s.corner[0] = upper + x0[x] * pixel, s.corner[1] = lower + x0[x] * pixel;
        s.corner[2] = upper + x1[x] * pixel, s.corner[3] = lower + x1[x] * pixel;
        s.right = ((const float *)right)[x], s.fixed_right = ((const int32_t *)right)[x];
        if (p->channels < CIRCLET_LANES) resize_channels(&s, to, 0, p->channels, type);
        else
            for (int64_t c = 0; c < p->channels; c += CIRCLET_LANES)
                resize_channels(&s, to, s_min_i64(c, p->channels - CIRCLET_LANES), CIRCLET_LANES,
                                type);
    }
}

/* Operands: source, result, then for rows and for columns: lower index, upper index, weight of the
 * upper one (float, or int32 in fixed point). A task is one row of the result. */
CIRCLET_INLINE void resize_bilinear(const struct resize_bilinear_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end, int type) {
    (void)scratch;
    int64_t size = element_size(type);
    const int32_t *y0 = x[2], *y1 = x[3];
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->out_height, y = task % p->out_height;
        const char *from = (const char *)x[0] + image * p->in_batch_stride * size;
        char *to = (char *)x[1] + (image * p->out_batch_stride + y * p->out_row_stride) * size;
        resize_sample s = {{0}, ((const float *)x[4])[y], 0, ((const int32_t *)x[4])[y], 0};
        resize_row(p, s, from + y0[y] * p->in_row_stride * size,
                   from + y1[y] * p->in_row_stride * size, to, x[5], x[6], x[7], type);
    }
}

struct resize_nearest_params {
    int64_t pixel_bytes;    /* bytes of the channels of a pixel */
    int64_t out_height;     /* of the result */
    int64_t out_width;      /* of the result */
    int64_t in_batch_bytes; /* from image to image */
    int64_t in_row_bytes;   /* from row to row */
    int64_t in_pixel_bytes; /* from pixel to pixel */
    int64_t out_batch_bytes; /* from image to image */
    int64_t out_row_bytes;  /* from row to row */
    int64_t out_pixel_bytes; /* from pixel to pixel */
};

/* Operands: source, result, source row of each row, source column of each column. */
CIRCLET_INLINE void resize_nearest(const struct resize_nearest_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int32_t *rows = x[2], *columns = x[3];
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->out_height, y = task % p->out_height;
        const char *from =
            (const char *)x[0] + image * p->in_batch_bytes + rows[y] * p->in_row_bytes;
        char *to = (char *)x[1] + image * p->out_batch_bytes + y * p->out_row_bytes;
        for (int64_t column = 0; column < p->out_width; column++)
            copy_run(to + column * p->out_pixel_bytes, from + columns[column] * p->in_pixel_bytes,
                     p->pixel_bytes);
    }
}

#endif
