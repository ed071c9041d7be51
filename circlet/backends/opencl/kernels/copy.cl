// Elements of one box of an array to a box of another; RANK sizes, steps of both in elements;
// with TABLE bytes go through a table of 256.
__kernel void NAME(__global const T *a, __global T *c,
#if TABLE
                   __global const T *table,
#endif
                   int count, int from, int to,
                   int size1, int size2, int size3, int size4, int size5,
                   int step0, int step1, int step2, int step3, int step4, int step5,
                   int put0, int put1, int put2, int put3, int put4, int put5) {
    int item = get_global_id(0);
    if (item >= count) return;
#define AXIS(size, step, put) \
    { const int place = item % size; item /= size; from += place * step; to += place * put; }
#if RANK > 5
    AXIS(size5, step5, put5)
#endif
#if RANK > 4
    AXIS(size4, step4, put4)
#endif
#if RANK > 3
    AXIS(size3, step3, put3)
#endif
#if RANK > 2
    AXIS(size2, step2, put2)
#endif
#if RANK > 1
    AXIS(size1, step1, put1)
#endif
#if TABLE
    c[to + item * put0] = table[a[from + item * step0]];
#else
    c[to + item * put0] = a[from + item * step0];
#endif
}
#undef AXIS
