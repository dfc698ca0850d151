# SPDX-License-Identifier: LGPL-2.1-or-later
"""Privileged holds under the installed unit: the capabilities, system calls and directories that the example's drop-in
grants are enough, and without the drop-in nothing is held. The driver is simulated in the service, its holders and the
tenants. Taking descriptors from a process, and tracing it, is done by the real kernel."""

import contextlib
import errno
import os
import re
import shutil
import signal
import stat
import time
import unittest

import inside
from inside import CLIENT, Case, journal, run, show, until, write

SIMULATOR = "/mnt/build/tests/kfdsim/libkfdsim.so"
TENANT = "/mnt/build/tests/kfdsim/registered-tenant"
WORLD = "/run/kfdsim"
EXAMPLE = "/usr/share/doc/xsched/examples/privileged.conf"
DROP_IN = "/etc/systemd/system/xsched.service.d/50-privileged.conf"
CONFIG = "/etc/xsched/xsched.conf.d/50-privileged.conf"
RECORDS = "/run/xschedd/holds"
ENVIRONMENT = {"LD_PRELOAD": SIMULATOR, "KFDSIM_DIR": WORLD, "KFDSIM_GPUS": "gfx90a", "KFDSIM_OPTS": "map-us=1"}
CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE = 1 << 19, 1 << 40
STILL = 0.06
# NVIDIA's driver is a process of its own, which this library connects to.
DRIVER = "/mnt/build/tests/cuda/fake-server"
REMOTE = "/mnt/build/tests/cuda/libnvidiactl-remote.so"
NVIDIA_TENANT = "/mnt/build/tests/cuda/privileged-app"
NVIDIA_WORLD = "/run/nvrm"
NVIDIA_ENVIRONMENT = {"LD_PRELOAD": REMOTE, "FAKE_NVIDIACTL_AT": f"{NVIDIA_WORLD}/nvidiactl"}
NODE = "/dev/nvidiactl"
CONTAINER = (
    *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("--ipc", "--uts", "--net"),
)


def setUpModule():
    """Makes the simulator's directory writable for all users: the service and the tenants are different ones."""
    run("groupadd", "--system", "--force", "render")  # usually made by udev's package
    before = os.umask(0)
    os.mkdir(WORLD)
    run("cat", "/sys/class/kfd/kfd/topology/generation_id", env={**os.environ, **ENVIRONMENT})
    os.umask(before)
    service_has(ENVIRONMENT, WORLD)


def service_has(environment, world):
    lines = "".join(f"Environment={k}={v}\n" for k, v in environment.items())
    inside.drop_in("xsched.service", "90-simulator", f"[Service]\n{lines}ReadWritePaths={world}\n")


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


class Tenant(inside.Client):
    """An ordinary user's process with a GPU queue that nothing but a privileged hold can stop."""

    def __init__(self, program=(TENANT,), environment=None):
        preload = [f"--setenv={k}={v}" for k, v in (environment or ENVIRONMENT).items()]
        super().__init__(
            "--property=User=daemon",
            "--property=UMask=0000",
            "--setenv=XSCHED_PRIORITY=-10",
            *preload,
            program=[*program, "0", inside.DEVICE_ID],
        )

    def pid(self):
        return int(show(self.unit, "MainPID"))

    def count(self):
        return int(self.ask("count"))

    def stands_still(self):
        def still():
            before = self.count()
            time.sleep(STILL)
            return self.count() == before

        until(still, "the tenant stands still")

    def goes_on(self):
        before = self.count()
        until(lambda: self.count() > before + 5, "the tenant goes on")


