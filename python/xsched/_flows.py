# SPDX-License-Identifier: LGPL-2.1-or-later
"""The priority of this process, out of those of its flows: a flow is a thread, or a task of asyncio"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
import weakref
from typing import Any, Optional

from . import _library
from ._arguments import integer
from ._around import F, around

PRIORITY_MIN, PRIORITY_MAX = -255, 255
PRIORITY_NO_EXECUTE = -256  # XSched's; as a hint to the service it is the lowest one


def checked_priority(level: int) -> int:
    return integer("priority", level, PRIORITY_MIN, PRIORITY_MAX)


def _flow() -> tuple[int, Any]:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    # By a reference, because the next task may be at the address of one that is gone.
    return threading.get_ident(), weakref.ref(task) if task else None


class _Entry:
    """A priority() that was entered, and the flow that entered it."""

    __slots__ = ("priority", "flow", "owner", "left", "left_elsewhere")

    def __init__(self, level: int, owner: Any) -> None:
        self.priority, self.flow, self.owner = level, _flow(), owner
        self.left = self.left_elsewhere = False  # elsewhere: by another flow, which cannot change this one's context


class _Priorities:
    """The priorities of this process's flows.

    A signal handler may use this class as well, while its thread is inside of it: so the thread may take the lock once
    more, and each step leaves a state from which the handler can go on."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entries: list[_Entry] = []  # of all flows, in the order in which they were entered
        self.base: Optional[int] = None  # the priority of the last hint()
        self.sent: Optional[int] = None

    def _level(self) -> int:
        innermost = {e.flow: e.priority for e in tuple(self.entries)}
        if innermost:
            return max(innermost.values())
        return PRIORITY_MAX if self.base is None else self.base  # the highest lowers nothing

    def send(self) -> None:
        """Holds the lock, so that the last flow that changes something also sends last. Repeated where a signal handler
        has sent another value in between."""
        while (level := self._level()) != self.sent:
            _library.check(_library.native().xsched_hint(b"Priority", level), "priority")
            self.sent = level

    def set_base(self, level: int) -> None:
        with self.lock:
            self.base = level
            self.sent = None
            self.send()

    def enter(self, entry: _Entry) -> None:
        with self.lock:
            self.entries.append(entry)
            try:
                self.send()
            except BaseException:
                self.entries.remove(entry)
                raise

    def leave(self, entry: _Entry) -> None:
        """Removes the entry on any thread: a generator may end on another thread than it began on."""
        with self.lock:
            if entry not in self.entries:
                return  # the parent's entry, or left before
            self.entries.remove(entry)
            self.send()


_priorities = _Priorities()

# The entries around this code. A variable for each object would stay in its context for ever.
_inside: contextvars.ContextVar[tuple[_Entry, ...]] = contextvars.ContextVar("xsched_inside", default=())


def set_base(level: int) -> None:
    """Sets the priority that counts while no flow is inside."""
    _priorities.set_base(level)


def _environment_base() -> Optional[int]:
    """What the C library takes from the environment. Both variables lower, so the lower one counts."""
    get = os.environ.get
    names = {"XSCHED_PRIORITY": PRIORITY_MIN}
    if (get("XSCHED_SCHEDULER"), get("XSCHED_AUTO_XQUEUE")) == ("GLB", "ON") and not get("XSCHED_POLICY"):
        # With a laxity it is the critical priority.
        names |= {} if get("XSCHED_AUTO_XQUEUE_LAXITY") else {"XSCHED_AUTO_XQUEUE_PRIORITY": PRIORITY_NO_EXECUTE}
    levels = []
    for name, lowest in names.items():
        with contextlib.suppress(ValueError):
            level = int(get(name, ""))
            if lowest <= level <= PRIORITY_MAX:
                levels.append(max(level, PRIORITY_MIN))
    return min(levels, default=None)


_priorities.base = _environment_base()


def current_priority() -> Optional[int]:
    """The priority of the innermost priority() around this code, also in a task or thread that was started there with
    its context; None outside of all."""
    # What another flow has left since tells still what was around this one when it was started.
    return next((e.priority for e in reversed(_inside.get()) if not e.left_elsewhere), None)


class priority:
    """While inside, this flow has the priority: ``with priority(-10): ...``, ``async with``, or ``@priority(-10)`` in
    front of a function, a coroutine function or a generator of either kind, for as long as it runs.

    One object may be entered any number of times, also at once."""

    def __init__(self, level: int) -> None:
        self.level = checked_priority(level)
        self._open: list[_Entry] = []  # of all contexts

    def __reduce__(self) -> tuple:
        return priority, (self.level,)  # a copy is inside of nothing

    def __enter__(self) -> priority:
        entry = _Entry(self.level, self)
        _priorities.enter(entry)
        self._open.append(entry)
        before = _inside.get()
        # What this flow was started in, and what it has entered itself.
        outer = [e for e in before if e.flow != entry.flow and not e.left_elsewhere][-1:]
        _inside.set((*outer, *(e for e in before if e.flow == entry.flow and not e.left), entry))
        return self

    def __exit__(self, *exception: object) -> None:
        here = _inside.get()
        # The generator was begun in another context: any entry of this object will do.
        candidates = [e for e in here if e.owner is self and not e.left] or self._open
        if not candidates:
            raise RuntimeError("this priority() was not entered")
        entry = candidates[-1]
        entry.left, entry.left_elsewhere = True, entry.flow != _flow()
        with contextlib.suppress(ValueError):
            self._open.remove(entry)
        _inside.set(tuple(e for e in here if e is not entry))
        _priorities.leave(entry)

    async def __aenter__(self) -> priority:
        return self.__enter__()

    async def __aexit__(self, *exception: object) -> None:
        self.__exit__(*exception)

    def __call__(self, function: F) -> F:
        return around(lambda: priority(self.level), function)


def _after_fork() -> None:
    """Resets the child's state after a fork: other threads may have been inside."""
    global _priorities
    before, _priorities = _priorities, _Priorities()
    _priorities.base = before.base
    if before.sent is not None:
        with _priorities.lock:
            _priorities.send()
    _inside.set(())


os.register_at_fork(after_in_child=_after_fork)
