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

import asyncio
import contextlib
import contextvars
import ctypes
import enum
import errno
import functools
import inspect
import operator
import os
import threading
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, TypeVar

from . import _library

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

PRIORITY_MIN, PRIORITY_MAX = -255, 255

_F = TypeVar("_F", bound=Callable[..., Any])


# Checks arguments for C: ctypes would cut a number to the C type and a text at its first zero byte, and would take a
# text for an address.


def _integer(name: str, value: Any, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}={number} is out of range")
    return number


def _int32(name: str, value: Any) -> int:
    return _integer(name, value, -(1 << 31), (1 << 31) - 1)


def _text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} has a zero byte")
    return value.encode()


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


class _Entry:
    """A priority() that was entered, and the flow that entered it."""

    __slots__ = ("priority", "flow")

    def __init__(self, level: int, flow: tuple[int, int]) -> None:
        self.priority, self.flow = level, flow


class _Priorities:
    """The priorities of this process's flows: a flow is a thread, or a task of asyncio.

    A signal handler may use this class as well, while its thread is inside of it: so the thread may take the lock once
    more, and each step leaves a state from which the handler can go on."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entries: list[_Entry] = []  # of all flows, in the order in which they were entered
        self.base: Optional[int] = None  # the priority of the last hint()
        self.sent: Optional[int] = None

    def _flow(self) -> tuple[int, int]:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        return threading.get_ident(), id(task) if task else 0

    def _level(self) -> int:
        innermost = {e.flow: e.priority for e in tuple(self.entries)}
        if innermost:
            return max(innermost.values())
        return PRIORITY_MAX if self.base is None else self.base  # the highest lowers nothing

    def _send(self) -> None:
        """Holds the lock, so that the last flow that changes something also sends last. Repeated where a signal handler
        has sent another value in between."""
        while (level := self._level()) != self.sent:
            _library.check(_library.native().xsched_hint(b"Priority", level), "priority")
            self.sent = level

    def set_base(self, level: int) -> None:
        with self.lock:
            self.base = level
            self.sent = None
            self._send()

    def enter(self, level: int) -> _Entry:
        with self.lock:
            entry = _Entry(level, self._flow())
            self.entries.append(entry)
            try:
                self._send()
            except BaseException:
                self.entries.remove(entry)
                raise
            return entry

    def leave(self, entry: _Entry) -> None:
        """Removes the entry on any thread: a generator may end on another thread than it began on."""
        with self.lock:
            if entry not in self.entries:
                return  # the parent's entry, or left before
            self.entries.remove(entry)
            self._send()


_priorities = _Priorities()
_current: contextvars.ContextVar[Optional[int]] = contextvars.ContextVar("xsched_priority", default=None)


def _environment_base() -> None:
    """Sets the base priority from the environment, as the C library does."""
    with contextlib.suppress(ValueError):
        level = int(os.environ.get("XSCHED_PRIORITY", ""))
        if PRIORITY_MIN <= level <= PRIORITY_MAX:
            _priorities.base = level


_environment_base()


def hint(**values: int) -> None:
    """Sets hints of this process: priority, weight, threshold, deadline and laxity (microseconds), critical,
    utilization (percent). Hints only lower. Raises ValueError for a value out of range."""
    for name in values:
        if name not in _HINTS:
            raise TypeError(f"hint() has no {name!r}; there are {', '.join(_HINTS)}")
    for name, value in values.items():
        try:
            if name == "priority":
                _priorities.set_base(_checked_priority(value))
            else:
                number = _integer(name, value)
                _library.check(_library.native().xsched_hint(name.title().encode(), number), name)
        except OSError as e:
            raise ValueError(f"{name}={value} is out of range") from e


def _checked_priority(level: int) -> int:
    return _integer("priority", level, PRIORITY_MIN, PRIORITY_MAX)


def current_priority() -> Optional[int]:
    """The priority of the innermost priority() around this code, also in a task or thread that was started there with
    its context; None outside of all."""
    return _current.get()


class priority:
    """While inside, this flow has the priority: ``with priority(-10): ...``, ``async with``, or ``@priority(-10)`` in
    front of a function, a coroutine function or a generator of either kind, for as long as it runs.

    One object may be entered any number of times, also at once."""

    def __init__(self, level: int) -> None:
        self.level = _checked_priority(level)
        self._entered: contextvars.ContextVar[tuple] = contextvars.ContextVar("xsched_entered", default=())
        self._all: list[tuple] = []  # of all contexts

    def __enter__(self) -> priority:
        pair = (_priorities.enter(self.level), _current.get())
        self._entered.set((*self._entered.get(), pair))
        self._all.append(pair)
        _current.set(self.level)
        return self

    def __exit__(self, *exception: object) -> None:
        here = self._entered.get()
        # The generator was begun in another context: any entry of this object will do.
        pair = here[-1] if here else self._all[-1]
        self._entered.set(here[:-1])
        with contextlib.suppress(ValueError):
            self._all.remove(pair)
        entry, outer = pair
        _current.set(outer)
        _priorities.leave(entry)

    async def __aenter__(self) -> priority:
        return self.__enter__()

    async def __aexit__(self, *exception: object) -> None:
        self.__exit__(*exception)

    def __call__(self, function: _F) -> _F:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self:
                    async for item in function(*args, **kwargs):
                        yield item

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


# --- claims ---

_held: set[int] = set()


@contextlib.contextmanager
def hold(class_name: str, reason: str = "", *, children: bool = False) -> Iterator[None]:
    """While inside, this process has the named class, if the service grants it: a claim, which may raise the process if
    the caller has that right. `children`: the processes that it starts have the class, too. Waits for the service.
    Raises PermissionError when it refuses, ValueError if the name is empty or the reason is longer than 256 bytes,
    OSError when there is no service."""
    name, why = _text("class_name", class_name), _text("reason", reason)
    fd = _library.native().xsched_hold_priority(name, why, bool(children))
    if fd == -errno.EINVAL:
        raise ValueError("the class has no name, or the reason is longer than 256 bytes")
    if fd < 0:
        raise OSError(-fd, os.strerror(-fd), class_name)
    _held.add(fd)
    try:
        yield
    finally:
        if fd in _held:  # not in the child after a fork
            _held.discard(fd)
            os.close(fd)


# --- queues of a program's own ---


class Queue:
    """A queue that no layer sees: the program itself reports its launches. `device`: the same name in all processes,
    such as "pci:0000:65:00.0"."""

    def __init__(self, device: str, *, backend: str = "python", label: Optional[str] = None) -> None:
        info = _library.QueueInfo(
            device=_text("device", device),
            backend=_text("backend", backend),
            label=None if label is None else _text("label", label) or None,
        )
        info.size = ctypes.sizeof(info)
        self._queue = ctypes.c_void_p()
        self._pid = os.getpid()
        _library.check(_library.native().xsched_queue_new(ctypes.byref(info), ctypes.byref(self._queue)), device)

    def _native(self) -> ctypes.c_void_p:
        if not self._queue or self._pid != os.getpid():
            raise ValueError("the queue is closed, or the parent's")
        return self._queue

    def hint(self, **values: int) -> None:
        """Sets hints as hint() does, for this queue alone."""
        for name, value in values.items():
            if name not in _HINTS:
                raise TypeError(f"hint() has no {name!r}; there are {', '.join(_HINTS)}")
            number = _integer(name, value)
            try:
                _library.check(_library.native().xsched_queue_hint(self._native(), name.title().encode(), number), name)
            except OSError as e:
                raise ValueError(f"{name}={value} is out of range") from e

    @contextlib.contextmanager
    def launch(self) -> Iterator[None]:
        """Encloses one launch that has completed at the end of the block; waits at first while the queue is held."""
        tracked = _library.native().xsched_queue_begin(self._native())
        try:
            yield
        finally:
            if tracked and self._queue and self._pid == os.getpid():
                _library.native().xsched_queue_complete(self._queue, 1, 0)

    def close(self) -> None:
        queue, self._queue = getattr(self, "_queue", None), ctypes.c_void_p()
        if queue and self._pid == os.getpid():
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
_SCHEDULERS = {"APP": 1, "LCL": 2, "GLB": 3}
_POLICIES = {"HPF": 1, "HHPF": 2, "CHPF": 3, "UP": 4, "PUP": 5, "KEDF": 7, "LAX": 8, "AWF": 9, "CFS": 10, "MLFQ": 11}


class XSchedError(RuntimeError):
    """A failed call of XSched's interface; `result` is its XResult."""

    def __init__(self, function: str, result: int) -> None:
        super().__init__(f"{function}: {_RESULTS.get(result, f'error {result}')}")
        self.result = result


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


