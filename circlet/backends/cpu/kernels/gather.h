/* Reading and writing where indices point. Indices are taken into range before they are used, so
 * that no value of an index leads outside a buffer. */
#ifndef CIRCLET_GATHER_H
#define CIRCLET_GATHER_H

#include "copy.h"

/* Element `at` of a list of 2-, 4- or 8-byte integers. */
CIRCLET_INLINE int64_t index_at(const void *list, int64_t at, int size) {
    if (size == 8) return ((const int64_t *)list)[at];
    if (size == 4) return ((const int32_t *)list)[at];
    return ((const int16_t *)list)[at];
}

/* The nearest number to `index` in 0 .. size - 1. */
CIRCLET_INLINE int64_t index_inside(int64_t index, int64_t size) {
    return index < 0 ? 0 : s_min_i64(index, size - 1);
}

struct gather_params {
    int64_t rows;          /* runs in all: outer positions times index vectors */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* index vectors of an outer position */
    int64_t shared;        /* outer positions that share one set of index vectors */
    int64_t depth;         /* indices of a vector */
    int64_t run_bytes;     /* contiguous bytes that one vector names */
    int64_t outer_bytes;   /* of the source, from one outer position to the next */
    int64_t sizes[6];      /* of the axes that a vector indexes */
    int64_t strides[6];    /* of them, in bytes */
};

/* `count` runs of one outer position, by the index vectors from `vector` on. */
CIRCLET_INLINE void gather_runs(const struct gather_params *p, char *to, const char *from,
                                const void *indices, int64_t vector, int64_t count,
                                int index_size) {
    for (int64_t row = 0; row < count; row++, vector++) {
        const char *run = from;
        for (int64_t i = 0; i < p->depth; i++)
            run += p->strides[i] *
                   index_inside(index_at(indices, vector * p->depth + i, index_size), p->sizes[i]);
        copy_run(to + row * p->run_bytes, run, p->run_bytes);
    }
}

#if CIRCLET_VBYTES == 64 && defined(__clang__)
#define GATHER_HAS_LANES 1
/* Elements of 4 bytes by as many indices as a vector has lanes. */
CIRCLET_INLINE vf gather_lanes(const float *from, vi index) {
    typedef int32_t plain __attribute__((vector_size(64)));
    return __builtin_ia32_gathersiv16sf(v_zero(), from, (plain)index, (unsigned short)-1, 4);
}
#elif CIRCLET_VBYTES == 32 && defined(__clang__)
#define GATHER_HAS_LANES 1
CIRCLET_INLINE vf gather_lanes(const float *from, vi index) {
    const vf all = (vf)~v_zero_i32();
    return (vf)__builtin_ia32_gatherd_ps256(v_zero(), from, (circlet_plain_i32x8)index, all, 4);
}
#else
#define GATHER_HAS_LANES 0
#define gather_lanes(from, index) v_zero()
#endif

/* The same where a run is one element and an index vector one index, element by element: sizes are
 * copies, as results might lie where parameters do. */
#define GATHER_ELEMENTS(type)                \
    for (; row < count; row++)               \
    ((type *)to)[row] = ((const type *)from)[index_inside(index_at(indices, vector + row, index_size), size)]
CIRCLET_INLINE void gather_elements(const struct gather_params *p, char *to, const char *from,
                                    const void *indices, int64_t vector, int64_t count,
                                    int index_size, int element_size) {
    const int64_t size = p->sizes[0];
    int64_t row = 0;
    if (GATHER_HAS_LANES && element_size == 4 && index_size == 4 && size <= INT32_MAX) {
        const vi low = v_zero_i32(), high = v_splat_i32((int32_t)size - 1);
        for (; row + CIRCLET_LANES <= count; row += CIRCLET_LANES) {
            vi index = v_load_i32((const int32_t *)indices + vector + row);
            v_store((float *)to + row,
                    gather_lanes((const float *)from, v_clamp_i32(index, low, high)));
        }
    }
    if (element_size == 8) GATHER_ELEMENTS(uint64_t);
    else if (element_size == 4) GATHER_ELEMENTS(uint32_t);
    else if (element_size == 2) GATHER_ELEMENTS(uint16_t);
    else GATHER_ELEMENTS(uint8_t);
}

