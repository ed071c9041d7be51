/* Regions of images, brought to one size: means or maxima of samples between pixels, and maxima of
 * pixels. Images may be of any layout. Places are computed in double, where `is_single` rounds them
 * as the Android Neural Networks API does, in float. */
#ifndef CIRCLET_REGIONS_H
#define CIRCLET_REGIONS_H

#include "boxes.h"

#define REGION_MOST_SAMPLES 65536 /* of a part along one axis */
#define REGION_FAR 1e9            /* pixels from the first one, where no region may reach */

/* An image batch, and where its elements are. */
struct region_image {
    int64_t images;
    int64_t height;
    int64_t width;
    int64_t batch; /* elements between neighbours, of this and of the other axes */
    int64_t row;
    int64_t pixel;
    int64_t channel;
};

/* What is made of each region. */
struct region_parts {
    int64_t height; /* parts of a region */
    int64_t width;
    int64_t channels;
    int64_t region; /* elements between neighbours, of regions, parts and channels */
    int64_t row;
    int64_t column;
    int64_t channel;
};

/* Where regions are: row `region` of `boxes`, with columns in front of the corners. */
struct region_boxes {
    int64_t columns;
    int64_t first;     /* the column of the left corner; column 0 is the image where it is not 0 */
    float right;       /* pixels of the image for one of a box */
    float down;
    float scale;       /* of stored boxes */
    int32_t zero;
};

/* A region of an image, in pixels: left, top, right, bottom. */
typedef struct region {
    double corner[4];
    int64_t image;
} region;

CIRCLET_INLINE double region_round(double x, int is_single) { return is_single ? (float)x : x; }

/* Whether a region is one: of an image that exists, and by Android's rules inside of it. */
static int region_at(const struct region_boxes *b, const struct region_image *image,
                     const void *boxes, const void *batches, int64_t index, int batch_bytes,
                     int is_stored, int is_android, region *to) {
    struct box_scale stored = {b->scale, b->zero};
    const int own = is_stored ? ELEMENT_U16 : ELEMENT_F32;
    float given[4];
    for (int i = 0; i < 4; i++)
        given[i] = box_number(boxes, index * b->columns + b->first + i, stored, own);
    if (b->first) to->image = (int64_t)box_clamp(((const float *)boxes)[index * b->columns], -1, 1e9);
    else if (batch_bytes == 8) to->image = ((const int64_t *)batches)[index];
    else to->image = ((const int32_t *)batches)[index];
    if (to->image < 0 || to->image >= image->images) return 0;
    for (int i = 0; i < 4; i++)
        to->corner[i] = region_round((double)given[i] * (i % 2 ? b->down : b->right), is_android);
    if (!is_android) return 1;
    const double *c = to->corner;
    return given[0] <= given[2] && given[1] <= given[3] && c[0] >= 0 && c[1] >= 0 &&
           c[2] <= (double)image->width && c[3] <= (double)image->height;
}

/* How the parts of a region are sampled along an axis. */
typedef struct region_axis {
    double start; /* of the region */
    double step;  /* from part to part */
    double each;  /* from sample to sample */
    int64_t count; /* samples of a part */
    int64_t size;  /* of the image */
} region_axis;

/* A sample between two pixels, of which the first has the rest of `share`. */
typedef struct region_sample {
    int64_t low, high;
    float share;
    int is_inside;
} region_sample;

/* Whether the axis has no more samples than are allowed. */
CIRCLET_INLINE int region_axis_of(region_axis *a, double start, double end, int64_t parts,
                                  int64_t asked, int64_t size, double least, int is_single) {
    double length = region_round(end - start, is_single);
    if (!(length >= least)) length = least;
    a->start = start, a->size = size;
    a->step = region_round(length / (double)parts, is_single);
    if (!(start >= -REGION_FAR && start <= REGION_FAR && end >= -REGION_FAR && end <= REGION_FAR))
        return 0;
    int64_t whole = (int64_t)a->step;
    a->count = asked > 0 ? asked : s_max_i64(whole + (a->step > (double)whole), 0);
    a->each = a->count ? region_round(a->step / (double)a->count, is_single) : 0;
    return a->count <= REGION_MOST_SAMPLES;
}

