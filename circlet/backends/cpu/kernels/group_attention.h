/* Attention of groups of heads over caches of keys and values that grow by the new rows.
 *
 * group_attention_append writes the new rows behind those that a cache holds: where the caches
 * before and behind the operator are one array, nothing else moves. group_attention then lets the
 * queries of a group see the keys up to their own place. Each row of scores is whole.
 *
 * Caches are [batch, groups, places, size]. Rows of scratch memory are those of queries: row by
 * row, and of each row the heads of a group.
 */
#ifndef CIRCLET_GROUP_ATTENTION_H
#define CIRCLET_GROUP_ATTENTION_H

#include "attention_f32.h"
#include "copy.h"

struct group_attention_places {
    int64_t rows;     /* new rows of each of a batch */
    int64_t length;   /* rows of a cache behind the operator */
    int64_t is_first; /* whether the new rows are all there are */
    int64_t pairs;    /* of columns that are turned, 0 for none */
    int64_t tables;   /* rows of the tables of cosines and sines */
};

struct group_attention_append_params {
    struct group_attention_places at;
    int64_t groups; /* heads of keys and values */
    int64_t size;   /* columns of a head */
    int64_t held;   /* rows of a cache before the operator */
    int64_t k_row;  /* elements between new rows of keys */
    int64_t v_row;  /* and of values */
};

struct group_attention_params {
    struct group_attention_places at;
    int64_t groups;
    int64_t size;
    int64_t per_group;  /* heads of queries of a group */
    int64_t q_row;      /* elements between rows of queries */
    int64_t tasks;      /* of a group */
    int64_t task_rows;  /* rows of a task */
    int64_t block_rows; /* rows of queries, of each head, whose scores are computed together */
    int64_t pitch;      /* elements between rows of scores in scratch memory */
    int64_t window;     /* keys that a query sees at most */
    int64_t has_extra;  /* whether a sink, or a score of 0, takes a share */
    float scale;        /* of products */
    float cap;          /* of scores, 0 for none */
};

struct group_attention_packed_params {
    struct group_attention_params all;
};

/* Rows of a cache ahead of the new ones. */
CIRCLET_INLINE int64_t group_attention_before(const struct group_attention_places *p,
                                              const int32_t *lengths, int64_t batch) {
    if (p->is_first) return 0;
    int64_t before = (int64_t)lengths[batch] + 1 - p->rows;
    return s_max_i64(0, s_min_i64(before, p->length - p->rows));
}

/* The row of the tables for a new row: of a stated place, or of its own. */
CIRCLET_INLINE int64_t group_attention_turn(const struct group_attention_places *p,
                                            const int64_t *places, int64_t batch, int64_t before,
                                            int64_t row) {
    int64_t place = places ? places[batch * p->rows + row] : before + row;
    return s_max_i64(0, s_min_i64(place, p->tables - 1)) * p->pairs;
}

/* A row of a table, of which there is none where nothing is turned. */
CIRCLET_INLINE const float *group_attention_angles(const void *table, int64_t turn) {
    return table ? (const float *)table + turn : (const float *)table;
}

/* Columns of a head, the pairs among them turned: halves of what is turned, or neighbours. */
CIRCLET_INLINE void group_attention_rotate(float *to, const float *x, const float *cosine,
                                           const float *sine, int64_t pairs, int64_t size,
                                           const int INTERLEAVED) {
    int64_t i = 0;
    if (!INTERLEAVED) {
        for (; i + CIRCLET_LANES <= pairs; i += CIRCLET_LANES) {
            vf left = v_load(x + i), right = v_load(x + pairs + i);
            vf c = v_load(cosine + i), s = v_load(sine + i);
            v_store(to + i, left * c - right * s);
            v_store(to + pairs + i, right * c + left * s);
        }
    }
    CIRCLET_NO_UNROLL for (; i < pairs; i++) {
        const int64_t first = INTERLEAVED ? 2 * i : i, second = INTERLEAVED ? first + 1 : pairs + i;
        float left = x[first], right = x[second];
        to[first] = left * cosine[i] - right * sine[i];
        to[second] = right * cosine[i] + left * sine[i];
    }
    copy_run((char *)(to + 2 * pairs), (const char *)(x + 2 * pairs), (size - 2 * pairs) * 4);
}

/* What a cache holds ahead of the new rows, and zeros in all other places but theirs. */
CIRCLET_INLINE void group_attention_keep(float *to, const float *past, int64_t size, int64_t held,
                                         int64_t before, int64_t rows, int64_t length) {
    const int64_t kept = s_min_i64(held, before), bytes = size * 4;
    if (kept) copy_run((char *)to, (const char *)past, kept * bytes);
    fill_run((char *)(to + kept * size), 0, (before - kept) * bytes);
    fill_run((char *)(to + (before + rows) * size), 0, (length - before - rows) * bytes);
}

