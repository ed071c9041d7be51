/* Functions of one 8-bit operand as a table of 256 results, indexed by the operand's bits. */
#ifndef CIRCLET_LUT_H
#define CIRCLET_LUT_H

#include "rows.h"
#include "simd_int.h"

struct lut_params {
    struct row_loops rows;
    int64_t source[7];     /* strides */
    int64_t result[7];     /* strides */
};

#if defined(__clang__) && defined(__AVX512VBMI__)
#define LUT_HAS_VECTORS 1
#define LUT_ROWS 4
#define LUT_AT_ONCE 1
typedef CIRCLET_VECTOR(char, 64) lut_chars;
#elif defined(__clang__) && ((CIRCLET_VBYTES == 64 && defined(__AVX512BW__)) || \
                             (CIRCLET_VBYTES == 32 && defined(__AVX2__)) ||     \
                             (CIRCLET_VBYTES == 16 && defined(__SSSE3__)))
#define LUT_HAS_VECTORS 1
#define LUT_ROWS 16
#define LUT_AT_ONCE 4
typedef CIRCLET_VECTOR(char, CIRCLET_VBYTES) lut_chars;
#elif defined(__aarch64__)
#define LUT_HAS_VECTORS 1
#define LUT_ROWS 16
#define LUT_AT_ONCE 1
#else
#define LUT_HAS_VECTORS 0
#endif

#define LUT_LEAST 12 /* fewer look-ups take no longer one by one */

#if LUT_HAS_VECTORS
/* A table as vectors read it. */
typedef struct lut_table {
    vu8 row[LUT_ROWS];
} lut_table;

#if LUT_ROWS == 4
CIRCLET_INLINE void lut_load(lut_table *t, const uint8_t *table) {
    CIRCLET_UNROLL for (int i = 0; i < LUT_ROWS; i++) t->row[i] = v_load_u8(table + 64 * i);
}

/* Two permutations over 128 entries each (vpermi2b reads two registers), joined by the top bit
 * of the index: 64 look-ups in a few instructions. */
CIRCLET_INLINE void lut_of(const lut_table *t, vu8 *x, const int registers) {
    CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
        lut_chars index = (lut_chars)x[r], a = (lut_chars)t->row[0], b = (lut_chars)t->row[1],
                  c = (lut_chars)t->row[2], d = (lut_chars)t->row[3];
        vu8 low = (vu8)__builtin_ia32_vpermi2varqi512(a, index, b);
        vu8 high = (vu8)__builtin_ia32_vpermi2varqi512(c, index, d);
        vu8 upper = (vu8)((vi8)index < 0);
        x[r] = (high & upper) | (low & ~upper);
    }
}
#elif defined(__aarch64__)
CIRCLET_INLINE void lut_load(lut_table *t, const uint8_t *table) {
    CIRCLET_UNROLL for (int i = 0; i < LUT_ROWS; i++) t->row[i] = v_load_u8(table + 16 * i);
}

#define LUT_PINNED(n) register vu8 r##n __asm__("v" #n) = t->row[n - 16]
#define LUT_FOUR(a, b, c, d) "{v" #a ".16b, v" #b ".16b, v" #c ".16b, v" #d ".16b}, %1.16b\n"
#define LUT_LESS "sub %1.16b, %1.16b, %2.16b\ntbx %0.16b, "

/* Look-ups in 64 entries at a time, of which an instruction wants the registers in a row; an index
 * that is not among them leaves what was found. */
CIRCLET_INLINE void lut_of(const lut_table *t, vu8 *x, const int registers) {
    const vu8 each = (vu8){0} + 64;
    LUT_PINNED(16); LUT_PINNED(17); LUT_PINNED(18); LUT_PINNED(19);
    LUT_PINNED(20); LUT_PINNED(21); LUT_PINNED(22); LUT_PINNED(23);
    LUT_PINNED(24); LUT_PINNED(25); LUT_PINNED(26); LUT_PINNED(27);
    LUT_PINNED(28); LUT_PINNED(29); LUT_PINNED(30); LUT_PINNED(31);
    for (int r = 0; r < registers; r++) {
        vu8 y;
        __asm__("tbl %0.16b, " LUT_FOUR(16, 17, 18, 19) LUT_LESS LUT_FOUR(20, 21, 22, 23)
                    LUT_LESS LUT_FOUR(24, 25, 26, 27) LUT_LESS LUT_FOUR(28, 29, 30, 31)
                : "=&w"(y), "+w"(x[r])
                : "w"(each), "w"(r16), "w"(r17), "w"(r18), "w"(r19), "w"(r20), "w"(r21),
                  "w"(r22), "w"(r23), "w"(r24), "w"(r25), "w"(r26), "w"(r27), "w"(r28), "w"(r29),
                  "w"(r30), "w"(r31));
        x[r] = y;
    }
}
#else
/* Sixteen bytes again and again. */
CIRCLET_INLINE vu8 lut_repeat(v16u8 x) {
#if CIRCLET_VBYTES == 16
    return x;
#else
    typedef CIRCLET_VECTOR(int32_t, 16) four;
#if CIRCLET_VBYTES == 64
    return (vu8)__builtin_shufflevector((four)x, (four)x, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1,
                                        2, 3);
#else
    return (vu8)__builtin_shufflevector((four)x, (four)x, 0, 1, 2, 3, 0, 1, 2, 3);
#endif
#endif
}

/* Shuffles look up 16 entries by the low bits of an index, and give 0 where its top bit is set.
 * Results of all rows are added by exclusive or, while 16 is taken off the index from row to row:
 * an index from 16 h on meets rows 0 to h with its top bit clear, or, from 128 on, rows h - 7 to h.
 * Rows hold what makes of such a sum the entry of row h. */
