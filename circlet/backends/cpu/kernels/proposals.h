/* Proposals of regions: anchors at each place of a map, moved by deltas and thinned by how they
 * overlap (the region proposal network of Faster R-CNN, Ren et al., 2015). */
#ifndef CIRCLET_PROPOSALS_H
#define CIRCLET_PROPOSALS_H

#include "box_columns.h"
#include "radix_sort.h"

struct proposals_params {
    int64_t images;
    int64_t height; /* of the map */
    int64_t width;
    int64_t anchors; /* at each place */
    int64_t before;  /* most boxes of an image that are looked at, the best ones */
    int64_t after;   /* most of them that come out */
    float right;     /* pixels of the image from a place to the next */
    float down;
    float overlap; /* from which on boxes are too close */
    float least;   /* pixels that sides are longer than */
    struct box_scale score;
    struct box_scale delta;
    struct box_scale anchor;
    struct box_scale image;
    struct box_scale made_score;
    struct box_scale made_box;
};

/* Where numbers of anchor `at` of an image stand: `parts` of them, of which this is one. */
CIRCLET_INLINE int64_t proposals_place(const struct proposals_params *p, int64_t image, int64_t at,
                                       int64_t parts, int64_t part, int is_planes) {
    int64_t pixels = p->height * p->width, first = image * pixels * p->anchors * parts;
    if (!is_planes) return first + at * parts + part;
    return first + (at % p->anchors * parts + part) * pixels + at / p->anchors;
}

/* An anchor at its place; whether its corners are in order. */
CIRCLET_INLINE int proposals_anchor(const struct proposals_params *p, const void *anchors,
                                    int64_t at, int type, float *to) {
    const int own = type == ELEMENT_F32 ? ELEMENT_F32 : ELEMENT_I16;
    int64_t place = at / p->anchors;
    float shift[2] = {(float)(place % p->width) * p->right, (float)(place / p->width) * p->down};
    box_corners(anchors, at % p->anchors, p->anchor, own, to);
    for (int i = 0; i < 4; i++) to[i] += shift[i % 2];
    return to[0] <= to[2] && to[1] <= to[3];
}

/* Whether the sides of a box are long enough, and its centre is in the image. */
CIRCLET_INLINE int proposals_is_seen(const float *box, const float *most, float least) {
    for (int i = 0; i < 2; i++) {
        float side = box[i + 2] - box[i];
        if (!(side > least) || !(box[i] + side / 2 < most[i])) return 0;
    }
    return 1;
}

typedef struct proposals_state {
    const struct proposals_params *p;
    void *const *x;
    radix_list list, other;
    box_columns kept;
    stop_count *stop;
} proposals_state;

static proposals_state proposals_set_up(const struct proposals_params *p, void *const *x,
                                        char *free, stop_count *stop) {
    const int64_t each = p->height * p->width * p->anchors;
    proposals_state s = {.p = p, .x = x, .stop = stop};
    s.list.key = box_allocate(&free, each), s.list.place = box_allocate(&free, each);
    s.other.key = box_allocate(&free, each), s.other.place = box_allocate(&free, each);
    s.kept = box_columns_at(&free, p->after + CIRCLET_LANES);
    return s;
}

/* The anchors of an image by falling score. */
static radix_list proposals_ranked(const proposals_state *s, int64_t image, int type,
                                   int is_planes) {
    const struct proposals_params *p = s->p;
    const int64_t each = p->height * p->width * p->anchors;
    for (int64_t at = 0; at < each; at++) {
        int64_t from = proposals_place(p, image, at, 1, 0, is_planes);
        float score = box_number(s->x[0], from, p->score, type);
        radix_set(s->list, at, radix_falling_key_f32(score), (int32_t)at, 4);
    }
    return radix_sorted(s->list, s->other, each, 4, s->stop);
}

/* The first of the last of `count` ranked anchors whose scores are no numbers. */
CIRCLET_INLINE int64_t proposals_numbers(radix_list ranked, int64_t count) {
    while (count && radix_key(ranked, count - 1, 4) == UINT32_MAX) count--;
    return count;
}

/* An anchor moved by its deltas. */
CIRCLET_INLINE void proposals_box(const proposals_state *s, int64_t image, int64_t at,
                                  const float *most, int type, int is_planes, float *to) {
    float anchor[4], delta[4];
    proposals_anchor(s->p, s->x[2], at, type, anchor);
    for (int i = 0; i < 4; i++) {
        int64_t from = proposals_place(s->p, image, at, 4, i, is_planes);
        delta[i] = box_number(s->x[1], from, s->p->delta, type);
    }
    box_moved(anchor, delta, most, to);
}

/* Appends what is proposed for an image behind `made` rows; how many rows there are then. Boxes whose
 * scores are no numbers come first, as if those were the highest. */
static int64_t proposals_of_image(const proposals_state *s, int64_t image, int64_t made, int type,
                                  int is_planes) {
    const struct proposals_params *p = s->p;
    const int own = box_type(type);
    radix_list ranked = proposals_ranked(s, image, type, is_planes);
    const int64_t numbers = proposals_numbers(ranked, p->before);
    float box[4], most[2];
    for (int i = 0; i < 2; i++) most[i] = box_number(s->x[3], image * 2 + 1 - i, p->image, own);
    for (int64_t i = 0, kept = 0; i < p->before && kept < p->after; i++) {
        if (stop_after(s->stop, 1 + kept / CIRCLET_LANES)) return made;
        int64_t at = ranked.place[(i + numbers) % p->before];
        proposals_box(s, image, at, most, type, is_planes, box);
        if (!proposals_is_seen(box, most, p->least)) continue;
        if (box_is_overlapped(s->kept, kept, box, p->overlap)) continue;
        box_columns_set(s->kept, kept++, box);
        int64_t from = proposals_place(p, image, at, 1, 0, is_planes);
        float score = box_number(s->x[0], from, p->score, type);
        box_store(s->x[4], made, score, p->made_score, type);
        for (int k = 0; k < 4; k++) box_store(s->x[5], made * 4 + k, box[k], p->made_box, own);
        ((int32_t *)s->x[6])[made++] = (int32_t)image;
    }
    return made;
}

/* Operands: scores, deltas, anchors, heights and widths of images; scores, boxes and images of what
 * is proposed, how many those are, circlet_stop. One task. `type` is that of scores and deltas; maps
 * of stored ones have stored anchors and boxes. */
CIRCLET_INLINE void proposals(const struct proposals_params *p, void *const *x, void *scratch,
                              int64_t begin, int64_t end, int type, int is_planes) {
    (void)begin, (void)end;
    stop_count stop = stop_start(x[8]);
    float corner[4];
    int64_t made = 0;
    *(int64_t *)x[7] = 0;
    for (int64_t at = 0; at < p->height * p->width * p->anchors; at++) {
        if (stop_after(&stop, 1)) return;
        if (proposals_anchor(p, x[2], at, type, corner)) continue;
        refuse_run(x[8]);
        return;
    }
    proposals_state s = proposals_set_up(p, x, scratch, &stop);
    for (int64_t image = 0; image < p->images; image++) {
        made = proposals_of_image(&s, image, made, type, is_planes);
        if (stop_after(&stop, 0)) return;
    }
    *(int64_t *)x[7] = made;
}

#endif