/* Operands: source, indices, result. `element_size` is that of a run of one element that a vector
 * of one index names, else 0. */
CIRCLET_INLINE void gather(const struct gather_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end, int index_size, int element_size) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows), next;
    for (int64_t row = begin * p->rows_per_task; row < last; row = next) {
        int64_t outer = row / p->count, at = row - outer * p->count;
        next = s_min_i64((outer + 1) * p->count, last);
        int64_t vector = outer / p->shared * p->count + at;
        const char *from = (const char *)x[0] + outer * p->outer_bytes;
        char *to = (char *)x[2] + row * p->run_bytes;
        if (element_size)
            gather_elements(p, to, from, x[1], vector, next - row, index_size, element_size);
        else gather_runs(p, to, from, x[1], vector, next - row, index_size);
    }
}

struct slice_at_params {
    int64_t rows;          /* runs in all */
    int64_t rows_per_task; /* of a task */
    int64_t run_bytes;     /* contiguous bytes at one position of the axis */
    int64_t size;          /* of the axis */
    int64_t position;      /* of its start in the list of starts */
};

/* Operands: source, starts, result: one position of an axis, counted from its end where
 * negative. */
CIRCLET_INLINE void slice_at(const struct slice_at_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end, int index_size) {
    (void)scratch;
    int64_t at = index_at(x[1], p->position, index_size);
    at = index_inside(at < 0 ? at + p->size : at, p->size);
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++)
        copy_run((char *)x[2] + row * p->run_bytes,
                 (const char *)x[0] + (row * p->size + at) * p->run_bytes, p->run_bytes);
}

struct embedding_lookup_params {
    int64_t ids;  /* rows of the result */
    int64_t rows; /* of the table */
    int64_t run;  /* elements of a row */
};

/* Operands: ids, 8-bit table, scale of each row, result: rows are dequantised as they are read.
 * A table of UINT8 holds signed numbers, as LiteRT reads it. A task is one id. */
CIRCLET_INLINE void embedding_lookup(const struct embedding_lookup_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end) {
    (void)scratch;
    for (int64_t id = begin; id < end; id++) {
        int64_t row = index_inside(index_at(x[0], id, 4), p->rows);
        const int8_t *from = (const int8_t *)x[1] + row * p->run;
        float scale = ((const float *)x[2])[row], *to = (float *)x[3] + id * p->run;
        for (int64_t i = 0; i < p->run; i++)
            to[i] = (float)from[i] * scale;
    }
}

struct scatter_nd_params {
    int64_t rows;       /* index vectors */
    int64_t depth;      /* indices of a vector */
    int64_t run;        /* elements that one vector names */
    int64_t bytes;      /* of the result */
    int64_t sizes[6];   /* of the axes that a vector indexes */
    int64_t strides[6]; /* of them, in elements */
};

CIRCLET_INLINE void scatter_add(char *to, const char *from, int64_t n, int size, int is_float) {
    for (int64_t i = 0; i < n; i++) {
        if (is_float) ((float *)to)[i] += ((const float *)from)[i];
        else if (size == 8) ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
        else if (size == 4) ((uint32_t *)to)[i] += ((const uint32_t *)from)[i];
        else if (size == 2) ((uint16_t *)to)[i] += ((const uint16_t *)from)[i];
        else ((uint8_t *)to)[i] += ((const uint8_t *)from)[i];
    }
}

/* Operands: indices, updates, result. One task, since indices may repeat, and float sums depend on
 * their order; vectors that point outside change nothing. */
CIRCLET_INLINE void scatter_nd(const struct scatter_nd_params *p, void *const *x, void *scratch,
                               int64_t begin, int64_t end, int size, int is_float) {
    (void)scratch, (void)begin, (void)end;
    const int32_t *index = x[0];
    const char *from = x[1];
    fill_run(x[2], 0, p->bytes);
    for (int64_t row = 0; row < p->rows; row++, index += p->depth, from += p->run * size) {
        int64_t at = 0, inside = 1;
        for (int64_t i = 0; i < p->depth; i++) {
            inside &= index[i] >= 0 && index[i] < p->sizes[i];
            at += index[i] * p->strides[i];
        }
        if (inside) scatter_add((char *)x[2] + at * size, from, p->run, size, is_float);
    }
}

