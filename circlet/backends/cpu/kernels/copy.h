/* Moving bytes: strided copies, transposes, padding, borders. All strides are in bytes. */
#ifndef CIRCLET_COPY_H
#define CIRCLET_COPY_H

#include "rows.h"
#include "transpose.h"

typedef CIRCLET_VECTOR(int8_t, 16) copy_bytes;
typedef CIRCLET_UNALIGNED(int8_t, 16) copy_v16;
typedef CIRCLET_UNALIGNED(int8_t, 32) copy_v32;
typedef CIRCLET_UNALIGNED(int64_t, CIRCLET_VBYTES) copy_fill;

/* Both ends of a run that is one to two pieces long. */
#define COPY_ENDS(type)                                          \
    do {                                                         \
        type head = *(const type *)from;                         \
        type tail = *(const type *)(from + n - sizeof(type));    \
        *(type *)to = head;                                      \
        *(type *)(to + n - sizeof(type)) = tail;                 \
    } while (0)

/* The last vector overlaps the one before it instead of a loop over single bytes. It is loaded
 * before anything is stored, so that a run may move to lower addresses that overlap its own, as
 * rows of stripe.h do. */
CIRCLET_INLINE void copy_run(char *to, const char *from, int64_t n) {
    if (n >= CIRCLET_VBYTES) {
        vi8 tail = *(const vi8_u *)(from + n - CIRCLET_VBYTES);
        for (int64_t i = 0; i < n - CIRCLET_VBYTES; i += CIRCLET_VBYTES)
            *(vi8_u *)(to + i) = *(const vi8_u *)(from + i);
        *(vi8_u *)(to + n - CIRCLET_VBYTES) = tail;
    } else if (CIRCLET_VBYTES > 32 && n >= 32) {
        COPY_ENDS(copy_v32);
    } else if (n >= 16) {
        COPY_ENDS(copy_v16);
    } else if (n >= 8) {
        COPY_ENDS(copy_u64);
    } else if (n >= 4) {
        COPY_ENDS(copy_u32);
    } else if (n >= 2) {
        COPY_ENDS(copy_u16);
    } else if (n > 0) {
        *to = *from;
    }
}

#define COPY_THROUGH 2       /* for `transpose` of copy_elements, as in lower/copy.py */
#define COPY_TILE_COLUMNS 32 /* rows of copy_through's tile, as in lower/copy.py */
#define COPY_TILE_RUN 128    /* elements of one, as in lower/copy.py */
#define COPY_TILE_LINE 64    /* bytes between them: a cache line */

/* A plane of at least n elements each way, transposed piece by piece into a tile whose rows leave
 * it in one run each. Where rows of the result lie a power of two of bytes apart, their lines drive
 * each other out of the cache before they are full. The last pieces overlap those before them. */
CIRCLET_INLINE void copy_through(const struct transpose_plane *p, char *tile, int size, int n) {
    const int64_t pitch = COPY_TILE_RUN * size + COPY_TILE_LINE;
    for (int64_t i0 = 0; i0 < p->inner; i0 += COPY_TILE_RUN) {
        int64_t run = s_min_i64(COPY_TILE_RUN, s_max_i64(n, p->inner - i0));
        int64_t i = s_min_i64(i0, p->inner - run);
        for (int64_t c0 = 0; c0 < p->columns; c0 += COPY_TILE_COLUMNS) {
            int64_t wide = s_min_i64(COPY_TILE_COLUMNS, s_max_i64(n, p->columns - c0));
            int64_t c = s_min_i64(c0, p->columns - wide);
            const char *from = p->from + c * size + i * p->from_stride;
            for (int64_t i1 = 0; i1 < run; i1 += n)
                for (int64_t c1 = 0; c1 < wide; c1 += n) {
                    int64_t row = s_min_i64(i1, run - n), column = s_min_i64(c1, wide - n);
                    transpose_block(tile + column * pitch + row * size, pitch,
                                    from + column * size + row * p->from_stride, p->from_stride, n,
                                    n, size, n);
                }
            for (int64_t k = 0; k < wide; k++)
                copy_run(p->to + (c + k) * p->to_stride + i * size, tile + k * pitch, run * size);
        }
    }
}

#define FILL_ENDS(type) \
    *(type *)to = (type)pattern, *(type *)(to + n - sizeof(type)) = (type)pattern

/* `pattern` holds the element to fill with, repeated to eight bytes; runs are of whole elements, so
 * that stores may overlap. */
