/* Transposing planes of elements through registers. Strides are in bytes.
 *
 * Squares of n rows of n elements go through n registers in log2(n) rounds of shuffles: a load and
 * a store for each row instead of each element. Planes with few rows or columns are interleaved or
 * taken apart instead, so that registers are full there too.
 */
#ifndef CIRCLET_TRANSPOSE_H
#define CIRCLET_TRANSPOSE_H

#include "simd.h"

typedef uint64_t copy_u64 __attribute__((aligned(1), may_alias));
typedef uint32_t copy_u32 __attribute__((aligned(1), may_alias));
typedef uint16_t copy_u16 __attribute__((aligned(1), may_alias));

/* Element (column, i) is at column * size + i * from_stride in the source, and at
 * column * to_stride + i * size in the result. */
struct transpose_plane {
    char *to;
    const char *from;
    int64_t to_stride, from_stride, columns, inner;
};

#define TRANSPOSE_LIST_4(f, k) f(4, k, 0), f(4, k, 1), f(4, k, 2), f(4, k, 3)
#define TRANSPOSE_FOUR(f, n, k, j) f(n, k, j), f(n, k, j + 1), f(n, k, j + 2), f(n, k, j + 3)
#define TRANSPOSE_LIST_8(f, k) TRANSPOSE_FOUR(f, 8, k, 0), TRANSPOSE_FOUR(f, 8, k, 4)
#define TRANSPOSE_LIST_16(f, k)                                                    \
    TRANSPOSE_FOUR(f, 16, k, 0), TRANSPOSE_FOUR(f, 16, k, 4), TRANSPOSE_FOUR(f, 16, k, 8),   \
        TRANSPOSE_FOUR(f, 16, k, 12)

/* Where lane j comes from in an interleaving of half k of two rows of n lanes. */
#define TRANSPOSE_ZIP(n, k, j) ((k) * (n) / 2 + (j) / 2 + (j) % 2 * (n))
/* The same within every four lanes: of lanes, and of pairs of them. */
#define TRANSPOSE_ZIP_LANES(n, k, j) ((j) / 4 * 4 + (k) * 2 + (j) % 4 / 2 + (j) % 2 * (n))
#define TRANSPOSE_ZIP_PAIRS(n, k, j) ((j) / 4 * 4 + (k) * 2 + (j) % 2 + (j) % 4 / 2 * (n))
/* The same of the even or the odd fours of lanes of two rows, those of the first ahead. */
#define TRANSPOSE_FOURS(n, k, j) \
    (((j) / 4 * 2 % ((n) / 4) + (k)) * 4 + (j) % 4 + (j) / ((n) / 2) * (n))
/* The same in row k of three that interleave three: first among rows 0 and 1, then with row 2. */
#define TRANSPOSE_MIX(n, k, j) (((k) * (n) + (j)) % 3 * (n) + ((k) * (n) + (j)) / 3)
#define TRANSPOSE_MIX_2(n, k, j) (((k) * (n) + (j)) % 3 < 2 ? TRANSPOSE_MIX(n, k, j) : -1)
#define TRANSPOSE_MIX_3(n, k, j) \
    (((k) * (n) + (j)) % 3 < 2 ? (j) : TRANSPOSE_MIX(n, k, j) - (n))
