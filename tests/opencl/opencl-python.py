#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pyopencl program that forks in all the ways that Python has, and prints its results.

Needs only Debian's python3-pyopencl. It writes the launches that libxsched saw, summed over all its processes, to the
file that TEST_COUNTERS names."""

import ctypes
import multiprocessing
import os
import sys

import numpy
import pyopencl

SOURCE = "__kernel void scale(__global int *a, int k) { size_t i = get_global_id(0); a[i] = a[i] * 3 + k; }"


class Counters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("state", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("queues", "launches", "tracked", "waited", "waited_ns", "lease_expired")
    ]


def write_counters():
    path = os.environ.get("TEST_COUNTERS")
    if not path:
        return
    c = Counters(size=ctypes.sizeof(Counters))
    try:
        ctypes.CDLL("libxsched.so.0", mode=os.RTLD_NOLOAD | os.RTLD_LAZY).xsched_get_counters(ctypes.byref(c))
    except OSError:
        pass
    with open(path, "a", encoding="utf-8") as f:
        f.write(f"{c.launches}\n")


class Device:
    def __init__(self):
        self.context = pyopencl.Context(pyopencl.get_platforms()[0].get_devices())
        self.queue = pyopencl.CommandQueue(self.context)
        self.program = pyopencl.Program(self.context, SOURCE).build()

    def compute(self, seed, launches=20):
        a = numpy.arange(seed, seed + 512, dtype=numpy.int32)
        buffer = pyopencl.Buffer(self.context, pyopencl.mem_flags.COPY_HOST_PTR, hostbuf=a)
        expected = a.copy()
        for k in range(launches):
            self.program.scale(self.queue, a.shape, None, buffer, numpy.int32(k))
            expected = expected * 3 + k
        out = numpy.empty_like(a)
        pyopencl.enqueue_copy(self.queue, out, buffer)
        self.queue.finish()
        assert (out == expected).all()
        return int(out.sum())


def work(seed):
    result = Device().compute(seed)
    write_counters()
    return result


def fork(function):
    """Runs function in a forked child; its exit status is the child's."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    # Children that use OpenCL are forked before this process does: runtimes do not survive a fork, natively neither.
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(work, range(4)))
            pool.close()
            pool.join()

    device = Device()
    print("parent", device.compute(7))
    print("child that does nothing", fork(lambda: 0))
    print("child that is a shell", fork(lambda: os.execv("/bin/sh", ["sh", "-c", "exit 3"])))
    print("child that is a new program", fork(lambda: os.execv(sys.executable, [sys.executable, __file__, "child"])))
    print("parent", device.compute(8))
    write_counters()


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        print("new program", work(99))
    else:
        main()
