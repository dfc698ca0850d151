# SPDX-License-Identifier: LGPL-2.1-or-later
"""Privileged holds under the installed unit: what its tests for AMD's and for NVIDIA's driver share."""

import os
import re
import signal
import time

import inside
from inside import CLIENT, Case, journal, run, show, until, write

EXAMPLE = "/usr/share/doc/xsched/examples/privileged.conf"
DROP_IN = "/etc/systemd/system/xsched.service.d/50-privileged.conf"
CONFIG = "/etc/xsched/xsched.conf.d/50-privileged.conf"
RECORDS = "/run/xschedd/holds"
CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE = 1 << 19, 1 << 40
STILL = 0.06


def service_has(environment, world):
    """Gives the service a simulated driver, and the group that udev's package usually makes."""
    run("groupadd", "--system", "--force", "render")
    lines = "".join(f"Environment={k}={v}\n" for k, v in environment.items())
    inside.drop_in("xsched.service", "90-simulator", f"[Service]\n{lines}ReadWritePaths={world}\n")


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


class Tenant(inside.Client):
    """An ordinary user's process with a GPU queue that nothing but a privileged hold can stop."""

    def __init__(self, environment, *program):
        preload = [f"--setenv={k}={v}" for k, v in environment.items()]
        super().__init__(
            "--property=User=daemon", "--property=UMask=0000", "--setenv=XSCHED_PRIORITY=-10", *preload, program=program
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
        raise NotImplementedError

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


class Outlasting:
    """Tests of a mode whose holds outlast the holders, to be added to a Privileged."""

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


def said_of(pid):
    """Returns what the journal has of the process."""
    return [m["MESSAGE"] for m in journal("_SYSTEMD_UNIT=xsched.service") if f"Process {pid} of" in m["MESSAGE"]]
