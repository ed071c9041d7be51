// What every program begins with: scalar functions of expressions, fixed-point arithmetic.
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#ifdef FP_FAST_FMAF
#define MAD(a, b, c) fma(a, b, c)
#else
#define MAD(a, b, c) ((a) * (b) + (c))
#endif

static inline int wrap_add(int a, int b) { return as_int(as_uint(a) + as_uint(b)); }
static inline int wrap_sub(int a, int b) { return as_int(as_uint(a) - as_uint(b)); }
static inline int wrap_mul(int a, int b) { return as_int(as_uint(a) * as_uint(b)); }

#define v_add_f32(a, b) ((a) + (b))
#define v_sub_f32(a, b) ((a) - (b))
#define v_mul_f32(a, b) ((a) * (b))
#define v_neg_f32(a) (-(a))
#define v_add_i32(a, b) wrap_add(a, b)
#define v_sub_i32(a, b) wrap_sub(a, b)
#define v_mul_i32(a, b) wrap_mul(a, b)
#define v_neg_i32(a) wrap_sub(0, a)
#define v_add_i64(a, b) as_long(as_ulong(a) + as_ulong(b))
#define v_sub_i64(a, b) as_long(as_ulong(a) - as_ulong(b))
#define v_mul_i64(a, b) as_long(as_ulong(a) * as_ulong(b))
#define v_neg_i64(a) as_long(0ul - as_ulong(a))

static inline float v_select_f32(int m, float a, float b) { return m ? a : b; }
static inline int v_select_i32(int m, int a, int b) { return m ? a : b; }
static inline long v_select_i64(int m, long a, long b) { return m ? a : b; }
// NaN stays NaN in extremes, as in numpy.
static inline float v_min_f32(float a, float b) { return (a != a || a < b) ? a : b; }
static inline float v_max_f32(float a, float b) { return (a != a || a > b) ? a : b; }
static inline int v_min_i32(int a, int b) { return min(a, b); }
static inline int v_max_i32(int a, int b) { return max(a, b); }
static inline long v_min_i64(long a, long b) { return min(a, b); }
static inline long v_max_i64(long a, long b) { return max(a, b); }
static inline float v_abs_f32(float a) { return fabs(a); }
static inline int v_abs_i32(int a) { return a < 0 ? wrap_sub(0, a) : a; }
static inline long v_abs_i64(long a) { return a < 0 ? v_neg_i64(a) : a; }

static inline float v_exp(float x) { return exp(x); }
static inline float v_expm1(float x) { return expm1(x); }
static inline float v_log(float x) { return log(x); }
// Drivers may be units off the 1 that these have reached far out, which factors make visible.
static inline float v_tanh(float x) { return fabs(x) > 9.02f ? copysign(1.0f, x) : tanh(x); }
static inline float v_erf(float x) { return fabs(x) > 4.0f ? copysign(1.0f, x) : erf(x); }
static inline float v_sqrt(float x) { return sqrt(x); }
static inline float v_rsqrt(float x) { return 1.0f / sqrt(x); }
static inline float v_divided(float x, float inverse, float by) { return x / by; }
static inline float v_floor(float x) { return floor(x); }
static inline float v_ceil(float x) { return ceil(x); }
static inline float v_round_even(float x) { return rint(x); }
static inline float v_round_half_away(float x) { return round(x); }
static inline float v_sin(float x) { return sin(x); }
static inline float v_cos(float x) { return cos(x); }
static inline float v_atan2(float y, float x) { return atan2(y, x); }
static inline float v_pow_f32(float a, float b) { return pow(a, b); }
static inline float v_logistic(float x) {
    float e = exp(-fabs(x));
    return x >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

static inline int v_div_trunc_i32(int a, int b) {
    if (b == 0) return 0;
    return b == -1 ? wrap_sub(0, a) : a / b;
}
static inline int v_floor_div_i32(int a, int b) {
    int q = v_div_trunc_i32(a, b);
    return b != 0 && wrap_mul(q, b) != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}
static inline int v_floor_mod_i32(int a, int b) {
    if (b == 0 || b == -1) return 0;
    int r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
static inline float v_floor_mod_f32(float a, float b) {
    float r = fmod(a, b);
    return r != 0.0f && (signbit(r) != signbit(b)) ? r + b : r;
}
static inline int v_pow_i32(int a, int b) {
    if (b < 0) return 0;
    uint result = 1, base = as_uint(a);
    for (uint e = (uint)b; e; e >>= 1) {
        if (e & 1) result *= base;
        base *= base;
    }
    return as_int(result);
}

static inline int v_to_i32_f32(float x) { return convert_int_sat_rtz(x); }
static inline int v_to_i32_i32(int x) { return x; }
static inline int v_to_i32_i64(long x) { return (int)x; }
static inline int v_low_i32(long x) { return (int)x; }
static inline long v_to_i64_f32(float x) { return x != x ? 0 : convert_long_sat_rtz(x); }
static inline long v_to_i64_i32(int x) { return x; }
static inline long v_to_i64_i64(long x) { return x; }
static inline int v_nearest_ratio(float x, float scale, float low, float high) {
    float whole = round(x / scale);
    if (whole != whole) whole = 0.0f;
    return (int)fmin(fmax(whole, low), high);
}
static inline int v_shl_i32(int a, int b) { return as_int(as_uint(a) << (uint)b); }
static inline int v_shr_i32(int a, int b) { return a >> b; }
static inline long v_shl_i64(long a, long b) { return as_long(as_ulong(a) << (ulong)b); }
static inline long v_shr_i64(long a, long b) { return a >> b; }

// The high 32 bits of 2ab, rounded to nearest, halves up.
static inline int v_srdhm(int a, int b) {
    long high = ((long)a * (long)b + (1l << 30)) >> 31;
    return (int)min(high, 2147483647l);
}
// a / 2^b, rounded to nearest, halves away from zero.
static inline int v_rdbpot(int a, int b) {
    int mask = (int)((1l << b) - 1);
    int threshold = (mask >> 1) + (a < 0 ? 1 : 0);
    return (a >> min(b, 31)) + ((a & mask) > threshold ? 1 : 0);
}

// Accumulators to output steps, by the operator's policy.
static inline int requantized_double(int total, int2 factor) {
    int shifted = v_shl_i32(total, max(factor.y, 0));
    return v_rdbpot(v_srdhm(shifted, factor.x), max(-factor.y, 0));
}
static inline int requantized_single(int total, int2 factor) {
    int right = 31 - factor.y;
    return (int)(((long)total * (long)factor.x + (1l << (right - 1))) >> right);
}
static inline int requantized_even(int total, float factor) {
    float scaled = (float)total * factor;
    return convert_int_sat(rint(scaled));
}
#ifdef cl_khr_fp64
static inline float v_floor_div_f32(float a, float b) { return (float)floor((double)a / (double)b); }
static inline int requantized_float(int total, double factor) {
    double scaled = fmin(fmax((double)total * factor, -2147483648.0), 2147483647.0);
    return convert_int_sat(trunc(scaled + copysign(0.5, scaled)));
}
#endif

static inline int in_bounds(long value, int low, int high) {
    return (int)min(max(value, (long)low), (long)high);
}
static inline float4 in_range4(float4 x, float low, float high) {
    x = x < (float4)(low) ? (float4)(low) : x;
    return x > (float4)(high) ? (float4)(high) : x;
}
static inline float in_range(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}
