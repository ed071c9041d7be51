/* Non-maximum suppression by class, as ONNX has it: the boxes of each class of each image in
 * falling order of score, without those that overlap a better one of their class. */
#ifndef CIRCLET_BOUNDED_SUPPRESSION_H
#define CIRCLET_BOUNDED_SUPPRESSION_H

#include "bounded.h"
#include "radix_sort.h"
#include "vmath.h"

struct bounded_suppression_params {
    int64_t batches;
    int64_t classes;
    int64_t boxes; /* of an image, as many as there is room for */
    int64_t kept;  /* most of a class that the result has room for */
};

/* Lower corner and upper corner. */
CIRCLET_INLINE void suppression_corners(const float *box, float *corners, int is_centred) {
    for (int i = 0; i < 2; i++) {
        float a = box[i], b = box[i + 2], half = b / 2;
        int ordered = !(b < a);
        corners[i] = is_centred ? a - half : ordered ? a : b;
        corners[i + 2] = is_centred ? a + half : ordered ? b : a;
    }
}

/* Whether a box overlaps one of those that are kept by more than `limit`. Kept ones lie in vectors:
 * corners, then areas; lanes that hold none are boxes that nothing overlaps. */
CIRCLET_INLINE int suppression_overlaps(float *const *kept, int64_t count, const float *box,
                                        float limit) {
    const vf area = v_splat((box[2] - box[0]) * (box[3] - box[1]));
    for (int64_t i = 0; i < count; i += CIRCLET_LANES) {
        vf sides[2];
        for (int k = 0; k < 2; k++) {
            vf low = v_max(v_load(kept[k] + i), v_splat(box[k]));
            vf high = v_min(v_load(kept[k + 2] + i), v_splat(box[k + 2]));
            sides[k] = v_max(high - low, v_zero());
        }
        vf common = sides[0] * sides[1];
        vf ratio = common / (v_load(kept[4] + i) + area - common);
        vi hit = (vi)(common > v_zero()) & (vi)(ratio > v_splat(limit));
        if (!v_all(~hit)) return 1;
    }
    return 0;
}

CIRCLET_INLINE void suppression_keep(float *const *kept, int64_t count, const float *box) {
    if (count % CIRCLET_LANES == 0)
        for (int64_t i = count; i < count + CIRCLET_LANES; i++) {
            kept[0][i] = kept[1][i] = __builtin_inff();
            kept[2][i] = kept[3][i] = -__builtin_inff();
            kept[4][i] = 0;
        }
    for (int k = 0; k < 4; k++) kept[k][count] = box[k];
    kept[4][count] = (box[2] - box[0]) * (box[3] - box[1]);
}

/* The boxes of one class whose score is above the bar, where there is one. Most vectors of scores
 * have none. */
CIRCLET_INLINE int64_t suppression_candidates(radix_list list, const float *scores,
                                              int64_t boxes, const float *bar) {
    int64_t count = 0;
    for (int64_t first = 0; first < boxes; first += CIRCLET_LANES) {
        int64_t last = s_min_i64(first + CIRCLET_LANES, boxes);
        int is_whole = first + CIRCLET_LANES <= boxes;
        if (bar && is_whole && v_all(~(vi)(v_load(scores + first) > v_splat(*bar)))) continue;
        for (int64_t i = first; i < last; i++) {
            radix_set(list, count, radix_falling_key_f32(scores[i]), (int32_t)i, 4);
            count += !bar || scores[i] > *bar;
        }
    }
    return count;
}

/* Operands: boxes, scores, most of a class or null, overlap or null, least score or null, count of
 * boxes or null; rows of image, class and box, number of rows, circlet_stop. One task. */
CIRCLET_INLINE void bounded_suppression(const struct bounded_suppression_params *p, void *const *x,
                                        void *scratch, int64_t begin, int64_t end, int is_centred) {
    (void)begin, (void)end;
    const int64_t boxes = bounded_count(x[5], p->boxes), room = p->boxes + CIRCLET_LANES;
    const float limit = x[3] ? *(const float *)x[3] : 0;
    int64_t *rows = x[6], *found = x[7], most = x[2] ? bounded_count(x[2], p->kept) : 0;
    *found = 0;
    most = limit < 0 ? s_min_i64(most, 1) : most; /* any two boxes overlap by more */
    float *kept[5], corners[4];
    for (int k = 0; k < 5; k++) kept[k] = (float *)scratch + k * room;
    radix_list list = {kept[4] + room, (int32_t *)(kept[4] + 2 * room)};
    radix_list other = {kept[4] + 3 * room, (int32_t *)(kept[4] + 4 * room)};
    stop_count stop = stop_start(x[8]);
    for (int64_t group = 0; group < p->batches * p->classes; group++) {
        const float *of_image = (const float *)x[0] + group / p->classes * p->boxes * 4;
        const float *scores = (const float *)x[1] + group * p->boxes;
        int64_t own = 0, count = suppression_candidates(list, scores, boxes, x[4]);
        radix_list sorted = radix_sorted(list, other, count, 4, &stop);
        for (int64_t i = 0; i < count && own < most; i++) {
            if (stop_after(&stop, 1 + own / CIRCLET_LANES)) return;
            suppression_corners(of_image + 4 * sorted.place[i], corners, is_centred);
            if (suppression_overlaps(kept, own, corners, limit)) continue;
            suppression_keep(kept, own++, corners);
            int64_t *row = rows + 3 * (*found)++;
            row[0] = group / p->classes, row[1] = group % p->classes, row[2] = sorted.place[i];
        }
    }
}

#endif
