# SPDX-License-Identifier: LGPL-2.1-or-later
"""PrivilegedPreemption=channels under the installed unit, with the example's drop-in. NVIDIA's driver is a process of
its own, which a preloaded library connects to, in the service, its holders and the tenants. Taking descriptors from a
process is done by the real kernel."""

import contextlib
import errno
import os
import shutil
import signal
import stat

import inside
from inside import run, show, until, write
from privileged import DROP_IN, Outlasting, Privileged, Tenant, said_of, service_has, status

DRIVER = "/mnt/build/tests/cuda/fake-server"
REMOTE = "/mnt/build/tests/cuda/libnvidiactl-remote.so"
TENANT = "/mnt/build/tests/cuda/privileged-app"
WORLD = "/run/nvrm"
ENVIRONMENT = {"LD_PRELOAD": REMOTE, "FAKE_NVIDIACTL_AT": f"{WORLD}/nvidiactl"}
NODE = "/dev/nvidiactl"
CONTAINER = (
    *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("--ipc", "--uts", "--net"),
)
AS_ROOT = "/usr/local/bin/sleep-as-root"


def setUpModule():
    os.mkdir(WORLD)
    with contextlib.suppress(PermissionError):
        os.mknod(NODE, 0o666 | stat.S_IFCHR, os.makedev(195, 255))
        os.chmod(NODE, 0o666)
    run("systemd-run", "--unit=nvrm", "--property=UMask=0000", DRIVER, ENVIRONMENT["FAKE_NVIDIACTL_AT"])
    until(lambda: os.path.exists(ENVIRONMENT["FAKE_NVIDIACTL_AT"] + ".calls"), "the driver listens")
    service_has(ENVIRONMENT, WORLD)


class Channels(Privileged):
    mode = "channels"
    comments = True

    def tenant(self):
        return Tenant(ENVIRONMENT, TENANT, "0", inside.DEVICE_ID)


class Plain(Outlasting, Channels):
    def test_becomes_privileged(self):
        """A tenant that becomes a program of root's while it is held: that closes its files, and no record is left."""
        self.hold()
        pid = self.low.pid()
        shutil.copy("/usr/bin/sleep", AS_ROOT)
        os.chmod(AS_ROOT, 0o4755)
        self.low.tell(f"exec {AS_ROOT}")
        until(lambda: status(pid)["Uid"].split()[1] == "0", "it is root's")
        until(lambda: not self.named(), "no record is left")
        os.kill(pid, signal.SIGKILL)
        self.low.end()


class InContainer(Channels):
    """The tenant is in namespaces of its own: of users, processes, mounts, and so on."""

    def tenant(self):
        return Contained(ENVIRONMENT, *CONTAINER, TENANT, "0", inside.DEVICE_ID)

    def test_held(self):
        self.assertEqual(os.readlink(f"/proc/{self.low.pid()}/ns/user") == os.readlink("/proc/self/ns/user"), False)
        self.assertIn("\t1", status(self.low.pid())["NSpid"])
        for _ in range(2):
            self.hold()
            self.release()
        self.hold()
        for words, answer in (("move", "moved"), ("fork", "forked")):
            self.assertEqual(self.low.ask(words), answer)
        self.release()
        self.finish()


class Contained(Tenant):
    def pid(self):
        """Returns the pid outside of the container."""
        return int(run("pgrep", "--parent", show(self.unit, "MainPID")))


class FromOutside(Channels):
    """The tenant knows nothing of xsched: xschedctl registers it."""

    def tenant(self):
        return Tenant(ENVIRONMENT, "xschedctl", "register", inside.DEVICE_ID, TENANT, "0", "-")

    def test_restart(self):
        self.hold()
        run("systemctl", "restart", "xsched")
        self.until_held_again()
        self.low.stands_still()
        self.release()
        self.finish()


class MayOpenDriver(Channels):
    """Under the unit's rules the holder may open the real device file, which has no driver here, and not without its
    line in the drop-in."""

    @classmethod
    def setUpClass(cls):
        service_has({}, WORLD)

    @classmethod
    def tearDownClass(cls):
        service_has(ENVIRONMENT, WORLD)

    def said(self):
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        self.until_state("failed")
        self.assertEqual(self.named(), [])
        return " ".join(said_of(self.low_pid()))

    def test_opened(self):
        if not os.path.exists(NODE):
            self.skipTest("this machine's root makes no device files")
        self.assertIn(os.strerror(errno.ENXIO), self.said())
        self.high.ask("complete 0")
        with open(DROP_IN, encoding="utf-8") as f:
            text = f.read()
        write(DROP_IN, text.replace(f"DeviceAllow={NODE} rw", ""))
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 2, "both to be back")
        self.assertIn("may not be opened", self.said())


if __name__ == "__main__":
    inside.main()
