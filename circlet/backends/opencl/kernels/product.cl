// A tile of a matrix product, or of a convolution as one: rows are pixels, the depth is taps by
// channels. NAME, A_T, B_T, C_T, ACC, ACC4, INTEGER, IMAGE, VECTOR, PACKED, BM, BN, TM are defined
// by the generator, and FACTOR_T and REQUANTIZED for integers.
//
// batches: for each product offsets of A, B, C, and of bias and factors.
__kernel __attribute__((reqd_work_group_size(BN / 4, BM / TM, 1))) void NAME(
    __global const A_T *a, __global const B_T *b, __global C_T *c, __global const ACC *bias,
#if INTEGER
    __global const FACTOR_T *factors, int a_zero, int b_zero, int c_zero, int low, int high,
#else
    float low, float high,
#endif
    __global const int *batches, int rows, int columns, int depth, int packed, int a_row, int a_step,
    int b_step, int b_column, int c_row, int height, int width, int channels, int pitch,
    int taps_x, int stride_y, int stride_x, int dilation_y, int dilation_x, int top, int left,
    int out_height, int out_width) {
    __local ACC4 a_tile[BM][4];
    __local ACC4 b_tile[16][BN / 4];
    const int lx = get_local_id(0), ly = get_local_id(1);
    const int items = (BN / 4) * (BM / TM), item = ly * (BN / 4) + lx;
    const int row0 = get_group_id(1) * BM, column0 = get_group_id(0) * BN;
    const int batch = get_group_id(2) * 4;
    a += batches[batch];
    b += batches[batch + 1];
    c += batches[batch + 2];
    const int extra = batches[batch + 3];
    ACC4 total[TM];
    for (int i = 0; i < TM; i++) total[i] = (ACC4)(0);
    const int lane = (item & 3) * 4;
// Both divide: tiles are such that every item loads as many.
#define LOADS (BM * 4 / ((BN / 4) * (BM / TM)))
#define B_LOADS (BN * 4 / ((BN / 4) * (BM / TM)))
#if IMAGE
    int base[LOADS], y0[LOADS], x0[LOADS];
    for (int i = 0; i < LOADS; i++) {
        int row = row0 + (item + i * items) / 4;
        int image = row / (out_height * out_width), pixel = row % (out_height * out_width);
        base[i] = image * height * width;
        y0[i] = row < rows ? pixel / out_width * stride_y - top : -(1 << 28);
        x0[i] = pixel % out_width * stride_x - left;
    }
    int channel = lane, tap_y = 0, tap_x = 0;
    while (channel >= channels) {
        channel -= channels;
        if (++tap_x == taps_x) { tap_x = 0; tap_y++; }
    }
#endif
    // What the next slab needs is loaded while the one before it is multiplied.
    ACC4 next_a[LOADS], next_b[B_LOADS];
    for (int k0 = 0;; k0 += 16) {
        if (k0 < depth) {
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                const int k = k0 + lane;
                ACC4 value = (ACC4)(0);
#if IMAGE && VECTOR
                const int y = y0[i] + tap_y * dilation_y, x = x0[i] + tap_x * dilation_x;
                if (k < depth && y >= 0 && y < height && x >= 0 && x < width) {
                    value = TO_ACC4(vload4(0, a + (base[i] + y * width + x) * pitch + channel));
                    value -= (ACC4)(A_ZERO);
                }
#elif IMAGE
                ACC lanes[4];
                int ch = channel, ty = tap_y, tx = tap_x;
                for (int j = 0; j < 4; j++) {
                    const int y = y0[i] + ty * dilation_y, x = x0[i] + tx * dilation_x;
                    lanes[j] = 0;
                    if (k + j < depth && y >= 0 && y < height && x >= 0 && x < width)
                        lanes[j] = (ACC)a[(base[i] + y * width + x) * pitch + ch] - (ACC)(A_ZERO);
                    if (++ch == channels) {
                        ch = 0;
                        if (++tx == taps_x) { tx = 0; ty++; }
                    }
                }
                value = (ACC4)(lanes[0], lanes[1], lanes[2], lanes[3]);
#else
                const int row = row0 + (item + i * items) / 4;
                if (row < rows) {
#if VECTOR
                    if (k < depth)
                        value = TO_ACC4(vload4(0, a + row * a_row + k)) - (ACC4)(A_ZERO);
#else
                    ACC lanes[4];
                    for (int j = 0; j < 4; j++)
                        lanes[j] = k + j < depth
                            ? (ACC)a[row * a_row + (k + j) * a_step] - (ACC)(A_ZERO) : (ACC)0;
                    value = (ACC4)(lanes[0], lanes[1], lanes[2], lanes[3]);
#endif
                }
#endif
                next_a[i] = value;
            }
#pragma unroll
            for (int i = 0; i < B_LOADS; i++) {
                const int place = item + i * items, k = k0 + place / (BN / 4);
                const int column = column0 + place % (BN / 4) * 4;
                ACC4 value = (ACC4)(0);
                if (k < depth) {
#if PACKED
                    if (column < packed) value = LOAD_B4(k * packed + column) - (ACC4)(B_ZERO);
#else
                    ACC lanes[4];
                    for (int j = 0; j < 4; j++)
                        lanes[j] = column + j < columns
                            ? (ACC)b[k * b_step + (column + j) * b_column] - (ACC)(B_ZERO) : (ACC)0;
                    value = (ACC4)(lanes[0], lanes[1], lanes[2], lanes[3]);
#endif
                }
                next_b[i] = value;
            }
#if IMAGE
            channel += 16;
            while (channel >= channels) {
                channel -= channels;
                if (++tap_x == taps_x) { tap_x = 0; tap_y++; }
            }
#endif
        }
        if (k0) {
            for (int k = 0; k < 4; k++) {
                const ACC4 b0 = b_tile[4 * k][lx], b1 = b_tile[4 * k + 1][lx];
                const ACC4 b2 = b_tile[4 * k + 2][lx], b3 = b_tile[4 * k + 3][lx];
#pragma unroll
                for (int i = 0; i < TM; i++) {
                    const ACC4 value = a_tile[ly + i * (BM / TM)][k];
                    total[i] = MULTIPLY_ADD((ACC4)(value.x), b0, total[i]);
                    total[i] = MULTIPLY_ADD((ACC4)(value.y), b1, total[i]);
                    total[i] = MULTIPLY_ADD((ACC4)(value.z), b2, total[i]);
                    total[i] = MULTIPLY_ADD((ACC4)(value.w), b3, total[i]);
                }
            }
        }
        if (k0 >= depth) break;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < LOADS; i++) a_tile[(item + i * items) / 4][item & 3] = next_a[i];
