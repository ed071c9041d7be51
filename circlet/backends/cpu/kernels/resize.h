/* Resizing of NHWC images by tables of source positions and weights. Bilinear weights are those
 * of rows times those of columns: rows are weighed first, over whole lines, then pairs of their
 * pixels. */
#ifndef CIRCLET_RESIZE_H
#define CIRCLET_RESIZE_H

#include "copy.h"
#include "element.h"
#include "strides.h"

/* Fixed-point weights are in units of 1/1024 along each axis, as in ResizeBilinearInteger of
 * LiteRT. */
#define RESIZE_SHIFT 20

struct resize_bilinear_params {
    int64_t channels;         /* of both images */
    int64_t in_width;         /* of the source */
    int64_t out_height;       /* of the result */
    int64_t out_width;        /* of the result */
    struct image_strides in;
    struct image_strides out;
};

/* Two source rows, and where their parts of a result row go, dense: for uint8 results there is
 * one row for each, since LiteRT adds four products of floats in an order of its own, which
 * decides ties; otherwise the sum of both. */
typedef struct resize_rows {
    const char *upper, *lower;
    float down;
    int32_t fixed_down;
    char *parts;
    int64_t part_bytes;
} resize_rows;

CIRCLET_INLINE void resize_weigh(const resize_rows *r, int64_t from, int64_t to, int64_t n,
                                 int type) {
    const char *upper = r->upper + from * element_size(type);
    const char *lower = r->lower + from * element_size(type);
    char *part = r->parts + to * 4;
    if (type == ELEMENT_I8 || type == ELEMENT_I16) {
        vi v = element_load_i32(upper, n, type) * v_splat_i32(1024 - r->fixed_down);
        v += element_load_i32(lower, n, type) * v_splat_i32(r->fixed_down);
        element_store_i32(part, v, n, ELEMENT_I32);
    } else {
        vf a = element_load_f32(upper, n, type) * v_splat(1.0f - r->down);
        vf b = element_load_f32(lower, n, type) * v_splat(r->down);
        if (type == ELEMENT_F32) {
            element_store_f32(part, a + b, n);
            return;
        }
        element_store_f32(part, a, n);
        element_store_f32(part + r->part_bytes, b, n);
    }
}

/* The source rows times their weights. */
CIRCLET_INLINE void resize_prepare(const struct resize_bilinear_params *p, const resize_rows *r,
                                   int type) {
    int even = p->in.pixel == p->channels;
    int64_t run = even ? p->in_width * p->channels : p->channels;
    int64_t runs = even ? 1 : p->in_width;
    for (int64_t x = 0; x < runs; x++) {
        int64_t i = 0, from = x * p->in.pixel, to = x * p->channels;
        for (; i + CIRCLET_LANES <= run; i += CIRCLET_LANES)
            resize_weigh(r, from + i, to + i, CIRCLET_LANES, type);
        if (i < run) resize_weigh(r, from + i, to + i, run - i, type);
    }
}

/* To nearest, halves up; 0.5 itself would move 0.49999997 up. */
CIRCLET_INLINE vi resize_rounded(vf x) { return v_to_i32(x + v_splat(0.49999997f)); }

/* To nearest, halves away from zero. */
CIRCLET_INLINE vi resize_unscaled(vi total) {
    vi sign = total >> 31;
    vi rounded = ((total ^ sign) - sign + (1 << (RESIZE_SHIFT - 1))) >> RESIZE_SHIFT;
    return (rounded ^ sign) - sign;
}

/* The same of 1024 * high + low, whose sum may leave 32 bits: 16-bit elements times 2^20. The sign,
 * which decides where halves go, is that of high plus the carry of low; low is not negative. */
CIRCLET_INLINE vi resize_unscaled_wide(vi high, vi low) {
    vi below = (vi)(high + (low >> 10) < v_zero_i32());
    return (high + ((low + (1 << (RESIZE_SHIFT - 1)) + below) >> 10)) >> 10;
}