/* The same for what takes them apart again. */
#define TRANSPOSE_PART_2(n, k, j) (3 * (j) + (k) < 2 * (n) ? 3 * (j) + (k) : -1)
#define TRANSPOSE_PART_3(n, k, j) (3 * (j) + (k) < 2 * (n) ? (j) : 3 * (j) + (k) - (n))
#define TRANSPOSE_SHUFFLED(n, what, k, a, b) \
    __builtin_shufflevector(a, b, TRANSPOSE_LIST_##n(TRANSPOSE_##what, k))

#define TRANSPOSE_ROWS(type, n, suffix)                                                             \
    typedef CIRCLET_VECTOR(type, n * sizeof(type)) transpose_row_##suffix;                          \
    typedef CIRCLET_UNALIGNED(type, n * sizeof(type)) transpose_row_u_##suffix;                     \
    /* The first `loaded` rows, the last of them again behind these. */                             \
    CIRCLET_INLINE void transpose_load_##suffix(transpose_row_##suffix *a, const char *from,        \
                                           int64_t stride, int rows, int64_t loaded) {              \
        CIRCLET_UNROLL for (int i = 0; i < rows; i++)                                               \
            a[i] = *(const transpose_row_u_##suffix *)(from + s_min_i64(i, loaded - 1) * stride);   \
    }                                                                                               \
    CIRCLET_INLINE void transpose_store_##suffix(char *to, int64_t stride,                          \
                                            const transpose_row_##suffix *a, int rows,              \
                                            int64_t stored) {                                       \
        CIRCLET_UNROLL for (int i = 0; i < rows; i++)                                               \
            if (i < stored) *(transpose_row_u_##suffix *)(to + i * stride) = a[i];                  \
    }

/* `rotate` interleaves the halves of `rows` rows of n elements, which as a list of elements moves
 * the lowest bit of an index to its top; so often as rows have bits it interleaves them, so often
 * as lanes have bits it takes them apart, and both transpose a square. */
#define TRANSPOSE_BY_ROTATION(n, suffix)                                                            \
    CIRCLET_INLINE void transpose_rotate_##suffix(transpose_row_##suffix *a, int rows, int steps) { \
        transpose_row_##suffix b[n];                                                                \
        CIRCLET_UNROLL for (int step = 0; step < steps; step++) {                                   \
            CIRCLET_UNROLL for (int i = 0; i < rows / 2; i++) {                                     \
                b[2 * i] = TRANSPOSE_SHUFFLED(n, ZIP, 0, a[i], a[i + rows / 2]);                    \
                b[2 * i + 1] = TRANSPOSE_SHUFFLED(n, ZIP, 1, a[i], a[i + rows / 2]);                \
            }                                                                                       \
            CIRCLET_UNROLL for (int i = 0; i < rows; i++) a[i] = b[i];                              \
        }                                                                                           \
    }                                                                                               \
    CIRCLET_INLINE void transpose_square_##suffix(transpose_row_##suffix *a) {                      \
        transpose_rotate_##suffix(a, n, TRANSPOSE_BITS(n));                                         \
    }

/* Registers of several 16 bytes, within which shuffles are cheaper than across: squares of 4 x 4
 * elements of 4 bytes, then the places of these. */
#define TRANSPOSE_BY_FOURS(n, suffix)                                                               \
    CIRCLET_INLINE void transpose_square_##suffix(transpose_row_##suffix *a) {                      \
        transpose_row_##suffix b[n];                                                                \
        CIRCLET_UNROLL for (int i = 0; i < n; i += 2) {                                             \
            b[i] = TRANSPOSE_SHUFFLED(n, ZIP_LANES, 0, a[i], a[i + 1]);                             \
            b[i + 1] = TRANSPOSE_SHUFFLED(n, ZIP_LANES, 1, a[i], a[i + 1]);                         \
        }                                                                                           \
        CIRCLET_UNROLL for (int i = 0; i < n / 2; i++) {                                            \
            const int pair = i / 2 * 4 + i % 2, to = 2 * i;                                         \
            a[to] = TRANSPOSE_SHUFFLED(n, ZIP_PAIRS, 0, b[pair], b[pair + 2]);                      \
            a[to + 1] = TRANSPOSE_SHUFFLED(n, ZIP_PAIRS, 1, b[pair], b[pair + 2]);                  \
        }                                                                                           \
        CIRCLET_UNROLL for (int fours = 4; fours < n; fours *= 2) {                                 \
            CIRCLET_UNROLL for (int i = 0; i < n / 2; i++) {                                        \
                const int from = i / 4 * 8 + i % 4;                                                 \
                b[i] = TRANSPOSE_SHUFFLED(n, FOURS, 0, a[from], a[from + 4]);                       \
                b[i + n / 2] = TRANSPOSE_SHUFFLED(n, FOURS, 1, a[from], a[from + 4]);               \
            }                                                                                       \
            CIRCLET_UNROLL for (int i = 0; i < n; i++) a[i] = b[i];                                 \
        }                                                                                           \
    }

#define TRANSPOSE_KERNELS(type, n, suffix, way)                                                     \
    TRANSPOSE_ROWS(type, n, suffix)                                                                 \
    way(n, suffix)                                                                                  \
    CIRCLET_INLINE void transpose_block_##suffix(char *to, int64_t to_stride, const char *from,     \
                                            int64_t from_stride, int64_t loaded,                    \
                                            int64_t stored) {                                       \
        transpose_row_##suffix a[n];                                                                \
        transpose_load_##suffix(a, from, from_stride, n, loaded);                                   \
        transpose_square_##suffix(a);                                                               \
        transpose_store_##suffix(to, to_stride, a, n, stored);                                      \
    }
#define TRANSPOSE_BITS(n) ((n) == 16 ? 4 : (n) == 8 ? 3 : (n) == 4 ? 2 : 1)

