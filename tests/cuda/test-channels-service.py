#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""PrivilegedPreemption=channels, end to end: a real xschedd with its holders, and a tenant that nothing else can stop,
on a resource manager of NVIDIA's in a process of its own.

The tests are those of AMD's mode "criu", whose holds outlast their holders, too.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from harness import *


def load(path):
    spec = importlib.util.spec_from_file_location("privileged_service", os.path.join(HERE, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Meson's, which leads to another libxsched, of other tests.
os.environ.pop("LD_LIBRARY_PATH", None)

amd = load("../kfdsim/test-privileged-service.py")


class Driver:
    """The server that plays the driver, for all programs that the test starts."""

    def setUp(self):
        at = tempfile.mkdtemp(prefix="xsched-nvrm-")
        self.addCleanup(shutil.rmtree, at)
        path = os.path.join(at, "nvidiactl")
        driver = subprocess.Popen([os.environ["FAKE_SERVER"], path], stdout=subprocess.PIPE, text=True)
        self.addCleanup(driver.stdout.close)
        self.addCleanup(driver.wait)
        self.addCleanup(driver.kill)
        self.assertEqual(driver.stdout.readline(), "ready\n")
        for name, value in {"FAKE_NVIDIACTL_AT": path, "LD_PRELOAD": os.environ["FAKE_REMOTE"]}.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        super().setUp()


class Channels(Driver, amd.Criu):
    mode = "channels"

    def test_later_channels(self):
        """Channels that are made during a hold are held from the next renewal on."""
        t = self.held_tenant()
        self.assertEqual(t.ask("more"), "made")
        t.stands_still()
        self.release(t)

        # And those from before a hold, which stops at first what it knows.
        self.assertEqual(t.ask("more"), "made")
        self.hold(t)
        self.release(t)
        self.finish(t)

    def test_hostile(self):
        """Whatever a tenant does while it is held, it runs when it is released."""
        t = self.tenant_of_gpu()
        for words, answer in (("move", "moved"), ("many", "opened"), ("move", "moved"), ("fork", "forked")):
            self.hold(t)
            self.assertEqual(t.ask(words), answer)
            self.release(t)
        self.hold(t)
        os.kill(t.pid, signal.SIGSTOP)
        self.high.edge(0)
        self.until_state(t, "running")
        os.kill(t.pid, signal.SIGCONT)
        t.goes_on()
        self.hold(t)
        t.tell("exec /bin/sleep")
        until(lambda: not self.named(), "no record is left of a process that has become another program")
        other = self.held_tenant()
        self.release(other)
        self.finish(other)

    def test_tenant_killed(self):
        """Nothing keeps the files of a tenant that was killed while it was held."""
        t = self.held_tenant()
        os.kill(t.pid, signal.SIGKILL)
        until(lambda: not self.named(), "no record is left")
        other = self.held_tenant()
        self.release(other)
        self.finish(other)


class Outsider(amd.Tenant):
    """A tenant that knows nothing of the service: xschedctl registers it."""

    def __init__(self, bus):
        os.environ["TEST_CLIENT"] = os.environ["REGISTERED_TENANT"]
        command = (os.environ["XSCHEDCTL"], f"--bus-address={bus.address}", "register", amd.DEVICE_ID, "--")
        Program.__init__(self, bus, device="0", queues="-", command=command)


class Registered(Driver, amd.Holds):
    mode = "channels"

    def test_cycles(self):
        t = Outsider(self.bus)
        self.addCleanup(t.end)
        self.assertEqual(self.get("Command", self.call("GetClientByPID", "u", t.pid), CLIENT), "privileged-app")
        for _ in range(2):
            self.hold(t)
            self.release(t)
        # A client of lower priority runs when it has ended.
        low = self.tenant_of_gpu()
        self.until_state(low, "held")
        low.stands_still()
        t.goes_on()
        t.process.end()
        low.goes_on()
        self.finish(low)

    def test_without_service(self):
        self.service.stop()
        t = Outsider(self.bus)
        self.addCleanup(t.end)
        t.goes_on()


class Refused(Driver, amd.Refused):
    mode = "channels"

    test_mes = test_contexts = test_driver_fails = None  # of AMD's driver


class Off(Driver, amd.Off):
    pass


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root, to take files of other processes")
        sys.exit(77)
    main()