/* Channels c .. c + n of a result pixel between two pixels of the parts. */
CIRCLET_INLINE void resize_channels(const resize_rows *r, char *to, const char *first,
                                    const char *second, float right, int32_t fixed_right,
                                    int64_t c, int64_t n, int type) {
    to += c * element_size(type), first += c * 4, second += c * 4;
    if (type == ELEMENT_I8) {
        vi v = element_load_i32(first, n, ELEMENT_I32) * v_splat_i32(1024 - fixed_right);
        v += element_load_i32(second, n, ELEMENT_I32) * v_splat_i32(fixed_right);
        element_store_i32(to, resize_unscaled(v), n, type);
        return;
    }
    if (type == ELEMENT_I16) {
        vi a = element_load_i32(first, n, ELEMENT_I32), b = element_load_i32(second, n, ELEMENT_I32);
        vi left = v_splat_i32(1024 - fixed_right), near = v_splat_i32(fixed_right);
        vi high = (a >> 10) * left + (b >> 10) * near, low = (a & 1023) * left + (b & 1023) * near;
        element_store_i32(to, resize_unscaled_wide(high, low), n, type);
        return;
    }
    vf left_weight = v_splat(1.0f - right), right_weight = v_splat(right);
    vf v = element_load_f32(first, n, ELEMENT_F32) * left_weight;
    if (type == ELEMENT_F32) {
        v += element_load_f32(second, n, ELEMENT_F32) * right_weight;
        element_store_f32(to, v, n);
        return;
    }
    v += element_load_f32(first + r->part_bytes, n, ELEMENT_F32) * left_weight;
    v += element_load_f32(second, n, ELEMENT_F32) * right_weight;
    v += element_load_f32(second + r->part_bytes, n, ELEMENT_F32) * right_weight;
    element_store_i32(to, resize_rounded(v), n, type);
}

/* The last vector of a pixel starts where it ends with the channels: it repeats some of them. A
 * vector of few channels reaches over the next pixels, which come later, while the row has them. */
CIRCLET_INLINE void resize_row(const struct resize_bilinear_params *p, const resize_rows *r,
                               char *to, const int32_t *x0, const int32_t *x1, const void *rights,
                               int type) {
    int64_t pixel = p->channels * 4, step = p->out.pixel * element_size(type);
    int64_t over = p->out.pixel == p->channels ? CIRCLET_LANES / p->channels + 1 : p->out_width;
    for (int64_t x = 0; x < p->out_width; x++, to += step) {
        const char *first = r->parts + x0[x] * pixel, *second = r->parts + x1[x] * pixel;
        float right = ((const float *)rights)[x];
        int32_t fixed = ((const int32_t *)rights)[x];
        if (p->channels < CIRCLET_LANES && x + over < p->out_width) {
            resize_channels(r, to, first, second, right, fixed, 0, CIRCLET_LANES, type);
            continue;
        }
        if (p->channels < CIRCLET_LANES) {
            resize_channels(r, to, first, second, right, fixed, 0, p->channels, type);
            continue;
        }
        for (int64_t c = 0; c < p->channels; c += CIRCLET_LANES)
            resize_channels(r, to, first, second, right, fixed,
                            s_min_i64(c, p->channels - CIRCLET_LANES), CIRCLET_LANES, type);
    }
}

#define RESIZE_WORDS (CIRCLET_VBYTES / 2)
typedef CIRCLET_VECTOR(uint8_t, CIRCLET_VBYTES / 2) resize_bytes;
typedef CIRCLET_UNALIGNED(uint8_t, CIRCLET_VBYTES / 2) resize_bytes_u;
typedef CIRCLET_UNALIGNED(uint16_t, CIRCLET_VBYTES) resize_words_u;

/* A run of bytes of both rows, weighed. */
CIRCLET_INLINE void resize_weigh_words(const resize_rows *r, int64_t from, int64_t to, int64_t run) {
    const uint8_t *upper = (const uint8_t *)r->upper + from, *lower = (const uint8_t *)r->lower + from;
    uint16_t *part = (uint16_t *)r->parts + to;
    const uint16_t down = (uint16_t)r->fixed_down, up = 16 - down;
    int64_t i = 0;
    for (; i + RESIZE_WORDS <= run; i += RESIZE_WORDS) {
        vu16 a = __builtin_convertvector(*(const resize_bytes_u *)(upper + i), vu16);
        vu16 b = __builtin_convertvector(*(const resize_bytes_u *)(lower + i), vu16);
        *(resize_words_u *)(part + i) = a * up + b * down;
    }
    CIRCLET_NO_UNROLL for (; i < run; i++) part[i] = (uint16_t)(upper[i] * up + lower[i] * down);
}