CIRCLET_INLINE region_sample region_sampled(const region_axis *a, int64_t part, int64_t sample,
                                            int is_single) {
    double first = region_round(region_round(a->step * (double)part, is_single) + a->start, is_single);
    double step = region_round(a->each * (double)sample, is_single);
    double offset = region_round(region_round(a->each / 2, is_single) + step, is_single);
    double at = region_round(first + offset, is_single);
    region_sample made = {0, 0, 0, is_single || (at >= -1 && at <= (double)a->size)};
    at = box_clamp(at, 0, (double)a->size);
    made.low = s_min_i64((int64_t)at, a->size - 1);
    made.high = s_min_i64(made.low + 1, a->size - 1);
    made.share = made.low == a->size - 1 ? 0 : (float)(at - (double)made.low);
    return made;
}

struct roi_align_params {
    struct region_image image;
    struct region_parts parts;
    struct region_boxes boxes;
    int64_t height_samples; /* of a part; 0 for as many as it has pixels */
    int64_t width_samples;
    double offset;   /* what is taken from all corners */
    double least;    /* length of a region */
    double factor;   /* of stored pixels: from sums of weighted pixels to steps of the result */
    int32_t zero;    /* of stored pixels, and of the result */
    int32_t made_zero;
};

/* Adds weighted pixels of all channels to sums, or takes the larger ones. */
CIRCLET_INLINE void roi_align_add(float *sum, const float *pixel, int64_t step, int64_t channels,
                                  float weight, int is_max) {
    int64_t c = 0;
    for (; step == 1 && c + CIRCLET_LANES <= channels; c += CIRCLET_LANES) {
        vf before = v_load(sum + c), next = v_load(pixel + c) * v_splat(weight);
        v_store(sum + c, is_max ? v_max(next, before) : before + next);
    }
    for (; c < channels; c++) {
        float next = pixel[c * step] * weight;
        sum[c] = is_max ? detection_max(next, sum[c]) : sum[c] + next;
    }
}

/* The same of stored pixels, whose weights are in steps of 1 / 255. */
CIRCLET_INLINE void roi_align_add_stored(int64_t *sum, const void *pixel, int64_t step,
                                         int64_t channels, float weight, int32_t zero, int type) {
    int64_t steps = (int64_t)box_half_away((float)(weight / (1.0f / 255.0f)));
    for (int64_t c = 0; c < channels; c++) {
        int32_t stored = type == ELEMENT_U8 ? ((const uint8_t *)pixel)[c * step]
                                            : ((const int8_t *)pixel)[c * step];
        sum[c] += steps * (stored - zero);
    }
}

static void roi_align_sample(const struct roi_align_params *p, const char *image, void *sum,
                             region_sample y, region_sample x, int type, int is_max) {
    const int64_t channels = p->parts.channels, step = p->image.channel;
    for (int corner = 0; corner < 4; corner++) {
        float down = corner < 2 ? 1 - y.share : y.share, right = corner % 2 ? x.share : 1 - x.share;
        float weight = y.is_inside && x.is_inside ? right * down : 0;
        int64_t at = (corner < 2 ? y.low : y.high) * p->image.row;
        at += (corner % 2 ? x.high : x.low) * p->image.pixel;
        const char *pixel = image + at * element_size(type);
        if (type == ELEMENT_F32)
            roi_align_add(sum, (const float *)pixel, step, channels, weight, is_max);
        else
            roi_align_add_stored(sum, pixel, step, channels, weight, p->zero, type);
    }
}

