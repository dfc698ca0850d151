#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Privileged holds, end to end: a real xschedd with its holders, and a tenant that nothing else can stop, on simulated
GPUs."""

import glob
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

DEVICE_ID = "pci:0000:07:00.0"
STILL = 0.06


class Tenant(Program):
    def __init__(self, bus, gpu=0, device=DEVICE_ID, env=None):
        os.environ["TEST_CLIENT"] = os.environ["REGISTERED_TENANT"]
        super().__init__(bus, device=str(gpu), queues=device, env={"XSCHED_PRIORITY": "-10", **(env or {})})

    def count(self):
        return int(self.ask("count"))

    def stands_still(self):
        """Waits until nothing is executed for the time of many dispatches."""

        def still():
            before = self.count()
            select.select([], [], [], STILL)
            return self.count() == before

        until(still, "the tenant stands still")

    def goes_on(self):
        before = self.count()
        until(lambda: self.count() > before + 5, "the tenant goes on")


def program_of(pid):
    """Returns the name of the process's program, or "" if it has ended."""
    try:
        return proc(pid, "comm")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Holds(Case):
    """A service in the mode of the class, and a client of higher priority, which the test makes ready."""

    mode = "criu"
    more = ""

    def setUp(self):
        self.config = (
            f"[Scheduler]\nStarveAfter=1h\nPreemption=privileged\nPrivilegedPreemption={self.mode}\n{self.more}"
        )
        runtime = tempfile.mkdtemp(prefix="xsched-run-")
        self.addCleanup(shutil.rmtree, runtime)
        os.environ["RUNTIME_DIRECTORY"] = runtime
        self.records = os.path.join(runtime, "holds")
        super().setUp()
        self.high_client, self.high = self.tenant("high", DEVICE_ID, Priority=100)

    def tenant_of_gpu(self, *args, **kwargs):
        t = Tenant(self.bus, *args, **kwargs)
        self.addCleanup(t.end)
        return t

    def state(self, t):
        return self.get("PrivilegedState", self.call("GetClientByPID", "u", t.pid), CLIENT)

    def named(self):
        """Returns the processes that the records name."""
        return [int(re.match(r"hold-(\d+)-", os.path.basename(p))[1]) for p in glob.glob(f"{self.records}/hold-*[0-9]")]

    def until_told(self, text):
        """Waits for a message of the service: it logs what it did afterwards."""
        until(lambda: text in self.service.messages(), f"it logs {text}")

    def until_state(self, t, *states):
        try:
            until(lambda: self.state(t) in states, f"{states}")
        except AssertionError as e:
            raise AssertionError(f"{e}, but {self.state(t)}: {self.service.messages()}") from e

    def hold(self, t):
        self.high.edge(1)
        self.until_state(t, "held")
        t.stands_still()

    def held_tenant(self):
        t = self.tenant_of_gpu()
        self.hold(t)
        return t

    def kill_all(self):
        """Kills the service and the holder. The holder is stopped first, so that it cannot release the tenant."""
        holder = self.holder()
        os.kill(holder, signal.SIGSTOP)
        self.service.kill()
        os.kill(holder, signal.SIGKILL)

    def release(self, t):
        self.high.edge(0)
        self.until_state(t, "running")
        t.goes_on()

    def finish(self, *tenants):
        for t in tenants:
            self.assertEqual(t.ask("finish"), "clean")
        until(lambda: not self.named(), "no record is left")

    def children(self):
        return [int(p) for p in proc(self.service.pid, f"task/{self.service.pid}/children").split()]

    def holders(self):
        return [p for p in self.children() if "holder" in program_of(p)]

    def holder(self):
        return until(self.holders, "a holder")[0]


