/* Boxes and regions as operands: corners (x1, y1, x2, y2), as floats or as uint16 steps. */
#ifndef CIRCLET_BOXES_H
#define CIRCLET_BOXES_H

#include "detection_postprocess.h"
#include "refusal.h"

/* What stored numbers stand for: scale * (stored - zero); types without a scale have 1 and 0. */
struct box_scale {
    float scale;
    int32_t zero;
};

/* The type of boxes beside scores or deltas of a type. */
CIRCLET_INLINE int box_type(int type) { return type == ELEMENT_F32 ? ELEMENT_F32 : ELEMENT_U16; }

CIRCLET_INLINE int32_t box_step(const void *from, int64_t at, int type) {
    if (type == ELEMENT_U8) return ((const uint8_t *)from)[at];
    if (type == ELEMENT_I8) return ((const int8_t *)from)[at];
    if (type == ELEMENT_I16) return ((const int16_t *)from)[at];
    return ((const uint16_t *)from)[at];
}

CIRCLET_INLINE float box_number(const void *from, int64_t at, struct box_scale s, int type) {
    if (type == ELEMENT_F32) return ((const float *)from)[at];
    return ((float)box_step(from, at, type) - (float)s.zero) * s.scale;
}

/* The corners of a box; whether they are in order. */
CIRCLET_INLINE int box_corners(const void *from, int64_t box, struct box_scale s, int type,
                               float *to) {
    for (int i = 0; i < 4; i++) to[i] = box_number(from, box * 4 + i, s, type);
    return to[0] <= to[2] && to[1] <= to[3];
}

/* The nearest whole number, of two equally near ones that away from zero. */
CIRCLET_INLINE double box_half_away(double x) {
    if (x >= 4503599627370496.0 || x <= -4503599627370496.0 || x != x) return x;
    double size = x < 0 ? -x : x, whole = (double)(int64_t)size;
    whole += size - whole >= 0.5;
    return x < 0 ? -whole : whole;
}

CIRCLET_INLINE double box_clamp(double x, double low, double high) {
    return x > high ? high : x > low ? x : low;
}

/* A number as a type stores it; what is none, as 0. */
CIRCLET_INLINE void box_store(void *to, int64_t at, float value, struct box_scale s, int type) {
    if (type == ELEMENT_F32) {
        ((float *)to)[at] = value;
        return;
    }
    double steps = value != value ? 0 : box_half_away(value / s.scale + (float)s.zero);
    if (type == ELEMENT_U8) ((uint8_t *)to)[at] = (uint8_t)box_clamp(steps, 0, 255);
    else if (type == ELEMENT_I8) ((int8_t *)to)[at] = (int8_t)box_clamp(steps, -128, 127);
    else ((uint16_t *)to)[at] = (uint16_t)box_clamp(steps, 0, 65535);
}

/* A coordinate cut to an image; what is no number stays none. */
CIRCLET_INLINE float box_cut(float x, float most) {
    if (x != x || most != most) return x + most;
    return detection_min(detection_max(x, 0), most);
}

/* A box by deltas of its centre (x, y) and sides (w, h), cut to an image's width and height. */
CIRCLET_INLINE void box_moved(const float *box, const float *delta, const float *most, float *to) {
    for (int i = 0; i < 2; i++) {
        float side = box[i + 2] - box[i], middle = (box[i] + box[i + 2]) * 0.5f;
        float centre = middle + delta[i] * side;
        float half = (float)detection_exp((double)delta[i + 2]) * side * 0.5f;
        to[i] = box_cut(centre - half, most[i]);
        to[i + 2] = box_cut(centre + half, most[i]);
    }
}

struct bbox_transform_params {
    int64_t count;   /* boxes */
    int64_t classes; /* deltas of each */
    int64_t images;
    struct box_scale box;
    struct box_scale delta;
    struct box_scale image;
    struct box_scale result;
};

/* Operands: boxes, deltas of their centres and sides for each class, the image of each box, heights
 * and widths of images; boxes, circlet_stop. A task is a box; `type` is that of the deltas, and boxes
 * of stored deltas are stored. */
CIRCLET_INLINE void bbox_transform(const struct bbox_transform_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, int type) {
    (void)scratch;
    const int own = box_type(type);
    for (int64_t box = begin; box < end; box++) {
        float at[4], delta[4], most[2], moved[4];
        int32_t image = ((const int32_t *)x[2])[box];
        if (!box_corners(x[0], box, p->box, own, at) || image < 0 || image >= p->images) {
            refuse_run(x[5]);
            return;
        }
        for (int i = 0; i < 2; i++) most[i] = box_number(x[3], image * 2 + 1 - i, p->image, own);
        for (int64_t first = box * p->classes * 4; first < (box + 1) * p->classes * 4; first += 4) {
            for (int i = 0; i < 4; i++) delta[i] = box_number(x[1], first + i, p->delta, type);
            box_moved(at, delta, most, moved);
            for (int i = 0; i < 4; i++) box_store(x[4], first + i, moved[i], p->result, own);
        }
    }
}

#endif
