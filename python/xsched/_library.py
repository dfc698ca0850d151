# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C libraries' declarations, by ctypes. A library is found by its soname and loaded when it is first used."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Optional


class QueueInfo(ctypes.Structure):
    """The first members of XschedQueueInfo, as far as they are needed."""

    _fields_ = [
        ("size", c_uint32),
        ("device", c_char_p),
        ("device_name", c_char_p),
        ("backend", c_char_p),
        ("label", c_char_p),
        ("priority_hint", c_int32),
    ]


class Counters(ctypes.Structure):
    """XschedCounters."""

    _fields_ = [
        ("size", c_uint32),
        ("state", c_uint32),
        ("queues", c_uint64),
        ("launches", c_uint64),
        ("tracked", c_uint64),
        ("waited", c_uint64),
        ("waited_ns", c_uint64),
        ("lease_expired", c_uint64),
    ]


class Descriptor(c_int):
    """A descriptor, or a negative errno. It is closed unless somebody takes it: a signal handler may raise an exception
    between the C function's return and the caller's next step."""

    def take(self) -> int:
        fd, self.value = self.value, -1
        return fd

    def __del__(self) -> None:
        if self.value >= 0:
            os.close(self.take())


_NATIVE = {
    "xsched_queue_new": (c_int, POINTER(QueueInfo), POINTER(c_void_p)),
    "xsched_queue_ref": (c_void_p, c_void_p),
    "xsched_queue_unref": (c_void_p, c_void_p),
    "xsched_queue_begin": (c_int, c_void_p),
    "xsched_queue_complete": (None, c_void_p, c_uint32, c_uint64),
    "xsched_queue_hint": (c_int, c_void_p, c_char_p, c_int64),
    "xsched_get_counters": (c_int, POINTER(Counters)),
    "xsched_hint": (c_int, c_char_p, c_int64),
    "xsched_hold_priority": (Descriptor, c_char_p, c_char_p, c_uint64),
}

_COMPAT = {
    "OclQueueCreate": (c_int, POINTER(c_uint64), c_void_p),
    "CudaQueueCreate": (c_int, POINTER(c_uint64), c_void_p),
    "HipQueueCreate": (c_int, POINTER(c_uint64), c_void_p),
    "HwQueueDestroy": (c_int, c_uint64),
    "XQueueCreate": (c_int, POINTER(c_uint64), c_uint64, c_int64, c_int64),
    "XQueueDestroy": (c_int, c_uint64),
    "XQueueGet": (c_int, POINTER(c_uint64), c_uint64),
    "XQueueSetLaunchConfig": (c_int, c_uint64, c_int64, c_int64),
    "XQueueWaitAll": (c_int, c_uint64),
    "XQueueQuery": (c_int, c_uint64, POINTER(c_int)),
    "XQueueSuspend": (c_int, c_uint64, c_int64),
    "XQueueResume": (c_int, c_uint64, c_int64),
    "XQueueProfileHwCommandCount": (c_int, c_uint64, POINTER(c_int64)),
    "XHintSetScheduler": (c_int, c_int, c_int),
    "XHintPriority": (c_int, c_uint64, c_int32),
    "XHintUtilization": (c_int, c_uint64, c_int32),
    "XHintTimeslice": (c_int, c_int64),
    "XHintLaxity": (c_int, c_uint64, c_int64, c_int32, c_int32),
    "XHintDeadline": (c_int, c_uint64, c_int64),
    "XHintKDeadline": (c_int, c_size_t),
}

_lock = threading.RLock()  # recursive, because a signal handler may run while it is held
_loaded: dict[str, ctypes.CDLL] = {}


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _load(soname: str, functions: dict) -> ctypes.CDLL:
    with _lock:
        library = _loaded.get(soname)
        if library is None:
            library = ctypes.CDLL(soname)
            for name, (result, *arguments) in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
            _loaded[soname] = library
        return library


def native() -> ctypes.CDLL:
    return _load("libxsched.so.0", _NATIVE)


def compat() -> ctypes.CDLL:
    return _load("libxsched-compat.so.0", _COMPAT)


def check(r: int, what: Optional[str] = None) -> int:
    """A negative errno becomes an OSError."""
    if r < 0:
        raise OSError(-r, os.strerror(-r), what)
    return r
