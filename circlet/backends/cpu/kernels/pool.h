/* Average, maximum and L2 pooling of NHWC images; windows are clamped at the edges, so that padding
 * takes no part, in the divisor neither. */
#ifndef CIRCLET_POOL_H
#define CIRCLET_POOL_H

#include "element.h"
#include "pool_few.h"
#include "stop.h"
#include "strides.h"
#include "vmath.h"

enum { POOL_MAX, POOL_AVERAGE, POOL_L2 };

struct pool_params {
    int64_t in_height;       /* of the input */
    int64_t in_width;        /* of the input */
    int64_t channels;        /* of both */
    int64_t out_height;      /* of the output */
    int64_t out_width;       /* of the output */
    int64_t window_height;   /* taps */
    int64_t window_width;    /* taps */
    int64_t stride_height;   /* between windows */
    int64_t stride_width;    /* between windows */
    int64_t pad_top;         /* rows that the first window reaches beyond the image */
    int64_t pad_left;        /* columns likewise */
    struct image_strides in;
    struct image_strides out;
    int32_t low_int;         /* fused activation of integers */
    int32_t high_int;        /* fused activation of integers */
    float low;               /* fused activation of floats */
    float high;              /* fused activation of floats */
};

/* The part of a window that lies in the image. */
typedef struct pool_window {
    const char *at; /* first tap, channel 0 */
    int64_t rows, columns, row_stride, pixel_stride;
} pool_window;

#define POOL_TAPS(w, tap, size)                                               \
    for (int64_t tap##_y = 0; tap##_y < (w)->rows; tap##_y++)                 \
        CIRCLET_NO_UNROLL for (int64_t tap##_x = 0, tap = tap##_y * (w)->row_stride * (size);   \
             tap##_x < (w)->columns; tap##_x++, tap += (w)->pixel_stride * (size))

CIRCLET_INLINE vf pool_join_f32(vf total, vf v, int kind) {
    if (kind == POOL_MAX) return v_max(v, total);
    if (kind == POOL_L2) v *= v;
    return total + v;
}

CIRCLET_INLINE vi pool_join_int(vi total, vi v, int kind) {
    if (kind == POOL_MAX) return v_max_i32(v, total);
    return total + v;
}

/* Channels c .. c + registers * lanes of a float window. */
CIRCLET_INLINE void pool_f32(const struct pool_params *p, const pool_window *w, float *to,
                             int64_t c, int64_t n, int kind, int registers) {
    vf sums[4];
    CIRCLET_UNROLL for (int r = 0; r < registers; r++)
        sums[r] = v_splat(kind == POOL_MAX ? -__builtin_inff() : 0.0f);
    POOL_TAPS(w, tap, 4) {
        const float *from = (const float *)(w->at + tap) + c;
        CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
            vf v = n < CIRCLET_LANES ? v_load_n(from, n) : v_load(from + r * CIRCLET_LANES);
            sums[r] = pool_join_f32(sums[r], v, kind);
        }
    }
    vf share = v_splat(1.0f / (float)(w->rows * w->columns));
    CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
        vf v = sums[r];
        if (kind != POOL_MAX) v *= share;
        if (kind == POOL_L2) v = v_sqrt(v);
        v = v_clamp(v, v_splat(p->low), v_splat(p->high));
        if (n < CIRCLET_LANES) v_store_n(to + c, v, n);
        else v_store(to + c + r * CIRCLET_LANES, v);
    }
}

CIRCLET_INLINE void pool_channels_f32(const struct pool_params *p, const pool_window *w, float *to,
                                      int kind) {
    int64_t c = 0;
    if (p->channels < CIRCLET_LANES) {
        pool_f32(p, w, to, 0, p->channels, kind, 1);
        return;
    }
    for (; c + 4 * CIRCLET_LANES <= p->channels; c += 4 * CIRCLET_LANES)
        pool_f32(p, w, to, c, CIRCLET_LANES, kind, 4);
    for (; c < p->channels; c += CIRCLET_LANES)
        pool_f32(p, w, to, s_min_i64(c, p->channels - CIRCLET_LANES), CIRCLET_LANES, kind, 1);
}

/* A whole number over the taps, towards zero. The quotient of two floats below 2**24 never rounds
 * up to the next integer, so truncating it is exact; sums of 16-bit values may be larger, and
 * their quotient is one off at most, as what is left over tells. */
CIRCLET_INLINE vi pool_quotient(vi sum, int64_t taps, int type) {
    vi quotient = v_to_i32(v_to_f32(sum) / v_splat((float)taps));
    if (type != ELEMENT_I16) return quotient;
    vi size = v_splat_i32((int32_t)taps), left = sum - quotient * size;
    vi below = (vi)(sum < v_zero_i32());
    vi rest = v_select_i32(below, -left, left);
    vi step = (vi)(rest < v_zero_i32()) - (vi)(rest >= size);
    return quotient + v_select_i32(below, -step, step);
}

