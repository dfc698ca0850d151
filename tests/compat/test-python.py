#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python module, as programs use it, beside a service and without."""

import json
import os
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

SOURCE = os.environ["SOURCE_DIR"]
CLIENT = "org.xsched.Scheduler.Client"

# The function step() of the tested program: it prints its place, and waits until it may go on.
HEAD = """
import os, sys
import xsched
def step(text="step"):
    print(text, flush=True)
    sys.stdin.readline()
"""


class Script:
    def __init__(self, case, text, *arguments, address=None, **env):
        env = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}/python",
            "LD_LIBRARY_PATH": os.environ["XSCHED_LIBRARIES"],
            "XSCHED_BUS_ADDRESS": address or case.bus.address,
            **env,
        }
        self.case = case
        argv = [sys.executable, *arguments] if text is None else [sys.executable, "-c", HEAD + textwrap.dedent(text)]
        self.p = subprocess.Popen(
            argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        case.addCleanup(self.p.stdout.close)
        case.addCleanup(self.p.kill)

    def at(self, text="step"):
        line = self.p.stdout.readline()
        self.case.assertEqual(line, text + "\n", "" if line else self.p.stderr.read())

    def go(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()

    def end(self):
        out, err = self.p.communicate()
        self.case.assertEqual((self.p.returncode, err), (0, ""))
        return out


class Hints(Case):
    def priorities(self):
        return [self.get("Priority", c[5], CLIENT) for c in self.call("ListClients")]

    def follow(self, script, *expected):
        for level in expected:
            script.at()
            until(lambda: self.priorities() == [level], f"the priority is {level}")
            script.go()
        script.end()

    def test_nested(self):
        """The innermost priority() counts; at its end the outer one does."""
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
        """The highest priority of the flows inside counts, in whatever order they begin and end; flows outside do not
        count."""
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
        """A signal handler interrupts its thread inside the same functions, here while it holds the lock."""
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

    def test_fork(self):
        """A child is inside no priority(), and its parent stays inside."""
        s = Script(
            self,
            """
            import multiprocessing
            def child():
                with xsched.Queue("test:0") as q, q.launch():
                    step("child")
            queue = xsched.Queue("test:0")
            with xsched.priority(-10):
                step()
                p = os.fork()
                if p == 0:
                    try:
                        queue.hint(priority=0)
                    except ValueError:
                        child()
                        os._exit(0)
                    os._exit(1)
                assert os.waitpid(p, 0)[1] == 0
                step()
            for method in ("fork", "spawn"):
                p = multiprocessing.get_context(method).Process(target=len, args=((),))
                p.start()
                p.join()
                assert p.exitcode == 0
            """,
        )
        s.at()
        until(lambda: self.priorities() == [-10], "the parent is lowered")
        s.go()
        s.at("child")
        until(lambda: sorted(self.priorities()) == [-10, 0], "the child is not")
        s.go()
        self.follow(s, -10)

    def test_hold(self):
        with open(f"{self.directory}/classes.d/batch.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=-50\n")
        self.call("Reload")
        s = Script(
            self,
            """
            queue = xsched.Queue("test:0")
            try:
                with xsched.hold("no-such-class"):
                    raise AssertionError
            except PermissionError:
                pass
            with xsched.hold("batch", "a test"):
                step("held")
            step("over")
            """,
        )
        s.at("held")
        (held,) = self.call("ListHolds")
        self.assertEqual(tuple(held[3:]), ("batch", "a test", False))
        s.go()
        s.at("over")
        until(lambda: self.call("ListHolds") == [], "the claim is over")
        s.go()
        s.end()

    def test_misuse(self):
        Script(
            self,
            """
            def raises(error, function, *args, **kwargs):
                try:
                    function(*args, **kwargs)
                except error:
                    return
                raise AssertionError(f"{function} {args} {kwargs}")
            for level in (-256, 256):
                raises(ValueError, xsched.priority, level)
                raises(ValueError, xsched.hint, priority=level)
            for value in (1.5, "1", None):
                raises(TypeError, xsched.hint, priority=value)
                raises(TypeError, xsched.priority, value)
            with xsched.priority(-7):
                pass
            raises(ValueError, xsched.hint, weight=0)
            raises(TypeError, xsched.hint, prioritty=1)
            raises(ValueError, xsched.set_scheduler, "LCL")
            raises(ValueError, xsched.set_scheduler, "LCL", "nobody")
            raises(xsched.XSchedError, xsched.XQueue.opencl, 0)
            raises(OSError, xsched.Queue, "")
            q = xsched.Queue("test:0")
            q.hint(priority=-1, deadline=1000)
            raises(ValueError, q.hint, utilization=101)
            raises(TypeError, xsched.Queue, "test:0", "python")
            raises(TypeError, xsched.hold, "batch", "", True)
            for name, reason in (("batch", "x" * 257), ("", "")):
                raises(ValueError, xsched.hold(name, reason).__enter__)
            raises(PermissionError, xsched.hold("no-such-class", "x" * 256).__enter__)
            q.close()
            q.close()
            raises(ValueError, q.hint, priority=-1)
            assert xsched.counters().state in xsched.State
            """,
        ).end()

    def test_what_c_would_misread(self):
        """ctypes cuts a number to the C type and a text at its first zero byte, and takes a text for an address."""
        Script(
            self,
            """
            def refused(error, name, function, *args, **kwargs):
                try:
                    function(*args, **kwargs)
                except error as e:
                    assert name in str(e), e
                    return
                raise AssertionError(f"{function} {args} {kwargs}")
            q = xsched.Queue("test:0", label="")
            for hint in (xsched.hint, q.hint):
                for value in ("5", 5.0, b"5", [], None):
                    refused(TypeError, "weight", hint, weight=value)
                for value in ((1 << 64) + 100, -(1 << 64) + 100, 1 << 63):
                    refused(ValueError, "weight", hint, weight=value)
                hint(weight=100, critical=True)
            for name, value in (("device", 5), ("device", None), ("device", b"test:0"), ("backend", 1), ("label", 1)):
                refused(TypeError, name, xsched.Queue, **{"device": "test:0", name: value})
            for name in "device", "backend", "label":
                refused(ValueError, name, xsched.Queue, **{"device": "test:0", name: "a\\0b"})
            for arguments, name in (((5,), "class_name"), ((None,), "class_name"), (("batch", 5), "reason")):
                refused(TypeError, name, xsched.hold(*arguments).__enter__)
            refused(ValueError, "class_name", xsched.hold("batch\\0er").__enter__)
            refused(ValueError, "reason", xsched.hold("batch", "a\\0b").__enter__)
            for make in (xsched.XQueue.opencl, xsched.XQueue.cuda, xsched.XQueue.hip):
                for address in ("0x7f00", b"0x7f00", 1.5, None):
                    refused(TypeError, "address", make, address)
                refused(ValueError, "address", make, -1)
                refused(TypeError, "threshold", make, 0, threshold="2")
            x = xsched.XQueue.__new__(xsched.XQueue)
            x.handle = 0
            for name in "priority", "utilization", "deadline":
                refused(TypeError, name, x.hint, **{name: "1"})
                refused(ValueError, name, x.hint, **{name: (1 << 64) + 1})
            refused(ValueError, "priority", x.hint, priority=1 << 32)
            for laxity in (1, "abc", (1, 2), (1, 2, "3")):
                refused(TypeError, "laxity", x.hint, laxity=laxity)
            refused(ValueError, "laxity", x.hint, laxity=(1, 2, 1 << 32))
            """,
        ).end()

    def test_without_a_service(self):
        out = Script(
            self,
            """
            q = xsched.Queue("test:0")
            with xsched.priority(-10), q.launch():
                pass
            try:
                with xsched.hold("batch"):
                    pass
            except OSError as e:
                print(type(e).__name__)
            print(xsched.counters().launches)
            """,
            address="unix:path=/nonexistent",
        ).end()
        self.assertEqual(out, "FileNotFoundError\n1\n")

    def test_environment(self):
        """XSched's variables: a value out of range is reported once, and changes nothing. No variable raises."""
        said = "XSCHED_AUTO_XQUEUE_DEADLINE=0 is ignored: it is to be 1 or more\n"
        for priority, expected in (("-12", -12), ("200", 0)):
            s = Script(
                self,
                """
                import ctypes
                queues = [xsched.Queue("test:0"), xsched.Queue("test:0")]
                step()
                """,
                XSCHED_SCHEDULER="GLB",
                XSCHED_AUTO_XQUEUE="ON",
                XSCHED_AUTO_XQUEUE_PRIORITY=priority,
                XSCHED_AUTO_XQUEUE_DEADLINE="0",
            )
            s.at()
            until(lambda: self.priorities() == [expected], f"the priority is {expected}")
            _, err = s.p.communicate()
            self.assertEqual(err, "xsched: " + said)
            until(lambda: self.call("ListClients") == [], "it is gone")


class Examples(Case):
    def test_pyopencl(self):
        program, layer = f"{SOURCE}/python/examples/pyopencl-batch.py", os.environ["XSCHED_LAYER"]
        out = Script(self, None, program, OPENCL_LAYERS=layer).end()
        self.assertEqual(out, "launches seen: 20\nright\n")


if __name__ == "__main__":
    main()
