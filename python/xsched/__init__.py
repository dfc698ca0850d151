# SPDX-License-Identifier: LGPL-2.1-or-later
"""GPU scheduling from within a program: hints, claims and queues, over the C libraries of xsched

A program behaves the same with and without a service: hints are wishes, and are sent in the background.

A hint is the *process's*: a GPU context, its queues and the service's verdicts are. So the priorities of threads and
asyncio tasks are combined: of all flows that are inside a ``priority()``, each by its innermost one, the highest
counts. Flows outside of all do not count. When no flow is inside, the last ``hint()`` counts. ``Queue`` and ``XQueue``
have hints of their own.

After a fork, as by multiprocessing, the child is a process of its own: it is inside no ``priority()``, holds no claims,
and cannot use its parent's queues.

See python3-xsched(3).
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import threading
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from . import _library
from ._arguments import int32, integer, text
from ._claims import hold
from ._flows import checked_priority, current_priority, priority, set_base

__all__ = [
    "Counters",
    "Queue",
    "State",
    "XQueue",
    "XSchedError",
    "counters",
    "current_priority",
    "hint",
    "hold",
    "priority",
    "set_scheduler",
]


class State(enum.IntEnum):
    """The state of this process's registration at the service."""

    OFF = 0
    CONNECTING = 1
    ATTACHED = 2
    DETACHED = 3


@dataclass(frozen=True)
class Counters:
    """Counts of launches at the gates of this process's queues."""

    state: State
    queues: int
    launches: int
    tracked: int
    waited: int
    waited_ns: int
    lease_expired: int


def counters() -> Counters:
    c = _library.Counters(size=ctypes.sizeof(_library.Counters))
    _library.check(_library.native().xsched_get_counters(ctypes.byref(c)))
    return Counters(
        State(c.state),
        *(int(getattr(c, f)) for f in ("queues", "launches", "tracked", "waited", "waited_ns", "lease_expired")),
    )


# --- hints of the process ---

_HINTS = ("priority", "weight", "threshold", "deadline", "laxity", "critical", "utilization")


def hint(**values: int) -> None:
    """Sets hints of this process: priority, weight, threshold, deadline and laxity (microseconds), critical,
    utilization (percent). Hints only lower. Raises ValueError for a value out of range."""
    for name in values:
        if name not in _HINTS:
            raise TypeError(f"hint() has no {name!r}; there are {', '.join(_HINTS)}")
    for name, value in values.items():
        if name == "priority":
            set_base(checked_priority(value))
        elif _library.native().xsched_hint(name.title().encode(), integer(name, value)) < 0:
            raise ValueError(f"{name}={value} is out of range")


# --- queues of a program's own ---


class Queue:
    """A queue that no layer sees: the program itself reports its launches. `device`: the same name in all processes,
    such as "pci:0000:65:00.0"."""

    def __init__(self, device: str, *, backend: str = "python", label: Optional[str] = None) -> None:
        info = _library.QueueInfo(
            device=text("device", device),
            backend=text("backend", backend),
            label=None if label is None else text("label", label) or None,
        )
        info.size = ctypes.sizeof(info)
        self._queue = ctypes.c_void_p()
        self._pid = os.getpid()
        self._lock = threading.RLock()  # recursive, because close() may run in the middle, by the garbage collector
        _library.check(_library.native().xsched_queue_new(ctypes.byref(info), ctypes.byref(self._queue)), device)

    def __reduce__(self) -> tuple:
        raise TypeError("a Queue belongs to its process, and cannot be copied or pickled")

    @contextlib.contextmanager
    def _native(self) -> Iterator[ctypes.c_void_p]:
        """The C library's queue, which exists until the end of the block, even if another thread closes this one."""
        if self._pid != os.getpid():
            raise ValueError("the queue is the parent's")
        with self._lock:
            if not self._queue:
                raise ValueError("the queue is closed")
            queue = ctypes.c_void_p(_library.native().xsched_queue_ref(self._queue))
        try:
            yield queue
        finally:
            if self._pid == os.getpid():
                _library.native().xsched_queue_unref(queue)

    def hint(self, **values: int) -> None:
        """Sets hints as hint() does, for this queue alone."""
        for name, value in values.items():
            if name not in _HINTS:
                raise TypeError(f"hint() has no {name!r}; there are {', '.join(_HINTS)}")
            number = integer(name, value)
            with self._native() as queue:
                if _library.native().xsched_queue_hint(queue, name.title().encode(), number) < 0:
                    raise ValueError(f"{name}={value} is out of range")

    @contextlib.contextmanager
    def launch(self) -> Iterator[None]:
        """Encloses one launch that has completed at the end of the block; waits at first while the queue is held."""
        with self._native() as queue:
            tracked = _library.native().xsched_queue_begin(queue)
            try:
                yield
            finally:
                if tracked and self._pid == os.getpid():
                    _library.native().xsched_queue_complete(queue, 1, 0)

    def close(self) -> None:
        """The queue ends when launches in other threads have ended, too."""
        if self._pid != os.getpid():
            return
        with self._lock:
            queue, self._queue = self._queue, ctypes.c_void_p()
        if queue:
            _library.native().xsched_queue_unref(queue)

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


