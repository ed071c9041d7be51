// One output of a few rows times a matrix: a group adds up the products of one row of weights.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void NAME(
    __global const A_T *a, __global const B_T *b, __global C_T *c, __global const ACC *bias,
#if INTEGER
    __global const FACTOR_T *factors, int a_zero, int b_zero, int c_zero, int low, int high,
#else
    float low, float high,
#endif
    int columns, int depth) {
    __local ACC parts[ITEMS];
    const int item = get_local_id(0), column = get_group_id(0), row = get_group_id(1);
    a += row * depth;
    b += column * depth;
    ACC total = 0;
#if VECTOR
    ACC4 four = (ACC4)(0);
    for (int k = item * 4; k < depth; k += ITEMS * 4)
        four = MULTIPLY_ADD(TO_ACC4(vload4(0, a + k)) - (ACC4)(A_ZERO),
                            LOAD_B4(k) - (ACC4)(B_ZERO), four);
    total = (four.x + four.y) + (four.z + four.w);
#else
    for (int k = item; k < depth; k += ITEMS)
        total = MULTIPLY_ADD((ACC)a[k] - (ACC)(A_ZERO), LOAD_B1(k) - (ACC)(B_ZERO), total);
#endif
    parts[item] = total;
    for (int half_size = ITEMS / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_size) parts[item] += parts[item + half_size];
    }
    if (item) return;
#if INTEGER
    const long steps = REQUANTIZED(wrap_add(parts[0], bias[column]), factors[column]);
    c[row * columns + column] = (C_T)in_bounds(steps + c_zero, low, high);
#else
    c[row * columns + column] = in_range(parts[0] + bias[column], low, high);
#endif
}