CIRCLET_INLINE void lut_load(lut_table *t, const uint8_t *table) {
    v16u8 row[LUT_ROWS], before = {0};
    CIRCLET_UNROLL for (int i = 0; i < LUT_ROWS; i++) {
        v16u8 own = v16_load(table + 16 * i);
        row[i] = own ^ before;
        if (i >= 8) row[i] ^= row[i - 8];
        before = own;
        t->row[i] = lut_repeat(row[i]);
    }
}

CIRCLET_INLINE void lut_of(const lut_table *t, vu8 *x, const int registers) {
    vu8 y[LUT_AT_ONCE];
    CIRCLET_UNROLL for (int r = 0; r < registers; r++)
        y[r] = v_shuffle_u8(t->row[0], x[r]);
    CIRCLET_UNROLL for (int i = 1; i < LUT_ROWS; i++)
        CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
            /* From the ninth row on small indices would come round to where they count again. */
            vi8 less = i > 8 ? __builtin_elementwise_sub_sat((vi8)x[r], (vi8){0} + 16)
                             : (vi8)(x[r] - 16);
            __asm__("" : "+x"(less)); /* compilers would take all of them off one `x` ahead */
            x[r] = (vu8)less;
            y[r] ^= v_shuffle_u8(t->row[i], x[r]);
        }
    CIRCLET_UNROLL for (int r = 0; r < registers; r++) x[r] = y[r];
}
#endif

/* `bytes` look-ups, fewer than fill a register. */
CIRCLET_INLINE void lut_part(uint8_t *to, const uint8_t *from, const lut_table *t, int64_t bytes) {
    union { vu8 whole; v16u8 part[CIRCLET_VBYTES / 16]; } x;
    CIRCLET_UNROLL for (int k = 0; k < CIRCLET_VBYTES / 16; k++)
        x.part[k] = v16_load_n(from + 16 * k, s_min_i64(s_max_i64(bytes - 16 * k, 0), 16));
    lut_of(t, &x.whole, 1);
    CIRCLET_UNROLL for (int k = 0; k < CIRCLET_VBYTES / 16; k++)
        v16_store_n(to + 16 * k, x.part[k], s_min_i64(s_max_i64(bytes - 16 * k, 0), 16));
}

/* All of `n` look-ups in a table that is loaded. */
CIRCLET_INLINE void lut_loaded(uint8_t *to, const uint8_t *from, const lut_table *t, int64_t n) {
    const int64_t step = LUT_AT_ONCE * CIRCLET_VBYTES;
    int64_t i = 0;
    for (; i + step <= n; i += step) {
        vu8 x[LUT_AT_ONCE];
        CIRCLET_UNROLL for (int r = 0; r < LUT_AT_ONCE; r++)
            x[r] = v_load_u8(from + i + r * CIRCLET_VBYTES);
        lut_of(t, x, LUT_AT_ONCE);
        CIRCLET_UNROLL for (int r = 0; r < LUT_AT_ONCE; r++)
            v_store_u8(to + i + r * CIRCLET_VBYTES, x[r]);
    }
    for (; i + CIRCLET_VBYTES <= n; i += CIRCLET_VBYTES) {
        vu8 x = v_load_u8(from + i);
        lut_of(t, &x, 1);
        v_store_u8(to + i, x);
    }
    if (i < n) lut_part(to + i, from + i, t, n - i);
}
#else
typedef struct lut_table {
    const uint8_t *entries;
} lut_table;

CIRCLET_INLINE void lut_load(lut_table *t, const uint8_t *table) { t->entries = table; }
#endif

/* Look-ups one by one. */
CIRCLET_INLINE void lut_few(uint8_t *to, const uint8_t *from, const uint8_t *table, int64_t n) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint8_t a = table[from[i]], b = table[from[i + 1]];
        uint8_t c = table[from[i + 2]], d = table[from[i + 3]];
        to[i] = a, to[i + 1] = b, to[i + 2] = c, to[i + 3] = d;
    }
    CIRCLET_NO_UNROLL for (; i < n; i++) to[i] = table[from[i]];
}

/* Look-ups; `to` may be `from`. `loaded` is the table as vectors read it, or null. */
CIRCLET_INLINE void lut_run(uint8_t *to, const uint8_t *from, const uint8_t *table,
                            const lut_table *loaded, int64_t n) {
#if LUT_HAS_VECTORS
    if (loaded && n >= LUT_LEAST) {
        lut_loaded(to, from, loaded, n);
        return;
    }
#endif
    (void)loaded;
    lut_few(to, from, table, n);
}

/* Operands: source, table, result. */
CIRCLET_INLINE void lut(const struct lut_params *p, void *const *x, void *scratch, int64_t begin,
                        int64_t end) {
    (void)scratch;
    const uint8_t *table = x[1];
    const int many = p->rows.inner >= LUT_LEAST;
    lut_table loaded;
    if (many) lut_load(&loaded, table);
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first, run; row < span.last; row += run) {
            run = rows_run(row, span.last, p->rows.sizes);
            const uint8_t *from =
                (const uint8_t *)x[0] + rows_offset(row, p->rows.sizes, p->source);
            uint8_t *to = (uint8_t *)x[2] + rows_offset(row, p->rows.sizes, p->result);
            for (int64_t i = 0; i < run; i++)
                lut_run(to + i * p->result[5] + span.begin, from + i * p->source[5] + span.begin,
                        table, many ? &loaded : 0, span.end - span.begin);
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
