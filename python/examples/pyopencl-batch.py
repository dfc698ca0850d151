#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Batch work that gives way to others, with pyopencl: python3 pyopencl-batch.py

Run it with the layer: OPENCL_LAYERS=/usr/lib/.../xsched/libxsched-opencl.so, or by xschedctl run.
"""

import numpy
import pyopencl

import xsched

N, ROUNDS = 1024, 20
SOURCE = "__kernel void next(__global int *a, int k) { size_t i = get_global_id(0); a[i] = a[i] * 3 + k; }"


@xsched.priority(-10)
def work(queue: pyopencl.CommandQueue, kernel: pyopencl.Kernel, buffer: pyopencl.Buffer) -> None:
    """While this function runs, and nothing else of the process is more urgent, all of the process's work has a lower
    priority than other programs'."""
    for k in range(ROUNDS):
        kernel(queue, (N,), None, buffer, numpy.int32(k))
    queue.finish()


def main() -> None:
    device = pyopencl.get_platforms()[0].get_devices()[0]
    context = pyopencl.Context([device])
    kernel = pyopencl.Kernel(pyopencl.Program(context, SOURCE).build(), "next")
    queue = pyopencl.CommandQueue(context)
    values = numpy.zeros(N, numpy.int32)
    flags = pyopencl.mem_flags
    buffer = pyopencl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=values)

    # A queue with its own hints; the program can suspend it, too.
    with xsched.XQueue.opencl(queue, threshold=4, batch_size=2) as xqueue:
        xqueue.hint(priority=-20)
        work(queue, kernel, buffer)
        print("launches seen:", xqueue.launches)

    pyopencl.enqueue_copy(queue, values, buffer)
    expected = 0
    for k in range(ROUNDS):
        expected = (expected * 3 + k + 2**31) % 2**32 - 2**31
    print("right" if (values == expected).all() else "wrong")


if __name__ == "__main__":
    main()
