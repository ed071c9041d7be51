/* Keypoints: where maps are highest, between their pixels, in the boxes that they are of. */
#ifndef CIRCLET_HEATMAP_H
#define CIRCLET_HEATMAP_H

#include "boxes.h"

struct heatmap_max_keypoint_params {
    int64_t points; /* maps of a box */
    int64_t size;   /* of a map, which is square */
    int64_t box;    /* elements between neighbours: maps of boxes, rows, columns and points */
    int64_t row;
    int64_t column;
    int64_t point;
    float tolerance; /* below which a map counts as flat */
    int32_t unused;
    struct box_scale map;
    struct box_scale corner;
    struct box_scale height;
    struct box_scale place;
};

/* A position next to one; maps are mirrored at their borders. */
CIRCLET_INLINE int64_t heatmap_mirrored(int64_t at, int64_t size) {
    at = at < 0 ? -at : at;
    return at >= size ? 2 * size - 2 - at : at;
}

CIRCLET_INLINE float heatmap_size_of(float x) { return x < 0 ? -x : x; }

/* How far (x, y) the highest point of a paraboloid through 3 by 3 pixels lies from the middle, which
 * stays where there is no single one; how high it is. */
static float heatmap_refine(const float grid[3][3], float tolerance, float *shift) {
    float middle = grid[1][1], most = 1.5f;
    float down = -(grid[2][1] - grid[0][1]) / 2, right = -(grid[1][2] - grid[1][0]) / 2;
    float xx = grid[1][0] - 2 * middle + grid[1][2], yy = grid[0][1] - 2 * middle + grid[2][1];
    float xy = (grid[2][2] - grid[2][0] - grid[0][2] + grid[0][0]) / 4;
    float determinant = xx * yy - xy * xy, x = 0, y = 0;
    if (heatmap_size_of(determinant) >= tolerance + tolerance * (xx * yy)) {
        x = (yy * right - xy * down) / determinant;
        y = (xx * down - xy * right) / determinant;
    }
    float farthest = detection_max(heatmap_size_of(x), heatmap_size_of(y));
    if (farthest > most) x *= most / farthest, y *= most / farthest;
    shift[0] = x, shift[1] = y;
    return middle - right * x - down * y + ((xx * x + xy * y) * x + (xy * x + yy * y) * y) / 2;
}

/* The first of the largest pixels of a map, row after row. */
CIRCLET_INLINE int64_t heatmap_highest(const struct heatmap_max_keypoint_params *p, const void *maps,
                                       int64_t first, stop_count *stop, int type) {
    float most = box_number(maps, first, p->map, type);
    int64_t found = 0;
    for (int64_t y = 0; y < p->size; y++) {
        for (int64_t x = 0; x < p->size; x++) {
            float next = box_number(maps, first + y * p->row + x * p->column, p->map, type);
            if (next > most) most = next, found = y * p->size + x;
        }
        if (stop_after(stop, p->size)) break;
    }
    return found;
}

/* Operands: maps, boxes, heights, places, circlet_stop. A task is a box. */
CIRCLET_INLINE void heatmap_max_keypoint(const struct heatmap_max_keypoint_params *p,
                                         void *const *x, void *scratch, int64_t begin,
                                         int64_t end, int type) {
    (void)scratch;
    const int own = box_type(type);
    stop_count stop = stop_start(x[4]);
    for (int64_t index = begin * p->points; index < end * p->points; index++) {
        int64_t box = index / p->points, first = box * p->box + index % p->points * p->point;
        float corner[4], grid[3][3], shift[2];
        if (!box_corners(x[1], box, p->corner, own, corner)) {
            refuse_run(x[4]);
            return;
        }
        int64_t found = heatmap_highest(p, x[0], first, &stop, type);
        int64_t row = found / p->size, column = found % p->size;
        for (int i = 0; i < 9; i++) {
            int64_t at = heatmap_mirrored(row + i / 3 - 1, p->size) * p->row;
            at += heatmap_mirrored(column + i % 3 - 1, p->size) * p->column;
            grid[i / 3][i % 3] = box_number(x[0], first + at, p->map, type);
        }
        float height = heatmap_refine(grid, p->tolerance, shift);
        box_store(x[2], index, height, p->height, type);
        for (int i = 0; i < 2; i++) {
            float at = (float)(i ? row : column) + shift[i] + 0.5f;
            float side = corner[i + 2] - corner[i];
            box_store(x[3], index * 2 + i, at / (float)p->size * side + corner[i], p->place, own);
        }
    }
}

#endif
