// A depthwise convolution: an item computes LANES channels of one pixel.
__kernel void NAME(
    __global const A_T *a, __global const B_T *b, __global C_T *c, __global const ACC *bias,
#if INTEGER
    __global const FACTOR_T *factors, int a_zero, int b_zero, int c_zero, int low, int high,
#else
    float low, float high,
#endif
    int count, int height, int width, int channels, int filters, int taps_y, int taps_x,
    int stride_y, int stride_x, int dilation_y, int dilation_x, int top, int left,
    int out_height, int out_width) {
    const int item = get_global_id(0);
    if (item >= count) return;
    const int across = filters / LANES;
    const int filter = item % across * LANES, place = item / across;
    const int x0 = place % out_width * stride_x - left;
    const int y0 = place / out_width % out_height * stride_y - top;
    const int image = place / (out_width * out_height);
    const int channel = filter / (filters / channels);
    LANES_T total = (LANES_T)(0);
    for (int tap_y = 0; tap_y < taps_y; tap_y++) {
        const int y = y0 + tap_y * dilation_y;
        if (y < 0 || y >= height) continue;
        for (int tap_x = 0; tap_x < taps_x; tap_x++) {
            const int x = x0 + tap_x * dilation_x;
            if (x < 0 || x >= width) continue;
            const int from = ((image * height + y) * width + x) * channels + channel;
            const int tap = (tap_y * taps_x + tap_x) * filters + filter;
            total = MULTIPLY_ADD(LOAD_A(from) - (LANES_T)(A_ZERO),
                                 LOAD_B(tap) - (LANES_T)(B_ZERO), total);
        }
    }
    __global C_T *to = c + place * filters + filter;
#if LANES == 4
    total += vload4(0, bias + filter);
#if INTEGER
    const int sums[4] = {total.x, total.y, total.z, total.w};
    for (int j = 0; j < 4; j++) {
        const long steps = REQUANTIZED(sums[j], factors[filter + j]);
        to[j] = (C_T)in_bounds(steps + c_zero, low, high);
    }
#else
    vstore4(in_range4(total, low, high), 0, to);
#endif
#else
    total += bias[filter];
#if INTEGER
    const long steps = REQUANTIZED(total, factors[filter]);
    to[0] = (C_T)in_bounds(steps + c_zero, low, high);
#else
    to[0] = in_range(total, low, high);
#endif
#endif
}
