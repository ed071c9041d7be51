// A transposed convolution by its outputs: an item adds the taps that reach four channels of a
// pixel. Weights are [taps, channels, packed], filters padded to `packed`.
__kernel void NAME(
    __global const A_T *a, __global const B_T *b, __global C_T *c, __global const ACC *bias,
#if INTEGER
    __global const FACTOR_T *factors, int a_zero, int b_zero, int c_zero, int low, int high,
#else
    float low, float high,
#endif
    int count, int height, int width, int channels, int filters, int packed, int taps_y,
    int taps_x, int stride_y, int stride_x, int top, int left, int out_height, int out_width) {
    const int item = get_global_id(0);
    if (item >= count) return;
    const int filter = item % (packed / 4) * 4, place = item / (packed / 4);
    const int column = place % out_width + left, row = place / out_width % out_height + top;
    const int image = place / (out_width * out_height);
    ACC4 total = (ACC4)(0);
    for (int tap_y = 0; tap_y < taps_y; tap_y++) {
        const int y = (row - tap_y) / stride_y;
        if (row < tap_y || y * stride_y != row - tap_y || y >= height) continue;
        for (int tap_x = 0; tap_x < taps_x; tap_x++) {
            const int x = (column - tap_x) / stride_x;
            if (column < tap_x || x * stride_x != column - tap_x || x >= width) continue;
            const int from = ((image * height + y) * width + x) * channels;
            const int tap = (tap_y * taps_x + tap_x) * channels;
            for (int channel = 0; channel < channels; channel++)
                total = MULTIPLY_ADD((ACC4)((ACC)a[from + channel] - (ACC)(A_ZERO)),
                    LOAD_B4((tap + channel) * packed + filter) - (ACC4)(B_ZERO),
                    total);
        }
    }
    total += vload4(0, bias + filter);
    const ACC values[4] = {total.x, total.y, total.z, total.w};
    for (int j = 0; j < min(4, filters - filter); j++) {
#if INTEGER
        const long steps = REQUANTIZED(values[j], factors[filter + j]);
        c[place * filters + filter + j] = (C_T)in_bounds(steps + c_zero, low, high);
#else
        c[place * filters + filter + j] = in_range(values[j], low, high);
#endif
    }
}