/* Channels of a result pixel between two pixels of the parts, to nearest, halves up. */
CIRCLET_INLINE resize_bytes resize_words(const uint16_t *first, const uint16_t *second,
                                         uint16_t right) {
    vu16 a = *(const resize_words_u *)first, b = *(const resize_words_u *)second;
    return __builtin_convertvector((a * 16 + (b - a) * right + 128) >> 8, resize_bytes);
}

/* A row of bytes whose weights are sixteenths: nothing is rounded before the end, in whatever order
 * products are added, and nothing leaves 16 bits. Few channels reach over as in resize_row. */
CIRCLET_INLINE void resize_row_words(const struct resize_bilinear_params *p, const resize_rows *r,
                                     uint8_t *to, const int32_t *x0, const int32_t *x1,
                                     const int32_t *rights) {
    const int64_t channels = p->channels, even = p->in.pixel == channels, words = RESIZE_WORDS;
    const int64_t width = p->out_width, step = p->out.pixel;
    const int64_t over = step == channels ? words / channels + 1 : width;
    for (int64_t x = 0; x < (even ? 1 : p->in_width); x++)
        resize_weigh_words(r, x * p->in.pixel, x * channels,
                           even ? p->in_width * channels : channels);
    for (int64_t x = 0; x < width; x++, to += step) {
        const uint16_t *first = (const uint16_t *)r->parts + x0[x] * channels;
        const uint16_t *second = (const uint16_t *)r->parts + x1[x] * channels;
        const uint16_t right = (uint16_t)rights[x];
        if (channels <= words && x + over < width) {
            *(resize_bytes_u *)to = resize_words(first, second, right);
            continue;
        }
        if (channels >= words) {
            for (int64_t c = 0; c < channels; c += words) {
                const int64_t at = s_min_i64(c, channels - words);
                *(resize_bytes_u *)(to + at) = resize_words(first + at, second + at, right);
            }
            continue;
        }
        union { resize_bytes all; uint8_t byte[RESIZE_WORDS]; } u = {
            resize_words(first, second, right)};
        CIRCLET_NO_UNROLL for (int64_t c = 0; c < channels; c++) to[c] = u.byte[c];
    }
}

/* Operands: source, result, then for rows and for columns: lower index, upper index, weight of the
 * upper one (float, or int32 in fixed point). A task is one row of the result. Scratch: two rows
 * of the source as floats, and a vector.
 *
 * sixteenths: Whether elements are uint8, and weights sixteenths, int32.
 */
CIRCLET_INLINE void resize_bilinear(const struct resize_bilinear_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end, int type,
                                    const int sixteenths) {
    int64_t size = element_size(type);
    const int32_t *y0 = x[2], *y1 = x[3];
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->out_height, y = task % p->out_height;
        const char *from = (const char *)x[0] + image * p->in.batch * size;
        char *to = (char *)x[1] + strides_at(&p->out, image, y, 0) * size;
        resize_rows r = {from + y0[y] * p->in.row * size,
                         from + y1[y] * p->in.row * size,
                         ((const float *)x[4])[y],
                         ((const int32_t *)x[4])[y],
                         scratch,
                         p->in_width * p->channels * 4};
        if (sixteenths) {
            resize_row_words(p, &r, (uint8_t *)to, x[5], x[6], x[7]);
            continue;
        }
        resize_prepare(p, &r, type);
        resize_row(p, &r, to, x[5], x[6], x[7], type);
    }
}

struct resize_nearest_params {
    int64_t pixel_bytes;    /* bytes of the channels of a pixel */
    int64_t out_height;     /* of the result */
    int64_t out_width;      /* of the result */
    int64_t doubles;        /* whether each column is there twice */
    struct image_strides in; /* in bytes */
    struct image_strides out;
};

