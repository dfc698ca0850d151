# SPDX-License-Identifier: LGPL-2.1-or-later
"""Privileged holds under the installed unit: the capabilities, system calls and directories that the example's drop-in
grants are enough, and without the drop-in nothing is held. The driver is simulated in the service, its holders and the
tenants. Taking descriptors from a process, and tracing it, is done by the real kernel."""

import os
import re
import signal
import time

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


def setUpModule():
    """Makes the simulator's directory writable for all users: the service and the tenants are different ones."""
    run("groupadd", "--system", "--force", "render")  # usually made by udev's package
    before = os.umask(0)
    os.mkdir(WORLD)
    run("cat", "/sys/class/kfd/kfd/topology/generation_id", env={**os.environ, **ENVIRONMENT})
    os.umask(before)
    lines = "".join(f"Environment={k}={v}\n" for k, v in ENVIRONMENT.items())
    inside.drop_in("xsched.service", "90-simulator", f"[Service]\n{lines}ReadWritePaths={WORLD}\n")


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


class Tenant(inside.Client):
    """An ordinary user's process with a GPU queue that nothing but a privileged hold can stop."""

    def __init__(self):
        preload = [f"--setenv={k}={v}" for k, v in ENVIRONMENT.items()]
        super().__init__(
            "--property=User=daemon",
            "--property=UMask=0000",
            "--setenv=XSCHED_PRIORITY=-10",
            *preload,
            program=[TENANT, "0", inside.DEVICE_ID],
        )

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
        self.low = Tenant()
        self.clients.append(self.low)
        self.high = self.client()

    def state(self):
        return self.get("PrivilegedState", self.client_of(self.low), CLIENT)

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
        return int(show(self.low.unit, "MainPID"))

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
