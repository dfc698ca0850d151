#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""priority() of the Python module works in threads, tasks and generators."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *
from script import Priorities, Script


class Flows(Priorities, Case):
    def test_nested(self):
        """The innermost priority() applies, and after it the outer one again."""
        self.follow(
            Script(
                self,
                """
            queue = xsched.Queue("test:0")
            step()
            with xsched.priority(-10):
                step()
                with xsched.priority(-20):
                    assert xsched.current_priority() == -20
                    step()
                assert xsched.current_priority() == -10
                step()
            xsched.hint(priority=-3)
            step()
            @xsched.priority(-4)
            def f():
                step()
            f()
            step()
            """,
            ),
            0,
            -10,
            -20,
            -10,
            -3,
            -4,
            -3,
        )

    def test_at_once(self):
        """Of several threads and tasks that are in a priority(), the highest one applies, in whatever order they enter
        and leave. Those that are in none do not count."""
        self.follow(
            Script(
                self,
                """
            import asyncio, threading
            queue = xsched.Queue("test:0")
            async def main():
                inside, leave = asyncio.Event(), asyncio.Event()
                @xsched.priority(-10)
                async def first():
                    inside.set()
                    await leave.wait()
                task = asyncio.create_task(first())
                await inside.wait()
                step()                         # -10
                async with xsched.priority(-5):
                    step()                     # -5
                    leave.set()
                    await task
                    step()                     # -5
                step()                         # 0
            asyncio.run(main())
            entered, go = threading.Event(), threading.Event()
            def other():
                with xsched.priority(-7):
                    entered.set()
                    go.wait()
            t = threading.Thread(target=other)
            with xsched.priority(-9):
                t.start()
                entered.wait()
                step()                         # -7
                go.set()
                t.join()
                step()                         # -9
            @xsched.priority(-6)
            def numbers():
                yield 1
                yield 2
            g = numbers()
            next(g)
            step()                             # -6
            t = threading.Thread(target=g.close)
            t.start()
            t.join()
            step()                             # 0
            """,
            ),
            -10,
            -5,
            -5,
            0,
            -7,
            -9,
            -6,
            0,
        )

    def test_signal(self):
        """A signal handler may use the same functions that it has interrupted, here while these hold the lock."""
        self.follow(
            Script(
                self,
                """
            import signal
            from xsched import _library
            inside, native, handlers = [], _library.native, []
            def native_and_a_signal():
                if handlers:
                    signal.signal(signal.SIGUSR1, handlers.pop())
                    signal.raise_signal(signal.SIGUSR1)
                return native()
            _library.native = native_and_a_signal
            queue = xsched.Queue("test:0")
            def lowered(*_):
                with xsched.priority(-8):
                    inside.append(xsched.current_priority())
            def hinted(*_):
                xsched.hint(priority=-3)
            handlers.append(lowered)
            with xsched.priority(-9):
                assert inside == [-8]
                step()                         # -9
                handlers.append(hinted)
            step()                             # -3
            """,
            ),
            -9,
            -3,
        )

    def test_generators(self):
        """Generators in a priority() may overlap, and may end in another thread. An asynchronous one gets what is sent
        or thrown to it, and is in its priority() when it ends."""
        Script(
            self,
            """
            import asyncio, threading
            inside = xsched.current_priority
            @xsched.priority(-5)
            def five():
                yield inside()
            @xsched.priority(-10)
            def ten():
                yield inside()
            a, b = five(), ten()
            assert [next(a), next(b), inside()] == [-5, -10, -10]
            a.close()
            assert inside() == -10
            b.close()
            assert inside() is None
            a = five()
            next(a)
            t = threading.Thread(target=a.close)
            t.start()
            t.join()
            assert inside() is None
            ends = []
            @xsched.priority(-7)
            async def echo():
                item = None
                try:
                    while True:
                        try:
                            item = yield item
                        except KeyError:
                            item = "caught"
                finally:
                    await asyncio.sleep(0)
                    ends.append(inside())
            async def main():
                g = echo()
                assert await g.asend(None) is None
                assert await g.asend(1) == 1
                assert await g.athrow(KeyError()) == "caught"
                await g.aclose()
                assert ends == [-7] and inside() is None
                # A task keeps the priority() that it was created in.
                async def later():
                    await asyncio.sleep(0)
                    return inside()
                with xsched.priority(-3):
                    task = asyncio.create_task(later())
                assert (await task, inside()) == (-3, None)
            asyncio.run(main())
            """,
        ).end()

    def test_wrapped_coroutine_functions(self):
        Script(
            self,
            """
            import asyncio, functools
            def hidden(f):
                return functools.wraps(f)(lambda *a: f(*a))
            class Model:
                async def __call__(self):
                    return await answer()
            async def answer():
                await asyncio.sleep(0)
                return xsched.current_priority()
            decorate = xsched.priority(-3)
            for f in answer, hidden(answer), Model(), functools.partial(answer):
                assert asyncio.run(decorate(f)()) == -3
            """,
        ).end()

    def test_nothing_is_left(self):
        """Many priority() objects do not use more and more memory: a server may make one for each request."""
        Script(
            self,
            """
            import asyncio, contextvars
            sizes = set()
            def requests():
                for level in range(-100, 0):
                    with xsched.priority(level):
                        pass
                sizes.add(len(contextvars.copy_context()))
            requests()
            requests()
            assert len(sizes) == 1, sizes
            # A task in a priority() creates the next one like it, and so on.
            async def again(n):
                with xsched.priority(-n):
                    held = sum(len(v) for v in contextvars.copy_context().values() if isinstance(v, tuple))
                    assert held <= 2, held
                    if n < 20:
                        await asyncio.create_task(again(n + 1))
            asyncio.run(again(1))
            """,
        ).end()


if __name__ == "__main__":
    main()
