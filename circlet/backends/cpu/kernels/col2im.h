/* Columns of patches added to the images that they were taken of, of up to three spatial axes.
 *
 * Elements of a row that are a stride apart are one phase: they meet the same taps, and what these
 * add lies dense in the columns. A phase is summed in registers, in the order of taps, and phases
 * are interleaved once. Which patch has a row at which tap is a table. */
#ifndef CIRCLET_COL2IM_H
#define CIRCLET_COL2IM_H

#include "simd.h"

struct col2im_params {
    int64_t rows;          /* of all images */
    int64_t rows_per_task;
    int64_t planes;        /* sizes of an image: planes, rows, elements of a row */
    int64_t height;
    int64_t width;
    int64_t counts[3];     /* patches along each axis */
    int64_t taps[3];
    int64_t stride;        /* along a row */
    int64_t phases;        /* of them, those that a row has */
    int64_t run;           /* elements of the longest one */
};

/* One phase, by where its elements lie on the grid of patches, padding included. */
typedef struct col2im_phase {
    int32_t first; /* of its elements */
    int32_t count;
    int32_t begin; /* of its taps in their list, and where they end */
    int32_t end;
} col2im_phase;

typedef struct col2im_tap {
    int32_t number;
    int32_t shift; /* from a patch to the element that it adds to */
} col2im_tap;

/* The lanes lo <= lane < hi of what lies at p, others 0; those are not touched. */
CIRCLET_INLINE vf col2im_lanes(const float *p, int64_t lo, int64_t hi) {
#if CIRCLET_VBYTES == 64
    return __builtin_ia32_loadups512_mask(p, v_zero(), CIRCLET_MASK(hi) & ~CIRCLET_MASK(lo));
#elif CIRCLET_VBYTES == 32
    circlet_plain_i32x8 mask = (circlet_plain_i32x8)(v_lane_mask(hi) & ~v_lane_mask(lo));
    return (vf)__builtin_ia32_maskloadps256((const circlet_plain_f32x8 *)p, mask);
#else
    vf x = v_zero();
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) x[i] = i >= lo && i < hi ? p[i] : 0.0f;
    return x;
#endif
}

/* What all lines of patches that meet a row add to the elements of a phase from `at` on. */
CIRCLET_INLINE vf col2im_sum(const struct col2im_params *p, const float *const *lines,
                             int64_t count, const col2im_tap *tap, const col2im_tap *last,
                             int64_t at) {
    const int64_t across = p->counts[2], step = p->counts[0] * p->counts[1] * across;
    vf sum = v_zero();
    for (int64_t line = 0; line < count; line++)
        for (const col2im_tap *t = tap; t < last; t++) {
            int64_t patch = at - t->shift;
            const float *from = lines[line] + t->number * step + patch;
            if (CIRCLET_LIKELY(patch >= 0 && patch + CIRCLET_LANES <= across)) {
                sum += v_load(from);
                continue;
            }
            int64_t lo = s_min_i64(s_max_i64(-patch, 0), CIRCLET_LANES);
            int64_t hi = s_max_i64(s_min_i64(across - patch, CIRCLET_LANES), lo);
            sum += col2im_lanes(from, lo, hi);
        }
    return sum;
}

CIRCLET_INLINE void col2im_interleave(float *to, const float *from, int64_t width, int64_t run,
                                      int64_t stride) {
    const int64_t whole = width / stride;
    for (int64_t i = 0; i < whole; i++)
        for (int64_t phase = 0; phase < stride; phase++)
            to[i * stride + phase] = from[phase * run + i];
    for (int64_t i = whole * stride; i < width; i++) to[i] = from[i % stride * run + whole];
}

/* The lines of patches that a row meets, by the tables of its plane and of itself. */
CIRCLET_INLINE int64_t col2im_lines(const struct col2im_params *p, const float *image,
                                    const int32_t *above, const int32_t *beside,
                                    const float **lines) {
    const int64_t across = p->counts[2], step = p->counts[0] * p->counts[1] * across;
    int64_t count = 0;
    for (int64_t i = 0; i < p->taps[0]; i++)
        for (int64_t j = 0; j < p->taps[1]; j++) {
            if (above[i] < 0 || beside[j] < 0) continue;
            int64_t tap = (i * p->taps[1] + j) * p->taps[2];
            lines[count++] = image + tap * step + (above[i] * p->counts[1] + beside[j]) * across;
        }
    return count;
}

CIRCLET_INLINE void col2im_row(const struct col2im_params *p, float *to, float *sums,
                               const float *const *lines, int64_t count,
                               const col2im_phase *phases, const col2im_tap *taps) {
    float *into = p->stride == 1 ? to : sums;
    for (int64_t phase = 0; phase < p->phases; phase++, into += p->run) {
        const col2im_phase *f = phases + phase;
        for (int64_t i = 0; i < f->count; i += CIRCLET_LANES) {
            vf sum = col2im_sum(p, lines, count, taps + f->begin, taps + f->end, f->first + i);
            if (i + CIRCLET_LANES <= f->count) v_store(into + i, sum);
            else v_store_n(into + i, sum, f->count - i);
        }
    }
    if (p->stride == 2) col2im_interleave(to, sums, p->width, p->run, 2);
    else if (p->stride == 4) col2im_interleave(to, sums, p->width, p->run, 4);
    else if (p->stride > 1) col2im_interleave(to, sums, p->width, p->run, p->stride);
}

/* Operands: columns, images, the patch of each plane and of each row at each tap or -1, phases,
 * taps of phases. Scratch: sums of a row, then places of lines. */
CIRCLET_INLINE void col2im(const struct col2im_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end) {
    const int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    const int64_t patches = p->counts[0] * p->counts[1] * p->counts[2];
    const int64_t columns = p->taps[0] * p->taps[1] * p->taps[2] * patches;
    const float **lines = (const float **)scratch;
    float *sums = (float *)(lines + p->taps[0] * p->taps[1]);
    int64_t first = begin * p->rows_per_task;
    int64_t row = first % p->height, plane = first / p->height % p->planes;
    const float *image = (const float *)x[0] + first / p->height / p->planes * columns;
    for (int64_t i = first; i < last; i++) {
        const int32_t *above = (const int32_t *)x[2] + plane * p->taps[0];
        const int32_t *beside = (const int32_t *)x[3] + row * p->taps[1];
        int64_t count = col2im_lines(p, image, above, beside, lines);
        col2im_row(p, (float *)x[1] + i * p->width, sums, lines, count, x[4], x[5]);
        if (++row < p->height) continue;
        row = 0;
        if (++plane < p->planes) continue;
        plane = 0, image += columns;
    }
}

#endif
