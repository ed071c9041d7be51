"""The OpenCL backend: partitions as kernels for GPUs and other devices, through pyopencl."""
