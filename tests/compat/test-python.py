#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python module, used in programs, with a service and without one."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *
from script import SOURCE, Priorities, Script


class Hints(Priorities, Case):
    def test_copies(self):
        Script(
            self,
            """
            import concurrent.futures, copy, multiprocessing, pickle
            def fails():
                raise xsched.XSchedError("XQueueCreate", 4)
            with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
                e = pool.submit(fails).exception()
            assert (type(e), e.result, str(e)) == (xsched.XSchedError, 4, "XQueueCreate: not allowed"), e
            with xsched.priority(-5) as p:
                assert pickle.loads(pickle.dumps(p)).level == copy.deepcopy(p).level == -5
            x = xsched.XQueue.__new__(xsched.XQueue)
            for owner in x, xsched.Queue("test:0"):
                for take in copy.copy, pickle.dumps:
                    try:
                        take(owner)
                    except (TypeError, ValueError):
                        continue
                    raise AssertionError
            """,
        ).end()

    def test_fork(self):
        """A forked child is in no priority(), and its parent stays in its own."""
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
        until(lambda: sorted(self.priorities()) == [-10, 0], "the child is not lowered")
        s.go()
        self.follow(s, -10)

    def make_batch(self):
        with open(f"{self.directory}/classes.d/batch.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=-50\n")
        self.call("Reload")

    def test_hold(self):
        self.make_batch()
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

    def test_hold_without_service(self):
        """A service that has ended has refused nothing, nor has one that ends before it answers."""
        text = """
            import errno
            queue = xsched.Queue("test:0")
            step()
            try:
                with xsched.hold("batch"):
                    raise AssertionError
            except OSError as e:
                assert e.errno == errno.EHOSTUNREACH, e
            """
        s = Script(self, text)
        s.at()
        self.service.freeze()
        s.go()
        until(lambda: "poll" in proc(s.p.pid, "wchan"), "it waits for the answer")
        self.service.kill()
        s.end()
        s = Script(self, text)
        s.at()
        s.go()
        s.end()

    def test_hold_interrupted(self):
        """Ctrl+C while the service does not answer: the claim that is granted later is nobody's, and ends."""
        self.make_batch()
        s = Script(
            self,
            """
            queue = xsched.Queue("test:0")
            step()
            try:
                with xsched.hold("batch"):
                    raise AssertionError
            except KeyboardInterrupt:
                step("interrupted")
            """,
        )
        s.at()
        self.service.freeze()
        s.go()
        until(lambda: "poll" in proc(s.p.pid, "wchan"), "it waits for the answer")
        s.p.send_signal(signal.SIGINT)
        self.service.thaw()
        s.at("interrupted")
        until(lambda: self.call("ListHolds") == [], "there is no claim")
        s.go()
        s.end()

    def test_hold_and_asyncio(self):
        """hold() decorates coroutine functions, works with `async with`, and can be cancelled."""
        self.make_batch()
        s = Script(
            self,
            """
            import asyncio, threading
            from xsched import _library
            @xsched.hold("batch")
            async def held():
                await asyncio.sleep(0)
                step("decorated")
            asyncio.run(held())
            native, asked, answer = _library.native, threading.Event(), threading.Event()
            class Slow:
                def xsched_hold_priority(self, *arguments):
                    asked.set()
                    answer.wait()
                    return native().xsched_hold_priority(*arguments)
            async def main():
                async with xsched.hold("batch"):
                    step("inside")
                step("over")
                async def slow():
                    async with xsched.hold("batch"):
                        raise AssertionError
                _library.native = Slow
                task = asyncio.create_task(slow())
                while not asked.is_set():      # other tasks go on
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert task.cancelled()
                answer.set()
            asyncio.run(main())
            step("cancelled")
            """,
        )
        for where, n in (("decorated", 1), ("inside", 1), ("over", 0), ("cancelled", 0)):
            s.at(where)
            until(lambda: len(self.call("ListHolds")) == n, f"{n} claims: {where}")
            s.go()
        s.end()

    def test_descriptors_closed(self):
        """If a program closes the claim's descriptor, and opens a file that gets its number, that file stays open."""
        self.make_batch()
        Script(
            self,
            """
            with xsched.hold("batch"):
                os.closerange(3, 4096)
                ours = [os.open("/dev/null", os.O_RDONLY) for _ in range(1500)]
                if os.fork() == 0:
                    for fd in ours:
                        os.fstat(fd)
                    os._exit(0)
                assert os.wait()[1] == 0
            for fd in ours:
                os.fstat(fd)
            """,
        ).end()

    def test_closed_while_launching(self):
        """A queue that is closed during a launch ends with that launch."""
        s = Script(
            self,
            """
            import threading
            q = xsched.Queue("test:0")
            step()
            with q.launch():
                t = threading.Thread(target=q.close)
                t.start()
                t.join()
                other = xsched.Queue("test:0", label="other")
                step("launching")
            step("over")
            """,
        )

        def labels():
            return sorted(q[3] for q in self.call("ListQueues"))

        s.at()
        s.go()
        s.at("launching")
        until(lambda: "other" in labels(), "the other queue is known")
        self.assertEqual(labels(), ["", "other"])
        s.go()
        s.at("over")
        until(lambda: labels() == ["other"], "it has ended")
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

    def test_without_the_library(self):
        """What is missing is named, and nothing is said to be out of range."""
        out = Script(
            self,
            """
            from xsched import _library
            _library.native = lambda: _library._load("libxsched-none.so.0", {})
            for call in (lambda: xsched.hint(priority=-5), lambda: xsched.hint(weight=5), xsched.counters,
                         xsched.priority(-5).__enter__, lambda: xsched.Queue("test:0")):
                try:
                    call()
                except OSError as e:
                    print(str(e).split(":")[0], xsched.current_priority())
            """,
        ).end()
        self.assertEqual(out, "libxsched-none.so.0 None\n" * 5)

    def test_environment(self):
        """XSched's variables apply, but cannot raise a priority. A value out of range is reported once and ignored."""
        said = "XSCHED_AUTO_XQUEUE_DEADLINE=0 is ignored: expected 1 or more\n"
        both = {"XSCHED_PRIORITY": "-5"}  # the lower one counts
        for priority, expected, more in (("-12", -12, {}), ("200", 0, {}), ("-256", -255, {}), ("-12", -12, both)):
            s = Script(
                self,
                """
                import ctypes
                queues = [xsched.Queue("test:0"), xsched.Queue("test:0")]
                with xsched.priority(-100):
                    step("inside")
                step()
                """,
                XSCHED_SCHEDULER="GLB",
                XSCHED_AUTO_XQUEUE="ON",
                XSCHED_AUTO_XQUEUE_PRIORITY=priority,
                XSCHED_AUTO_XQUEUE_DEADLINE="0",
                **more,
            )
            s.at("inside")
            until(lambda: self.priorities() == [-100], "it is inside of a priority()")
            s.go()
            s.at()
            until(lambda: self.priorities() == [expected], f"the priority is {expected}")
            _, err = s.p.communicate()
            self.assertEqual(err, "xsched: " + said)
            until(lambda: self.call("ListClients") == [], "it is gone")

    def test_ignored_values(self):
        """Each is one line, and no line gets into a file of the program's."""
        says = {
            ("XSCHED_SCHEDULER", "A\nB\x1b[31m"): "A?B?[31m is ignored: expected APP, LCL or GLB",
            ("XSCHED_SCHEDULER", "LCL"): "LCL is ignored: expected XSCHED_POLICY beside it",
            ("XSCHED_AUTO_XQUEUE_PRIORITY", "nan"): "nan is ignored: expected -256..255",
        }
        for (name, value), line in says.items():
            s = Script(self, "xsched.Queue('test:0')", **{name: value})
            self.assertEqual(s.p.communicate(), ("", f"xsched: {name}={line}\n"))
        path = f"{self.directory}/database"
        s = Script(
            self,
            f"""
            os.close(2)
            assert os.open({path!r}, os.O_RDWR | os.O_CREAT) == 2
            xsched.Queue("test:0")
            """,
            XSCHED_SCHEDULER="none",
        )
        self.assertEqual((s.p.communicate(), s.p.returncode), (("", ""), 0))
        self.assertEqual(os.path.getsize(path), 0)


