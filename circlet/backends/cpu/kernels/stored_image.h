/* Stored images as the 8-bit products take them, with their zero point, which a run computes. */
#ifndef CIRCLET_STORED_IMAGE_H
#define CIRCLET_STORED_IMAGE_H

#include "hybrid_q8.h"

struct stored_image_params {
    struct hybrid_image_params image; /* of bytes */
    int64_t rows; /* of an image with its border; 1 where none is copied */
    int32_t flip; /* of zero points, where what is stored has another sign than v_dot4 takes */
};

CIRCLET_INLINE void stored_copy(uint8_t *to, const uint8_t *from, int64_t n, const int flips) {
    const uint8_t change = flips ? 0x80 : 0;
    int64_t i = 0;
    for (; i + CIRCLET_VBYTES <= n; i += CIRCLET_VBYTES)
        v_store_u8(to + i, v_load_u8(from + i) ^ change);
    CIRCLET_NO_UNROLL for (; i < n; i++) to[i] = from[i] ^ change;
}

/* Operands: stored images, their zero point or nothing, the images with their border and, with
 * `flips`, changed top bits (where such `copies` are made), a record of the zero point for each. A
 * task is a row of an image. `is_signed`: the type of the zero point. */
CIRCLET_INLINE void stored_image(const struct stored_image_params *params, void *const *x,
                                 void *scratch, int64_t begin, int64_t end, const int is_signed,
                                 const int copies, const int flips) {
    (void)scratch;
    const struct hybrid_image_params *p = &params->image;
    int32_t zero = !x[1] ? 0 : is_signed ? *(const int8_t *)x[1] : *(const uint8_t *)x[1];
    zero += params->flip;
    const int64_t left = p->left * p->depth, inner = p->width * p->depth;
    const int64_t right = p->right * p->depth;
    const int64_t parts = hybrid_together(p) ? 1 : p->width;
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / params->rows, y = task % params->rows - p->top;
        if (task % params->rows == 0)
            ((struct hybrid_scale *)x[3])[image] = (struct hybrid_scale){1.0f, zero};
        if (!copies) continue;
        uint8_t *to = (uint8_t *)x[2] + image * p->out_batch + (y + p->top) * (left + inner + right);
        if (y < 0 || y >= p->height) {
            hybrid_fill(to, left + inner + right, zero);
            continue;
        }
        const uint8_t *from = (const uint8_t *)x[0] + strides_at(&p->in, image, y, 0);
        hybrid_fill(to, left, zero);
        for (int64_t i = 0; i < parts; i++)
            stored_copy(to + left + i * (inner / parts), from + i * p->in.pixel, inner / parts,
                        flips);
        hybrid_fill(to + left + inner, right, zero);
    }
}

#endif