class Criu(Holds):
    def test_cycles(self):
        t = self.tenant_of_gpu()
        self.assertEqual(self.state(t), "off")
        for _ in range(3):
            self.hold(t)
            self.assertEqual(self.named(), [t.pid])
            self.release(t)
            until(lambda: not self.named(), "no record is left")
        self.finish(t)

    def test_outlasts_leases(self):
        t = self.held_tenant()
        before = t.count()
        until_ns = now_ns() + int(2.5 * LEASE * 1e9)
        until(lambda: now_ns() > until_ns, "leases run out")
        self.assertEqual(t.count(), before)
        self.release(t)
        self.finish(t)

    def test_two_tenants(self):
        a, b = self.tenant_of_gpu(), self.tenant_of_gpu()
        self.high.edge(1)
        until(lambda: self.state(a) == self.state(b) == "held", "both are held")
        a.stands_still()
        b.stands_still()
        self.assertEqual(sorted(self.named()), sorted([a.pid, b.pid]))
        a.process.end()
        until(lambda: self.named() == [b.pid], "the record of the ended tenant is removed")
        self.release(b)
        self.finish(b)

    def test_service_killed(self):
        t = self.held_tenant()
        self.service.kill()
        t.goes_on()
        until(lambda: not self.named(), "its holder has undone it")
        self.service.start()
        self.c = self.connect()
        t.goes_on()
        self.finish(t)

    def test_service_stopped(self):
        t = self.held_tenant()
        self.service.freeze()
        t.goes_on()
        self.service.thaw()
        t.stands_still()
        self.release(t)
        self.finish(t)

    def test_holder_killed(self):
        t = self.held_tenant()
        holder = self.holder()
        os.kill(holder, signal.SIGKILL)
        # In this order: until the service knows of the end, the state is as before.
        until(lambda: self.holder() != holder and self.state(t) == "held", "another holder")
        t.stands_still()
        self.release(t)
        self.finish(t)

    def test_holder_stopped(self):
        t = self.held_tenant()
        os.kill(self.holder(), signal.SIGSTOP)
        self.high.edge(0)
        t.goes_on()
        until(lambda: not self.named(), "another one has undone it")
        self.finish(t)

    def test_holder_does_not_answer(self):
        """A holder that does not come back from a hold is given up. Lesser means hold the tenant, and another holder
        does so later."""
        t = self.held_tenant()
        self.release(t)
        holder = self.holder()
        os.kill(holder, signal.SIGSTOP)
        self.high.edge(1)
        self.until_state(t, "holding")
        self.until_state(t, "failed")
        self.until_told("does not answer")
        until(lambda: holder not in self.children(), "it is killed")
        self.high.edge(0)
        t.goes_on()
        self.assertEqual(self.state(t), "failed")
        self.finish(t)

    def test_all_killed(self):
        """If no process is left to undo a hold, the next service does so when it starts."""
        t = self.held_tenant()
        self.kill_all()
        t.stands_still()
        self.assertEqual(self.named(), [t.pid])
        self.service.start()
        t.goes_on()
        until(lambda: not self.named(), "no record is left")
        self.until_told("undone")
        self.finish(t)

    def test_former_holder_lives(self):
        """If a holder of the former service can neither release nor end, the new service waits for it, and undoes the
        hold once it has ended."""
        t = self.held_tenant()
        holder = self.holder()
        os.kill(holder, signal.SIGSTOP)
        self.service.kill()
        self.service.start()
        first = self.holder()
        until(lambda: first not in self.children(), "a new holder has waited for it in vain")
        t.stands_still()
        self.assertEqual(self.named(), [t.pid])
        os.kill(holder, signal.SIGKILL)
        t.goes_on()
        until(lambda: not self.named(), "no record is left")
        self.finish(t)

    def test_all_holders_killed(self):
        """All holders are killed at the same time, after the service has ended the holds."""
        tenants = [self.tenant_of_gpu() for _ in range(3)]
        self.high.edge(1)
        for t in tenants:
            self.until_state(t, "held")
        holders = self.holders()
        self.assertEqual(len(holders), 3)
        for h in holders:
            os.kill(h, signal.SIGSTOP)
        self.high.edge(0)
        for h in holders:
            os.kill(h, signal.SIGKILL)
        for t in tenants:
            t.goes_on()
        self.service.stop()  # it would let the tenants run in turns
        for t in tenants:
            t.goes_on()  # launches made during the hold are executed, too
        self.finish(*tenants)

    def test_undone_by_hand(self):
        """The program of ExecStopPost= undoes holds."""
        t = self.held_tenant()
        self.kill_all()
        subprocess.run([os.environ["HOLDER"], "undo", self.records], check=True, capture_output=True)
        t.goes_on()
        self.assertEqual(self.named(), [])
        self.service.start()
        self.finish(t)

    def test_bad_records(self):
        """The service sets bad records aside, and starts."""
        t = self.held_tenant()
        good = open(glob.glob(f"{self.records}/hold-*[0-9]")[0], encoding="utf-8").read()
        self.release(t)
        self.service.stop()
        bad = {
            "hold-1-1": b"",
            "hold-2-2": b"\0\1\2garbage" * 99,
            "hold-3-3": good.encode()[:-4],
            "hold-4-4": (good + "more\n").encode(),
            "hold-7-7": good.encode(),
        }
        for name, data in bad.items():
            with open(f"{self.records}/{name}", "wb") as f:
                f.write(data)
        other_boot = re.sub(r"boot (\S{8})", "boot 00000000", good)
        over = {
            "hold-5-5": re.sub(r"pid .*\nstart .*", "pid 5\nstart 5", other_boot),
            "hold-4194303-6": re.sub(r"pid .*\nstart .*", "pid 4194303\nstart 6", good),
        }
        for name, text in over.items():
            with open(f"{self.records}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        self.service.start()
        until(lambda: all(os.path.exists(f"{self.records}/{n}.bad") for n in bad), "they are set aside")
        for name, data in bad.items():
            with open(f"{self.records}/{name}.bad", "rb") as f:
                self.assertEqual(f.read(), data)
            self.until_told(name)
        self.finish(t)

    def test_stop_lets_go(self):
        t = self.held_tenant()
        self.service.stop()
        t.goes_on()
        until(lambda: not self.named(), "no record is left")
        self.service.start()
        self.finish(t)

    def test_suspended(self):
        t = self.tenant_of_gpu()
        client = self.call("GetClientByPID", "u", t.pid)
        self.c.call(NAME, client, CLIENT, "Suspend")
        self.until_state(t, "held")
        t.stands_still()
        self.c.call(NAME, client, CLIENT, "Resume")
        t.goes_on()
        self.finish(t)


class Debug(Holds):
    mode = "debug"

    def test_cycles(self):
        t = self.tenant_of_gpu()
        for _ in range(3):
            self.hold(t)
            self.release(t)
        self.finish(t)

    def test_all_killed(self):
        """The driver resumes queues that a debugger has suspended when the debugger ends."""
        t = self.held_tenant()
        self.kill_all()
        t.goes_on()
        self.service.start()
        until(lambda: not self.named(), "no record is left")
        self.finish(t)


class Refused(Holds):
    """Without privileged holds only the gate is left, which this tenant does not pass."""

    def start_other(self, command=()):
        """Starts the service anew, with a client of higher priority."""
        self.service.stop()
        self.service.command = list(command)
        self.service.start()
        self.high_client, self.high = self.tenant("high", DEVICE_ID, Priority=100)

    def refused(self, t, why):
        self.high.edge(1)
        self.until_state(t, "failed")
        t.goes_on()
        self.until_told(why)
        until(lambda: not self.named(), "no record is left")
        self.finish(t)

    def test_mes(self):
        self.refused(self.tenant_of_gpu(gpu=1), "MES")

    def test_contexts(self):
        """A process with several contexts, which kernels from 7.0 on report, is refused: no call holds all of them."""
        t = self.tenant_of_gpu()
        os.makedirs(f"{os.environ['KFDSIM_DIR']}/proc/{t.pid}/context_1/queues")
        self.refused(t, "more than one context")

    def test_driver_fails(self):
        os.environ["KFDSIM_FAIL"] = "0x22:62:1"
        self.addCleanup(os.environ.pop, "KFDSIM_FAIL")
        self.start_other()
        self.refused(self.tenant_of_gpu(), "did not stop")

    def test_unprivileged(self):
        self.start_other(["setpriv", "--bounding-set=-sys_ptrace", "--"])
        self.refused(self.tenant_of_gpu(), "CAP_SYS_PTRACE")

    def test_no_records(self):
        """The service does not make a hold that it cannot record."""
        shutil.rmtree(self.records, ignore_errors=True)
        os.rmdir(os.path.dirname(self.records))
        t = self.tenant_of_gpu()
        self.high.edge(1)
        self.until_state(t, "failed")
        t.goes_on()
        os.mkdir(os.path.dirname(self.records))
        self.finish(t)


class Off(Holds):
    mode = "no"

    def test_off(self):
        t = self.tenant_of_gpu()
        self.high.edge(1)
        path = self.call("GetClientByPID", "u", t.pid)
        until(lambda: self.get("State", path, CLIENT) == "held", "its gate is closed")
        t.goes_on()
        self.assertEqual(self.state(t), "off")
        self.assertFalse(os.path.exists(self.records))
        self.finish(t)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root, to trace and to pause")
        sys.exit(77)
    main()