/* For rows of a register of 16 bytes: n columns of few rows each to one run of bytes, and back. */
#define TRANSPOSE_FEW(n, suffix)                                                                    \
    CIRCLET_INLINE void transpose_interleave_##suffix(char *to, const char *from, int64_t stride,   \
                                            int rows) {                                             \
        transpose_row_##suffix a[n], b[n];                                                          \
        transpose_load_##suffix(a, from, stride, rows, rows);                                       \
        if (rows == 3) {                                                                            \
            TRANSPOSE_THREE(n, MIX, 0);                                                             \
            TRANSPOSE_THREE(n, MIX, 1);                                                             \
            TRANSPOSE_THREE(n, MIX, 2);                                                             \
            transpose_store_##suffix(to, 16, b, rows, rows);                                        \
        } else {                                                                                    \
            transpose_rotate_##suffix(a, rows, TRANSPOSE_BITS(rows));                               \
            transpose_store_##suffix(to, 16, a, rows, rows);                                        \
        }                                                                                           \
    }                                                                                               \
    CIRCLET_INLINE void transpose_deinterleave_##suffix(char *to, int64_t stride, const char *from, \
                                           int rows) {                                              \
        transpose_row_##suffix a[n], b[n];                                                          \
        transpose_load_##suffix(a, from, 16, rows, rows);                                           \
        if (rows == 3) {                                                                            \
            TRANSPOSE_THREE(n, PART, 0);                                                            \
            TRANSPOSE_THREE(n, PART, 1);                                                            \
            TRANSPOSE_THREE(n, PART, 2);                                                            \
            transpose_store_##suffix(to, stride, b, rows, rows);                                    \
        } else {                                                                                    \
            transpose_rotate_##suffix(a, rows, TRANSPOSE_BITS(n));                                  \
            transpose_store_##suffix(to, stride, a, rows, rows);                                    \
        }                                                                                           \
    }