/* Operands: keys, values, caches before (or null) and behind, lengths, places (or null), cosines,
 * sines. A task is a group of one of the batch. */
CIRCLET_INLINE void group_attention_append(const struct group_attention_append_params *p,
                                           void *const *operands, void *scratch, int64_t begin,
                                           int64_t end, const int INTERLEAVED) {
    (void)scratch;
    const int64_t size = p->size, rows = p->at.rows, length = p->at.length;
    for (int64_t task = begin; task < end; task++) {
        const int64_t batch = task / p->groups, group = task % p->groups;
        const int64_t before = group_attention_before(&p->at, operands[6], batch);
        const float *given[2] = {
            (const float *)operands[0] + batch * rows * p->k_row + group * size,
            (const float *)operands[1] + batch * rows * p->v_row + group * size,
        };
        const int64_t steps[2] = {p->k_row, p->v_row};
        CIRCLET_NO_UNROLL for (int which = 0; which < 2; which++) {
            float *to = (float *)operands[4 + which] + task * length * size;
            const float *past = operands[2 + which];
            if (past) past += task * p->held * size;
            if (operands[4 + which] != operands[2 + which])
                group_attention_keep(to, past, size, p->held, before, rows, length);
            to += before * size;
            CIRCLET_NO_UNROLL for (int64_t row = 0; row < rows; row++, to += size) {
                const float *x = given[which] + row * steps[which];
                int64_t pairs = which ? 0 : p->at.pairs, turn = 0;
                if (pairs) turn = group_attention_turn(&p->at, operands[7], batch, before, row);
                group_attention_rotate(to, x, group_attention_angles(operands[8], turn),
                                       group_attention_angles(operands[9], turn), pairs, size,
                                       INTERLEAVED);
            }
        }
    }
}

/* What a task works on. */
struct group_attention_task {
    int64_t batch, first, count; /* rows of the operator */
    int64_t head;                /* first head of queries */
    int64_t before;              /* rows of the cache ahead of the new ones */
    int64_t begin, end;          /* keys that any of its rows sees */
    const float *keys, *values;  /* from `begin` on */
};

CIRCLET_INLINE struct group_attention_task group_attention_find(
    const struct group_attention_params *p, void *const *operands, int64_t task) {
    struct group_attention_task t;
    const int64_t cache = task / p->tasks;
    t.batch = cache / p->groups;
    t.head = cache % p->groups * p->per_group;
    t.first = s_min_i64(task % p->tasks * p->task_rows, p->at.rows - p->task_rows);
    t.count = p->task_rows;
    t.before = group_attention_before(&p->at, operands[3], t.batch);
    t.end = t.before + t.first + t.count;
    t.begin = s_max_i64(0, t.before + t.first + 1 - p->window);
    const int64_t start = (cache * p->at.length + t.begin) * p->size;
    t.keys = (const float *)operands[1] + start;
    t.values = (const float *)operands[2] + start;
    return t;
}

/* Queries of a task, turned: row by row, and of each the heads of its group. */
CIRCLET_INLINE void group_attention_queries(const struct group_attention_params *p,
                                            const struct group_attention_task *t,
                                            void *const *operands, float *to,
                                            const int INTERLEAVED) {
    for (int64_t row = 0; row < t->count; row++) {
        const int64_t at = t->batch * p->at.rows + t->first + row;
        const float *x = (const float *)operands[0] + at * p->q_row + t->head * p->size;
        int64_t turn = 0;
        if (p->at.pairs)
            turn = group_attention_turn(&p->at, operands[4], t->batch, t->before, t->first + row);
        CIRCLET_NO_UNROLL for (int64_t head = 0; head < p->per_group; head++) {
            group_attention_rotate(to, x, group_attention_angles(operands[5], turn),
                                   group_attention_angles(operands[6], turn), p->at.pairs, p->size,
                                   INTERLEAVED);
            x += p->size, to += p->size;
        }
    }
}

CIRCLET_INLINE vf group_attention_capped(const struct group_attention_params *p, vf x) {
    if (p->cap == 0) return x;
    return v_tanh(x * v_splat(1 / p->cap)) * v_splat(p->cap);
}

/* Scores of row `row` of the queries, of the keys from `begin` on, to powers; keys that it does not
 * see, up to `keys`, to 0. Returns the reciprocal of their sum. */
