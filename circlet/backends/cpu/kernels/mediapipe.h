/* Custom operators of MediaPipe over images of floats: pooling that tells where the largest elements
 * were, its inverse, and images seen through a matrix. Images are dense.
 */
#ifndef CIRCLET_MEDIAPIPE_H
#define CIRCLET_MEDIAPIPE_H

#include "simd.h"

struct argmax_windows {
    int64_t height; /* of the input */
    int64_t width;
    int64_t depth;
    int64_t out_height;
    int64_t out_width;
    int64_t down; /* strides */
    int64_t across;
    int64_t rows; /* of a window */
    int64_t columns;
    int64_t top; /* how far the first window begins before the image */
    int64_t left;
};

struct argmax_pool_params {
    struct argmax_windows at;
    float low; /* clamp of the largest elements */
    float high;
};

struct max_unpool_params {
    struct argmax_windows at;
};

CIRCLET_INLINE void argmax_tap(const float *x, float *largest, float *places, int64_t depth,
                               float place) {
    for (int64_t d = 0; d < depth; d++) {
        int is_larger = x[d] > largest[d];
        largest[d] = is_larger ? x[d] : largest[d];
        places[d] = is_larger ? place : places[d];
    }
}

/* Operands: image, largest elements, places. A task is a row of windows. */
CIRCLET_INLINE void argmax_pool(const struct argmax_pool_params *params, void *const *operands,
                                void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const struct argmax_windows *p = &params->at;
    for (int64_t task = begin; task < end; task++) {
        int64_t first_row = task % p->out_height * p->down - p->top;
        const float *image = (const float *)operands[0] +
                             task / p->out_height * p->height * p->width * p->depth;
        for (int64_t column = 0; column < p->out_width; column++) {
            int64_t first = column * p->across - p->left;
            int64_t at = (task * p->out_width + column) * p->depth;
            float *largest = (float *)operands[1] + at, *places = (float *)operands[2] + at;
            for (int64_t d = 0; d < p->depth; d++) largest[d] = -0x1.fffffep127f, places[d] = 0.0f;
            for (int64_t tap = 0; tap < p->rows * p->columns; tap++) {
                int64_t y = first_row + tap / p->columns, x = first + tap % p->columns;
                if (y < 0 || y >= p->height || x < 0 || x >= p->width) continue;
                argmax_tap(image + (y * p->width + x) * p->depth, largest, places, p->depth,
                           (float)tap);
            }
            for (int64_t d = 0; d < p->depth; d++) {
                float value = largest[d] < params->low ? params->low : largest[d];
                largest[d] = value > params->high ? params->high : value;
                places[d] += 0.1f;
            }
        }
    }
}

/* Operands: elements, places, image. A task is one image; elements without a place are dropped. */
CIRCLET_INLINE void max_unpool(const struct max_unpool_params *params, void *const *operands,
                               void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const struct argmax_windows *p = &params->at;
    int64_t size = p->out_height * p->out_width * p->depth, count = p->height * p->width;
    for (int64_t task = begin; task < end; task++) {
        const float *x = (const float *)operands[0] + task * count * p->depth;
        const float *places = (const float *)operands[1] + task * count * p->depth;
        float *image = (float *)operands[2] + task * size;
        for (int64_t i = 0; i < size; i++) image[i] = 0.0f;
        for (int64_t i = 0; i < count * p->depth; i++) {
            if (!(places[i] > -1.0f && places[i] < (float)(p->rows * p->columns))) continue;
            int64_t place = (int64_t)places[i], pixel = i / p->depth;
            int64_t row = pixel / p->width * p->down - p->top + place / p->columns;
            int64_t column = pixel % p->width * p->across - p->left + place % p->columns;
            if (row < 0 || row >= p->out_height || column < 0 || column >= p->out_width) continue;
            image[(row * p->out_width + column) * p->depth + i % p->depth] = x[i];
        }
    }
}

struct transform_image_params {
    int64_t height; /* of the image */
    int64_t width;
    int64_t depth;
    int64_t out_width;
    int64_t is_centred; /* whether pixels have their centres at halves */
};

CIRCLET_INLINE float transform_between(float first, float second, float part) {
    return (float)((1.0 - (double)part) * (double)first + (double)(part * second));
}

CIRCLET_INLINE float transform_shift(const float *row, int64_t is_centred) {
    double moved = (double)row[0] * 0.5 + (double)row[1] * 0.5 - 0.5;
    return is_centred ? (float)((double)row[3] + moved) : row[3];
}

/* A place along a row of the matrix. */
CIRCLET_INLINE float transform_place(const float *row, float x, float y, float shift) {
    return row[0] * x + row[1] * y + row[2] * 0.0f + shift;
}

CIRCLET_INLINE void transform_pixel(const struct transform_image_params *p, const float *image,
                                    float x, float y, float *out) {
    int is_inside = x >= 0 && x <= (float)(p->width - 1) && y >= 0 && y <= (float)(p->height - 1);
    int64_t column = is_inside ? (int64_t)x : 0, row = is_inside ? (int64_t)y : 0;
    float right = x - (float)column, lower = y - (float)row;
    const float *at = image + (row * p->width + column) * p->depth, *under = at + p->width * p->depth;
    int has_right = column + 1 < p->width, has_under = row + 1 < p->height;
    for (int64_t d = 0; d < p->depth; d++) {
        if (!is_inside) {
            out[d] = 0.0f;
            continue;
        }
        float beside = has_right ? at[p->depth + d] : 0.0f, below = has_under ? under[d] : 0.0f;
        float corner = has_right && has_under ? under[p->depth + d] : 0.0f;
        float above = transform_between(at[d], beside, right);
        float beneath = transform_between(below, corner, right);
        double sum = (double)(lower * beneath) + (1.0 - (double)lower) * (double)above;
        out[d] = (float)sum;
    }
}

/* Operands: image, matrix, result. A task is a row of the result. */
CIRCLET_INLINE void transform_image(const struct transform_image_params *p, void *const *operands,
                                    void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const float *across = operands[1], *down = across + 4;
    float right = transform_shift(across, p->is_centred), under = transform_shift(down, p->is_centred);
    for (int64_t row = begin; row < end; row++)
        for (int64_t column = 0; column < p->out_width; column++) {
            float x = transform_place(across, (float)column, (float)row, right);
            float y = transform_place(down, (float)column, (float)row, under);
            float *out = (float *)operands[2] + (row * p->out_width + column) * p->depth;
            transform_pixel(p, operands[0], x, y, out);
        }
}

#endif
