/* Boxes from encodings and anchors, thinned by overlap. Centres and sides are computed in double,
 * corners, areas and overlaps in float, as the reference kernel does. */
#ifndef CIRCLET_DETECTION_H
#define CIRCLET_DETECTION_H

#include "simd.h"

struct detect_params {
    int64_t boxes;           /* encodings */
    int64_t code_columns;    /* numbers of an encoding, of which four count */
    int64_t score_columns;   /* classes of a score row, background included */
    int64_t classes;         /* the last of them, which count */
    int64_t detections;      /* most boxes that come out */
    int64_t per_box;         /* classes that each of them gets */
    int64_t per_class;       /* most boxes of one class where classes are thinned by themselves */
    int64_t results;         /* rows of the output */
    double box_scales[4];    /* y, x, height, width */
    double score_scale;      /* of 8-bit scores */
    float code_scale;        /* of 8-bit encodings */
    float anchor_scale;      /* of 8-bit anchors */
    int32_t code_zero;       /* of 8-bit encodings */
    int32_t anchor_zero;     /* of 8-bit anchors */
    int32_t score_zero;      /* of 8-bit scores */
    float score_threshold;   /* least score that counts */
    float overlap_threshold; /* most overlap of two boxes that come out */
};

/* What one box takes of the scratch memory: corners, score, two places in lists, a mark. */
#define DETECTION_BOX_BYTES 32

typedef struct detection {
    const struct detect_params *p;
    const void *codes, *scores, *anchors;
    float *corners, *score;
    int32_t *order, *spare;
    uint8_t *dropped;
    int is_stored;
} detection;

/* e^x within 1 ulp for -700 <= x <= 700; arguments beyond are taken to the ends. */
CIRCLET_INLINE double detection_exp(double x) {
    if (x != x) return x;
    x = x < -700 ? -700 : x > 700 ? 700 : x;
    int32_t n = (int32_t)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double whole = n;
    double r = x - whole * 6.93147180369123816490e-01 - whole * 1.90821492927058770002e-10;
    static const double terms[] = { /* 1 / 13!, ..., 1 / 0! */
        1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08,
        2.755731922398589e-07, 2.7557319223985893e-06, 2.48015873015873e-05,
        0.0001984126984126984, 0.001388888888888889, 0.008333333333333333, 0.041666666666666664,
        0.16666666666666666, 0.5, 1.0, 1.0
    };
    double sum = terms[0];
    CIRCLET_UNROLL for (int i = 1; i < 14; i++) sum = sum * r + terms[i];
    union { int64_t bits; double value; } power = {(int64_t)(n + 1023) << 52};
    return sum * power.value;
}

CIRCLET_INLINE float detection_score(const detection *d, int64_t box, int64_t label) {
    const struct detect_params *p = d->p;
    int64_t at = box * p->score_columns + p->score_columns - p->classes + label;
    if (!d->is_stored) return ((const float *)d->scores)[at];
    return (float)(p->score_scale * (((const uint8_t *)d->scores)[at] - p->score_zero));
}

CIRCLET_INLINE double detection_real(const void *from, int64_t at, int is_stored, float scale,
                                     int32_t zero) {
    if (!is_stored) return ((const float *)from)[at];
    return scale * ((float)((const uint8_t *)from)[at] - (float)zero);
}

/* Corners of a box: ymin, xmin, ymax, xmax. */
CIRCLET_INLINE void detection_decode(const detection *d, int64_t box) {
    const struct detect_params *p = d->p;
    double code[4], anchor[4];
    for (int i = 0; i < 4; i++) {
        code[i] = detection_real(d->codes, box * p->code_columns + i, d->is_stored, p->code_scale,
                                 p->code_zero) / p->box_scales[i];
        anchor[i] = detection_real(d->anchors, box * 4 + i, d->is_stored, p->anchor_scale,
                                   p->anchor_zero);
    }
    for (int i = 0; i < 2; i++) {
        float centre = (float)(code[i] * anchor[i + 2] + anchor[i]);
        float half = (float)(0.5 * detection_exp(code[i + 2]) * anchor[i + 2]);
        d->corners[box * 4 + i] = centre - half;
        d->corners[box * 4 + i + 2] = centre + half;
    }
}

CIRCLET_INLINE float detection_low(float a, float b) { return a < b ? a : b; }
CIRCLET_INLINE float detection_high(float a, float b) { return a > b ? a : b; }

/* Shared area over joint area; 0 where a box has no area. */
CIRCLET_INLINE float detection_overlap(const float *a, const float *b) {
    float first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]);
    if (first <= 0 || second <= 0) return 0;
    float height = detection_low(a[2], b[2]) - detection_high(a[0], b[0]);
    float width = detection_low(a[3], b[3]) - detection_high(a[1], b[1]);
    float shared = detection_high(height, 0) * detection_high(width, 0);
    return shared / (first + second - shared);
}