struct segment_reduce_params {
    int64_t rows;     /* one id each */
    int64_t run;      /* elements of a row */
    int64_t chunk;    /* elements of a row that one task does */
    int64_t segments; /* rows of the result */
};

enum segment_join { SEGMENT_ADD, SEGMENT_MUL, SEGMENT_MAX, SEGMENT_MIN };

#define SEGMENT_RUN(type, whole)                                        \
    for (int64_t i = 0; i < n; i++) {                                    \
        type a = ((const type *)to)[i], b = ((const type *)from)[i];     \
        ((type *)to)[i] = join == SEGMENT_ADD   ? (type)((whole)a + (whole)b) \
                          : join == SEGMENT_MUL ? (type)((whole)a * (whole)b) \
                          : join == SEGMENT_MAX ? (a < b ? b : a)       \
                                                 : (b < a ? b : a);      \
    }

CIRCLET_INLINE void segment_run(char *to, const char *from, int64_t n, int join, int is_float) {
    if (is_float) SEGMENT_RUN(float, float)
    else SEGMENT_RUN(int32_t, uint32_t)
}

/* Operands: rows, ids, the element that segments start with, result. A task is a range of
 * columns, as any row may belong to any segment; rows join in order, and those whose id lies
 * outside change nothing. */
CIRCLET_INLINE void segment_reduce(const struct segment_reduce_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end, int join, int is_float) {
    (void)scratch;
    const int32_t *ids = x[1];
    int64_t first = begin * p->chunk, n = s_min_i64(end * p->chunk, p->run) - first;
    for (int64_t row = 0; row < p->segments; row++)
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)x[3])[row * p->run + first + i] = *(const uint32_t *)x[2];
    for (int64_t row = 0; row < p->rows; row++) {
        if (ids[row] < 0 || ids[row] >= p->segments) continue;
        segment_run((char *)x[3] + (ids[row] * p->run + first) * 4,
                     (const char *)x[0] + (row * p->run + first) * 4, n, join, is_float);
    }
}

struct sparse_to_dense_params {
    int64_t rows;       /* index vectors */
    int64_t depth;      /* indices of a vector */
    int64_t elements;   /* of the result */
    int64_t value_step; /* elements from value to value: 0 where one serves all */
    int64_t sizes[6];   /* of the result */
    int64_t strides[6]; /* in elements */
};

/* Operands: indices, values, default, result. One task. */
CIRCLET_INLINE void sparse_to_dense(const struct sparse_to_dense_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end, int index_size,
                                    int size) {
    (void)scratch, (void)begin, (void)end;
    char *to = x[3];
    for (int64_t i = 0; i < p->elements; i++) copy_element(to + i * size, x[2], size);
    for (int64_t row = 0; row < p->rows; row++) {
        int64_t at = 0, inside = 1;
        for (int64_t i = 0; i < p->depth; i++) {
            int64_t index = index_at(x[0], row * p->depth + i, index_size);
            int64_t valid = index >= 0 && index < p->sizes[i];
            inside &= valid;
            at += valid ? index * p->strides[i] : 0;
        }
        const char *value = (const char *)x[1] + row * p->value_step * size;
        if (inside) copy_element(to + at * size, value, size);
    }
}

struct dynamic_update_slice_params {
    int64_t rows;           /* runs of the update */
    int64_t rows_per_task;  /* of a task */
    int64_t run_bytes;      /* of the innermost axis of the update */
    int64_t axes;           /* of the data, the last ones of the arrays below */
    int64_t last_start[6];  /* the largest start of each axis that fits */
    int64_t strides[6];     /* of the result, in bytes */
    int64_t sizes[6];       /* outer sizes of the update */
    int64_t row_strides[7]; /* of the result along the outer sizes, in bytes */
};

/* Operands: update, starts, result, which holds the data already. */
CIRCLET_INLINE void dynamic_update_slice(const struct dynamic_update_slice_params *p, void *const *x,
                                 void *scratch, int64_t begin, int64_t end, int index_size) {
    (void)scratch;
    char *to = x[2];
    for (int64_t i = 0; i < p->axes; i++) {
        int64_t axis = 6 - p->axes + i;
        to += p->strides[axis] * index_inside(index_at(x[1], i, index_size), p->last_start[axis] + 1);
    }
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++)
        copy_run(to + rows_offset(row, p->sizes, p->row_strides),
                 (const char *)x[0] + row * p->run_bytes, p->run_bytes);
}