class Examples(Case):
    def test_pyopencl(self):
        program, layer = f"{SOURCE}/python/examples/pyopencl-batch.py", os.environ["XSCHED_LAYER"]
        out = Script(self, None, program, OPENCL_LAYERS=layer).end()
        self.assertEqual(out, "launches seen: 20\nright\n")

    def pytorch(self, address=None):
        """The example with a stand-in for PyTorch, which stops in the first request, in the training after all
        requests, and at the end."""
        here = os.path.dirname(os.path.realpath(__file__))
        return Script(
            self,
            f"""
            import runpy, time
            sys.path.insert(0, {here + "/stand-in"!r})
            import torch
            n_requests = n_trained = 0
            def at(what):
                global n_requests, n_trained
                if what == "infer":
                    n_requests += 1
                    if n_requests == 1:
                        step("request")
                else:
                    time.sleep(0.01)  # requests take less time than the training
                    n_trained += n_requests == 5
                    if n_trained == 5:
                        step("training")
            torch.at = at
            queue = xsched.Queue("test:0")
            runpy.run_path({SOURCE + "/python/examples/pytorch-serve.py"!r}, run_name="__main__")
            step("end")
            """,
            address=address,
        )

    def test_pytorch(self):
        """Requests have the class that the example claims, and are not lowered by the training."""
        with open(f"{self.directory}/classes.d/interactive.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=50\n")
        self.call("Reload")
        s = self.pytorch()
        has = lambda path: tuple(self.get(p, path, CLIENT) for p in ("Class", "Priority"))
        seen = lambda: [has(c[5]) for c in self.call("ListClients")]
        for place, expected in (("request", ("interactive", 50)), ("training", ("default", -20))):
            s.at(place)
            until(lambda e=expected: seen() == [e], f"in the {place}: {expected}, not {seen()}")
            s.go()
        s.at("answered (1, 256) loss 0.5")
        s.at("end")
        until(lambda: seen() == [("default", 0)], "nothing is left of it")
        s.go()
        s.end()

    def test_pytorch_alone(self):
        """Without a service the example says so, and does its work."""
        s = self.pytorch("unix:path=/nonexistent")
        s.at("without a claim: No such file or directory")
        for place in ("request", "training"):
            s.at(place)
            s.go()
        s.at("answered (1, 256) loss 0.5")
        s.at("end")
        s.go()
        s.end()

    def test_global(self):
        """The service has the hints of an XQueue while that exists, under GLB."""
        s = Script(
            self,
            """
            import pyopencl
            queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
            with xsched.XQueue.opencl(queue, threshold=3) as x:
                x.hint(priority=-20)
                step()
                for scheduler in "GLB", "APP", "GLB":
                    xsched.set_scheduler(scheduler)
                    step()
            step()
            """,
            OPENCL_LAYERS=os.environ["XSCHED_LAYER"],
        )
        names = ("Priority", "Threshold")
        for i, expected in enumerate(((0, 0), (-20, 3), (0, 0), (-20, 3), (0, 0))):
            s.at()
            if i == 3:  # also a service that has not heard of them
                self.service.kill()
                self.service.start()
            until(lambda: len(self.call("ListQueues")) == 1, "the queue is known")
            (queue,) = self.call("ListQueues")
            until(
                lambda: tuple(self.get(n, queue[4], "org.xsched.Scheduler.Queue") for n in names) == expected,
                f"it has {expected}",
            )
            s.go()
        s.end()

    def test_xqueues_of_one_queue(self):
        """A function makes an XQueue of a queue that has one: its caller's goes on until that is closed, too."""
        Script(
            self,
            """
            import pyopencl
            queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
            with xsched.XQueue.opencl(queue) as outer:
                for _ in range(2):
                    with xsched.XQueue.opencl(queue) as inner:
                        assert inner.handle == outer.handle
                        if os.fork() == 0:
                            inner.close()
                            sys.exit(0)
                        assert os.wait()[1] == 0
                outer.hint(priority=-20)
                other = xsched.XQueue.opencl(queue)
            other.hint(priority=-10)
            other.close()
            other.close()
            try:
                other.hint(priority=0)
                raise AssertionError
            except xsched.XSchedError as e:
                assert e.result == 3, e
            with xsched.XQueue.opencl(queue) as new:
                assert new.handle != other.handle
            """,
            OPENCL_LAYERS=os.environ["XSCHED_LAYER"],
        ).end()

    def test_xqueue(self):
        """A small threshold needs no other options; a failure leaves no XQueue; a child cannot destroy its parent's."""
        Script(
            self,
            """
            import pyopencl
            queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
            try:
                xsched.XQueue.opencl(queue, threshold=2, batch_size=3)
                raise AssertionError
            except xsched.XSchedError as e:
                assert e.result == 2, e
            with xsched.XQueue.opencl(queue, threshold=2) as x:
                with x.suspended():
                    if os.fork() == 0:
                        x.close()
                        sys.exit(0)
                    assert os.wait()[1] == 0
                assert xsched.XQueue.opencl(queue).handle == x.handle
            """,
            OPENCL_LAYERS=os.environ["XSCHED_LAYER"],
        ).end()


if __name__ == "__main__":
    main()
