/* Steps of TFLite Micro's Signal library but the transforms: windows, energies and bands of them,
 * whole numbers throughout, bit for bit the records'. A task is all of a step: they are small.
 */
#ifndef CIRCLET_SIGNAL_H
#define CIRCLET_SIGNAL_H

#include "simd.h"

struct signal_params {
    int64_t count; /* elements of the result, or of a row of it */
    int64_t rows;  /* of a window; else 1 */
    int64_t bits;  /* how far is shifted: right in windows, gains and noise, left in logarithms */
    int64_t first; /* of energies, the first that is wanted */
    int64_t last;  /* and the one behind the last */
    int64_t scale; /* what logarithms are multiplied by */
    int64_t smoothing_bits;
    int64_t clamping;     /* whether the noise is never more than the signal */
    int64_t taken[2];     /* how much the noise takes of the signal, in even and odd bands */
    int64_t left[2];      /* how much stays of the noise before */
    int64_t min_remaining; /* how much of the signal stays at least */
};

enum {
    SIGNAL_WINDOW,
    SIGNAL_SCALE,
    SIGNAL_ENERGY,
    SIGNAL_BANK,
    SIGNAL_ROOT,
    SIGNAL_NOISE,
    SIGNAL_GAIN,
    SIGNAL_LOG
};

/* Operands: samples, window, result. */
CIRCLET_INLINE void signal_window(const struct signal_params *p, void *const *x) {
    const int16_t *in = x[0], *window = x[1];
    int16_t *out = x[2];
    for (int64_t row = 0; row < p->rows; row++, in += p->count, out += p->count)
        for (int64_t i = 0; i < p->count; i++) {
            int32_t product = ((int32_t)in[i] * window[i]) >> p->bits;
            out[i] = (int16_t)(product < -32768 ? -32768 : product > 32767 ? 32767 : product);
        }
}

/* Operands: samples, result, bits. The size of -32768 is no int16: the search goes on from it. */
CIRCLET_INLINE void signal_scale(const struct signal_params *p, void *const *x) {
    const int16_t *in = x[0];
    int16_t *out = x[1], most = 0;
    for (int64_t i = 0; i < p->count; i++) {
        int32_t value = in[i], size = value > most ? value : -value;
        if (size > most) most = (int16_t)size;
    }
    int32_t bits = most > 0 ? __builtin_clz((uint32_t)most) - 17 : 0;
    for (int64_t i = 0; i < p->count; i++) out[i] = (int16_t)((uint32_t)in[i] << bits);
    *(int32_t *)x[2] = bits;
}

/* Operands: spectrum, result. */
CIRCLET_INLINE void signal_energy(const struct signal_params *p, void *const *x) {
    const int16_t *in = x[0];
    uint32_t *out = x[1];
    for (int64_t i = 0; i < p->count; i++) {
        int64_t real = in[2 * i], imaginary = in[2 * i + 1];
        int is_wanted = i >= p->first && i < p->last;
        out[i] = is_wanted ? (uint32_t)(real * real + imaginary * imaginary) : 0;
    }
}

CIRCLET_INLINE uint64_t signal_dot(const int16_t *weights, const uint32_t *bins, int64_t width) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < width; i++) sum += (uint64_t)(int64_t)weights[i] * bins[i];
    return sum;
}

/* Operands: energies, weights, unweights, first bins, first weights, widths, result. */
CIRCLET_INLINE void signal_bank(const struct signal_params *p, void *const *x) {
    const uint32_t *in = x[0];
    const int16_t *weights = x[1], *unweights = x[2], *bins = x[3], *places = x[4], *widths = x[5];
    uint64_t *out = x[6], passed = 0;
    for (int64_t band = 0; band <= p->count; band++) {
        if (band > 0) out[band - 1] = passed + signal_dot(weights + places[band], in + bins[band],
                                                         widths[band]);
        passed = signal_dot(unweights + places[band], in + bins[band], widths[band]);
    }
}

CIRCLET_INLINE uint32_t signal_root_of(uint64_t value) {
    uint64_t root = 0, rest = value, most = value >> 32 ? 0xffffffffu : 0xffffu;
    for (uint64_t bit = (uint64_t)1 << 62; bit; bit >>= 2) {
        uint64_t next = root + bit;
        root >>= 1;
        if (rest >= next) rest -= next, root += bit;
    }
    return (uint32_t)(rest > root && root != most ? root + 1 : root);
}