/* Mean of integer taps, halves away from zero for signed, up for unsigned inputs. */
CIRCLET_INLINE vi pool_mean(vi sum, int64_t taps, int type) {
    vi half = v_splat_i32((int32_t)(taps / 2));
    if (type != ELEMENT_U8) half = v_select_i32((vi)(sum > v_zero_i32()), half, -half);
    return pool_quotient(sum + half, taps, type);
}

/* Lanes of channels c .. c + n of an integer window; 2^15 taps of 16 bits fit the sums. */
CIRCLET_INLINE void pool_int(const struct pool_params *p, const pool_window *w, char *to,
                             int64_t c, int64_t n, int kind, int type, int registers) {
    vi sums[4];
    int64_t size = element_size(type);
    CIRCLET_UNROLL for (int r = 0; r < registers; r++)
        sums[r] = v_splat_i32(kind == POOL_MAX ? INT16_MIN : 0);
    POOL_TAPS(w, tap, size) {
        const char *from = w->at + tap + c * size;
        CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
            vi v = element_load_i32(from + r * CIRCLET_LANES * size, n, type);
            sums[r] = pool_join_int(sums[r], v, kind);
        }
    }
    int64_t taps = w->rows * w->columns;
    CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
        vi v = sums[r];
        if (kind != POOL_MAX) v = pool_mean(v, taps, type);
        v = v_clamp_i32(v, v_splat_i32(p->low_int), v_splat_i32(p->high_int));
        element_store_i32(to + (c + r * CIRCLET_LANES) * size, v, n, type);
    }
}

CIRCLET_INLINE void pool_channels_int(const struct pool_params *p, const pool_window *w, char *to,
                                      int kind, int type) {
    int64_t c = 0;
    for (; c + 4 * CIRCLET_LANES <= p->channels; c += 4 * CIRCLET_LANES)
        pool_int(p, w, to, c, CIRCLET_LANES, kind, type, 4);
    if (p->channels < CIRCLET_LANES) {
        pool_int(p, w, to, 0, p->channels, kind, type, 1);
        return;
    }
    for (; c < p->channels; c += CIRCLET_LANES)
        pool_int(p, w, to, s_min_i64(c, p->channels - CIRCLET_LANES), CIRCLET_LANES, kind, type, 1);
}

CIRCLET_INLINE void pool_max_8bit(const struct pool_params *p, const pool_window *w, char *to,
                                   int64_t c, int type) {
    if (type == ELEMENT_U8) {
        vu8 best = v_load_u8((const uint8_t *)w->at + c);
        POOL_TAPS(w, tap, 1) {
            vu8 v = v_load_u8((const uint8_t *)w->at + tap + c), more = (vu8)(v > best);
            best = (v & more) | (best & ~more);
        }
        vu8 low = (vu8){0} + (uint8_t)p->low_int, high = (vu8){0} + (uint8_t)p->high_int;
        vu8 below = (vu8)(best < low), above;
        best = (low & below) | (best & ~below);
        above = (vu8)(best > high);
        v_store_u8((uint8_t *)to + c, (high & above) | (best & ~above));
    } else {
        vi8 best = v_load_i8((const int8_t *)w->at + c);
        POOL_TAPS(w, tap, 1) {
            vi8 v = v_load_i8((const int8_t *)w->at + tap + c), more = (vi8)(v > best);
            best = (v & more) | (best & ~more);
        }
        vi8 low = (vi8){0} + (int8_t)p->low_int, high = (vi8){0} + (int8_t)p->high_int;
        vi8 below = (vi8)(best < low), above;
        best = (low & below) | (best & ~below);
        above = (vi8)(best > high);
        v_store_i8((int8_t *)to + c, (high & above) | (best & ~above));
    }
}

/* Pixels at the end of rows that a whole register from one of them on may leave, where channels
 * are few; what it reads and writes before them lies in the same row. */
typedef struct pool_reach {
    int64_t out; /* 0 where registers are never to reach over a pixel's channels */
    int64_t in;
} pool_reach;

CIRCLET_INLINE pool_reach pool_reach_of(const struct pool_params *p) {
    if (p->channels >= CIRCLET_LANES || p->out.pixel != p->channels) return (pool_reach){0, 0};
    return (pool_reach){CIRCLET_LANES / p->channels + 1, CIRCLET_LANES / p->in.pixel + 1};
}

