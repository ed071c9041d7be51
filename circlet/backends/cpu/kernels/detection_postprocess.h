/* Boxes from encodings and anchors (SSD), thinned by non-maximum suppression. Centres and sides
 * are computed in double, corners, areas and overlaps in float, as LiteRT's
 * detection_postprocess.cc does. A box is decoded when it is first looked at: most candidates
 * never are. */
#ifndef CIRCLET_DETECTION_POSTPROCESS_H
#define CIRCLET_DETECTION_POSTPROCESS_H

#include "arg_max_u8.h"
#include "priority_queue.h"
#include "top_k.h"

struct detection_postprocess_params {
    int64_t boxes;           /* encodings */
    int64_t code_columns;    /* numbers of an encoding, of which four count */
    int64_t score_columns;   /* classes of a score row, background included */
    int64_t classes;         /* the last of them, which count */
    int64_t detections;      /* most boxes that come out */
    int64_t per_box;         /* classes that each of them gets */
    int64_t per_class;       /* most boxes of one class where each class is suppressed by itself */
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

/* What boxes and classes take of the scratch memory: each, and all together once more. */
#define DETECTION_BOX_BYTES 56
#define DETECTION_CLASS_BYTES 16
#define DETECTION_MORE_BYTES 4096

#define DETECTION_WORK 16 /* of taking a box from the queue, in comparisons of vectors */
#define DETECTION_FEW 16  /* classes of a box for which insertion is faster than sorting */

typedef struct detection {
    const struct detection_postprocess_params *p;
    const void *codes, *scores, *anchors;
    float *corners;      /* of boxes that were decoded */
    float *score;        /* of candidates, for their priority_queue */
    float *kept[5];      /* corners and areas of the boxes chosen */
    float *score_of_u8;   /* the score that each uint8 stands for */
    int32_t *candidates; /* boxes one of whose scores counts */
    int32_t *chosen;
    uint8_t *is_decoded;
    radix_list classes, sorted; /* of a box */
    stop_count *stop;
    int is_stored;
} detection;

/* e^x within 1 ulp for -700 <= x <= 700; arguments beyond are taken to the ends. ln 2 in two parts,
 * the first with few enough bits to be exact times n, and a Taylor series to 1 / 13!: for
 * |r| <= ln 2 / 2 the next term is below 5e-18. */
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
    const struct detection_postprocess_params *p = d->p;
    int64_t at = box * p->score_columns + p->score_columns - p->classes + label;
    if (!d->is_stored) return ((const float *)d->scores)[at];
    return d->score_of_u8[((const uint8_t *)d->scores)[at]];
}

CIRCLET_INLINE double detection_real(const void *from, int64_t at, int is_stored, float scale,
                                     int32_t zero) {
    if (!is_stored) return ((const float *)from)[at];
    return scale * ((float)((const uint8_t *)from)[at] - (float)zero);
}

/* Corners of a box: ymin, xmin, ymax, xmax. */
static const float *detection_decode(const detection *d, int64_t box) {
    const struct detection_postprocess_params *p = d->p;
    float *corners = d->corners + box * 4;
    if (d->is_decoded[box]) return corners;
    d->is_decoded[box] = 1;
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
        corners[i] = centre - half;
        corners[i + 2] = centre + half;
    }
    return corners;
}

CIRCLET_INLINE float detection_min(float a, float b) { return a < b ? a : b; }
CIRCLET_INLINE float detection_max(float a, float b) { return a > b ? a : b; }

/* Intersection over union; 0 where a box has no area. */
CIRCLET_INLINE float detection_iou(const float *a, const float *b) {
    float first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]);
    if (first <= 0 || second <= 0) return 0;
    float height = detection_min(a[2], b[2]) - detection_max(a[0], b[0]);
    float width = detection_min(a[3], b[3]) - detection_max(a[1], b[1]);
    float shared = detection_max(height, 0) * detection_max(width, 0);
    return shared / (first + second - shared);
}

/* Whether a box overlaps one of those chosen by too much: a vector of them at a time. */
CIRCLET_INLINE int detection_is_suppressed(const detection *d, const float *box, int64_t chosen) {
    vf area = v_splat((box[2] - box[0]) * (box[3] - box[1])), none = v_zero();
    for (int64_t i = 0; i < chosen; i += CIRCLET_LANES) {
        vf side[2], other = v_load(d->kept[4] + i);
        CIRCLET_UNROLL for (int c = 0; c < 2; c++) {
            vf low = v_max(v_splat(box[c]), v_load(d->kept[c] + i));
            side[c] = v_max(v_min(v_splat(box[c + 2]), v_load(d->kept[c + 2] + i)) - low, none);
        }
        vf shared = side[0] * side[1], ratio = shared / (area + other - shared);
        vi is_empty = (vi)(area <= none) | (vi)(other <= none);
        vi is_over = (vi)(v_select(is_empty, none, ratio) > v_splat(d->p->overlap_threshold));
        if (v_fold_min_i32(is_over & v_lane_mask(chosen - i))) return 1;
    }
    return 0;
}

