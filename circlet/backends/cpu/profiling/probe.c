/* What one core of this machine can do at most, through the vectors that the kernels use.
 *
 * Every function repeats a block of independent operations and returns how many a block holds. A
 * product that the vectors make of several instructions has sums as an operand: what does not
 * change from block to block, compilers compute once, ahead of the loop.
 */
#include "requantize.h"

#define EXPORT __attribute__((visibility("default")))
#define CHAINS (CIRCLET_VBYTES == 64 ? 24 : 12)
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")

EXPORT uint32_t probe_fma(uint64_t blocks, float *sink) {
    vf sums[CHAINS], a = v_load(sink), b = v_load(sink + CIRCLET_LANES);
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) sums[i] = a * (float)i;
    for (uint64_t n = 0; n < blocks; n++)
        CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) sums[i] = v_fma(sums[i], a, b);
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) a += sums[i];
    v_store(sink, a);
    return CHAINS * CIRCLET_LANES * 2;
}

/* Pairs of int16 into int32. Where that takes products of int32, those are all that is counted:
 * kernels may widen an operand once for many of them. */
EXPORT uint32_t probe_madd(uint64_t blocks, int32_t *sink) {
    vi sums[CHAINS], a = v_load_i32(sink), b = v_load_i32(sink + CIRCLET_LANES);
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) sums[i] = a + i;
    for (uint64_t n = 0; n < blocks; n++)
        CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) {
#if CIRCLET_HAS_MADD
            sums[i] = v_dot2(sums[i], (vi16)(CIRCLET_HAS_DOT2 ? a : sums[i]), (vi16)b);
#else
            sums[i] *= b;
#endif
        }
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) a += sums[i];
    v_store_i32(sink, a);
    return CHAINS * CIRCLET_LANES * 2 * (CIRCLET_HAS_MADD ? 2 : 1);
}

#if CIRCLET_HAS_DOT4
EXPORT uint32_t probe_dot(uint64_t blocks, int32_t *sink) {
    vi sums[CHAINS], a = v_load_i32(sink), b = v_load_i32(sink + CIRCLET_LANES);
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) sums[i] = a * i;
    for (uint64_t n = 0; n < blocks; n++)
        CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) {
            sums[i] = v_dot4(sums[i], (vu8)a, (vi8)b);
        }
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) a += sums[i];
    v_store_i32(sink, a);
    return CHAINS * CIRCLET_VBYTES * 2;
}
#else
/* v_dot4 is two products of int16 here, of half of the bytes each. */
EXPORT uint32_t probe_dot(uint64_t blocks, int32_t *sink) { return probe_madd(blocks, sink); }
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
/* Two rows of eight bytes by two columns. */
EXPORT uint32_t probe_matrix(uint64_t blocks, int32_t *sink) {
    vi sums[CHAINS], a = v_load_i32(sink), b = v_load_i32(sink + CIRCLET_LANES);
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) sums[i] = a * i;
    for (uint64_t n = 0; n < blocks; n++)
        CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) {
            __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sums[i]) : "w"(a), "w"(b));
        }
    CIRCLET_UNROLL for (int i = 0; i < CHAINS; i++) a += sums[i];
    v_store_i32(sink, a);
    return CHAINS * 2 * 2 * 8 * 2;
}
#endif

#if defined(__AMX_INT8__)
#include "amx.h"

/* The process must have asked the system for tiles. */
EXPORT uint32_t probe_tiles(uint64_t blocks, const int32_t *tile) {
    struct amx amx;
    struct amx_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) shapes.rows[i] = AMX_ROWS, shapes.row_bytes[i] = AMX_ROW_BYTES;
    AMX_BEGIN(&amx, &shapes);
    AMX_LOAD(&amx, 0, tile, AMX_ROW_BYTES);
    AMX_LOAD(&amx, 1, tile, AMX_ROW_BYTES);
    AMX_LOAD(&amx, 2, tile, AMX_ROW_BYTES);
    AMX_LOAD(&amx, 3, tile, AMX_ROW_BYTES);
    AMX_ZERO(&amx, 4);
    AMX_ZERO(&amx, 5);
    AMX_ZERO(&amx, 6);
    AMX_ZERO(&amx, 7);
    for (uint64_t n = 0; n < blocks; n++) {
        AMX_DOT_U8(&amx, 4, 0, 2);
        AMX_DOT_U8(&amx, 5, 0, 3);
        AMX_DOT_U8(&amx, 6, 1, 2);
        AMX_DOT_U8(&amx, 7, 1, 3);
    }
    AMX_END();
    return 4 * AMX_ROWS * (AMX_ROW_BYTES / 4) * AMX_ROW_BYTES * 2;
}
#endif

/* Makes int8 outputs of accumulators, with the requantisation that most layers use. */
EXPORT uint32_t probe_requantize(uint64_t blocks, int32_t *sink) {
    int32_t qparam[Q8_QPARAM], sums[4 * CIRCLET_LANES];
    for (int i = 0; i < Q8_QPARAM; i++) qparam[i] = 1;
    for (int i = 0; i < 4 * CIRCLET_LANES; i++) sums[i] = sink[i % CIRCLET_LANES];
    vqi8 *bytes = (vqi8 *)sink;
    for (uint64_t n = 0; n < blocks; n++) {
        KEEP(sums);
        CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
            vi x = v_load_i32(sums + i * CIRCLET_LANES) + v_load_i32(qparam);
            bytes[i] = v_saturate_i8(q8_scale_fixed(x, qparam));
        }
        KEEP(bytes);
    }
    return 4 * CIRCLET_LANES;
}

/* Reads a block of bytes, a multiple of eight registers. */
EXPORT uint32_t probe_read(uint64_t blocks, const int32_t *data, uint64_t bytes, int32_t *sink) {
    vi sums[8] = {0};
    for (uint64_t n = 0; n < blocks; n++) {
        KEEP(data);
        for (uint64_t at = 0; at < bytes / 4; at += 8 * CIRCLET_LANES)
            CIRCLET_UNROLL for (int i = 0; i < 8; i++)
                sums[i] ^= v_load_i32(data + at + i * CIRCLET_LANES);
    }
    CIRCLET_UNROLL for (int i = 1; i < 8; i++) sums[0] ^= sums[i];
    v_store_i32(sink, sums[0]);
    return (uint32_t)bytes;
}

/* Copies half of a block of bytes to its other half. */
EXPORT uint32_t probe_copy(uint64_t blocks, int32_t *data, uint64_t bytes, int32_t *sink) {
    uint64_t half = bytes / 8;
    for (uint64_t n = 0; n < blocks; n++) {
        KEEP(data);
        for (uint64_t at = 0; at < half; at += 4 * CIRCLET_LANES)
            CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
                const int32_t *from = data + at + i * CIRCLET_LANES;
                v_store_i32(data + half + at + i * CIRCLET_LANES, v_load_i32(from));
            }
    }
    v_store_i32(sink, v_load_i32(data + half));
    return (uint32_t)bytes;
}
