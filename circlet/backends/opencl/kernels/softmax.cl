// Shares along rows: a group computes one row. LOGARITHM gives their logarithms.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void NAME(
    __global const float *a, __global float *c, int depth, float beta) {
    __local float parts[ITEMS];
    const int item = get_local_id(0);
    a += get_group_id(0) * depth;
    c += get_group_id(0) * depth;
    float most = -INFINITY;
    for (int i = item; i < depth; i += ITEMS) most = v_max_f32(a[i], most);
    parts[item] = most;
    for (int half_size = ITEMS / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_size) parts[item] = v_max_f32(parts[item], parts[item + half_size]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    most = parts[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float total = 0.0f;
    for (int i = item; i < depth; i += ITEMS) total += exp((a[i] - most) * beta);
    parts[item] = total;
    for (int half_size = ITEMS / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_size) parts[item] += parts[item + half_size];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    total = parts[0];
    for (int i = item; i < depth; i += ITEMS) {
#if LOGARITHM
        c[i] = (a[i] - most) - log(total);
#else
        c[i] = exp((a[i] - most) * beta) / total;
#endif
    }
}
