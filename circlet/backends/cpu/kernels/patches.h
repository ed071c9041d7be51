/* Images cut into patches of 4 x 4 pixels, for Winograd's F(4 x 4, 3 x 3). */
#ifndef CIRCLET_PATCHES_H
#define CIRCLET_PATCHES_H

#include "simd.h"

#define PATCH_PLANES 36

/* The last patch of a row or column of patches overlaps the one before. */
struct patch_place {
    int64_t image, row, column;
    int64_t skip_rows, skip_columns; /* that the patch before has, too */
};

/* Images are at least 4 x 4 pixels. */
CIRCLET_INLINE struct patch_place patch_at(int64_t patch, int32_t row_patches,
                                           int32_t image_patches, int32_t height, int32_t width) {
    uint32_t inside = (uint32_t)patch % (uint32_t)image_patches;
    int64_t row = (int64_t)(inside / (uint32_t)row_patches) * 4;
    int64_t column = (int64_t)(inside % (uint32_t)row_patches) * 4;
    struct patch_place place;
    place.image = (uint32_t)patch / (uint32_t)image_patches;
    place.row = s_min_i64(row, height - 4);
    place.column = s_min_i64(column, width - 4);
    place.skip_rows = row - place.row;
    place.skip_columns = column - place.column;
    return place;
}

#endif
