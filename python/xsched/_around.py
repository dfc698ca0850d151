# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decorators: a function runs inside of a context manager, for as long as it runs"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, ContextManager, Coroutine, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


async def _inside(scope: Callable[[], ContextManager], coroutine: Coroutine) -> Any:
    with scope():
        return await coroutine


def around(scope: Callable[[], ContextManager], function: F) -> F:
    """`scope` makes the context manager of one call. What the function returns, yields, is sent and is thrown does not
    change, nor of which kind it is."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            with scope():
                return await function(*args, **kwargs)

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            # As `yield from`, which there is not for this kind of generator.
            with scope():
                inner = function(*args, **kwargs)
                step = inner.__anext__()
                while True:
                    try:
                        item = await step
                    except StopAsyncIteration:
                        return
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as e:
                        step = inner.athrow(e)
                    else:
                        step = inner.asend(sent)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with scope():
                return (yield from function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with scope():
                result = function(*args, **kwargs)
            # A coroutine function in other clothes: an object's async __call__(), or one that another decorator hides.
            return _inside(scope, result) if inspect.iscoroutine(result) else result

    return wrapped  # type: ignore[return-value]
