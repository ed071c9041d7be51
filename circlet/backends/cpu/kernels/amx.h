/* Tiles: eight registers of up to 16 rows of 64 bytes, and products of two of them.
 *
 * A unit that uses them says so in its table, and the runtime library asks the system for them.
 * Each kernel call sets the shapes of the tiles and releases them at its end. Tile numbers are
 * literals. With CIRCLET_AMX_EMULATION plain C does the same, so that any machine can test the
 * loops around the instructions.
 */
#ifndef CIRCLET_AMX_H
#define CIRCLET_AMX_H

#include "simd_int.h"

#define AMX_ROWS 16
#define AMX_ROW_BYTES 64
#define AMX_TILE_BYTES (AMX_ROWS * AMX_ROW_BYTES)

/* What LDTILECFG reads: the shape of each tile. */
struct amx_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#if defined(CIRCLET_AMX_EMULATION)

struct amx {
    struct amx_shapes shapes;
    uint8_t bytes[8][AMX_ROWS][AMX_ROW_BYTES];
};

static void amx_zero(struct amx *amx, int tile) {
    __builtin_memset(amx->bytes[tile], 0, AMX_TILE_BYTES);
}

static void amx_load(struct amx *amx, int tile, const uint8_t *from, int64_t pitch) {
    amx_zero(amx, tile);
    for (int y = 0; y < amx->shapes.rows[tile]; y++)
        for (int x = 0; x < amx->shapes.row_bytes[tile]; x++)
            amx->bytes[tile][y][x] = from[y * pitch + x];
}

static void amx_store(const struct amx *amx, int tile, uint8_t *to, int64_t pitch) {
    for (int y = 0; y < amx->shapes.rows[tile]; y++)
        for (int x = 0; x < amx->shapes.row_bytes[tile]; x++)
            to[y * pitch + x] = amx->bytes[tile][y][x];
}

static void amx_dot(struct amx *amx, int sums, int data, int weights, int is_signed) {
    for (int m = 0; m < amx->shapes.rows[sums]; m++)
        for (int n = 0; n < amx->shapes.row_bytes[sums] / 4; n++) {
            int32_t sum = ((int32_t *)amx->bytes[sums][m])[n];
            for (int k = 0; k < amx->shapes.row_bytes[data]; k++) {
                uint8_t byte = amx->bytes[data][m][k];
                int8_t weight = (int8_t)amx->bytes[weights][k / 4][4 * n + k % 4];
                sum += (is_signed ? (int8_t)byte : byte) * weight;
            }
            ((int32_t *)amx->bytes[sums][m])[n] = sum;
        }
}

static float amx_wide(uint16_t x) {
    union { uint32_t bits; float value; } wide = {(uint32_t)x << 16};
    return wide.value;
}

static void amx_dot_bf16(struct amx *amx, int sums, int data, int weights) {
    for (int m = 0; m < amx->shapes.rows[sums]; m++)
        for (int n = 0; n < amx->shapes.row_bytes[sums] / 4; n++) {
            float *sum = &((float *)amx->bytes[sums][m])[n];
            for (int k = 0; k < amx->shapes.row_bytes[data] / 2; k++)
                *sum += amx_wide(((uint16_t *)amx->bytes[data][m])[k]) *
                        amx_wide(((uint16_t *)amx->bytes[weights][k / 2])[2 * n + k % 2]);
        }
}

#define AMX_BEGIN(amx, wanted) ((amx)->shapes = *(wanted))
#define AMX_END() ((void)0)
#define AMX_ZERO(amx, tile) amx_zero(amx, tile)
#define AMX_LOAD(amx, tile, from, pitch) amx_load(amx, tile, (const uint8_t *)(from), pitch)
#define AMX_STORE(amx, tile, to, pitch) amx_store(amx, tile, (uint8_t *)(to), pitch)
#define AMX_DOT_I8(amx, sums, data, weights) amx_dot(amx, sums, data, weights, 1)
#define AMX_DOT_U8(amx, sums, data, weights) amx_dot(amx, sums, data, weights, 0)
#define AMX_DOT_BF16(amx, sums, data, weights) amx_dot_bf16(amx, sums, data, weights)

#elif defined(__AMX_TILE__)

struct amx {
    int in_registers;
};

#define AMX_BEGIN(amx, wanted) __asm__ volatile("ldtilecfg %0" : : "m"(*(wanted)))
#define AMX_END() __asm__ volatile("tilerelease" : :)
#define AMX_ZERO(amx, tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define AMX_LOAD(amx, tile, from, pitch)                                                          \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(pitch))      \
                     : "memory")
#define AMX_STORE(amx, tile, to, pitch)                                                           \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(pitch))    \
                     : "memory")
#define AMX_DOT_I8(amx, sums, data, weights)                                                      \
    __asm__ volatile("tdpbssd %%tmm" #weights ", %%tmm" #data ", %%tmm" #sums : :)
#define AMX_DOT_U8(amx, sums, data, weights)                                                      \
    __asm__ volatile("tdpbusd %%tmm" #weights ", %%tmm" #data ", %%tmm" #sums : :)
#define AMX_DOT_BF16(amx, sums, data, weights)                                                    \
    __asm__ volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #data ", %%tmm" #sums : :)

#else
#error "this target has no tiles"
#endif

enum amx_kind { AMX_U8, AMX_I8, AMX_BF16 };

/* sums += data * weights, over signed or unsigned bytes and signed weights, or over bfloat16. */
#define AMX_DOT(amx, sums, data, weights, kind)                                                   \
    do {                                                                                          \
        if ((kind) == AMX_BF16) AMX_DOT_BF16(amx, sums, data, weights);                           \
        else if (kind) AMX_DOT_I8(amx, sums, data, weights);                                      \
        else AMX_DOT_U8(amx, sums, data, weights);                                                \
    } while (0)

#endif
