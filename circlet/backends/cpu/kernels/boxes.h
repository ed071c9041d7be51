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

CIRCLET_INLINE float box_number(const void *from, int64_t at, struct box_scale s, int is_stored) {
    if (!is_stored) return ((const float *)from)[at];
    return ((float)((const uint16_t *)from)[at] - (float)s.zero) * s.scale;
}

/* The corners of a box; whether they are in order. */
CIRCLET_INLINE int box_corners(const void *from, int64_t box, struct box_scale s, int is_stored,
                               float *to) {
    for (int i = 0; i < 4; i++) to[i] = box_number(from, box * 4 + i, s, is_stored);
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

CIRCLET_INLINE void box_store(void *to, int64_t at, float value, struct box_scale s,
                              int is_stored) {
    if (!is_stored) {
        ((float *)to)[at] = value;
        return;
    }
    float scaled = value / s.scale + (float)s.zero;
    ((uint16_t *)to)[at] = (uint16_t)box_clamp(box_half_away(scaled), 0, 65535);
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

CIRCLET_INLINE float bbox_delta(const struct bbox_transform_params *p, const void *deltas,
                                int64_t at, int type) {
    if (type == ELEMENT_F32) return ((const float *)deltas)[at];
    int32_t stored = type == ELEMENT_U8 ? ((const uint8_t *)deltas)[at]
                                        : ((const int8_t *)deltas)[at];
    return ((float)stored - (float)p->delta.zero) * p->delta.scale;
}

/* Operands: boxes, deltas of their centres and sides for each class, the image of each box, heights
 * and widths of images; boxes, circlet_stop. A task is a box; `type` is that of the deltas, and boxes
 * of stored deltas are stored. */
CIRCLET_INLINE void bbox_transform(const struct bbox_transform_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, int type) {
    (void)scratch;
    const int is_stored = type != ELEMENT_F32;
    for (int64_t box = begin; box < end; box++) {
        float at[4];
        int32_t image = ((const int32_t *)x[2])[box];
        if (!box_corners(x[0], box, p->box, is_stored, at) || image < 0 || image >= p->images) {
            refuse_run(x[5]);
            return;
        }
        for (int64_t i = 0; i < 2 * p->classes; i++) {
            int64_t axis = i % 2, first = (box * p->classes + i / 2) * 4 + axis;
            float side = at[axis + 2] - at[axis], middle = (at[axis] + at[axis + 2]) * 0.5f;
            float centre = middle + bbox_delta(p, x[1], first, type) * side;
            float grown = (float)detection_exp((double)bbox_delta(p, x[1], first + 2, type));
            float half = grown * side * 0.5f;
            float most = box_number(x[3], image * 2 + 1 - axis, p->image, is_stored);
            float low = detection_min(detection_max(centre - half, 0), most);
            float high = detection_min(detection_max(centre + half, 0), most);
            box_store(x[4], first, low, p->result, is_stored);
            box_store(x[4], first + 2, high, p->result, is_stored);
        }
    }
}

#endif
