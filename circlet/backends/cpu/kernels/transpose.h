/* Transposing planes of elements through registers. Strides are in bytes. */
#ifndef CIRCLET_TRANSPOSE_H
#define CIRCLET_TRANSPOSE_H

#include "simd.h"

typedef uint64_t copy_u64 __attribute__((aligned(1), may_alias));
typedef uint32_t copy_u32 __attribute__((aligned(1), may_alias));
typedef uint16_t copy_u16 __attribute__((aligned(1), may_alias));

/* Element (column, i) is at column * size + i * from_stride in the source, and at
 * column * to_stride + i * size in the result. */
struct turn_plane {
    char *to;
    const char *from;
    int64_t to_stride, from_stride, columns, inner;
};

#define TURN_LIST_4(f, k) f(4, k, 0), f(4, k, 1), f(4, k, 2), f(4, k, 3)
#define TURN_FOUR(f, n, k, j) f(n, k, j), f(n, k, j + 1), f(n, k, j + 2), f(n, k, j + 3)
#define TURN_LIST_8(f, k) TURN_FOUR(f, 8, k, 0), TURN_FOUR(f, 8, k, 4)
#define TURN_LIST_16(f, k)                                                    \
    TURN_FOUR(f, 16, k, 0), TURN_FOUR(f, 16, k, 4), TURN_FOUR(f, 16, k, 8),   \
        TURN_FOUR(f, 16, k, 12)

/* Where lane j comes from in an interleaving of half k of two rows of n lanes. */
#define TURN_ZIP(n, k, j) ((k) * (n) / 2 + (j) / 2 + (j) % 2 * (n))
/* The same in row k of three that interleave three: first among rows 0 and 1, then with row 2. */
#define TURN_MIX(n, k, j) (((k) * (n) + (j)) % 3 * (n) + ((k) * (n) + (j)) / 3)
#define TURN_MIX_2(n, k, j) (((k) * (n) + (j)) % 3 < 2 ? TURN_MIX(n, k, j) : -1)
#define TURN_MIX_3(n, k, j) \
    (((k) * (n) + (j)) % 3 < 2 ? (j) : TURN_MIX(n, k, j) - (n))
/* The same for what takes them apart again. */
#define TURN_PART_2(n, k, j) (3 * (j) + (k) < 2 * (n) ? 3 * (j) + (k) : -1)
#define TURN_PART_3(n, k, j) (3 * (j) + (k) < 2 * (n) ? (j) : 3 * (j) + (k) - (n))

/* For rows of n elements: `rotate` interleaves the halves of `rows` rows, which as a list of
 * elements moves the lowest bit of an index to its top; so often as rows have bits it interleaves
 * them, so often as lanes have bits it takes them apart, and both transpose a square. */
#define TURN_KERNELS(type, n, suffix)                                                          \
    typedef CIRCLET_VECTOR(type, n * sizeof(type)) turn_row_##suffix;                          \
    typedef CIRCLET_UNALIGNED(type, n * sizeof(type)) turn_row_u_##suffix;                     \
    CIRCLET_INLINE void turn_rotate_##suffix(turn_row_##suffix *a, int rows, int steps) {      \
        turn_row_##suffix b[n];                                                                \
        CIRCLET_UNROLL for (int step = 0; step < steps; step++) {                              \
            CIRCLET_UNROLL for (int i = 0; i < rows / 2; i++) {                                \
                b[2 * i] = __builtin_shufflevector(a[i], a[i + rows / 2],                      \
                                                   TURN_LIST_##n(TURN_ZIP, 0));                \
                b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + rows / 2],                  \
                                                       TURN_LIST_##n(TURN_ZIP, 1));            \
            }                                                                                  \
            CIRCLET_UNROLL for (int i = 0; i < rows; i++) a[i] = b[i];                         \
        }                                                                                      \
    }                                                                                          \
    /* The first `loaded` rows, the last of them again behind these. */                        \
    CIRCLET_INLINE void turn_load_##suffix(turn_row_##suffix *a, const char *from,             \
                                           int64_t stride, int rows, int64_t loaded) {         \
        CIRCLET_UNROLL for (int i = 0; i < rows; i++)                                          \
            a[i] = *(const turn_row_u_##suffix *)(from + s_min_i64(i, loaded - 1) * stride);   \
    }                                                                                          \
    CIRCLET_INLINE void turn_store_##suffix(char *to, int64_t stride,                          \
                                            const turn_row_##suffix *a, int rows,              \
                                            int64_t stored) {                                  \
        CIRCLET_UNROLL for (int i = 0; i < rows; i++)                                          \
            if (i < stored) *(turn_row_u_##suffix *)(to + i * stride) = a[i];                  \
    }                                                                                          \
    CIRCLET_INLINE void turn_block_##suffix(char *to, int64_t to_stride, const char *from,     \
                                            int64_t from_stride, int64_t loaded,               \
                                            int64_t stored) {                                  \
        turn_row_##suffix a[n];                                                                \
        turn_load_##suffix(a, from, from_stride, n, loaded);                                   \
        turn_rotate_##suffix(a, n, TURN_BITS(n));                                              \
        turn_store_##suffix(to, to_stride, a, n, stored);                                      \
    }
