/* The best boxes of images, thinned class by class by how they overlap: with each that is chosen,
 * the scores of others of its class fall (Soft-NMS, Bodla et al., 2017) or become 0. */
#ifndef CIRCLET_BOX_LIMIT_H
#define CIRCLET_BOX_LIMIT_H

#include "bounded.h"
#include "box_columns.h"
#include "radix_sort.h"

struct box_limit_params {
    int64_t rows;    /* boxes of each class, as many as there is room for */
    int64_t classes; /* the first is the background */
    int64_t most;    /* of an image that come out, and of each class of it; negative for all */
    int64_t chosen;  /* most that are chosen of an image, over all classes */
    float bar;       /* which scores are above */
    float overlap;   /* from which on boxes are too close */
    float sigma;     /* how slowly scores fall with overlap */
    float least;     /* below which a box goes whose score fell */
    struct box_scale score;
    struct box_scale box;
    struct box_scale made; /* scores that come out */
};

enum box_fall { BOX_FALL_HARD, BOX_FALL_LINEAR, BOX_FALL_GAUSSIAN };

typedef struct box_choice {
    float *score;
    int32_t *row, *label;
} box_choice;

typedef struct box_limit_state {
    const struct box_limit_params *p;
    const void *scores, *boxes;
    box_columns box; /* of the candidates of a class that are left, with their scores and rows */
    float *score, *ratio;
    int32_t *row;
    box_choice chosen; /* of an image, class by class */
    radix_list list, other;
    int64_t found;
    stop_count *stop;
} box_limit_state;

static box_limit_state box_limit_set_up(const struct box_limit_params *p, void *const *x,
                                        char *free, stop_count *stop) {
    const int64_t room = p->rows + CIRCLET_LANES, most = p->chosen;
    box_limit_state s = {.p = p, .scores = x[0], .boxes = x[1], .stop = stop};
    s.box = box_columns_at(&free, room);
    s.score = box_allocate(&free, room), s.ratio = box_allocate(&free, room);
    s.row = box_allocate(&free, room);
    s.chosen.score = box_allocate(&free, most);
    s.chosen.row = box_allocate(&free, most), s.chosen.label = box_allocate(&free, most);
    s.list.key = box_allocate(&free, most), s.list.place = box_allocate(&free, most);
    s.other.key = box_allocate(&free, most), s.other.place = box_allocate(&free, most);
    return s;
}

/* Whether the corners of all boxes are in order. */
CIRCLET_INLINE int box_limit_holds(const box_limit_state *s, int64_t rows, int type) {
    float corner[4];
    for (int64_t i = 0; i < rows * s->p->classes; i++) {
        if (!box_corners(s->boxes, i, s->p->box, box_type(type), corner)) return 0;
        if (stop_after(s->stop, 1)) return 1;
    }
    return 1;
}

CIRCLET_INLINE int64_t box_limit_candidates(const box_limit_state *s, int64_t first, int64_t last,
                                            int64_t label, int type) {
    int64_t count = 0;
    float corner[4];
    for (int64_t row = first; row < last; row++) {
        int64_t at = row * s->p->classes + label;
        float score = box_number(s->scores, at, s->p->score, type);
        if (!(score > s->p->bar)) continue;
        box_corners(s->boxes, at, s->p->box, box_type(type), corner);
        box_columns_set(s->box, count, corner);
        s->score[count] = score, s->row[count++] = (int32_t)row;
    }
    return count;
}

/* The first of the highest scores; one that is no number counts as the highest. */
CIRCLET_INLINE int64_t box_limit_best(const float *score, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 0; i < count && score[best] == score[best]; i++)
        if (score[i] > score[best] || score[i] != score[i]) best = i;
    return best;
}

CIRCLET_INLINE float box_limit_weight(const struct box_limit_params *p, float ratio, int fall) {
    if (fall == BOX_FALL_GAUSSIAN) return (float)detection_exp((double)(-ratio * ratio / p->sigma));
    if (ratio < p->overlap) return 1;
    return fall == BOX_FALL_LINEAR ? 1 - ratio : 0;
}