CIRCLET_INLINE void detection_keep(const detection *d, const float *box, int64_t at) {
    for (int c = 0; c < 4; c++) d->kept[c][at] = box[c];
    d->kept[4][at] = (box[2] - box[0]) * (box[3] - box[1]);
}

/* Greedy non-maximum suppression: the first `most` candidates by score, each of which overlaps none
 * of those before it by too much, as `chosen`. */
static int64_t detection_suppress(const detection *d, int64_t candidates, int64_t most) {
    priority_queue r = queue_over(d->score, candidates);
    int64_t chosen = 0;
    while (chosen < most) {
        int64_t index = queue_top(&r);
        if (index < 0 || stop_after(d->stop, DETECTION_WORK + chosen / CIRCLET_LANES)) break;
        queue_update(&r, index, QUEUE_NONE);
        const float *box = detection_decode(d, d->candidates[index]);
        if (detection_is_suppressed(d, box, chosen)) continue;
        detection_keep(d, box, chosen);
        d->chosen[chosen++] = d->candidates[index];
    }
    return chosen;
}

/* The greatest of a row of scores, at least `best`; NaN does not count. */
CIRCLET_INLINE float detection_row_max(const float *row, int64_t count, float best) {
    int64_t i = 0;
    if (count >= CIRCLET_LANES) {
        vf most = v_splat(best);
        for (; i < count; i += CIRCLET_LANES)
            most = v_max(v_load(row + s_min_i64(i, count - CIRCLET_LANES)), most);
        best = v_fold_max(most);
    }
    for (; i < count; i++) best = detection_max(row[i], best);
    return best;
}

/* Boxes one of whose scores counts, each with its best one. As in the reference kernel, a box is
 * none where classes are suppressed together and the score of the first is NaN. */
static int64_t detection_candidates(const detection *d, int is_regular) {
    const struct detection_postprocess_params *p = d->p;
    int64_t first = p->score_columns - p->classes, count = 0;
    for (int64_t box = 0; box < p->boxes; box++) {
        int64_t row = box * p->score_columns + first;
        float best = QUEUE_NONE;
        if (d->is_stored) {
            best = d->score_of_u8[arg_max_u8_value((const uint8_t *)d->scores + row, p->classes, 0)];
        } else {
            const float *scores = (const float *)d->scores + row;
            best = detection_row_max(scores, p->classes, is_regular ? best : scores[0]);
        }
        d->candidates[count] = (int32_t)box;
        d->score[count] = best;
        count += best >= p->score_threshold;
    }
    return count;
}

typedef struct detection_out {
    float *boxes, *classes, *scores;
} detection_out;