#define TURN_BITS(n) ((n) == 16 ? 4 : (n) == 8 ? 3 : (n) == 4 ? 2 : 1)

/* For rows of a register of 16 bytes: n columns of few rows each to one run of bytes, and back. */
#define TURN_FEW(n, suffix)                                                                    \
    CIRCLET_INLINE void turn_weave_##suffix(char *to, const char *from, int64_t stride,        \
                                            int rows) {                                        \
        turn_row_##suffix a[n], b[n];                                                          \
        turn_load_##suffix(a, from, stride, rows, rows);                                       \
        if (rows == 3) {                                                                       \
            TURN_THREE(n, MIX, 0);                                                             \
            TURN_THREE(n, MIX, 1);                                                             \
            TURN_THREE(n, MIX, 2);                                                             \
            turn_store_##suffix(to, 16, b, rows, rows);                                        \
        } else {                                                                               \
            turn_rotate_##suffix(a, rows, TURN_BITS(rows));                                    \
            turn_store_##suffix(to, 16, a, rows, rows);                                        \
        }                                                                                      \
    }                                                                                          \
    CIRCLET_INLINE void turn_part_##suffix(char *to, int64_t stride, const char *from,         \
                                           int rows) {                                         \
        turn_row_##suffix a[n], b[n];                                                          \
        turn_load_##suffix(a, from, 16, rows, rows);                                           \
        if (rows == 3) {                                                                       \
            TURN_THREE(n, PART, 0);                                                            \
            TURN_THREE(n, PART, 1);                                                            \
            TURN_THREE(n, PART, 2);                                                            \
            turn_store_##suffix(to, stride, b, rows, rows);                                    \
        } else {                                                                               \
            turn_rotate_##suffix(a, rows, TURN_BITS(n));                                       \
            turn_store_##suffix(to, stride, a, rows, rows);                                    \
        }                                                                                      \
    }