#define TRANSPOSE_THREE(n, what, k)                        \
    b[k] = TRANSPOSE_SHUFFLED(n, what##_2, k, a[0], a[1]), \
    b[k] = TRANSPOSE_SHUFFLED(n, what##_3, k, b[k], a[2])

TRANSPOSE_KERNELS(int8_t, 16, 1, TRANSPOSE_BY_ROTATION)
TRANSPOSE_KERNELS(int16_t, 8, 2, TRANSPOSE_BY_ROTATION)
TRANSPOSE_KERNELS(int32_t, 4, 4, TRANSPOSE_BY_ROTATION)
TRANSPOSE_KERNELS(int64_t, 4, 8, TRANSPOSE_BY_ROTATION)
TRANSPOSE_FEW(16, 1)
TRANSPOSE_FEW(8, 2)
TRANSPOSE_FEW(4, 4)
#if CIRCLET_VBYTES > 16
TRANSPOSE_KERNELS(int32_t, 8, wide, TRANSPOSE_BY_FOURS)
#define TRANSPOSE_WIDE 8
#else
#define transpose_block_wide transpose_block_4
#define transpose_square_wide transpose_square_4
#define TRANSPOSE_WIDE 4
#endif
/* Whole cache lines of 4-byte elements, read once and written once: where rows are some multiple of
 * a page apart, a line does not stay in the cache until its other half is used. */
#if CIRCLET_VBYTES > 32
TRANSPOSE_KERNELS(int32_t, 16, whole, TRANSPOSE_BY_FOURS)
#define TRANSPOSE_WHOLE 16
#else
#define transpose_block_whole transpose_block_wide
#define transpose_square_whole transpose_square_wide
#define TRANSPOSE_WHOLE TRANSPOSE_WIDE
#endif

#define TRANSPOSE_EACH(name, size, ...)              \
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

CIRCLET_INLINE void transpose_elements(const struct transpose_plane *p, int size) {
    for (int64_t c = 0; c < p->columns; c++)
        for (int64_t i = 0; i < p->inner; i++)
            copy_element(p->to + c * p->to_stride + i * size,
                         p->from + c * size + i * p->from_stride, size);
}

/* One square block of n elements, of which `loaded` rows and `stored` columns count. */
CIRCLET_INLINE void transpose_block(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                               int64_t loaded, int64_t stored, int size, int n) {
    if (size == 8) transpose_block_8(to, to_stride, from, from_stride, loaded, stored);
    else if (size == 4 && n > 8) transpose_block_whole(to, to_stride, from, from_stride, loaded, stored);
    else if (size == 4 && n > 4) transpose_block_wide(to, to_stride, from, from_stride, loaded, stored);
    else TRANSPOSE_EACH(transpose_block, size, to, to_stride, from, from_stride, loaded, stored);
}

/* Fetch the lines that the block behind the one at (c, i) will write, to own them by then: as rows of
 * the result lie far apart, the processor does not foresee them. */
CIRCLET_INLINE void transpose_foresee(const struct transpose_plane *p, int64_t c, int64_t i,
                                      int size, int n) {
    c += n;
    if (c + n > p->columns) c = 0, i += 64 / size;
    if (i + 64 / size > p->inner) return;
    CIRCLET_UNROLL for (int k = 0; k < n; k++)
        __builtin_prefetch(p->to + (c + k) * p->to_stride + i * size, 1);
}

/* At least n elements each way. The last blocks overlap those before them; blocks that fill one
 * cache line of the result follow each other, so that it is written once. */
CIRCLET_INLINE void transpose_blocks(const struct transpose_plane *p, int size, int n) {
    int line = 64 / size;
    for (int64_t i0 = 0; i0 < p->inner; i0 += line)
        for (int64_t c0 = 0; c0 < p->columns; c0 += n) {
            transpose_foresee(p, c0, i0, size, n);
            for (int64_t i1 = i0; i1 < s_min_i64(i0 + line, p->inner); i1 += n) {
                int64_t c = s_min_i64(c0, p->columns - n), i = s_min_i64(i1, p->inner - n);
                transpose_block(p->to + c * p->to_stride + i * size, p->to_stride,
                           p->from + c * size + i * p->from_stride, p->from_stride, n, n, size, n);
            }
        }
}

/* Few rows to one run: what a block stores behind an element's few belongs to the next one. */
CIRCLET_INLINE void transpose_pack(const struct transpose_plane *p, int size, int n) {
    int64_t few = p->inner * size, c = 0;
    for (; (p->columns - c - n + 1) * few >= n * size; c += n)
        transpose_block(p->to + c * few, few, p->from + c * size, p->from_stride, p->inner, n, size, n);
    transpose_elements(&(struct transpose_plane){p->to + c * few, p->from + c * size, few, p->from_stride,
                                       p->columns - c, p->inner}, size);
}

/* One run to few rows: what a block loads behind an element's few is not stored. */
CIRCLET_INLINE void transpose_unpack(const struct transpose_plane *p, int size, int n) {
    int64_t few = p->columns * size, i = 0;
    for (; (p->inner - i - n + 1) * few >= n * size; i += n)
        transpose_block(p->to + i * size, p->to_stride, p->from + i * few, few, n, p->columns, size, n);
    transpose_elements(&(struct transpose_plane){p->to + i * size, p->from + i * few, p->to_stride, few,
                                       p->columns, p->inner - i}, size);
}

/* Two to four rows and one run, either way; the last step overlaps the one before it. */
CIRCLET_INLINE void transpose_few(const struct transpose_plane *p, int size, int rows) {
    int n = 16 / size, is_part = p->columns < p->inner;
    int64_t count = is_part ? p->inner : p->columns;
    for (int64_t at = 0; at < count; at += n) {
        int64_t i = s_min_i64(at, count - n);
        if (is_part)
            TRANSPOSE_EACH(transpose_deinterleave, size, p->to + i * size, p->to_stride, p->from + i * rows * size,
                      rows);
        else
            TRANSPOSE_EACH(transpose_interleave, size, p->to + i * rows * size, p->from + i * size,
                      p->from_stride, rows);
    }
}

CIRCLET_INLINE void transpose_planes(const struct transpose_plane *p, int size) {
    int n = size == 8 ? 4 : 16 / size, wide = size == 4 ? TRANSPOSE_WIDE : n, is_run;
    int64_t few = s_min_i64(p->columns, p->inner), many = s_max_i64(p->columns, p->inner);
    is_run = (p->columns < p->inner ? p->from_stride : p->to_stride) == few * size && many >= n;
    if (is_run && size < 8 && few == 2) transpose_few(p, size, 2);
    else if (is_run && size < 8 && few == 3) transpose_few(p, size, 3);
    else if (is_run && size < 8 && few == 4) transpose_few(p, size, 4);
    else if (size == 4 && (few >= 4 * TRANSPOSE_WHOLE || few % TRANSPOSE_WHOLE == 0))
        transpose_blocks(p, size, TRANSPOSE_WHOLE);
    else if (few >= wide) transpose_blocks(p, size, wide);
    else if (few >= n) transpose_blocks(p, size, n);
    else if (is_run && p->columns < p->inner) transpose_unpack(p, size, n);
    else if (is_run) transpose_pack(p, size, n);
    else transpose_elements(p, size);
}

#endif