CIRCLET_INLINE void roi_align_store(const struct roi_align_params *p, void *to, const void *sum,
                                    int64_t samples, int type, int is_max) {
    const int64_t step = p->parts.channel;
    for (int64_t c = 0; c < p->parts.channels; c++) {
        if (type == ELEMENT_F32) {
            float value = ((const float *)sum)[c];
            ((float *)to)[c * step] = !samples ? 0 : is_max ? value : value / (float)samples;
            continue;
        }
        double scaled = (double)((const int64_t *)sum)[c] * (p->factor / (double)samples);
        double steps = box_half_away(scaled) + p->made_zero;
        if (type == ELEMENT_U8) ((uint8_t *)to)[c * step] = (uint8_t)box_clamp(steps, 0, 255);
        else ((int8_t *)to)[c * step] = (int8_t)box_clamp(steps, -128, 127);
    }
}

/* A part of a region; whether the run goes on. */
static int roi_align_part(const struct roi_align_params *p, const char *image, const region_axis *down,
                          const region_axis *right, int64_t row, int64_t column, char *to,
                          void *sum, stop_count *stop, int type, int is_max, int is_android) {
    for (int64_t c = 0; c < p->parts.channels; c++) {
        if (type == ELEMENT_F32) ((float *)sum)[c] = is_max ? QUEUE_NONE : 0;
        else ((int64_t *)sum)[c] = 0;
    }
    for (int64_t i = 0; i < down->count; i++) {
        region_sample y = region_sampled(down, row, i, is_android);
        for (int64_t j = 0; j < right->count; j++) {
            region_sample x = region_sampled(right, column, j, is_android);
            roi_align_sample(p, image, sum, y, x, type, is_max);
            if (stop_after(stop, 8 + p->parts.channels)) return 0;
        }
    }
    int64_t at = row * p->parts.row + column * p->parts.column;
    roi_align_store(p, to + at * element_size(type), sum, down->count * right->count, type, is_max);
    return 1;
}

/* Operands: images, boxes, the image of each box or null, result, circlet_stop. A task is a region.
 * Scratch memory holds eight bytes for each channel. `is_android` says whose rules count: the
 * Android Neural Networks API's, or ONNX's. */
CIRCLET_INLINE void roi_align(const struct roi_align_params *p, void *const *x, void *scratch,
                              int64_t begin, int64_t end, int type, int batch_bytes, int is_max,
                              int is_android) {
    stop_count stop = stop_start(x[4]);
    const int size = (int)element_size(type), is_stored = type != ELEMENT_F32;
    for (int64_t index = begin; index < end; index++) {
        region r;
        region_axis down, right;
        int is_known = region_at(&p->boxes, &p->image, x[1], x[2], index, batch_bytes, is_stored,
                                 is_android, &r);
        double *c = r.corner;
        if (is_known) for (int i = 0; i < 4; i++) c[i] -= p->offset;
        if (!is_known ||
            !region_axis_of(&down, c[1], c[3], p->parts.height, p->height_samples,
                            p->image.height, p->least, is_android) ||
            !region_axis_of(&right, c[0], c[2], p->parts.width, p->width_samples,
                            p->image.width, p->least, is_android)) {
            refuse_run(x[4]);
            return;
        }
        const char *image = (const char *)x[0] + r.image * p->image.batch * size;
        char *to = (char *)x[3] + index * p->parts.region * size;
        for (int64_t row = 0; row < p->parts.height; row++)
            for (int64_t column = 0; column < p->parts.width; column++)
                if (!roi_align_part(p, image, &down, &right, row, column, to, scratch, &stop, type,
                                    is_max, is_android))
                    return;
    }
}

struct roi_pool_params {
    struct region_image image;
    struct region_parts parts;
    struct region_boxes boxes;
    int32_t zero; /* what empty parts hold */
    int32_t unused;
};

/* The pixels of a part along an axis, from `low` up to `high`. */
typedef struct region_span {
    int64_t low, high;
} region_span;

CIRCLET_INLINE int64_t region_floor(double x) {
    int64_t whole = (int64_t)x;
    return whole - ((double)whole > x);
}

