// Every element set to one value, given by its bits.
__kernel void NAME(__global T *c, int count, VALUE_T value) {
    if (get_global_id(0) < count) c[get_global_id(0)] = (T)value;
}
