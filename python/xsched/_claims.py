# SPDX-License-Identifier: LGPL-2.1-or-later
"""Claims of classes"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

from . import _library
from ._arguments import text
from ._around import F, around


class _Claim:
    """A descriptor, and the file behind it: a program that closes what it has not opened may have got the number for
    another file since."""

    def __init__(self, fd: int) -> None:
        self.fd, self.file = fd, self._file(fd)

    @staticmethod
    def _file(fd: int) -> tuple[int, int]:
        status = os.fstat(fd)
        return status.st_dev, status.st_ino

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._file(self.fd) == self.file:
                os.close(self.fd)


_held: set[_Claim] = set()  # by this process


class hold:
    """While inside, this process has the named class, if the service grants it: a claim, which may raise the process if
    the caller has that right. `children`: the processes that it starts have the class, too. Waits for the service;
    ``async with`` lets other tasks go on meanwhile. Also a decorator, as priority() is.

    Raises PermissionError when the service refuses, ValueError if the name is empty or the reason is longer than 256
    bytes, OSError when there is no service."""

    def __init__(self, class_name: str, reason: str = "", *, children: bool = False) -> None:
        self._arguments = (class_name, reason, children)
        self._open: list[_Claim] = []

    def _claim(self) -> _Claim:
        class_name, reason, children = self._arguments
        name, why = text("class_name", class_name), text("reason", reason)
        answer = _library.native().xsched_hold_priority(name, why, bool(children))
        if answer.value == -errno.EINVAL:
            raise ValueError("the class has no name, or the reason is longer than 256 bytes")
        if answer.value < 0:
            raise OSError(-answer.value, os.strerror(-answer.value), class_name)
        claim = _Claim(answer.take())
        _held.add(claim)
        return claim

    @staticmethod
    def _drop(claim: _Claim) -> None:
        if claim in _held:  # not in the child after a fork
            _held.discard(claim)
            claim.close()

    def __enter__(self) -> None:
        self._open.append(self._claim())

    def __exit__(self, *exception: object) -> None:
        self._drop(self._open.pop())

    async def __aenter__(self) -> None:
        claiming = asyncio.get_running_loop().run_in_executor(None, self._claim)
        try:
            self._open.append(await asyncio.shield(claiming))
        except asyncio.CancelledError:
            # The thread cannot be stopped, and its claim is nobody's then.
            claiming.add_done_callback(lambda f: f.cancelled() or f.exception() or self._drop(f.result()))
            raise

    async def __aexit__(self, *exception: object) -> None:
        self.__exit__(*exception)

    def __call__(self, function: F) -> F:
        class_name, reason, children = self._arguments
        return around(lambda: hold(class_name, reason, children=children), function)


def _after_fork() -> None:
    """Claims are the parent's."""
    for claim in _held:
        claim.close()
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
