// SOFTMAX of stored bytes in gemmlowp's fixed point: an item computes one row.
#ifndef Q8_FUNCTIONS
#define Q8_FUNCTIONS
static inline int q8_exp(int raw) {
    if (raw == 0) return 2147483647;
    const int inside = (raw & ((1 << 24) - 1)) - (1 << 24);
    const int x = v_shl_i32(inside, 5) + (1 << 28);
    const int x2 = v_srdhm(x, x), x3 = v_srdhm(x2, x), x4 = v_srdhm(x2, x2);
    const int sixth = v_rdbpot(
        wrap_add(v_srdhm(wrap_add(v_rdbpot(x4, 2), x3), 715827883), x2), 1);
    const long near = 1895147668l + v_srdhm(1895147668, wrap_add(x, sixth));
    int result = (int)min(max(near, -2147483648l), 2147483647l);
    const int rest = inside - raw;
    const int steps[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    for (int i = 0; i < 7; i++)
        if (rest >> (24 + i) & 1) result = v_srdhm(result, steps[i]);
    return result;
}

static inline int q8_shifted(int raw, int bits) {
    return (int)min(max((long)raw << bits, -2147483648l), 2147483647l);
}

static inline int q8_reciprocal(int fraction) {
    const long sum = (long)fraction + 2147483647l;
    const int denominator = (int)(sum < 0 ? -((1 - sum) / 2) : (sum + 1) / 2);
    int x = wrap_add(1515870810, v_srdhm(denominator, -1010580540));
    for (int i = 0; i < 3; i++) {
        const int error = wrap_sub(1 << 29, v_srdhm(denominator, x));
        x = wrap_add(x, q8_shifted(v_srdhm(x, error), 2));
    }
    return q8_shifted(x, 1);
}
#endif

__kernel void NAME(__global const A_T *a, __global C_T *c, int count, int depth, int mantissa,
                   int shift, int smallest, int low, int high) {
    const int row = get_global_id(0);
    if (row >= count) return;
    a += row * depth;
    c += row * depth;
    int most = a[0];
    for (int i = 1; i < depth; i++) most = max(most, (int)a[i]);
    int total = 0;
    for (int i = 0; i < depth; i++) {
        const int diff = a[i] - most;
        if (diff >= smallest)
            total = wrap_add(total, v_rdbpot(q8_exp(v_srdhm(v_shl_i32(diff, shift), mantissa)), 12));
    }
    const int headroom = (int)clz(total);
    const int over = 12 - headroom;
    const int inverse = q8_reciprocal(as_int((as_uint(total) << headroom) - (1u << 31)));
    for (int i = 0; i < depth; i++) {
        const int diff = a[i] - most;
        int value = low;
        if (diff >= smallest) {
            const int power = q8_exp(v_srdhm(v_shl_i32(diff, shift), mantissa));
            value = v_rdbpot(v_srdhm(inverse, power), over + 31 - OUT_BITS) + low;
        }
        c[i] = (C_T)min(max(value, low), high);
    }
}
