/* Attention over stacks of float matrices: softmax(beta * (scale * q k + mask)) v.
 *
 * A task is `task_rows` rows of q of one stacked matrix: k and v are packed into scratch memory,
 * then blocks of rows go by whose scores never leave the cache, so that the matrix of scores, whose
 * size is the square of the sequence, is never whole. Rows of the last block and of the last task
 * may be computed twice, to the same bits. Each row of scores is whole, unlike in FlashAttention:
 * its maximum is known before any power, and nothing is rescaled.
 *
 * With BF16, q, k, v and the powers are rounded to bfloat16, and sums stay in float32.
 *
 * Operands: q, k, v, result, mask (or null).
 */
#ifndef CIRCLET_ATTENTION_F32_H
#define CIRCLET_ATTENTION_F32_H

#include "conv_bf16.h"
#include "pack_f32.h"
#include "rows.h"
#include "softmax_f32.h"

struct attention_f32_params {
    int64_t rows;       /* of q */
    int64_t depth;      /* of q and k */
    int64_t keys;       /* columns of k, rows of v */
    int64_t columns;    /* of v */
    int64_t tasks;      /* of one stacked matrix */
    int64_t task_rows;  /* rows of a task */
    int64_t block_rows; /* rows of a block, at least MR and at most `task_rows` */
    int64_t pitch;      /* elements between rows of scores in scratch memory */
    int64_t k_depth;    /* elements of k between elements of a sum */
    int64_t k_key;      /* and between keys */
    int64_t v_key;      /* elements of v between keys */
    int64_t v_column;   /* and between columns */
    int64_t mask_row;   /* elements of the mask between rows */
    int64_t mask_key;   /* and between keys: 0 or 1 */
    int64_t sizes[6];   /* of the stack as q and k see it */
    int64_t q[7];       /* elements between stacked matrices */
    int64_t k[7];
    int64_t v_sizes[6]; /* of the stack as v sees it */
    int64_t v[7];
    int64_t mask_sizes[6];  /* of the stack as the mask sees it */
    int64_t mask[7];        /* elements of the mask between stacked matrices */
    float scale;        /* of products, before the mask */
    float beta;         /* factor of the exponents */
};

struct attention_bf16_params {
    struct attention_f32_params f32;
};

/* Rows of a block of packed columns. */
CIRCLET_INLINE int64_t attention_f32_packed(int64_t depth, const int BF16) {
    return BF16 ? (depth + 1) / 2 : depth;
}

/* All columns of a matrix in blocks of NV vectors; packing takes `depth` rows for the last one. */
CIRCLET_INLINE void attention_f32_pack(float *to, const float *y, int64_t depth, int64_t step,
                                       int64_t column, int64_t columns, const int NV,
                                       const int HALF, const int BF16) {
    const int width = CONV_F32_WIDTH(NV, HALF);
    for (int64_t first = 0; first < columns; first += width) {
        pack_f32(to, y + first * column, depth, step, column, s_min_i64(columns - first, width),
                 width);
        if (BF16) conv_bf16_pairs(to, depth, NV);
        to += attention_f32_packed(depth, BF16) * width;
    }
}

/* `count` rows, `step` elements apart, times one block of packed columns, times a factor for
 * each row. */
CIRCLET_INLINE void attention_f32_multiply(const void *x, int64_t step, int64_t depth,
                                           const float *w, float *to, int64_t pitch,
                                           int64_t count, int64_t left, const float *factors,
                                           int64_t factor_step, const int MR, const int NV,
                                           const int HALF, const int BF16) {
    for (int64_t next = 0; next < count; next += MR) {
        int64_t row = s_min_i64(next, count - MR);
        vf acc[16][8];
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_zero();
        if (BF16) conv_bf16_run(acc, (const uint16_t *)x + row * step, step, depth, w, MR, NV);
        else
            conv_f32_run(acc, (const float *)x + row * step, step, depth, w, (const char *)w, MR,
                         NV, HALF);
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            int64_t lanes = left - v * CIRCLET_LANES;
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                float *at = to + (row + m) * pitch + v * CIRCLET_LANES;
                vf y = acc[m][v] * v_splat(factors[(row + m) * factor_step]);
                if (CIRCLET_LIKELY(lanes >= CIRCLET_LANES)) v_store(at, y);
                else if (lanes > 0) v_store_n(at, y, lanes);
            }
        }
    }
}

CIRCLET_INLINE vf attention_f32_mask(const struct attention_f32_params *p, const float *mask,
                                     int64_t key) {
    int64_t left = p->keys - key;
    if (p->mask_key == 0) return v_splat(*mask);
    return left >= CIRCLET_LANES ? v_load(mask + key) : v_load_n(mask + key, left);
}

/* Adds the mask to a row of scores, of whole vectors; returns the highest. */
CIRCLET_INLINE float attention_f32_masked(const struct attention_f32_params *p, float *row,
                                          const float *mask) {
    vf least = v_splat(-__builtin_inff()), best = least;
    for (int64_t key = 0; key < p->keys; key += CIRCLET_LANES) {
        vf x = v_load(row + key) + attention_f32_mask(p, mask, key);
        v_store(row + key, x);
        if (p->keys - key < CIRCLET_LANES) x = v_select(v_lane_mask(p->keys - key), x, least);
        best = v_max(x, best);
    }
    return v_fold_max(best);
}

/* A row of scores, of whole vectors, to its powers; returns the reciprocal of their sum, by
 * which the results are scaled as they are stored: fewer products than scaling the powers.
 * Differences to the maximum are never positive, so that no power overflows. With GUARD, a row
 * whose sum is not a number is 0. */
