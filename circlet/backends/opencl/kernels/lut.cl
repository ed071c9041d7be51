// Bytes through a table of 256.
__kernel void NAME(__global const uchar *a, __global const uchar *table, __global uchar *c,
                   int count) {
    const int item = get_global_id(0);
    if (item < count) c[item] = table[a[item]];
}