/* Order by falling score; equal scores keep their order. Merges runs of growing length. */
static void detection_sort(const detection *d, int64_t count) {
    int32_t *from = d->order, *to = d->spare;
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t start = 0; start < count; start += 2 * run) {
            int64_t middle = s_min_i64(start + run, count);
            int64_t a = start, b = middle, end = s_min_i64(middle + run, count);
            for (int64_t i = start; i < end; i++) {
                int left = a < middle && (b >= end || d->score[from[a]] >= d->score[from[b]]);
                to[i] = left ? from[a++] : from[b++];
            }
        }
        int32_t *swap = from;
        from = to, to = swap;
    }
    for (int64_t i = 0; from != d->order && i < count; i++) d->order[i] = from[i];
}

/* The first `most` boxes by score, each at most so close to those before it, into `order`. */
static int64_t detection_thin(const detection *d, int64_t most) {
    int64_t count = 0, chosen = 0;
    for (int64_t box = 0; box < d->p->boxes; box++)
        if (d->score[box] >= d->p->score_threshold) d->order[count++] = (int32_t)box;
    detection_sort(d, count);
    for (int64_t i = 0; i < count; i++) d->dropped[i] = 0;
    for (int64_t i = 0; i < count && chosen < most; i++) {
        if (d->dropped[i]) continue;
        const float *box = d->corners + d->order[i] * 4;
        for (int64_t j = i + 1; j < count; j++)
            if (!d->dropped[j] && detection_overlap(d->corners + d->order[j] * 4, box) >
                                      d->p->overlap_threshold)
                d->dropped[j] = 1;
        d->order[chosen++] = d->order[i];
    }
    return chosen;
}

typedef struct detection_out {
    float *boxes, *classes, *scores;
} detection_out;

/* Put a row at place `at` of `held` rows, which move back; the last of `most` falls out. */
CIRCLET_INLINE int64_t detection_put(const detection *d, detection_out out, int64_t at,
                                     int64_t held, int64_t most, int64_t box, int64_t label) {
    int64_t last = held < most ? held : most - 1;
    for (int64_t i = last; i > at; i--) {
        for (int c = 0; c < 4; c++) out.boxes[i * 4 + c] = out.boxes[i * 4 - 4 + c];
        out.classes[i] = out.classes[i - 1];
        out.scores[i] = out.scores[i - 1];
    }
    for (int c = 0; c < 4; c++) out.boxes[at * 4 + c] = d->corners[box * 4 + c];
    out.classes[at] = (float)(int32_t)label;
    out.scores[at] = detection_score(d, box, label);
    return last + 1;
}

/* Boxes thinned by their best score, each with its best classes. */
static int64_t detection_fast(const detection *d, detection_out out) {
    for (int64_t box = 0; box < d->p->boxes; box++) {
        float best = detection_score(d, box, 0);
        for (int64_t label = 1; label < d->p->classes; label++)
            best = detection_high(detection_score(d, box, label), best);
        d->score[box] = best;
    }
    int64_t count = detection_thin(d, d->p->detections);
    for (int64_t i = 0; i < count; i++) {
        int64_t first = i * d->p->per_box, held = 0;
        detection_out row = {out.boxes + first * 4, out.classes + first, out.scores + first};
        for (int64_t label = 0; label < d->p->classes; label++) {
            int64_t at = held;
            while (at > 0 && detection_score(d, d->order[i], label) > row.scores[at - 1]) at--;
            if (at < d->p->per_box)
                held = detection_put(d, row, at, held, d->p->per_box, d->order[i], label);
        }
    }
    return count;
}

/* Boxes thinned class by class, the best of all classes. */
static int64_t detection_regular(const detection *d, detection_out out) {
    int64_t held = 0, most = d->p->detections;
    for (int64_t label = 0; label < d->p->classes; label++) {
        for (int64_t box = 0; box < d->p->boxes; box++)
            d->score[box] = detection_score(d, box, label);
        int64_t count = detection_thin(d, d->p->per_class);
        for (int64_t i = 0; i < count; i++) {
            int64_t at = held;
            while (at > 0 && d->score[d->order[i]] > out.scores[at - 1]) at--;
            if (at < most) held = detection_put(d, out, at, held, most, d->order[i], label);
        }
    }
    return held;
}

/* Operands: encodings, scores, anchors; boxes, classes, scores, number of boxes. One task. */
CIRCLET_INLINE void detection_boxes(const struct detect_params *p, void *const *x,
                                    void *scratch, int is_stored, int is_regular) {
    int64_t n = p->boxes;
    float *corners = scratch, *score = corners + 4 * n;
    int32_t *order = (int32_t *)(score + n);
    detection d = {p, x[0], x[1], x[2], corners, score, order, order + n,
                   (uint8_t *)(order + 2 * n), is_stored};
    detection_out out = {x[3], x[4], x[5]};
    for (int64_t i = 0; i < p->results * 4; i++) out.boxes[i] = 0;
    for (int64_t i = 0; i < p->results; i++) out.classes[i] = out.scores[i] = 0;
    for (int64_t box = 0; box < n; box++) detection_decode(&d, box);
    int64_t found = is_regular ? detection_regular(&d, out) : detection_fast(&d, out);
    *(float *)x[6] = (float)(int32_t)found;
}

CIRCLET_INLINE void detect(const struct detect_params *p, void *const *x,
                                     void *scratch, int64_t begin, int64_t end, int is_stored,
                                     int is_regular) {
    (void)begin, (void)end;
    detection_boxes(p, x, scratch, is_stored, is_regular);
}

#endif
