/* Elements of any type to and from float and int32 lanes. Kernels are written once over lanes,
 * and the type is a constant of each instance: what it does not need is not compiled. */
#ifndef CIRCLET_ELEMENT_H
#define CIRCLET_ELEMENT_H

#include "simd.h"

enum {
    ELEMENT_F32, ELEMENT_I8, ELEMENT_U8, ELEMENT_I16, ELEMENT_I32, ELEMENT_I64, ELEMENT_U16,
    ELEMENT_F64
};

CIRCLET_INLINE int64_t element_size(int type) {
    if (type == ELEMENT_I64 || type == ELEMENT_F64) return 8;
    if (type == ELEMENT_F32 || type == ELEMENT_I32) return 4;
    return type == ELEMENT_I16 || type == ELEMENT_U16 ? 2 : 1;
}

/* The first n <= CIRCLET_LANES elements, lanes behind them zero. */
CIRCLET_INLINE vi element_load_i32(const void *p, int64_t n, int type) {
    if (type == ELEMENT_U8)
        return n < CIRCLET_LANES ? v_widen_n_u8((const uint8_t *)p, n)
                                 : v_widen_u8((const uint8_t *)p);
    if (type == ELEMENT_I8)
        return n < CIRCLET_LANES ? v_widen_n_i8((const int8_t *)p, n)
                                 : v_widen_i8((const int8_t *)p);
    if (type == ELEMENT_I16 && n == CIRCLET_LANES) return v_widen_i16((const int16_t *)p);
    if (type == ELEMENT_U16 && n == CIRCLET_LANES) return v_widen_u16((const uint16_t *)p);
    if (type == ELEMENT_I16 || type == ELEMENT_U16) {
        union { vi v; int32_t e[CIRCLET_LANES]; } u = {v_zero_i32()};
        const int32_t kept = type == ELEMENT_U16 ? 0xffff : -1; /* of what a sign would fill */
        CIRCLET_NO_UNROLL for (int64_t i = 0; i < n; i++) u.e[i] = ((const int16_t *)p)[i] & kept;
        return u.v;
    }
    return n < CIRCLET_LANES ? v_load_n_i32((const int32_t *)p, n)
                             : v_load_i32((const int32_t *)p);
}

CIRCLET_INLINE void element_store_i32(void *p, vi x, int64_t n, int type) {
    if (type == ELEMENT_U8 || type == ELEMENT_I8) {
        if (n < CIRCLET_LANES) v_narrow_n_8(p, x, n);
        else v_narrow_i8((int8_t *)p, x);
    } else if ((type == ELEMENT_I16 || type == ELEMENT_U16) && n == CIRCLET_LANES) {
        v_narrow_i16((int16_t *)p, x);
    } else if (type == ELEMENT_I16 || type == ELEMENT_U16) {
        union { vi v; int32_t e[CIRCLET_LANES]; } u = {x};
        CIRCLET_NO_UNROLL for (int64_t i = 0; i < n; i++) ((int16_t *)p)[i] = (int16_t)u.e[i];
    } else if (n < CIRCLET_LANES) {
        v_store_n_i32((int32_t *)p, x, n);
    } else {
        v_store_i32((int32_t *)p, x);
    }
}

CIRCLET_INLINE vf element_load_f32(const void *p, int64_t n, int type) {
    if (type != ELEMENT_F32) return v_to_f32(element_load_i32(p, n, type));
    return n < CIRCLET_LANES ? v_load_n((const float *)p, n) : v_load((const float *)p);
}

CIRCLET_INLINE void element_store_f32(void *p, vf x, int64_t n) {
    if (n < CIRCLET_LANES) v_store_n((float *)p, x, n);
    else v_store((float *)p, x);
}

/* One element in all lanes. */
CIRCLET_INLINE vi element_splat_i32(const void *p, int type) {
    if (type == ELEMENT_U8) return v_splat_i32(*(const uint8_t *)p);
    if (type == ELEMENT_I8) return v_splat_i32(*(const int8_t *)p);
    if (type == ELEMENT_I16) return v_splat_i32(*(const int16_t *)p);
    if (type == ELEMENT_U16) return v_splat_i32(*(const uint16_t *)p);
    return v_splat_i32(*(const int32_t *)p);
}

CIRCLET_INLINE vf element_splat_f32(const void *p, int type) {
    if (type != ELEMENT_F32) return v_to_f32(element_splat_i32(p, type));
    return v_splat(*(const float *)p);
}

#endif
