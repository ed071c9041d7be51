// Bilinear resizing: for each row and column two places and the weight of the second. MODE 1
// rounds to whole numbers, MODE 2 has weights in units of 1/1024.
__kernel void NAME(__global const A_T *a, __global A_T *c, __global const int *row_places,
                   __global const WEIGHT_T *row_weights, __global const int *column_places,
                   __global const WEIGHT_T *column_weights, int count, int height, int width,
                   int channels, int out_height, int out_width) {
    const int item = get_global_id(0);
    if (item >= count) return;
    const int channel = item % channels, place = item / channels;
    const int x = place % out_width, y = place / out_width % out_height;
    a += place / (out_width * out_height) * height * width * channels + channel;
    const int up = row_places[2 * y] * width, down = row_places[2 * y + 1] * width;
    const int near = column_places[2 * x], far = column_places[2 * x + 1];
    const WEIGHT_T v = row_weights[y], u = column_weights[x];
    const WEIGHT_T a0 = a[(up + near) * channels], a1 = a[(up + far) * channels];
    const WEIGHT_T b0 = a[(down + near) * channels], b1 = a[(down + far) * channels];
#if MODE == 2
    const long total = a0 * (1024 - v) * (1024 - u) + b0 * v * (1024 - u) + a1 * (1024 - v) * u
        + b1 * v * u;
    c[item] = (A_T)((total + (total > 0 ? 1l << 19 : -(1l << 19))) / (1l << 20));
#else
    const float total = a0 * (1.0f - v) * (1.0f - u) + b0 * v * (1.0f - u)
        + a1 * (1.0f - v) * u + b1 * v * u;
#if MODE == 1
    c[item] = (A_T)round(total);
#else
    c[item] = total;
#endif
#endif
}