#pragma unroll
        for (int i = 0; i < B_LOADS; i++)
            b_tile[(item + i * items) / (BN / 4)][(item + i * items) % (BN / 4)] = next_b[i];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const int column = column0 + lx * 4, left_over = columns - column;
    if (left_over <= 0) return;
    const ACC4 added = vload4(0, bias + extra + column);
    for (int i = 0; i < TM; i++) {
        const int row = row0 + ly + i * (BM / TM);
        if (row >= rows) continue;
        __global C_T *to = c + row * c_row + column;
#if INTEGER
        const ACC4 sum = as_int4(as_uint4(total[i]) + as_uint4(added));
        const int sums[4] = {sum.x, sum.y, sum.z, sum.w};
        for (int j = 0; j < min(4, left_over); j++) {
            const long steps = REQUANTIZED(sums[j], factors[extra + column + j]);
            to[j] = (C_T)in_bounds(steps + c_zero, low, high);
        }
#else
        const float4 value = in_range4(total[i] + added, low, high);
        if (left_over >= 4) {
            vstore4(value, 0, to);
        } else {
            to[0] = value.x;
            if (left_over > 1) to[1] = value.y;
            if (left_over > 2) to[2] = value.z;
        }
#endif
    }
}
#undef LOADS
#undef B_LOADS
