/* Non-maximum suppression: boxes in falling order of score, without those that overlap a better
 * one. With a sigma it is Soft-NMS (Bodla et al., 2017), where scores fall with overlap. */
#ifndef CIRCLET_NON_MAX_SUPPRESSION_H
#define CIRCLET_NON_MAX_SUPPRESSION_H

#include "detection_postprocess.h"

struct non_max_suppression_params {
    int64_t boxes; /* candidates */
    int64_t most;  /* rows of the output */
};

#define SUPPRESSION_WORK 16 /* of taking a box from the queue, in comparisons */

/* Intersection over union of boxes given by any two opposite corners. */
CIRCLET_INLINE float non_max_suppression_iou(const float *a, const float *b) {
    float first[4], second[4];
    for (int i = 0; i < 2; i++) {
        first[i] = detection_min(a[i], a[i + 2]), first[i + 2] = detection_max(a[i], a[i + 2]);
        second[i] = detection_min(b[i], b[i + 2]), second[i + 2] = detection_max(b[i], b[i + 2]);
    }
    return detection_iou(first, second);
}

/* Operands: boxes, scores, overlap and score threshold, sigma or null; indices, scores or null,
 * number of boxes, circlet_stop. One task. As in LiteRT's non_max_suppression.h, a box is compared only when
 * it comes to the top, and then with those chosen since it was last compared: scores only fall,
 * so that one that stays on top is the largest. */
CIRCLET_INLINE void non_max_suppression(const struct non_max_suppression_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end) {
    (void)begin, (void)end;
    const float *boxes = x[0], threshold = *(const float *)x[3];
    float overlap = *(const float *)x[2], sigma = x[4] ? *(const float *)x[4] : 0;
    float scale = sigma > 0 ? -0.5f / sigma : 0, *kept = x[6];
    int32_t *seen = scratch, *chosen = x[5], count = 0;
    float *score = (float *)(seen + p->boxes);
    for (int64_t i = 0; i < p->boxes; i++) {
        float given = ((const float *)x[1])[i];
        score[i] = given > threshold ? given : QUEUE_NONE;
        seen[i] = 0;
    }
    priority_queue r = queue_over(score, p->boxes);
    stop_count stop = stop_start(x[8]);
    for (int64_t i = 0; i < p->most; i++) chosen[i] = 0;
    for (int64_t i = 0; kept && i < p->most; i++) kept[i] = 0;
    while (count < p->most) {
        int64_t box = queue_top(&r);
        if (box < 0 || stop_after(&stop, SUPPRESSION_WORK + count - seen[box])) break;
        float before = score[box], now = before;
        for (int64_t i = count - 1; i >= seen[box] && now > threshold; i--) {
            float ratio = non_max_suppression_iou(boxes + 4 * box, boxes + 4 * chosen[i]);
            float power = scale * ratio * ratio, weight = 1;
            if (power != 0) weight = (float)detection_exp((double)power);
            now = ratio >= overlap ? QUEUE_NONE : now * weight;
        }
        seen[box] = count;
        queue_update(&r, box, now != before && now > threshold ? now : QUEUE_NONE);
        if (now != before) continue;
        if (kept) kept[count] = now;
        chosen[count++] = (int32_t)box;
    }
    *(int32_t *)x[7] = count;
}

#endif
