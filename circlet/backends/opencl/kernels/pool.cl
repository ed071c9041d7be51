// A window of pixels reduced: MODE 0 is the mean, 1 the largest, 2 the root of the mean square.
__kernel void NAME(
    __global const A_T *a, __global A_T *c, ACC low, ACC high, int count, int height, int width,
    int channels, int taps_y, int taps_x, int stride_y, int stride_x, int top, int left,
    int out_height, int out_width) {
    const int item = get_global_id(0);
    if (item >= count) return;
    const int channel = item % channels, place = item / channels;
    const int x0 = place % out_width * stride_x - left;
    const int y0 = place / out_width % out_height * stride_y - top;
    const int image = place / (out_width * out_height);
    const int y_end = min(y0 + taps_y, height), x_end = min(x0 + taps_x, width);
    ACC total = MODE == 1 ? (ACC)(LOWEST) : (ACC)0;
    int pixels = 0;
    for (int y = max(y0, 0); y < y_end; y++)
        for (int x = max(x0, 0); x < x_end; x++) {
            const ACC value = (ACC)a[((image * height + y) * width + x) * channels + channel];
#if MODE == 1
            total = MAXIMUM(value, total);
#elif MODE == 2
            total += value * value;
#else
            total += value;
#endif
            pixels++;
        }
#if MODE == 0 && INTEGER
    const int size = total < 0 ? -total : total, mean = (size + pixels / 2) / pixels;
    total = total < 0 ? -mean : mean;
#elif MODE == 0
    total /= (ACC)pixels;
#elif MODE == 2
    total = sqrt(total / (ACC)pixels);
#endif
#if INTEGER
    c[item] = (A_T)min(max(total, low), high);
#else
    c[item] = in_range(total, low, high);
#endif
}
