# SPDX-License-Identifier: LGPL-2.1-or-later
"""Privileged holds under the installed unit: the capabilities, system calls and directories that the example's drop-in
grants are enough, and without the drop-in nothing is held. The driver is simulated in the service, its holders and the
tenants. Taking descriptors from a process, and tracing it, is done by the real kernel."""

import os

import inside
from inside import run, show, until
from privileged import RECORDS, Outlasting, Privileged, Tenant, said_of, service_has

SIMULATOR = "/mnt/build/tests/kfdsim/libkfdsim.so"
TENANT = "/mnt/build/tests/kfdsim/registered-tenant"
WORLD = "/run/kfdsim"
ENVIRONMENT = {"LD_PRELOAD": SIMULATOR, "KFDSIM_DIR": WORLD, "KFDSIM_GPUS": "gfx90a", "KFDSIM_OPTS": "map-us=1"}


def setUpModule():
    """Makes the simulator's directory writable for all users: the service and the tenants are different ones."""
    before = os.umask(0)
    os.mkdir(WORLD)
    run("cat", "/sys/class/kfd/kfd/topology/generation_id", env={**os.environ, **ENVIRONMENT})
    os.umask(before)
    service_has(ENVIRONMENT, WORLD)


class Amd(Privileged):
    def tenant(self):
        return Tenant(ENVIRONMENT, TENANT, "0", inside.DEVICE_ID)


class Criu(Outlasting, Amd):
    def test_records(self):
        self.hold()
        self.assertEqual(self.named(), [self.low_pid()])
        st = os.stat(RECORDS)
        self.assertEqual(st.st_mode & 0o7777, 0o700)
        self.release()
        until(lambda: not self.named(), "no record is left")
        self.finish()

    def test_stop_lets_go(self):
        self.hold()
        run("systemctl", "stop", "xsched")
        self.low.goes_on()
        self.assertEqual(self.named(), [])
        run("systemctl", "start", "xsched")
        self.until_held_again()
        self.release()
        self.finish()

    def test_unit_is_valid(self):
        self.assertEqual(show("xsched", "NeedDaemonReload"), "no")
        self.assertEqual(run("systemd-analyze", "verify", "xsched.service"), "")


class Debug(Amd):
    mode = "debug"
    comments = True

    def test_cycles(self):
        for _ in range(2):
            self.hold()
            self.release()
        self.finish()


class WithoutDropIn(Amd):
    """Without the drop-in, the service logs that it lacks the capabilities, and holds only at the gate, which this
    tenant does not pass."""

    drop_in = False

    def test_refused(self):
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        self.until_state("failed")
        self.low.goes_on()
        self.assertEqual(self.named(), [])
        said = said_of(self.low_pid())
        self.assertEqual(len(said), 1, said)
        self.assertIn("CAP_SYS_PTRACE", said[0])
        self.finish()


if __name__ == "__main__":
    inside.main()