CIRCLET_INLINE float group_attention_powers(const struct group_attention_params *p,
                                            const struct group_attention_task *t, float *scores,
                                            int64_t row, int64_t keys, const float *sinks) {
    const int64_t place = t->before + t->first + row / p->per_group;
    const int64_t last = place + 1 - t->begin, start = s_max_i64(0, last - p->window);
    float highest = -__builtin_inff(), extra = 0;
    if (p->has_extra) {
        extra = sinks ? sinks[t->head + row % p->per_group] : 0;
        highest = extra;
    }
    vf best = v_splat(highest);
    fill_run((char *)scores, 0, start * 4);
    for (int64_t key = start; key < last; key += CIRCLET_LANES) {
        const int64_t left = last - key;
        vf x = left >= CIRCLET_LANES ? v_load(scores + key) : v_load_n(scores + key, left);
        x = group_attention_capped(p, x);
        if (left >= CIRCLET_LANES) v_store(scores + key, x);
        else {
            v_store_n(scores + key, x, left);
            x = v_select(v_lane_mask(left), x, best);
        }
        best = v_max(x, best);
    }
    highest = v_fold_max(best);
    vf sum = v_zero();
    for (int64_t key = start; key < last; key += CIRCLET_LANES) {
        const int64_t left = last - key;
        vf x = left >= CIRCLET_LANES ? v_load(scores + key) : v_load_n(scores + key, left);
        x = v_exp_falling(x - v_splat(highest));
        if (left >= CIRCLET_LANES) v_store(scores + key, x);
        else {
            v_store_n(scores + key, x, left);
            x = v_select(v_lane_mask(left), x, v_zero());
        }
        sum += x;
    }
    fill_run((char *)(scores + last), 0, (keys - last) * 4);
    float total = v_fold_add(sum);
    if (p->has_extra) total += v_exp_falling(v_splat(extra - highest))[0];
    return 1.0f / total;
}

/* Products of MR queries with KB keys. */
CIRCLET_INLINE void group_attention_products(const struct group_attention_params *p,
                                             const float *q, const float *keys, float *scores,
                                             const int MR, const int KB) {
    vf acc[8][8];
    int64_t column = 0;
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int k = 0; k < KB; k++) acc[m][k] = v_zero();
    CIRCLET_NO_UNROLL for (; column < p->size; column += CIRCLET_LANES) {
        const int64_t left = p->size - column;
        vf key[8];
        CIRCLET_UNROLL for (int k = 0; k < KB; k++) {
            const float *from = keys + k * p->size + column;
            key[k] = left >= CIRCLET_LANES ? v_load(from) : v_load_n(from, left);
        }
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            const float *from = q + m * p->size + column;
            vf x = left >= CIRCLET_LANES ? v_load(from) : v_load_n(from, left);
            CIRCLET_UNROLL for (int k = 0; k < KB; k++) acc[m][k] = v_fma(x, key[k], acc[m][k]);
        }
    }
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int k = 0; k < KB; k++)
            scores[m * p->pitch + k] = v_fold_add(acc[m][k]) * p->scale;
}

/* MR rows of powers times NV vectors of columns of the values, or the first `left` lanes of one. */
CIRCLET_INLINE void group_attention_mix(const struct group_attention_params *p,
                                        const float *powers, const float *values, int64_t keys,
                                        float *out, const float *factors, int64_t left,
                                        const int MR, const int NV, const int PART) {
    vf acc[8][8];
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_zero();
    CIRCLET_NO_UNROLL for (int64_t key = 0; key < keys; key++, values += p->size) {
        vf value[8];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            value[v] = PART ? v_load_n(values, left) : v_load(values + v * CIRCLET_LANES);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            vf x = v_splat(powers[m * p->pitch + key]);
            CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_fma(x, value[v], acc[m][v]);
        }
    }
    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            vf y = acc[m][v] * v_splat(factors[m]);
            float *to = out + m * p->size + v * CIRCLET_LANES;
            if (PART) v_store_n(to, y, left);
            else v_store(to, y);
        }
    }
}

/* From scratch memory, rows of queries of a task, to the result. */
CIRCLET_INLINE void group_attention_store(const struct group_attention_params *p,
                                          const struct group_attention_task *t, const float *from,
                                          float *out, int64_t row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = t->batch * p->at.rows + t->first + (row + i) / p->per_group;
        const int64_t head = t->head + (row + i) % p->per_group;
        float *to = out + (at * p->groups * p->per_group + head) * p->size;
        copy_run((char *)to, (const char *)(from + i * p->size), p->size * 4);
    }
}