CIRCLET_INLINE void fill_run(char *to, int64_t pattern, int64_t n) {
    if (n >= CIRCLET_VBYTES) {
        copy_fill fill = (copy_fill){0} + pattern;
        for (int64_t i = 0; i < n - CIRCLET_VBYTES; i += CIRCLET_VBYTES)
            *(copy_fill *)(to + i) = fill;
        *(copy_fill *)(to + n - CIRCLET_VBYTES) = fill;
    } else if (n >= 8) {
        CIRCLET_NO_UNROLL for (int64_t i = 0; i < n - 8; i += 8)
            *(copy_u64 *)(to + i) = (uint64_t)pattern;
        *(copy_u64 *)(to + n - 8) = (uint64_t)pattern;
    } else if (n >= 4) {
        FILL_ENDS(copy_u32);
    } else if (n >= 2) {
        FILL_ENDS(copy_u16);
    } else if (n > 0) {
        *to = (char)pattern;
    }
}

struct copy_rows_params {
    struct row_loops rows;
    int64_t source[7];     /* strides */
    int64_t result[7];     /* strides */
};

/* Operands: source, result. What a caller bound to both ends stays where it is. */
CIRCLET_INLINE void copy_rows(const struct copy_rows_params *p, void *const *x, void *scratch,
                              int64_t begin, int64_t end) {
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first, run; row < span.last; row += run) {
            run = rows_run(row, span.last, p->rows.sizes);
            const char *from = (const char *)x[0] + rows_offset(row, p->rows.sizes, p->source);
            char *to = (char *)x[1] + rows_offset(row, p->rows.sizes, p->result);
            if (to == from && p->result[5] == p->source[5]) continue;
            for (int64_t i = 0; i < run; i++)
                copy_run(to + i * p->result[5] + span.begin, from + i * p->source[5] + span.begin,
                         span.end - span.begin);
        }
    }
}

#define REVERSE_2(i) (i) + 0, (i) + 1
#define REVERSE_4(i) REVERSE_2(i), REVERSE_2((i) + 2)
#define REVERSE_8(i) REVERSE_4(i), REVERSE_4((i) + 4)

/* Sixteen bytes, their elements of `size` bytes in reverse. */
CIRCLET_INLINE copy_bytes copy_turned(copy_bytes x, const int size) {
    if (size == 1)
        return __builtin_shufflevector(x, x, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    if (size == 2)
        return __builtin_shufflevector(x, x, REVERSE_2(14), REVERSE_2(12), REVERSE_2(10),
                                       REVERSE_2(8), REVERSE_2(6), REVERSE_2(4), REVERSE_2(2),
                                       REVERSE_2(0));
    if (size == 4)
        return __builtin_shufflevector(x, x, REVERSE_4(12), REVERSE_4(8), REVERSE_4(4),
                                       REVERSE_4(0));
    return __builtin_shufflevector(x, x, REVERSE_8(8), REVERSE_8(0));
}

struct copy_reversed_params {
    struct row_loops rows; /* the inner axis lies backwards in the source, from its last element */
    int64_t source[7];     /* strides */
    int64_t result[7];     /* strides */
};

/* Operands: source, result. */
CIRCLET_INLINE void copy_reversed(const struct copy_reversed_params *p, void *const *x, void *scratch,
                                  int64_t begin, int64_t end, const int size) {
    const int lanes = 16 / size;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first; row < span.last; row++) {
            const char *from = (const char *)x[0] + rows_offset(row, p->rows.sizes, p->source);
            char *to = (char *)x[1] + rows_offset(row, p->rows.sizes, p->result);
            int64_t i = span.begin;
            for (; i + lanes <= span.end; i += lanes) {
                copy_bytes piece = *(const copy_v16 *)(from - (i + lanes - 1) * size);
                *(copy_v16 *)(to + i * size) = copy_turned(piece, size);
            }
            CIRCLET_NO_UNROLL for (; i < span.end; i++)
                copy_element(to + i * size, from - i * size, size);
        }
    }
}

struct copy_elements_params {
    int64_t rows;          /* planes of columns x inner elements */
    int64_t columns;       /* the axis whose source stride is smallest */
    int64_t column_block;  /* columns of a task */
    int64_t inner;         /* the axis whose result stride is smallest */
    int64_t inner_block;   /* elements of it of a task */
    int64_t sizes[6];      /* outer sizes */
    int64_t source[7];     /* strides; the last is that of inner */
    int64_t result[7];     /* strides */
    int64_t column_source; /* stride */
    int64_t column_result; /* stride */
};

/* An element repeated to eight bytes. */
CIRCLET_INLINE int64_t copy_pattern(const char *from, int size) {
    if (size == 8) return (int64_t) * (const copy_u64 *)from;
    if (size == 4) return (int64_t)(*(const copy_u32 *)from * 0x100000001ull);
    if (size == 2) return (int64_t)(*(const copy_u16 *)from * 0x1000100010001ull);
    return (int64_t)(*(const uint8_t *)from * 0x101010101010101ull);
}

/* Every `step`th element of a row. Both are constants, so that compilers load whole vectors, keep
 * their lanes by shuffles, and never read behind the last element. */