# --- XSched's interface ---

_RESULTS = {
    1: "the runtime has failed",
    2: "invalid value",
    3: "there is no such queue",
    4: "not allowed",
    5: "not supported",
}
_BATCH_SIZE = 8  # as libxsched-compat's
_SCHEDULERS = {"APP": 1, "LCL": 2, "GLB": 3}
_POLICIES = {"HPF": 1, "HHPF": 2, "CHPF": 3, "UP": 4, "PUP": 5, "KEDF": 7, "LAX": 8, "AWF": 9, "CFS": 10, "MLFQ": 11}


class XSchedError(RuntimeError):
    """A failed call of XSched's interface; `result` is its XResult."""

    def __init__(self, function: str, result: int) -> None:
        super().__init__(f"{function}: {_RESULTS.get(result, f'error {result}')}")
        self.function, self.result = function, result

    def __reduce__(self) -> tuple:
        return XSchedError, (self.function, self.result)  # as pools of processes send exceptions


def _call(name: str, *arguments: Any) -> None:
    result = getattr(_library.compat(), name)(*arguments)
    if result:
        raise XSchedError(name, result)


def set_scheduler(scheduler: str, policy: Optional[str] = None) -> None:
    """Sets the scheduler of this process's XQueues: "APP", "GLB", or "LCL" with a policy such as "HPF"."""
    if scheduler not in _SCHEDULERS or (policy is not None and policy not in _POLICIES):
        raise ValueError(f"no such scheduler or policy: {scheduler} {policy or ''}".rstrip())
    if scheduler == "LCL" and policy is None:
        raise ValueError("LCL takes a policy")
    _call("XHintSetScheduler", _SCHEDULERS[scheduler], _POLICIES[policy] if policy else 0)


# How many objects use each XQueue that was made here: two parts of a program may have one queue of the runtime.
_users: dict[int, int] = {}
_users_lock = threading.RLock()  # recursive, because a signal handler may run while it is held


def _after_fork() -> None:
    """XQueues are the parent's."""
    global _users_lock
    _users.clear()
    _users_lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


