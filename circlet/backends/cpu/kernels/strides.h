/* Where the pixels of NHWC images are. Parameters are named after the image: in_batch, in_row. */
#ifndef CIRCLET_STRIDES_H
#define CIRCLET_STRIDES_H

#include <stdint.h>

/* Elements (where a kernel says so, bytes) between images, rows and pixels. */
struct image_strides {
    int64_t batch;
    int64_t row;
    int64_t pixel;
};

/* Where a pixel starts. */
static inline int64_t strides_at(const struct image_strides *s, int64_t batch, int64_t row,
                                 int64_t pixel) {
    return batch * s->batch + row * s->row + pixel * s->pixel;
}

#endif