CIRCLET_INLINE region_span region_pixels(double start, double end, int64_t part, int64_t parts,
                                         int64_t size, int is_single) {
    double first = (double)region_floor(start + 0.5), last = (double)region_floor(end + 0.5);
    double length = last - first + 1 < 1 ? 1 : last - first + 1;
    double step = region_round(length / (double)parts, is_single);
    double low = region_round(step * (double)part, is_single);
    double high = region_round(step * (double)(part + 1), is_single);
    int64_t from = region_floor(low) + (int64_t)first;
    int64_t to = -region_floor(-high) + (int64_t)first;
    if (is_single) {
        from = region_floor(region_round(low + first, 1));
        to = -region_floor(-region_round(high + first, 1));
    }
    region_span made = {s_max_i64(s_min_i64(from, size), 0), s_max_i64(s_min_i64(to, size), 0)};
    return made;
}

/* The larger elements of all channels of a pixel and of a part. */
CIRCLET_INLINE void roi_pool_add(const struct roi_pool_params *p, void *part, const void *pixel,
                                 int is_first, int type) {
    const int64_t from = p->image.channel, to = p->parts.channel, channels = p->parts.channels;
#define ROI_POOL_ADD(kind)                                             \
    for (int64_t c = 0; c < channels; c++) {                            \
        kind next = ((const kind *)pixel)[c * from];                    \
        kind *most = (kind *)part + c * to;                             \
        *most = is_first || next > *most || next != next ? next : *most; \
    }
    if (type == ELEMENT_F32) ROI_POOL_ADD(float)
    else if (type == ELEMENT_U8) ROI_POOL_ADD(uint8_t)
    else ROI_POOL_ADD(int8_t)
#undef ROI_POOL_ADD
}

CIRCLET_INLINE void roi_pool_clear(const struct roi_pool_params *p, void *part, int type) {
    for (int64_t c = 0; c < p->parts.channels; c++) {
        if (type == ELEMENT_F32) ((float *)part)[c * p->parts.channel] = 0;
        else ((uint8_t *)part)[c * p->parts.channel] = (uint8_t)p->zero;
    }
}

static int roi_pool_part(const struct roi_pool_params *p, const char *image, void *part,
                         region_span rows, region_span columns, stop_count *stop, int type) {
    if (rows.low >= rows.high || columns.low >= columns.high) roi_pool_clear(p, part, type);
    for (int64_t y = rows.low; y < rows.high; y++)
        for (int64_t x = columns.low; x < columns.high; x++) {
            int64_t at = y * p->image.row + x * p->image.pixel;
            int is_first = y == rows.low && x == columns.low;
            roi_pool_add(p, part, image + at * element_size(type), is_first, type);
            if (stop_after(stop, 1 + p->parts.channels)) return 0;
        }
    return 1;
}

/* Operands, tasks and `is_android` as of `roi_align`; it needs no scratch memory. */
CIRCLET_INLINE void roi_pool(const struct roi_pool_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end, int type, int batch_bytes,
                             int is_android) {
    (void)scratch;
    stop_count stop = stop_start(x[4]);
    const int size = (int)element_size(type), is_stored = type != ELEMENT_F32;
    for (int64_t index = begin; index < end; index++) {
        region r;
        int is_known = region_at(&p->boxes, &p->image, x[1], x[2], index, batch_bytes, is_stored,
                                 is_android, &r);
        for (int i = 0; is_known && i < 4; i++) 
            is_known = r.corner[i] >= -REGION_FAR && r.corner[i] <= REGION_FAR;
        if (!is_known) {
            refuse_run(x[4]);
            return;
        }
        const char *image = (const char *)x[0] + r.image * p->image.batch * size;
        char *to = (char *)x[3] + index * p->parts.region * size;
        for (int64_t row = 0; row < p->parts.height; row++)
            for (int64_t column = 0; column < p->parts.width; column++) {
                region_span rows = region_pixels(r.corner[1], r.corner[3], row, p->parts.height,
                                                 p->image.height, is_android);
                region_span columns = region_pixels(r.corner[0], r.corner[2], column,
                                                    p->parts.width, p->image.width, is_android);
                char *part = to + (row * p->parts.row + column * p->parts.column) * size;
                if (!roi_pool_part(p, image, part, rows, columns, &stop, type)) return;
            }
    }
}

#endif