struct hashtable_lookup_params {
    int64_t keys;      /* in rising order */
    int64_t run_bytes; /* of a value */
};

/* The place of an id among keys, by halving; -1 for none. */
CIRCLET_INLINE int64_t hashtable_place(const int32_t *keys, int64_t count, int32_t id) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (keys[middle] == id) return middle;
        if (id < keys[middle]) high = middle;
        else low = middle + 1;
    }
    return -1;
}

/* Operands: ids, keys, values, result, whether there was a value. A task is an id. */
CIRCLET_INLINE void hashtable_lookup(const struct hashtable_lookup_params *p, void *const *x,
                                     void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        int64_t place = hashtable_place(x[1], p->keys, ((const int32_t *)x[0])[i]);
        char *to = (char *)x[3] + i * p->run_bytes;
        if (place < 0) fill_run(to, 0, p->run_bytes);
        else copy_run(to, (const char *)x[2] + place * p->run_bytes, p->run_bytes);
        ((uint8_t *)x[4])[i] = place >= 0;
    }
}

struct one_hot_params {
    int64_t rows;          /* positions in front of the new axis */
    int64_t rows_per_task; /* of a task */
    int64_t depth;         /* size of the new axis */
    int64_t chunk;         /* positions of it that one task does; all of them in several rows */
    int64_t inner;         /* indices behind it */
};

/* Positions `low` to `high` of the new axis in one row: all of them off, then those on that indices
 * name. */
CIRCLET_INLINE void one_hot_row(const struct one_hot_params *p, char *to, const void *indices,
                                int64_t row, int64_t low, int64_t high, const char *on,
                                int64_t off, int index_size, int size) {
    const int64_t inner = p->inner;
    fill_run(to, off, (high - low) * inner * size);
    for (int64_t i = 0; i < inner; i++) {
        int64_t at = index_at(indices, row * inner + i, index_size);
        if (at >= low && at < high) copy_element(to + ((at - low) * inner + i) * size, on, size);
    }
}

/* Operands: indices, the value where they point, the value elsewhere, result. */
CIRCLET_INLINE void one_hot(const struct one_hot_params *p, void *const *x, void *scratch,
                            int64_t begin, int64_t end, int index_size, int size) {
    const int64_t chunks = (p->depth + p->chunk - 1) / p->chunk;
    int64_t off;
    for (int i = 0; i < 8; i += size) copy_element((char *)&off + i, x[2], size);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task / chunks * p->rows_per_task, low = task % chunks * p->chunk;
        int64_t last = s_min_i64(row + p->rows_per_task, p->rows);
        for (; row < last; row++)
            one_hot_row(p, (char *)x[3] + (row * p->depth + low) * p->inner * size, x[0], row,
                        low, s_min_i64(low + p->chunk, p->depth), x[1], off, index_size, size);
    }
}

struct reverse_sequence_params {
    int64_t rows;           /* runs in all */
    int64_t rows_per_task;  /* of a task */
    int64_t run_bytes;      /* contiguous bytes that move together */
    int64_t sequence;       /* size of the axis that is reversed */
    int64_t sequence_rows;  /* rows from one of its positions to the next */
    int64_t batch;          /* size of the axis of the lengths */
    int64_t batch_rows;     /* rows from one of its positions to the next */
};

/* Operands: source, lengths, result. */
CIRCLET_INLINE void reverse_sequence(const struct reverse_sequence_params *p, void *const *x,
                                     void *scratch, int64_t begin, int64_t end, int index_size) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        int64_t position = row / p->sequence_rows % p->sequence;
        int64_t length = index_at(x[1], row / p->batch_rows % p->batch, index_size);
        length = index_inside(length, p->sequence + 1);
        int64_t source = position < length ? length - 1 - position : position;
        const char *from = (const char *)x[0] + row * p->run_bytes;
        copy_run((char *)x[2] + row * p->run_bytes,
                 from + (source - position) * p->sequence_rows * p->run_bytes, p->run_bytes);
    }
}

#endif
