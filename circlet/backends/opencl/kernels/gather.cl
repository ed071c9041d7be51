// Elements by a table of places; a place below 0 leaves what is there.
__kernel void NAME(__global const T *a, __global T *c, __global const int *places, int count) {
    const int item = get_global_id(0);
    if (item < count && places[item] >= 0) c[item] = a[places[item]];
}