/* Operands: bands, bits, result. */
CIRCLET_INLINE void signal_root(const struct signal_params *p, void *const *x) {
    const uint64_t *in = x[0];
    uint32_t *out = x[2], bits = *(const uint32_t *)x[1] & 31;
    for (int64_t i = 0; i < p->count; i++) out[i] = signal_root_of(in[i]) >> bits;
}

/* Operands: bands, noise as it was, result, noise as it is. */
CIRCLET_INLINE void signal_noise(const struct signal_params *p, void *const *x) {
    const uint32_t *in = x[0];
    uint32_t *noise = x[1], *out = x[2], *told = x[3];
    for (int64_t i = 0; i < p->count; i++) {
        uint32_t scaled = in[i] << p->smoothing_bits;
        uint64_t followed = (uint64_t)scaled * (uint64_t)p->taken[i & 1] +
                            (uint64_t)noise[i] * (uint64_t)p->left[i & 1];
        uint32_t next = (uint32_t)(followed >> p->bits), removed = next < scaled ? next : scaled;
        uint32_t least = (uint32_t)((uint64_t)in[i] * (uint64_t)p->min_remaining >> p->bits);
        uint32_t rest = (scaled - removed) >> p->smoothing_bits;
        out[i] = rest > least ? rest : least;
        told[i] = noise[i] = p->clamping ? removed : next;
    }
}

CIRCLET_INLINE uint32_t signal_gain_of(uint32_t noise, const int16_t *table) {
    if (noise <= 2) return (uint32_t)table[noise];
    int32_t interval = 32 - __builtin_clz(noise);
    table += 4 * interval - 6;
    uint32_t moved = interval < 11 ? noise << (11 - interval) : noise >> (interval - 11);
    int32_t place = (int32_t)(moved & 0x3ff);
    uint32_t risen = (uint32_t)((table[2] * place) >> 5) + ((uint32_t)table[1] << 5);
    int32_t rounded = (int32_t)(risen * (uint32_t)place + (1u << 14)) >> 15;
    return (uint32_t)(int16_t)(rounded + table[0]);
}

/* Operands: bands, noise, gains, result. */
CIRCLET_INLINE void signal_gain(const struct signal_params *p, void *const *x) {
    const uint32_t *in = x[0], *noise = x[1];
    uint32_t *out = x[3];
    for (int64_t i = 0; i < p->count; i++) {
        uint64_t louder = (uint64_t)in[i] * signal_gain_of(noise[i], x[2]);
        uint32_t ratio = (uint32_t)(louder >> p->bits);
        out[i] = ratio < 2u << 12 ? (ratio * ratio) >> 20 : (ratio >> 6) - 64;
    }
}

CIRCLET_INLINE uint32_t signal_log_of(uint32_t value, const int32_t *above, uint32_t scale) {
    uint32_t whole = 31 - (uint32_t)__builtin_clz(value), rest = value - (1u << whole);
    uint32_t fraction = whole < 16 ? rest << (16 - whole) : rest >> (whole - 16);
    const int32_t *at = above + (fraction >> 9);
    int32_t between = (at[1] - at[0]) * (int32_t)(fraction & 511) >> 16;
    uint32_t binary = (whole << 16) + fraction + (uint32_t)(at[0] + between);
    uint32_t natural = (uint32_t)((45426 * (uint64_t)binary + (1 << 15)) >> 16);
    return (scale * natural + (1u << 15)) >> 16;
}

/* Operands: bands, how far log2(1 + x) is above x, result. */
CIRCLET_INLINE void signal_log(const struct signal_params *p, void *const *x) {
    const uint32_t *in = x[0];
    int16_t *out = x[2];
    for (int64_t i = 0; i < p->count; i++) {
        uint32_t scaled = in[i] << p->bits;
        uint32_t log = scaled > 1 ? signal_log_of(scaled, x[1], (uint32_t)p->scale) : 0;
        out[i] = (int16_t)(log < 32767 ? log : 32767);
    }
}

CIRCLET_INLINE void signal(const struct signal_params *p, void *const *operands, void *scratch,
                           int64_t begin, int64_t end, const int step) {
    (void)scratch, (void)begin, (void)end;
    switch (step) {
        case SIGNAL_WINDOW: signal_window(p, operands); break;
        case SIGNAL_SCALE: signal_scale(p, operands); break;
        case SIGNAL_ENERGY: signal_energy(p, operands); break;
        case SIGNAL_BANK: signal_bank(p, operands); break;
        case SIGNAL_ROOT: signal_root(p, operands); break;
        case SIGNAL_NOISE: signal_noise(p, operands); break;
        case SIGNAL_GAIN: signal_gain(p, operands); break;
        default: signal_log(p, operands);
    }
}

#endif