class Privileged(Case):
    mode = "criu"
    comments = False  # whether to use the lines for DBG_TRAP, which the example has as comments
    drop_in = True

    def setUp(self):
        write(CONFIG, f"[Scheduler]\nStarveAfter=1h\nPreemption=privileged\nPrivilegedPreemption={self.mode}\n")
        if self.drop_in:
            with open(EXAMPLE, encoding="utf-8") as f:
                text = f.read()
            write(DROP_IN, re.sub(r"(?m)^#(?=\w+=)", "", text) if self.comments else text)
        elif os.path.exists(DROP_IN):
            os.unlink(DROP_IN)
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "xsched")
        super().setUp()
        self.low = self.tenant()
        self.clients.append(self.low)
        self.high = self.client()

    def tenant(self):
        return Tenant()

    def state(self):
        return self.get("PrivilegedState", self.call("GetClientByPID", "u", self.low.pid())[0], CLIENT)

    def until_state(self, state):
        until(lambda: self.state() == state, f"{state}, not {self.state()}")

    def hold(self):
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        self.until_state("held")
        self.low.stands_still()

    def until_held_again(self):
        """Waits until the tenant is held again: the other client is still ready."""
        until(lambda: self.get("NClients") == 2, "both to be back")
        self.until_state("held")

    def release(self):
        self.high.ask("complete 0")
        self.until_state("running")
        self.low.goes_on()

    def finish(self):
        self.assertEqual(self.low.ask("finish"), "clean")
        until(lambda: not self.named(), "no record is left")

    def named(self):
        """Returns the processes that the records name."""
        names = os.listdir(RECORDS) if os.path.isdir(RECORDS) else []
        return [int(n.split("-")[1]) for n in names if re.fullmatch(r"hold-\d+-\d+", n)]

    def low_pid(self):
        return self.low.pid()

    def holder(self):
        def find():
            pids = run("pgrep", "--parent", show("xsched", "MainPID"), "xsched-holder", status=None).split()
            return int(pids[0]) if pids else None

        return until(find, "a holder")


class Criu(Privileged):
    capabilities = CAP_SYS_PTRACE | CAP_CHECKPOINT_RESTORE

    def test_holder_has_what_it_needs_and_no_more(self):
        self.hold()
        for pid in (int(show("xsched", "MainPID")), self.holder()):
            s = status(pid)
            self.assertEqual(s["Uid"].split()[0], run("id", "-u", "xsched").strip())
            self.assertEqual(int(s["CapEff"], 16), self.capabilities)
            self.assertEqual(int(s["CapBnd"], 16), self.capabilities)
            self.assertEqual((s["NoNewPrivs"], s["Seccomp"]), ("1", "2"))
        self.assertNotEqual(status(self.low_pid())["Uid"].split()[0], s["Uid"].split()[0])
        self.release()
        self.finish()

    def test_records(self):
        self.hold()
        self.assertEqual(self.named(), [self.low_pid()])
        st = os.stat(RECORDS)
        self.assertEqual(st.st_mode & 0o7777, 0o700)
        self.release()
        until(lambda: not self.named(), "no record is left")
        self.finish()

    def test_all_killed(self):
        """ExecStopPost= undoes the holds. The unit does not restart here, so the next service cannot have done it."""
        inside.drop_in("xsched.service", "95-once", "[Service]\nRestart=no\n")
        try:
            self.hold()
            pid = self.low_pid()
            os.kill(self.holder(), signal.SIGSTOP)
            run("systemctl", "kill", "--signal=KILL", "--kill-whom=all", "xsched")
            until(lambda: show("xsched", "ActiveState") == "failed", "the unit to have failed")
            self.assertEqual(self.named(), [])
            self.low.goes_on()
            said = lambda: [m["MESSAGE"] for m in journal("_SYSTEMD_UNIT=xsched.service")]
            until(lambda: any(f"pause of process {pid} " in text for text in said()), "the journal to say so")
        finally:
            os.unlink("/run/systemd/system/xsched.service.d/95-once.conf")
            run("systemctl", "daemon-reload")
            run("systemctl", "reset-failed", "xsched", status=None)
        run("systemctl", "start", "xsched")
        self.until_held_again()
        self.release()
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


class Debug(Privileged):
    mode = "debug"
    comments = True

    def test_cycles(self):
        for _ in range(2):
            self.hold()
            self.release()
        self.finish()