typedef CIRCLET_UNALIGNED(uint64_t, CIRCLET_VBYTES) resize_v64;
typedef CIRCLET_UNALIGNED(uint32_t, CIRCLET_VBYTES) resize_v32;
typedef CIRCLET_UNALIGNED(uint16_t, CIRCLET_VBYTES) resize_v16;
typedef CIRCLET_UNALIGNED(uint32_t, CIRCLET_VBYTES / 2) resize_half32;
typedef CIRCLET_UNALIGNED(uint16_t, CIRCLET_VBYTES / 2) resize_half16;
typedef CIRCLET_UNALIGNED(uint8_t, CIRCLET_VBYTES / 2) resize_half8;

/* Each element twice, in one row or two, by halves of vectors, of which the last overlaps the one
 * before it. */
#define RESIZE_DOUBLED(half, wide, size)                                              \
    for (int64_t i = 0; i < count; i += step) {                                       \
        i = s_min_i64(i, count - step);                                               \
        wide x = __builtin_convertvector(*(const half *)(from + i * (size)), wide);   \
        *(wide *)(to + 2 * i * (size)) = x | x << 8 * (size);                         \
        *(wide *)(twin + 2 * i * (size)) = x | x << 8 * (size);                       \
    }

/* Whether a row was long enough for that. */
CIRCLET_INLINE int resize_doubled(char *to, char *twin, const char *from, int64_t count,
                                  const int size) {
    const int64_t step = CIRCLET_VBYTES / 2 / size;
    if (count < step) return 0;
    if (size == 4) RESIZE_DOUBLED(resize_half32, resize_v64, 4);
    if (size == 2) RESIZE_DOUBLED(resize_half16, resize_v32, 2);
    if (size == 1) RESIZE_DOUBLED(resize_half8, resize_v16, 1);
    return 1;
}

/* Rows of single elements, which lie side by side in both images. */
CIRCLET_INLINE void resize_elements(const struct resize_nearest_params *p, char *to, char *twin,
                                    const char *from, const int32_t *columns, const int size) {
    int64_t pairs = p->doubles ? p->out_width / 2 : 0;
    int64_t column = resize_doubled(to, twin, from, pairs, size) ? 2 * pairs : 0;
    CIRCLET_NO_UNROLL for (; column < p->out_width; column++) {
        copy_element(to + column * size, from + columns[column] * size, size);
        copy_element(twin + column * size, from + columns[column] * size, size);
    }
}

/* A row of the result, and its twin where the next one is the same; else both are one. */
CIRCLET_INLINE void resize_nearest_row(const struct resize_nearest_params *p, char *to, char *twin,
                                       const char *from, const int32_t *columns) {
    int even = p->in.pixel == p->pixel_bytes && p->out.pixel == p->pixel_bytes;
    if (even && p->pixel_bytes == 4) {
        resize_elements(p, to, twin, from, columns, 4);
    } else if (even && p->pixel_bytes == 2) {
        resize_elements(p, to, twin, from, columns, 2);
    } else if (even && p->pixel_bytes == 1) {
        resize_elements(p, to, twin, from, columns, 1);
    } else {
        for (char *row = to;; row = twin) {
            for (int64_t column = 0; column < p->out_width; column++)
                copy_run(row + column * p->out.pixel, from + columns[column] * p->in.pixel,
                         p->pixel_bytes);
            if (row == twin) break;
        }
    }
}

/* Operands: source, result, source row of each row, source column of each column. */
CIRCLET_INLINE void resize_nearest(const struct resize_nearest_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int32_t *rows = x[2];
    int64_t image = begin / p->out_height, y = begin % p->out_height;
    for (int64_t task = begin; task < end;) {
        const char *from = (const char *)x[0] + strides_at(&p->in, image, rows[y], 0);
        char *to = (char *)x[1] + strides_at(&p->out, image, y, 0);
        int both = task + 1 < end && y + 1 < p->out_height && rows[y + 1] == rows[y];
        resize_nearest_row(p, to, both ? to + p->out.row : to, from, x[3]);
        task += 1 + both, y += 1 + both;
        if (y == p->out_height) image++, y = 0;
    }
}

#endif
