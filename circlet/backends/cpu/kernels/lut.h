/* Functions of one 8-bit operand as a table of 256 results, indexed by the operand's bits. */
#ifndef CIRCLET_LUT_H
#define CIRCLET_LUT_H

#include "rows.h"

struct lut_params {
    struct row_loops rows;
    int64_t source[7];     /* strides */
    int64_t result[7];     /* strides */
};

#if defined(__AVX512VBMI__) && defined(__clang__)
typedef CIRCLET_VECTOR(char, 64) lut_chars;

#define LUT_HAS_VECTORS 1

/* Two permutations over 128 entries each (vpermi2b reads two registers), joined by the top bit
 * of the index: 64 look-ups in a few instructions. */
CIRCLET_INLINE vu8 lut_of(const lut_chars *part, vu8 indices) {
    lut_chars index = (lut_chars)indices;
    vu8 low = (vu8)__builtin_ia32_vpermi2varqi512(part[0], index, part[1]);
    vu8 high = (vu8)__builtin_ia32_vpermi2varqi512(part[2], index, part[3]);
    vu8 upper = (vu8)((vi8)index < 0);
    return (high & upper) | (low & ~upper);
}

CIRCLET_INLINE void lut_load(lut_chars *part, const uint8_t *table) {
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) part[i] = (lut_chars)v_load_u8(table + 64 * i);
}

CIRCLET_INLINE int64_t lut_vectors(uint8_t *to, const uint8_t *from, const uint8_t *table,
                                   int64_t n) {
    lut_chars part[4];
    lut_load(part, table);
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) v_store_u8(to + i, lut_of(part, v_load_u8(from + i)));
    return i;
}
#else
#define LUT_HAS_VECTORS 0

CIRCLET_INLINE int64_t lut_vectors(uint8_t *to, const uint8_t *from, const uint8_t *table,
                                   int64_t n) {
    (void)to, (void)from, (void)table, (void)n;
    return 0;
}
#endif

CIRCLET_INLINE void lut_run(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n) {
    int64_t i = lut_vectors(to, from, table, n);
    for (; i + 4 <= n; i += 4) {
        uint8_t a = table[from[i]], b = table[from[i + 1]];
        uint8_t c = table[from[i + 2]], d = table[from[i + 3]];
        to[i] = a, to[i + 1] = b, to[i + 2] = c, to[i + 3] = d;
    }
    CIRCLET_NO_UNROLL for (; i < n; i++) to[i] = table[from[i]];
}

/* Operands: source, table, result. */
CIRCLET_INLINE void lut(const struct lut_params *p, void *const *x, void *scratch, int64_t begin,
                        int64_t end) {
    (void)scratch;
    const uint8_t *table = x[1];
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first, run; row < span.last; row += run) {
            run = rows_run(row, span.last, p->rows.sizes);
            const uint8_t *from =
                (const uint8_t *)x[0] + rows_offset(row, p->rows.sizes, p->source);
            uint8_t *to = (uint8_t *)x[2] + rows_offset(row, p->rows.sizes, p->result);
            for (int64_t i = 0; i < run; i++)
                lut_run(to + i * p->result[5] + span.begin, from + i * p->source[5] + span.begin,
                        table, span.end - span.begin);
        }
    }
}

struct lut_pairs_params {
    struct row_loops rows;
    int64_t first[7];      /* strides */
    int64_t second[7];     /* strides */
    int64_t result[7];     /* strides */
};

/* Operands: first, second, result, table of 256 results for each value of the first. The flags say
 * which operands have one element for the whole run. */
CIRCLET_INLINE void lut_pairs(const struct lut_pairs_params *p, void *const *x, void *scratch,
                              int64_t begin, int64_t end, int one_first, int one_second) {
    (void)scratch;
    const uint8_t *table = x[3];
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first; row < span.last; row++) {
            const uint8_t *first =
                (const uint8_t *)x[0] + rows_offset(row, p->rows.sizes, p->first);
            const uint8_t *second =
                (const uint8_t *)x[1] + rows_offset(row, p->rows.sizes, p->second);
            uint8_t *to = (uint8_t *)x[2] + rows_offset(row, p->rows.sizes, p->result);
            for (int64_t i = span.begin; i < span.end; i++)
                to[i] = table[first[one_first ? 0 : i] << 8 | second[one_second ? 0 : i]];
        }
    }
}

#endif