CIRCLET_INLINE void copy_stepped(char *to, const char *from, int64_t n, const int size,
                                 const int step) {
    for (int64_t i = 0; i < n; i++) copy_element(to + i * size, from + i * size * step, size);
}

CIRCLET_INLINE void copy_plane(const struct copy_elements_params *p, char *to, const char *from,
                               int64_t columns, int64_t inner, int size, int step) {
    if (step) {
        for (int64_t c = 0; c < columns; c++)
            copy_stepped(to + c * p->column_result, from + c * p->column_source, inner, size,
                         step);
        return;
    }
    if (p->source[6] == 0 && p->result[6] == size) { /* one element along the whole axis */
        for (int64_t c = 0; c < columns; c++)
            fill_run(to + c * p->column_result,
                     copy_pattern(from + c * p->column_source, size), inner * size);
        return;
    }
    for (int64_t c = 0; c < columns; c++)
        for (int64_t i = 0; i < inner; i++)
            copy_element(to + c * p->column_result + i * p->result[6],
                         from + c * p->column_source + i * p->source[6], size);
}

/* Operands: source, result. Any strides: transposes, strided slices. Tasks are blocks of a
 * plane, so that both the lines read and the lines written by one stay in the cache. `transpose`:
 * whether planes are transposed, or COPY_THROUGH, of 4-byte elements by a tile in the scratch.
 * `step`: from element to element of inner in the source, where that is a constant and the result
 * is dense, or 0. */
CIRCLET_INLINE void copy_elements(const struct copy_elements_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end, int size,
                                  int transpose, int step) {
    int64_t across = (p->inner + p->inner_block - 1) / p->inner_block;
    int64_t down = (p->columns + p->column_block - 1) / p->column_block;
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task / across / down;
        int64_t c = task / across % down * p->column_block, i = task % across * p->inner_block;
        int64_t columns = s_min_i64(p->column_block, p->columns - c);
        int64_t inner = s_min_i64(p->inner_block, p->inner - i);
        const char *from = (const char *)x[0] + rows_offset(row, p->sizes, p->source);
        char *to = (char *)x[1] + rows_offset(row, p->sizes, p->result);
        from += c * p->column_source + i * p->source[6];
        to += c * p->column_result + i * p->result[6];
        struct transpose_plane plane = {to, from, p->column_result, p->source[6], columns, inner};
        if (transpose == COPY_THROUGH && s_min_i64(columns, inner) >= TRANSPOSE_WIDE)
            copy_through(&plane, scratch, size, TRANSPOSE_WIDE);
        else if (transpose) transpose_planes(&plane, size);
        else copy_plane(p, to, from, columns, inner, size, step);
    }
}

struct pad_rows_params {
    int64_t rows;          /* runs of the result */
    int64_t rows_per_task; /* of a task */
    int64_t before;        /* bytes to fill before the copied part of a run */
    int64_t copied;        /* bytes of a run that come from the source */
    int64_t after;         /* bytes to fill behind it */
    int64_t pattern;       /* the element to fill with, repeated to eight bytes */
    int64_t sizes[6];      /* outer sizes of the result */
    int64_t first[6];      /* outer index where the source starts */
    int64_t count[6];      /* outer sizes of the source */
    int64_t source[7];     /* strides */
    int64_t result[7];     /* strides */
};

/* Where the source's rows along the last outer axis start that land in the rows beside this one,
 * or null where the other axes are outside of the source. */
CIRCLET_INLINE const char *pad_source(const struct pad_rows_params *p, const char *source,
                                      int64_t row) {
    row /= p->sizes[ROWS_OUTER - 1];
    for (int axis = ROWS_OUTER - 2; axis >= 0; axis--) {
        int64_t at = row % p->sizes[axis] - p->first[axis];
        if (at < 0 || at >= p->count[axis]) return 0;
        source += at * p->source[axis];
        row /= p->sizes[axis];
    }
    return source;
}

CIRCLET_INLINE void pad_row(const struct pad_rows_params *p, char *to, const char *from) {
    if (!from) {
        fill_run(to, p->pattern, p->before + p->copied + p->after);
        return;
    }
    fill_run(to, p->pattern, p->before);
    copy_run(to + p->before, from, p->copied);
    fill_run(to + p->before + p->copied, p->pattern, p->after);
}

#define PAD_SHORT 128 /* bytes of runs that are filled together, before what lies inside of them */

/* `count` runs of the result that lie along the last outer axis, from one on that is the `at`-th
 * behind the source's first. */