class Channels(Privileged):
    """The same for NVIDIA's driver."""

    mode = "channels"
    comments = True

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(DRIVER):
            raise unittest.SkipTest("built without CUDA")
        if not os.path.isdir(NVIDIA_WORLD):
            os.mkdir(NVIDIA_WORLD)
        with contextlib.suppress(PermissionError):
            os.mknod(NODE, 0o666 | stat.S_IFCHR, os.makedev(195, 255))
            os.chmod(NODE, 0o666)
        run("systemd-run", "--unit=nvrm", "--property=UMask=0000", DRIVER, NVIDIA_ENVIRONMENT["FAKE_NVIDIACTL_AT"])
        until(lambda: os.path.exists(NVIDIA_ENVIRONMENT["FAKE_NVIDIACTL_AT"] + ".calls"), "the driver listens")
        service_has(NVIDIA_ENVIRONMENT, NVIDIA_WORLD)

    @classmethod
    def tearDownClass(cls):
        run("systemctl", "stop", "nvrm")
        shutil.rmtree(NVIDIA_WORLD)
        service_has(ENVIRONMENT, WORLD)
        if os.path.exists(NODE):
            os.unlink(NODE)

    def tenant(self):
        return Tenant((NVIDIA_TENANT,), NVIDIA_ENVIRONMENT)


class ChannelsAsCriu(Channels, Criu):
    test_records = test_unit_is_valid = None  # nothing else than in the class above


class InContainer(Channels):
    """The tenant is in namespaces of its own: of users, processes, mounts, and so on."""

    def tenant(self):
        return Contained((*CONTAINER, NVIDIA_TENANT), NVIDIA_ENVIRONMENT)

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


class BecomesPrivileged(Channels):
    """A tenant that becomes a program of root's while it is held: its files are closed by that, and nothing is left."""

    def test_exec(self):
        self.hold()
        pid = self.low.pid()
        shutil.copy("/usr/bin/sleep", "/usr/local/bin/sleep-as-root")
        os.chmod("/usr/local/bin/sleep-as-root", 0o4755)
        self.low.tell("exec /usr/local/bin/sleep-as-root")
        until(lambda: status(pid)["Uid"].split()[1] == "0", "it is root's")
        until(lambda: not self.named(), "no record is left")
        os.kill(pid, signal.SIGKILL)
        self.low.end()


class MayOpenDriver(Channels):
    """Under the unit's rules the holder may open the real device file, which has no driver here."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        service_has({}, NVIDIA_WORLD)

    def said(self):
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        self.until_state("failed")
        self.assertEqual(self.named(), [])
        pid = self.low_pid()
        return journal_of(pid)

    def test_opened(self):
        self.assertIn(os.strerror(errno.ENXIO), self.said())

    def test_not_allowed(self):
        with open(DROP_IN, encoding="utf-8") as f:
            text = f.read()
        write(DROP_IN, text.replace(f"DeviceAllow={NODE} rw", ""))
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 2, "both to be back")
        self.assertIn("may not be opened", self.said())


def journal_of(pid):
    said = [m["MESSAGE"] for m in journal("_SYSTEMD_UNIT=xsched.service") if f"Process {pid} of" in m["MESSAGE"]]
    return " ".join(said)


class WithoutDropIn(Privileged):
    """Without the drop-in, the service logs that it lacks the capabilities, and holds only at the gate, which this
    tenant does not pass."""

    drop_in = False

    def test_refused(self):
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        self.until_state("failed")
        self.low.goes_on()
        self.assertEqual(self.named(), [])
        pid = self.low_pid()
        said = [m["MESSAGE"] for m in journal("_SYSTEMD_UNIT=xsched.service") if f"Process {pid} of" in m["MESSAGE"]]
        self.assertEqual(len(said), 1, said)
        self.assertIn("CAP_SYS_PTRACE", said[0])
        self.finish()


if __name__ == "__main__":
    inside.main()
