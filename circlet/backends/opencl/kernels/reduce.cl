// Reduces three axes of [outer, middle, inner, ...]: MODE 0 mean, 1 sum, 2 largest, 3 least,
// 4 product, 5 first place of the largest, 6 first place of the least. An output is one item's,
// or with GROUPED that of a group of ITEMS.
#if MODE == 0 || MODE == 1
#define JOIN(x, y) ((x) + (y))
#elif MODE == 2
#define JOIN(x, y) MAXIMUM(x, y)
#elif MODE == 3
#define JOIN(x, y) MINIMUM(x, y)
#else
#define JOIN(x, y) ((x) * (y))
#endif
__kernel void NAME(
    __global const A_T *a, __global C_T *c,
#if REQUANTIZES
    int centre, int mantissa, int shift, int zero, int low, int high,
#endif
    int count, int reduced, int kept0, int kept1, int kept2, int kept_step0, int kept_step1,
    int kept_step2, int size0, int size1, int size2, int step0, int step1, int step2) {
    const int item = GROUPED ? get_group_id(0) : get_global_id(0);
    if (item >= count) return;
    const int from = item / (kept1 * kept2) * kept_step0 + item / kept2 % kept1 * kept_step1
        + item % kept2 * kept_step2;
#if MODE >= 5
    ACC best = a[from];
    int place = 0;
    for (int i = 1; i < reduced; i++) {
        const ACC value = a[from + i * step2];
        const bool better = MODE == 5 ? value > best : value < best;
        if (best == best && (better || value != value)) { best = value; place = i; }
    }
    c[item] = (C_T)place;
#else
    ACC total = (ACC)(START);
    for (int i = GROUPED ? get_local_id(0) : 0; i < reduced; i += GROUPED ? ITEMS : 1) {
        const int at = i / (size1 * size2) * step0 + i / size2 % size1 * step1 + i % size2 * step2;
        total = JOIN((ACC)a[from + at], total);
    }
#if GROUPED
    __local ACC parts[ITEMS];
    parts[get_local_id(0)] = total;
    for (int half_size = ITEMS / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (get_local_id(0) < half_size)
            parts[get_local_id(0)] =
                JOIN(parts[get_local_id(0)], parts[get_local_id(0) + half_size]);
    }
    if (get_local_id(0)) return;
    total = parts[0];
#endif
#if REQUANTIZES
    const int sum = (int)(total - (long)centre);
    const long steps = requantized_double(sum, (int2)(mantissa, shift));
    c[item] = (C_T)in_bounds(steps + zero, low, high);
#elif MODE == 0
    c[item] = (C_T)(total / (ACC)reduced);
#else
    c[item] = (C_T)total;
#endif
#endif
}
#undef JOIN