CIRCLET_INLINE void pad_run(const struct pad_rows_params *p, char *to, const char *from, int64_t at,
                            int64_t count) {
    const int axis = ROWS_OUTER - 1;
    const int64_t step = p->result[axis], bytes = p->before + p->copied + p->after;
    const int64_t first = s_max_i64(at, 0), last = s_min_i64(at + count, p->count[axis]);
    if (bytes <= PAD_SHORT && bytes == step) {
        fill_run(to, p->pattern, count * bytes);
        for (int64_t i = first; from && i < last; i++)
            copy_run(to + (i - at) * step + p->before, from + i * p->source[axis], p->copied);
        return;
    }
    for (int64_t i = at; i < at + count; i++, to += step)
        pad_row(p, to, from && i >= first && i < last ? from + i * p->source[axis] : 0);
}

/* Operands: source, result. */
CIRCLET_INLINE void pad_rows(const struct pad_rows_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    const int axis = ROWS_OUTER - 1;
    for (int64_t row = begin * p->rows_per_task, run; row < last; row += run) {
        run = rows_run(row, last, p->sizes);
        char *to = (char *)x[1] + rows_offset(row, p->sizes, p->result);
        pad_run(p, to, pad_source(p, x[0], row), row % p->sizes[axis] - p->first[axis], run);
    }
}

struct fill_border_params {
    int64_t height;      /* rows of the image inside */
    int64_t image_bytes; /* from one image of the batch to the next, borders included */
    int64_t row_bytes;   /* from row to row */
    int64_t first_bytes; /* from the start of an image's border to its first pixel */
    int64_t inner_bytes; /* of a row of pixels */
    int64_t pattern;     /* the element to fill with, repeated to eight bytes */
};

/* Operands: the start of a bordered buffer. Writes only the border, before a kernel writes the
 * image; a task is one of the `height + 1` gaps before, between and behind the rows of an image.
 * The right border of a row and the left border of the next are one gap. */
CIRCLET_INLINE void fill_border(const struct fill_border_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end) {
    (void)scratch;
    char *start = (char *)x[0] + begin / (p->height + 1) * p->image_bytes;
    int64_t row = begin % (p->height + 1);
    for (int64_t task = begin; task < end; task++) {
        char *gap = start + p->first_bytes + p->inner_bytes + (row - 1) * p->row_bytes;
        if (row == 0) fill_run(start, p->pattern, p->first_bytes);
        else if (row < p->height) fill_run(gap, p->pattern, p->row_bytes - p->inner_bytes);
        else fill_run(gap, p->pattern, start + p->image_bytes - gap);
        if (row++ < p->height) continue;
        row = 0;
        start += p->image_bytes;
    }
}

struct copy_indirect_params {
    int64_t rows;          /* positions of all axes but the last */
    int64_t rows_per_task; /* of a task */
    int64_t pattern;       /* the element to fill with, repeated to eight bytes */
    int64_t sizes[6];      /* of the axes */
    int64_t first[6];      /* number of each axis' first entry in the table */
};

/* Where a row begins by its outer axes. */
typedef struct copy_place {
    int64_t from, to;
    int is_inside;
} copy_place;

/* The place of row `row` by all axes but the last two. */
CIRCLET_INLINE copy_place copy_place_of(const struct copy_indirect_params *p, const int64_t *table,
                                        int64_t row) {
    copy_place place = {0, 0, 1};
    int64_t rest = row / p->sizes[4];
    for (int axis = 3; axis >= 0; axis--) {
        const int64_t *entry = table + 2 * (p->first[axis] + rest % p->sizes[axis]);
        place.is_inside &= entry[0] >= 0;
        place.from += entry[0], place.to += entry[1];
        rest /= p->sizes[axis];
    }
    return place;
}

/* Operands: source, result, table. An entry of an axis is a pair of offsets, into the source and
 * into the result; they add up over the axes, so that mirrors and blocks, whose addresses no
 * strides give, need tables of the sum of the axes' sizes only. A negative source offset means
 * filling. Entries of the last axis are runs, whose bytes follow the offsets. */
CIRCLET_INLINE void copy_indirect(const struct copy_indirect_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t *table = x[2], *inner = table + 2 * p->first[5];
    int64_t row = begin * p->rows_per_task, last = s_min_i64(end * p->rows_per_task, p->rows);
    while (row < last) {
        copy_place place = copy_place_of(p, table, row);
        const int64_t *line = table + 2 * (p->first[4] + row % p->sizes[4]);
        int64_t run = s_min_i64(p->sizes[4] - row % p->sizes[4], last - row);
        for (; run > 0; run--, row++, line += 2) {
            const char *from = (const char *)x[0] + place.from + line[0];
            char *to = (char *)x[1] + place.to + line[1];
            int is_inside = place.is_inside && line[0] >= 0;
            CIRCLET_NO_UNROLL for (int64_t i = 0; i < 3 * p->sizes[5]; i += 3) {
                char *target = to + inner[i + 1];
                if (!is_inside || inner[i] < 0) fill_run(target, p->pattern, inner[i + 2]);
                else copy_run(target, from + inner[i], inner[i + 2]);
            }
        }
    }
}

#endif