/* Whether few channels may be done as a whole register: what it reads behind them lies in the same
 * row, and so does what it writes, where the next pixels come later. */
CIRCLET_INLINE int pool_reaches_over(const struct pool_params *p, const pool_reach *reach,
                                     int64_t column, int64_t stop) {
    return reach->out && column + reach->out < p->out_width && stop + reach->in <= p->in_width;
}

/* The last register starts where it ends with the channels: it repeats some of them. */
CIRCLET_INLINE void pool_pixel(const struct pool_params *p, const pool_window *w, char *to,
                               int kind, int type, int reaches_over) {
    if (reaches_over) {
        if (type == ELEMENT_F32) pool_f32(p, w, (float *)to, 0, CIRCLET_LANES, kind, 1);
        else pool_int(p, w, to, 0, CIRCLET_LANES, kind, type, 1);
        return;
    }
    if (type == ELEMENT_F32) {
        pool_channels_f32(p, w, (float *)to, kind);
    } else if (kind == POOL_MAX && type != ELEMENT_I16 && p->channels >= CIRCLET_VBYTES) {
        for (int64_t c = 0; c < p->channels; c += CIRCLET_VBYTES)
            pool_max_8bit(p, w, to, s_min_i64(c, p->channels - CIRCLET_VBYTES), type);
    } else {
        pool_channels_int(p, w, to, kind, type);
    }
}

/* Row `y` of the output, by pool_few.h; floats and bytes, whose pixels are dense. */
CIRCLET_INLINE void pool_few(const struct pool_params *p, const char *in, char *out, int64_t image,
                             int64_t y, void *line, int type) {
    const int64_t size = element_size(type);
    int64_t top = y * p->stride_height - p->pad_top, first = s_max_i64(top, 0);
    const pool_few_row row = {
        in + strides_at(&p->in, image, first, 0) * size,
        out + strides_at(&p->out, image, y, 0) * size,
        s_min_i64(top + p->window_height, p->in_height) - first,
        p->in.row * size,
        p->in_width,
        p->out_width,
        p->channels,
        p->window_width,
        p->stride_width,
        -p->pad_left,
    };
    if (type == ELEMENT_F32) pool_few_f32(&row, line, p->low, p->high);
    else if (type == ELEMENT_I8) pool_few_i8(&row, line, (int8_t)p->low_int, (int8_t)p->high_int);
    else pool_few_u8(&row, line, (uint8_t)p->low_int, (uint8_t)p->high_int);
}

/* The pixels of row `y` of the output, one by one; false where the run is to stop. */
CIRCLET_INLINE int pool_row(const struct pool_params *p, void *const *x, int64_t image, int64_t y,
                            const pool_reach *reach, stop_count *stop, int kind, int type) {
    const int64_t step = stop_rows(p->window_height * p->window_width * p->channels, 1);
    const int64_t size = element_size(type);
    int64_t top = y * p->stride_height - p->pad_top, first_y = s_max_i64(top, 0);
    const char *from = (const char *)x[0] + strides_at(&p->in, image, first_y, 0) * size;
    char *to = (char *)x[1] + strides_at(&p->out, image, y, 0) * size;
    for (int64_t column = 0, next; column < p->out_width; column = next) {
        next = s_min_i64(column + step, p->out_width);
        for (; column < next; column++) {
            int64_t left = column * p->stride_width - p->pad_left;
            int64_t first_x = s_max_i64(left, 0);
            pool_window w = {from + first_x * p->in.pixel * size,
                             s_min_i64(top + p->window_height, p->in_height) - first_y,
                             s_min_i64(left + p->window_width, p->in_width) - first_x,
                             p->in.row, p->in.pixel};
            pool_pixel(p, &w, to + column * p->out.pixel * size, kind, type,
                       pool_reaches_over(p, reach, column, first_x + w.columns));
        }
        if (stop_after(stop, STOP_EVERY)) return 0;
    }
    return 1;
}

/* Operands: input, output, circlet_stop. A task is one row of the output. FEW: whether rows of
 * windows come first, by pool_few.h; scratch memory then holds a line. */
CIRCLET_INLINE void pool(const struct pool_params *p, void *const *x, void *scratch, int64_t begin,
                         int64_t end, int kind, int type, const int FEW) {
    stop_count stop = stop_start(x[2]);
    const pool_reach reach = pool_reach_of(p);
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->out_height, y = task % p->out_height;
        if (FEW) {
            pool_few(p, x[0], x[1], image, y, scratch, type);
            if (stop_after(&stop, STOP_EVERY)) return;
        } else if (!pool_row(p, x, image, y, &reach, &stop, kind, type)) {
            return;
        }
    }
}

#endif