/* Takes a candidate away and lets the scores of others fall; how many are left, in their order. */
static int64_t box_limit_weaken(const box_limit_state *s, int64_t count, int64_t best, int fall) {
    float one[4];
    int64_t left = 0;
    for (int i = 0; i < 4; i++) one[i] = s->box.column[i][best];
    for (int64_t i = 0; i < count; i += CIRCLET_LANES)
        v_store(s->ratio + i, box_ratios(s->box, i, one));
    for (int64_t i = 0; i < count; i++) {
        float score = s->score[i] * box_limit_weight(s->p, s->ratio[i], fall);
        if (i == best || score < s->p->least) continue;
        for (int k = 0; k < BOX_COLUMNS; k++) s->box.column[k][left] = s->box.column[k][i];
        s->score[left] = score, s->row[left++] = s->row[i];
    }
    return left;
}

static void box_limit_class(box_limit_state *s, int64_t count, int64_t label, int fall) {
    const int64_t most = s->p->most;
    for (int64_t turn = 0; count && (most < 0 || turn < most); turn++) {
        if (stop_after(s->stop, count)) return;
        int64_t best = box_limit_best(s->score, count), at = s->found++;
        s->chosen.score[at] = s->score[best];
        s->chosen.row[at] = s->row[best], s->chosen.label[at] = (int32_t)label;
        count = box_limit_weaken(s, count, best, fall);
    }
}

/* The best of what was chosen of an image, class by class, in falling order of score; how many. */
static int64_t box_limit_ranked(box_limit_state *s, radix_list *ranked) {
    const int64_t most = s->p->most;
    for (int64_t i = 0; i < s->found; i++)
        radix_set(s->list, i, radix_falling_key_f32(s->chosen.score[i]), (int32_t)i, 4);
    radix_list best = radix_sorted(s->list, s->other, s->found, 4, s->stop);
    radix_list other = best.place == s->list.place ? s->other : s->list;
    int64_t count = most < 0 ? s->found : s_min_i64(most, s->found);
    for (int64_t i = 0; i < count; i++) {
        int32_t place = best.place[i];
        radix_set(best, i, (uint32_t)s->chosen.label[place], place, 4);
    }
    *ranked = radix_sorted(best, other, count, 4, s->stop);
    return count;
}

/* Appends a row to the results: a score, a box as it is stored, its class and its image. */
CIRCLET_INLINE void box_limit_put(const box_limit_state *s, void *const *x, int64_t to, int32_t at,
                                  int type) {
    const int64_t size = 4 * element_size(box_type(type)), row = s->chosen.row[at];
    const int64_t from = row * s->p->classes + s->chosen.label[at];
    box_store(x[4], to, s->chosen.score[at], s->p->made, type);
    copy_run((char *)x[5] + to * size, (const char *)x[1] + from * size, size);
    ((int32_t *)x[6])[to] = s->chosen.label[at];
    ((int32_t *)x[7])[to] = ((const int32_t *)x[2])[row];
}

/* Operands: scores, boxes, the image of each row, count of rows or null; scores, boxes, classes and
 * images of what is kept, how many those are, circlet_stop. One task. The rows of an image stand
 * together. `type` is that of scores; boxes beside stored scores are stored. */
CIRCLET_INLINE void box_limit(const struct box_limit_params *p, void *const *x, void *scratch,
                              int64_t begin, int64_t end, int type, int fall) {
    (void)begin, (void)end;
    const int64_t rows = bounded_count(x[3], p->rows);
    const int32_t *images = x[2];
    stop_count stop = stop_start(x[9]);
    box_limit_state s = box_limit_set_up(p, x, scratch, &stop);
    int64_t made = 0;
    *(int64_t *)x[8] = 0;
    if (!box_limit_holds(&s, rows, type)) {
        refuse_run(x[9]);
        return;
    }
    for (int64_t first = 0, last; first < rows; first = last) {
        for (last = first + 1; last < rows && images[last] == images[first];) last++;
        s.found = 0;
        for (int64_t label = 1; label < p->classes; label++) {
            int64_t count = box_limit_candidates(&s, first, last, label, type);
            box_limit_class(&s, count, label, fall);
            if (stop_after(&stop, last - first)) return;
        }
        radix_list ranked;
        int64_t count = box_limit_ranked(&s, &ranked);
        if (stop_after(&stop, count)) return;
        for (int64_t i = 0; i < count; i++) box_limit_put(&s, x, made++, ranked.place[i], type);
    }
    *(int64_t *)x[8] = made;
}

#endif
