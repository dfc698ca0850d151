/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The kernels of xsched-demo-cuda, in numbers that wrap around, so that every device has the same bits
 *
 * cuda-kernels.h has them as PTX, which the driver compiles; no toolkit is needed. Made by
 *
 *     clang --target=nvptx64-nvidia-cuda -O2 -Xclang -target-cpu -Xclang sm_70 -S cuda-kernels.cl -o -
 */

static unsigned at_x(void) {
        return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

__kernel void scale(__global unsigned *x, unsigned n, unsigned a, unsigned b) {
        unsigned i = at_x();

        if (i < n)
                x[i] = a * x[i] + b;
}

/* Replaces numbers with the highest bit by 0, as a rectified layer does with negative numbers. */
__kernel void clip(__global unsigned *x, unsigned n) {
        unsigned i = at_x();

        if (i < n && x[i] >> 31)
                x[i] = 0;
}

/* Of n x n numbers. */
__kernel void matmul(__global unsigned *c, __global const unsigned *a, __global const unsigned *b, unsigned n) {
        unsigned i = at_x(), row = i / n, column = i % n, sum = 0;

        if (row >= n)
                return;
        for (unsigned k = 0; k < n; k++)
                sum += a[row * n + k] * b[k * n + column];
        c[i] = sum;
}

/* By 3 x 3 weights, with zeros around. */
__kernel void convolve(__global unsigned *out, __global const unsigned *in, __global const unsigned *w, unsigned n) {
        unsigned i = at_x(), row = i / n, column = i % n, sum = 0;

        if (row >= n)
                return;
        for (unsigned y = 0; y < 3; y++)
                for (unsigned x = 0; x < 3; x++) {
                        unsigned r = row + y - 1, c = column + x - 1;
                        if (r < n && c < n)
                                sum += in[r * n + c] * w[3 * y + x];
                }
        out[i] = sum;
}