class XQueue:
    """An XQueue for a runtime's queue: see xsched-api(3)."""

    def __init__(self, create: str, native: int, *, threshold: int = 0, batch_size: int = 0) -> None:
        hwq, handle = ctypes.c_uint64(), ctypes.c_uint64()
        self._open = False
        threshold, batch_size = _integer("threshold", threshold), _integer("batch_size", batch_size)
        _call(create, ctypes.byref(hwq), _integer("the queue's address", native, 0, (1 << 64) - 1))
        self._hwq = hwq.value
        _call("XQueueCreate", ctypes.byref(handle), self._hwq, 1, 0)
        self.handle = handle.value
        self._open = True
        if threshold or batch_size:
            _call("XQueueSetLaunchConfig", self.handle, threshold, batch_size)

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
            calls.append(("XHintPriority", _int32("priority", priority)))
        if utilization is not None:
            calls.append(("XHintUtilization", _int32("utilization", utilization)))
        if deadline is not None:
            calls.append(("XHintDeadline", _integer("deadline", deadline)))
        if laxity is not None:
            if not isinstance(laxity, (tuple, list)) or len(laxity) != 3:
                raise TypeError("laxity must be three integers")
            after, *levels = (_integer("laxity", laxity[0]), *(_int32("a priority of laxity", i) for i in laxity[1:]))
            calls.append(("XHintLaxity", after, *levels))
        for name, *values in calls:
            _call(name, self.handle, *values)

    def suspend(self) -> None:
        _call("XQueueSuspend", self.handle, 0)

    def resume(self) -> None:
        _call("XQueueResume", self.handle, 0)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        self.suspend()
        try:
            yield
        finally:
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
        if self._open:
            self._open = False
            _call("XQueueDestroy", self.handle)
            _call("HwQueueDestroy", self._hwq)

    def __enter__(self) -> XQueue:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _after_fork() -> None:
    """Resets the child's state after a fork: other threads may have been inside, and claims and queues are the
    parent's."""
    global _priorities
    before, _priorities = _priorities, _Priorities()
    _priorities.base = before.base
    if before.sent is not None:
        with _priorities.lock:
            _priorities._send()
    _current.set(None)
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