/* Put a row at position `at` of `held` rows, which move back; the last of `most` falls out. */
CIRCLET_INLINE int64_t detection_insert(const detection *d, detection_out out, int64_t at,
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

/* As many rows, for the best classes of a box. */
static void detection_rank(const detection *d, detection_out row, int64_t box) {
    const int64_t kept = d->p->per_box;
    top_k_reservoir r = {d->classes, d->p->classes, 0};
    for (int64_t c = 0; c < r.count; c++)
        radix_set(r.list, c, radix_falling_key_f32(detection_score(d, box, c)), (int32_t)c, 4);
    if (r.count > kept) top_k_cut(&r, kept, kept, 4);
    const radix_list best = radix_sorted(r.list, d->sorted, kept, 4, d->stop);
    for (int64_t i = 0; i < kept; i++) {
        row.classes[i] = (float)best.place[i];
        row.scores[i] = detection_score(d, box, best.place[i]);
        for (int c = 0; c < 4; c++) row.boxes[i * 4 + c] = d->corners[box * 4 + c];
    }
}

/* Boxes suppressed by their best score, each with its best classes. */
static int64_t detection_fast(const detection *d, detection_out out) {
    int64_t count = detection_suppress(d, detection_candidates(d, 0), d->p->detections);
    for (int64_t i = 0; i < count; i++) {
        int64_t first = i * d->p->per_box, held = 0;
        detection_out row = {out.boxes + first * 4, out.classes + first, out.scores + first};
        if (stop_after(d->stop, d->p->classes)) return i;
        if (d->p->per_box > DETECTION_FEW) {
            detection_rank(d, row, d->chosen[i]);
            continue;
        }
        for (int64_t label = 0; label < d->p->classes; label++) {
            int64_t at = held;
            while (at > 0 && detection_score(d, d->chosen[i], label) > row.scores[at - 1]) at--;
            if (at < d->p->per_box)
                held = detection_insert(d, row, at, held, d->p->per_box, d->chosen[i], label);
        }
    }
    return count;
}

/* Merges the boxes chosen of a class into `held` rows, all by falling score, and keeps the first
 * `most`; among equals those that were there stay ahead. From the back, so that rows move once. */
static int64_t detection_merge(const detection *d, detection_out out, int64_t held, int64_t most,
                               int64_t count, int64_t label) {
    int64_t old = 0, new = 0, rows = held + count < most ? held + count : most;
    while (old + new < rows) {
        if (new < count &&
            (old == held || detection_score(d, d->chosen[new], label) > out.scores[old])) new++;
        else old++;
    }
    for (int64_t at = rows - 1; new > 0; at--) {
        float score = detection_score(d, d->chosen[new - 1], label);
        if (old > 0 && score > out.scores[old - 1]) {
            old--;
            for (int c = 0; c < 4; c++) out.boxes[at * 4 + c] = out.boxes[old * 4 + c];
            out.classes[at] = out.classes[old];
            out.scores[at] = out.scores[old];
            continue;
        }
        const float *box = d->corners + d->chosen[--new] * 4;
        for (int c = 0; c < 4; c++) out.boxes[at * 4 + c] = box[c];
        out.classes[at] = (float)(int32_t)label;
        out.scores[at] = score;
    }
    return rows;
}

/* Boxes suppressed class by class, the best of all classes. */
static int64_t detection_regular(const detection *d, detection_out out) {
    int64_t held = 0, most = d->p->detections, candidates = detection_candidates(d, 1);
    for (int64_t label = 0; label < d->p->classes; label++) {
        for (int64_t i = 0; i < candidates; i++) {
            float score = detection_score(d, d->candidates[i], label);
            d->score[i] = score >= d->p->score_threshold ? score : QUEUE_NONE;
        }
        int64_t count = detection_suppress(d, candidates, d->p->per_class);
        if (stop_after(d->stop, candidates + held)) return held;
        held = detection_merge(d, out, held, most, count, label);
    }
    return held;
}

CIRCLET_INLINE void *detection_allocate(char **free, int64_t bytes) {
    char *part = *free;
    *free += queue_round_up(bytes, 64);
    return part;
}

static detection detection_set_up(const struct detection_postprocess_params *p, void *const *x, char *free,
                                  int is_stored) {
    detection d = {.p = p, .codes = x[0], .scores = x[1], .anchors = x[2], .is_stored = is_stored};
    int64_t each = p->boxes * (int64_t)sizeof(float);
    d.corners = detection_allocate(&free, 4 * each);
    d.score = detection_allocate(&free, each + each / 16 + 512);
    for (int i = 0; i < 5; i++) d.kept[i] = detection_allocate(&free, each);
    d.candidates = detection_allocate(&free, each);
    d.chosen = detection_allocate(&free, each);
    d.is_decoded = detection_allocate(&free, p->boxes);
    d.score_of_u8 = detection_allocate(&free, 256 * (int64_t)sizeof(float));
    int32_t *numbers = detection_allocate(&free, p->classes * DETECTION_CLASS_BYTES);
    d.classes = (radix_list){numbers, numbers + p->classes};
    d.sorted = (radix_list){numbers + 2 * p->classes, numbers + 3 * p->classes};
    for (int64_t i = 0; i < p->boxes; i++) d.is_decoded[i] = 0;
    for (int byte = 0; is_stored && byte < 256; byte++)
        d.score_of_u8[byte] = (float)(p->score_scale * (byte - p->score_zero));
    return d;
}

/* Operands: encodings, scores, anchors; boxes, classes, scores, number of boxes, circlet_stop. One
 * task. */
CIRCLET_INLINE void detection_boxes(const struct detection_postprocess_params *p, void *const *x,
                                    void *scratch, int is_stored, int is_regular) {
    detection d = detection_set_up(p, x, scratch, is_stored);
    stop_count stop = stop_start(x[7]);
    d.stop = &stop;
    detection_out out = {x[3], x[4], x[5]};
    for (int64_t i = 0; i < p->results * 4; i++) out.boxes[i] = 0;
    for (int64_t i = 0; i < p->results; i++) out.classes[i] = out.scores[i] = 0;
    int64_t found = is_regular ? detection_regular(&d, out) : detection_fast(&d, out);
    *(float *)x[6] = (float)(int32_t)found;
}

CIRCLET_INLINE void detection_postprocess(const struct detection_postprocess_params *p,
                                          void *const *x, void *scratch, int64_t begin,
                                          int64_t end, int is_stored, int is_regular) {
    (void)begin, (void)end;
    detection_boxes(p, x, scratch, is_stored, is_regular);
}

#endif