#define TURN_THREE(n, what, k)                                                            \
    b[k] = __builtin_shufflevector(a[0], a[1], TURN_LIST_##n(TURN_##what##_2, k)),        \
    b[k] = __builtin_shufflevector(b[k], a[2], TURN_LIST_##n(TURN_##what##_3, k))

TURN_KERNELS(int8_t, 16, 1)
TURN_KERNELS(int16_t, 8, 2)
TURN_KERNELS(int32_t, 4, 4)
TURN_KERNELS(int64_t, 4, 8)
TURN_FEW(16, 1)
TURN_FEW(8, 2)
TURN_FEW(4, 4)
#if CIRCLET_VBYTES > 16
TURN_KERNELS(int32_t, 8, wide)
#define TURN_WIDE 8
#else
#define turn_block_wide turn_block_4
#define TURN_WIDE 4
#endif

#define TURN_EACH(name, size, ...)              \
    do {                                        \
        if ((size) == 1) name##_1(__VA_ARGS__); \
        if ((size) == 2) name##_2(__VA_ARGS__); \
        if ((size) == 4) name##_4(__VA_ARGS__); \
    } while (0)

CIRCLET_INLINE void copy_element(char *to, const char *from, int size) {
    if (size == 8) *(copy_u64 *)to = *(const copy_u64 *)from;
    if (size == 4) *(copy_u32 *)to = *(const copy_u32 *)from;
    if (size == 2) *(copy_u16 *)to = *(const copy_u16 *)from;
    if (size == 1) *to = *from;
}

CIRCLET_INLINE void turn_elements(const struct turn_plane *p, int size) {
    for (int64_t c = 0; c < p->columns; c++)
        for (int64_t i = 0; i < p->inner; i++)
            copy_element(p->to + c * p->to_stride + i * size,
                         p->from + c * size + i * p->from_stride, size);
}

/* One square block of n elements, of which `loaded` rows and `stored` columns count. */
CIRCLET_INLINE void turn_block(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                               int64_t loaded, int64_t stored, int size, int n) {
    if (size == 8) turn_block_8(to, to_stride, from, from_stride, loaded, stored);
    else if (size == 4 && n > 4) turn_block_wide(to, to_stride, from, from_stride, loaded, stored);
    else TURN_EACH(turn_block, size, to, to_stride, from, from_stride, loaded, stored);
}

/* At least n elements each way. The last blocks overlap those before them; blocks that fill one
 * line of the result follow each other. */
CIRCLET_INLINE void turn_blocks(const struct turn_plane *p, int size, int n) {
    int line = 64 / size;
    for (int64_t i0 = 0; i0 < p->inner; i0 += line)
        for (int64_t c0 = 0; c0 < p->columns; c0 += n)
            for (int64_t i1 = i0; i1 < s_min_i64(i0 + line, p->inner); i1 += n) {
                int64_t c = s_min_i64(c0, p->columns - n), i = s_min_i64(i1, p->inner - n);
                turn_block(p->to + c * p->to_stride + i * size, p->to_stride,
                           p->from + c * size + i * p->from_stride, p->from_stride, n, n, size, n);
            }
}

/* Few rows to one run: what a block stores behind an element's few belongs to the next one. */
CIRCLET_INLINE void turn_pack(const struct turn_plane *p, int size, int n) {
    int64_t few = p->inner * size, c = 0;
    for (; (p->columns - c - n + 1) * few >= n * size; c += n)
        turn_block(p->to + c * few, few, p->from + c * size, p->from_stride, p->inner, n, size, n);
    turn_elements(&(struct turn_plane){p->to + c * few, p->from + c * size, few, p->from_stride,
                                       p->columns - c, p->inner}, size);
}

/* One run to few rows: what a block loads behind an element's few is not stored. */
CIRCLET_INLINE void turn_unpack(const struct turn_plane *p, int size, int n) {
    int64_t few = p->columns * size, i = 0;
    for (; (p->inner - i - n + 1) * few >= n * size; i += n)
        turn_block(p->to + i * size, p->to_stride, p->from + i * few, few, n, p->columns, size, n);
    turn_elements(&(struct turn_plane){p->to + i * size, p->from + i * few, p->to_stride, few,
                                       p->columns, p->inner - i}, size);
}

/* Two to four rows and one run, either way; the last step overlaps the one before it. */
CIRCLET_INLINE void turn_few(const struct turn_plane *p, int size, int rows) {
    int n = 16 / size, is_part = p->columns < p->inner;
    int64_t count = is_part ? p->inner : p->columns;
    for (int64_t at = 0; at < count; at += n) {
        int64_t i = s_min_i64(at, count - n);
        if (is_part)
            TURN_EACH(turn_part, size, p->to + i * size, p->to_stride, p->from + i * rows * size,
                      rows);
        else
            TURN_EACH(turn_weave, size, p->to + i * rows * size, p->from + i * size,
                      p->from_stride, rows);
    }
}

CIRCLET_INLINE void turn(const struct turn_plane *p, int size) {
    int n = size == 8 ? 4 : 16 / size, wide = size == 4 ? TURN_WIDE : n, is_run;
    int64_t few = s_min_i64(p->columns, p->inner), many = s_max_i64(p->columns, p->inner);
    is_run = (p->columns < p->inner ? p->from_stride : p->to_stride) == few * size && many >= n;
    if (is_run && size < 8 && few == 2) turn_few(p, size, 2);
    else if (is_run && size < 8 && few == 3) turn_few(p, size, 3);
    else if (is_run && size < 8 && few == 4) turn_few(p, size, 4);
    else if (few >= wide) turn_blocks(p, size, wide);
    else if (few >= n) turn_blocks(p, size, n);
    else if (is_run && p->columns < p->inner) turn_unpack(p, size, n);
    else if (is_run) turn_pack(p, size, n);
    else turn_elements(p, size);
}

#endif
