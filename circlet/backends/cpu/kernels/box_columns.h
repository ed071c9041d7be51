/* Boxes (x1, y1, x2, y2) that are compared with one box, a vector of them at a time. */
#ifndef CIRCLET_BOX_COLUMNS_H
#define CIRCLET_BOX_COLUMNS_H

#include "boxes.h"
#include "vmath.h"

#define BOX_COLUMNS 5

/* Corners and areas of boxes, each in memory of its own that holds a vector more. */
typedef struct box_columns {
    float *column[BOX_COLUMNS];
} box_columns;

/* What stands behind each other from an address on, which moves behind it. */
CIRCLET_INLINE void *box_allocate(char **free, int64_t count) {
    char *part = *free;
    *free += count * 4;
    return part;
}

CIRCLET_INLINE box_columns box_columns_at(char **free, int64_t room) {
    box_columns made;
    for (int i = 0; i < BOX_COLUMNS; i++) made.column[i] = box_allocate(free, room);
    return made;
}

CIRCLET_INLINE float box_area(const float *box) { return (box[2] - box[0]) * (box[3] - box[1]); }

CIRCLET_INLINE void box_columns_set(box_columns to, int64_t at, const float *box) {
    for (int i = 0; i < 4; i++) to.column[i][at] = box[i];
    to.column[4][at] = box_area(box);
}

/* Shared area over joint area of the boxes of a vector and one box; NaN where none has an area. */
CIRCLET_INLINE vf box_ratios(box_columns boxes, int64_t first, const float *one) {
    vf side[2], area = v_load(boxes.column[4] + first) + v_splat(box_area(one));
    for (int i = 0; i < 2; i++) {
        vf low = v_max(v_load(boxes.column[i] + first), v_splat(one[i]));
        vf length = v_min(v_load(boxes.column[i + 2] + first), v_splat(one[i + 2])) - low;
        side[i] = v_select((vi)(length < v_zero()), v_zero(), length);
    }
    vf shared = side[0] * side[1];
    return shared / (area - shared);
}

/* Whether one of some boxes and a box share at least such a part. */
CIRCLET_INLINE int box_is_overlapped(box_columns boxes, int64_t count, const float *one,
                                     float part) {
    for (int64_t i = 0; i < count; i += CIRCLET_LANES) {
        vi hit = (vi)(box_ratios(boxes, i, one) >= v_splat(part)) & v_lane_mask(count - i);
        if (!v_all(~hit)) return 1;
    }
    return 0;
}

#endif