class XQueue:
    """An XQueue for a runtime's queue: see xsched-api(3). All objects for one queue are one XQueue, which ends when
    the last of them is closed."""

    def __init__(self, create: str, native: int, *, threshold: int = 0, batch_size: int = 0) -> None:
        hwq, handle = ctypes.c_uint64(), ctypes.c_uint64()
        self._open = False
        self._pid = os.getpid()
        threshold, batch_size = integer("threshold", threshold), integer("batch_size", batch_size)
        _call(create, ctypes.byref(hwq), integer("the queue's address", native, 0, (1 << 64) - 1))
        self._hwq = hwq.value
        compat = _library.compat()
        with _users_lock, contextlib.ExitStack() as undo:
            # Where the queue has an XQueue already, that is the result, and is not undone.
            if compat.XQueueGet(ctypes.byref(handle), self._hwq) != 0:
                undo.callback(compat.HwQueueDestroy, self._hwq)
                _call("XQueueCreate", ctypes.byref(handle), self._hwq, 1, 0)
                undo.callback(compat.XQueueDestroy, handle)
                _users[handle.value] = 0
                undo.callback(_users.pop, handle.value)
            self.handle = handle.value
            if threshold > 0 or batch_size > 0:
                # The usual batch may be larger than a small threshold.
                batch_size = batch_size if batch_size > 0 else min(threshold, _BATCH_SIZE)
                _call("XQueueSetLaunchConfig", self.handle, threshold, batch_size)
            undo.pop_all()
            if self.handle in _users:  # not one that a library in C has made
                _users[self.handle] += 1
        self._open = True

    def __reduce__(self) -> tuple:
        raise TypeError("an XQueue belongs to its process, and cannot be copied or pickled")

    @classmethod
    def opencl(cls, queue: Any, **config: int) -> XQueue:
        """Makes an XQueue for a pyopencl.CommandQueue, or the address of a cl_command_queue."""
        return cls("OclQueueCreate", getattr(queue, "int_ptr", queue), **config)

    @classmethod
    def cuda(cls, stream: Any, **config: int) -> XQueue:
        """Makes an XQueue for a torch.cuda.Stream of CUDA, or the address of a stream."""
        return cls("CudaQueueCreate", getattr(stream, "cuda_stream", stream), **config)

    @classmethod
    def hip(cls, stream: Any, **config: int) -> XQueue:
        """Makes an XQueue for a torch.cuda.Stream of ROCm, or the address of a stream."""
        return cls("HipQueueCreate", getattr(stream, "cuda_stream", stream), **config)

    def hint(
        self,
        *,
        priority: Optional[int] = None,
        utilization: Optional[int] = None,
        deadline: Optional[int] = None,
        laxity: Optional[tuple[int, int, int]] = None,
    ) -> None:
        """`deadline` in microseconds; `laxity`: (microseconds, priority before, priority after)."""
        calls: list[tuple] = []
        if priority is not None:
            calls.append(("XHintPriority", int32("priority", priority)))
        if utilization is not None:
            calls.append(("XHintUtilization", int32("utilization", utilization)))
        if deadline is not None:
            calls.append(("XHintDeadline", integer("deadline", deadline)))
        if laxity is not None:
            if not isinstance(laxity, (tuple, list)) or len(laxity) != 3:
                raise TypeError("laxity must be three integers")
            after, *levels = (integer("laxity", laxity[0]), *(int32("a priority of laxity", i) for i in laxity[1:]))
            calls.append(("XHintLaxity", after, *levels))
        for name, *values in calls:
            _call(name, self.handle, *values)

    def suspend(self) -> None:
        """Holds the queue. A launch that waits keeps Python's lock unless its library releases the lock, which pyopencl
        does not: then no thread of the program can resume the queue. So no thread may launch on it meanwhile."""
        _call("XQueueSuspend", self.handle, 0)

    def resume(self) -> None:
        _call("XQueueResume", self.handle, 0)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        self.suspend()
        try:
            yield
        finally:
            if self._pid == os.getpid():
                self.resume()

    def wait(self) -> None:
        """Waits for all launches so far. Other threads go on meanwhile."""
        _call("XQueueWaitAll", self.handle)

    @property
    def is_ready(self) -> bool:
        """Whether a launch or a command has not completed."""
        state = ctypes.c_int()
        _call("XQueueQuery", self.handle, ctypes.byref(state))
        return state.value == 2

    @property
    def launches(self) -> int:
        count = ctypes.c_int64()
        _call("XQueueProfileHwCommandCount", self.handle, ctypes.byref(count))
        return count.value

    def close(self) -> None:
        if not self._open or self._pid != os.getpid():
            return
        with _users_lock:
            self._open = False
            if self.handle not in _users:
                return
            _users[self.handle] -= 1
            if _users[self.handle] == 0:
                del _users[self.handle]
                _call("XQueueDestroy", self.handle)
                _call("HwQueueDestroy", self._hwq)

    def __enter__(self) -> XQueue:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