/* Operands: queries, caches of keys and of values, lengths, places (or null), cosines, sines, sinks
 * (or null), result. A task is `task_rows` rows of a group: MR queries see a key, or NV vectors of
 * values, at a time, each of which is read where it lies. */
CIRCLET_INLINE void group_attention(const struct group_attention_params *p, void *const *operands,
                                    void *scratch, int64_t begin, int64_t end,
                                    const int INTERLEAVED, const int MR, const int KB,
                                    const int NV) {
    float *q = scratch, *scores = q + p->task_rows * p->per_group * p->size;
    float *result = scores + MR * p->pitch, factors[8];
    for (int64_t task = begin; task < end; task++) {
        const struct group_attention_task t = group_attention_find(p, operands, task);
        const int64_t count = t.count * p->per_group, keys = t.end - t.begin;
        group_attention_queries(p, &t, operands, q, INTERLEAVED);
        for (int64_t next = 0; next < count; next += MR) {
            const int64_t row = s_min_i64(next, count - MR);
            int64_t key = 0, column = 0;
            for (; key + KB <= keys; key += KB)
                group_attention_products(p, q + row * p->size, t.keys + key * p->size,
                                         scores + key, MR, KB);
            for (; key < keys; key++)
                group_attention_products(p, q + row * p->size, t.keys + key * p->size,
                                         scores + key, MR, 1);
            CIRCLET_NO_UNROLL for (int m = 0; m < MR; m++)
                factors[m] = group_attention_powers(p, &t, scores + m * p->pitch, row + m, keys,
                                                    operands[7]);
            for (; column + NV * CIRCLET_LANES <= p->size; column += NV * CIRCLET_LANES)
                group_attention_mix(p, scores, t.values + column, keys, result + column, factors,
                                    0, MR, NV, 0);
            for (; column + CIRCLET_LANES <= p->size; column += CIRCLET_LANES)
                group_attention_mix(p, scores, t.values + column, keys, result + column, factors,
                                    0, MR, 1, 0);
            if (column < p->size)
                group_attention_mix(p, scores, t.values + column, keys, result + column, factors,
                                    p->size - column, MR, 1, 1);
            group_attention_store(p, &t, result, operands[8], row, MR);
        }
    }
}

/* The same for many rows: keys and values are packed into scratch memory, and blocks of rows are
 * products of matrices in tiles of MR x NV and OMR x ONV. */
CIRCLET_INLINE void group_attention_packed(const struct group_attention_packed_params *params,
                                           void *const *operands, void *scratch, int64_t begin,
                                           int64_t end, const int INTERLEAVED, const int MR,
                                           const int NV, const int OMR, const int ONV,
                                           const int HALF) {
    const struct group_attention_params *p = &params->all;
    const int width = NV * CIRCLET_LANES, out_width = CONV_F32_WIDTH(ONV, HALF);
    const int64_t size = p->size, wide = (size + out_width - 1) / out_width * out_width;
    float *q = scratch, *k = q + p->task_rows * p->per_group * size;
    float *v = k + p->pitch * size, *scores = v + p->at.length * wide;
    float *result = scores + p->block_rows * p->pitch, *factors = result + p->block_rows * size;
    for (int64_t task = begin; task < end; task++) {
        const struct group_attention_task t = group_attention_find(p, operands, task);
        const int64_t count = t.count * p->per_group, keys = t.end - t.begin;
        group_attention_queries(p, &t, operands, q, INTERLEAVED);
        attention_f32_pack(k, t.keys, size, 1, size, keys, NV, 0, 0);
        attention_f32_pack(v, t.values, keys, size, 1, size, ONV, HALF, 0);
        for (int64_t next = 0; next < count; next += p->block_rows) {
            const int64_t row = s_min_i64(next, count - p->block_rows);
            const float *w = k;
            for (int64_t key = 0; key < keys; key += width, w += size * width)
                attention_f32_multiply(q + row * size, size, size, w, scores + key, p->pitch,
                                       p->block_rows, width, &p->scale, 0, MR, NV, 0, 0);
            for (int64_t m = 0; m < p->block_rows; m++)
                factors[m] = group_attention_powers(p, &t, scores + m * p->pitch, row + m, keys,
                                                    operands[7]);
            w = v;
            for (int64_t column = 0; column < size; column += out_width, w += keys * out_width)
                attention_f32_multiply(scores, p->pitch, keys, w, result + column, size,
                                       p->block_rows, s_min_i64(size - column, out_width), factors,
                                       1, OMR, ONV, HALF, 0);
            group_attention_store(p, &t, result, operands[8], row, p->block_rows);
        }
    }
}

#endif