CIRCLET_INLINE float attention_f32_powers(const struct attention_f32_params *p, float *row,
                                          const float *mask, const int MASK, const int GUARD) {
    float highest = MASK ? attention_f32_masked(p, row, mask) : softmax_highest(row, p->keys);
    float total = softmax_terms(row, row, p->keys, v_splat(highest), v_splat(p->beta));
    if (GUARD && total != total) {
        for (int64_t key = 0; key < p->keys; key += CIRCLET_LANES) v_store(row + key, v_zero());
        return 0.0f;
    }
    return 1.0f / total;
}

struct attention_f32_memory {
    float *k, *v, *scores, *factors;
    uint16_t *q; /* of a block, rounded */
};

/* MR x NV and OMR x ONV are the tiles of scores and of results. */
CIRCLET_INLINE void attention_f32_block(const struct attention_f32_params *p,
                                        struct attention_f32_memory at, const float *q,
                                        const float *mask, float *out, const int MR,
                                        const int NV, const int OMR, const int ONV,
                                        const int HALF, const int MASK, const int GUARD,
                                        const int BF16) {
    const int width = NV * CIRCLET_LANES, out_width = CONV_F32_WIDTH(ONV, HALF);
    const int64_t deep = attention_f32_packed(p->depth, BF16) * width;
    const int64_t tall = attention_f32_packed(p->keys, BF16) * out_width;
    const float *w = at.k;
    if (BF16) bf16_cast(at.q, q, p->block_rows * p->depth);
    for (int64_t key = 0; key < p->keys; key += width, w += deep)
        attention_f32_multiply(BF16 ? (const void *)at.q : q, p->depth, p->depth, w,
                               at.scores + key, p->pitch, p->block_rows, width, &p->scale, 0, MR,
                               NV, 0, BF16);
    for (int64_t row = 0; row < p->block_rows; row++) {
        float *scores = at.scores + row * p->pitch;
        at.factors[row] = attention_f32_powers(p, scores, mask + row * p->mask_row, MASK,
                                                GUARD);
        if (BF16) bf16_cast((uint16_t *)at.scores + row * p->pitch, scores, p->keys);
    }
    w = at.v;
    for (int64_t first = 0; first < p->columns; first += out_width, w += tall)
        attention_f32_multiply(at.scores, p->pitch, p->keys, w, out + first, p->columns,
                               p->block_rows, s_min_i64(p->columns - first, out_width), at.factors, 1,
                               OMR, ONV, HALF, BF16);
}

CIRCLET_INLINE void attention_f32_tasks(const struct attention_f32_params *p,
                                        void *const *operands, void *scratch, int64_t begin,
                                        int64_t end, const int MR, const int NV, const int OMR,
                                        const int ONV, const int HALF, const int MASK,
                                        const int GUARD, const int BF16) {
    const int width = NV * CIRCLET_LANES, out_width = CONV_F32_WIDTH(ONV, HALF);
    struct attention_f32_memory at;
    at.k = scratch;
    at.v = at.k + (p->keys + width - 1) / width * width * p->depth;
    const int64_t v_size = (p->columns + out_width - 1) / out_width * out_width * p->keys;
    at.scores = at.v + (v_size + CIRCLET_LANES - 1) / CIRCLET_LANES * CIRCLET_LANES;
    at.factors = at.scores + p->block_rows * p->pitch;
    at.q = (uint16_t *)(at.factors + p->block_rows);
    for (int64_t task = begin; task < end; task++) {
        int64_t batch = task / p->tasks;
        int64_t first = s_min_i64(task % p->tasks * p->task_rows, p->rows - p->task_rows);
        const float *q = (const float *)operands[0] + rows_offset(batch, p->sizes, p->q);
        const float *k = (const float *)operands[1] + rows_offset(batch, p->sizes, p->k);
        const float *v = (const float *)operands[2] + rows_offset(batch, p->v_sizes, p->v);
        const float *mask =
            (const float *)operands[4] + rows_offset(batch, p->mask_sizes, p->mask);
        float *out = (float *)operands[3] + batch * p->rows * p->columns;
        attention_f32_pack(at.k, k, p->depth, p->k_depth, p->k_key, p->keys, NV, 0, BF16);
        attention_f32_pack(at.v, v, p->keys, p->v_key, p->v_column, p->columns, ONV,
                           HALF, BF16);
        for (int64_t next = 0; next < p->task_rows; next += p->block_rows) {
            int64_t row = first + s_min_i64(next, p->task_rows - p->block_rows);
            attention_f32_block(p, at, q + row * p->depth, mask + row * p->mask_row,
                                out + row * p->columns, MR, NV, OMR, ONV, HALF, MASK, GUARD,
                                BF16);
        }
    }
}

CIRCLET_INLINE void attention_f32(const struct attention_f32_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end, const int MR,
                                  const int NV, const int OMR, const int ONV, const int HALF,
                                  const int MASK, const int GUARD) {
    attention_f32_tasks(p, operands, scratch, begin, end, MR, NV, OMR, ONV, HALF, MASK, GUARD, 0);
}

CIRCLET_INLINE void attention_bf16(const struct attention_bf16_params *p, void *const *operands,
                                   void *scratch, int64_t begin, int64_t end, const int MR,
                                   const int NV, const int OMR, const int ONV, const int HALF,
                                   const int MASK, const int GUARD) {
    attention_f32_tasks(&p->f32, operands, scratch, begin, end, MR, NV, OMR, ONV, HALF, MASK,
                        GUARD, 1);
}

#endif
