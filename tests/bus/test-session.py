#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-session: readiness, exit statuses, signals, the environment, and that nothing is left behind.

The daemon here is a few lines of Python beside a copy of xsched-session, laid out as in a build tree: so the test can
play every misbehaviour of a daemon. All other tests of this suite run on the real daemon."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SESSION = os.environ["XSCHED_SESSION"]
DEADLINE = 60

FAKE_DAEMON = """#!/usr/bin/python3
import json, os, signal, socket, sys
how = os.environ.get("FAKE_DAEMON", "")
if "FAKE_REPORT" in os.environ:
    with open(os.environ["FAKE_REPORT"], "w") as f:
        json.dump({"pid": os.getpid(), "argv": sys.argv[1:], "env": dict(os.environ)}, f)
if how == "die":
    sys.exit(3)
if how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(os.environ["NOTIFY_SOCKET"])
if how == "mute":
    print("mute", file=sys.stderr, flush=True)
    signal.pause()
s.send(b"STATUS=starting")
r, w = os.pipe()
socket.send_fds(s, [b"FDSTORE=1\\nREADY=1\\nSTATUS=up"], [r])
if how == "flood":
    for i in range(5000):
        s.send(b"WATCHDOG=1")
if how == "crash":
    open(os.environ["FAKE_FIFO"]).read()
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    signal.pause()
"""

WAIT_SIGNALS = """
import signal, sys
signals = {signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print("up", flush=True)
for i in range(3):
    print(signal.Signals(signal.sigwait(signals)).name, flush=True)
sys.exit(9)
"""


def wait_gone(pid):
    """Waits until process `pid` has ended, by its pidfd and without polling."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([fd], [], [], DEADLINE)[0]:
            raise AssertionError(f"process {pid} is still there")
    finally:
        os.close(fd)


class Session(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="xs-test-")
        self.addCleanup(shutil.rmtree, self.top)
        for d in ("tools", "service", "shim", "tmp"):
            os.mkdir(f"{self.top}/{d}")
        self.session = f"{self.top}/tools/xsched-session"
        self.layer = f"{self.top}/shim/libxsched-opencl.so"
        shutil.copy(SESSION, self.session)
        with open(f"{self.top}/service/xschedd", "w") as f:
            f.write(FAKE_DAEMON)
        os.chmod(f.name, 0o755)
        open(self.layer, "w").close()
        self.report = f"{self.top}/report"
        self.env = dict(
            os.environ,
            TMPDIR=f"{self.top}/tmp",
            FAKE_REPORT=self.report,
            FAKE_FIFO=f"{self.top}/fifo",
            WAIT_SIGNALS=WAIT_SIGNALS,
        )
        for name in ("OPENCL_LAYERS", "LD_PRELOAD", "XSCHED_BUS_ADDRESS"):
            self.env.pop(name, None)

    def tearDown(self):
        self.assertEqual(os.listdir(f"{self.top}/tmp"), [])

    def run_session(self, *args, how="", **kwargs):
        return subprocess.run(
            [self.session, *args],
            env=dict(self.env, FAKE_DAEMON=how, **kwargs),
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE,
        )

    def start(self, script, how=""):
        p = subprocess.Popen(
            [self.session, "--", "sh", "-c", script],
            env=dict(self.env, FAKE_DAEMON=how),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(lambda: [f.close() for f in (p.stdin, p.stdout, p.stderr)])
        return p

    def daemon(self):
        import json

        with open(self.report) as f:
            return json.load(f)

    def test_status(self):
        for status in (0, 1, 7, 255):
            self.assertEqual(self.run_session("--", "sh", "-c", f"exit {status}").returncode, status)

    def test_killed_command(self):
        for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
            self.assertEqual(self.run_session("sh", "-c", f"kill -{int(sig)} $$").returncode, 128 + sig)

    def test_no_command(self):
        self.assertEqual(self.run_session("--", "/nonexistent").returncode, 127)
        self.assertEqual(self.run_session("--", "/etc/passwd").returncode, 126)
        self.assertEqual(self.run_session().returncode, 125)
        self.assertEqual(self.run_session("--bogus").returncode, 125)
        self.assertEqual(self.run_session("--shim=bogus", "true").returncode, 125)

    def test_arguments_pass_unchanged(self):
        p = self.run_session("printf", "%s\n", "--help", "", "a b", "--")
        self.assertEqual(p.stdout, "--help\n\na b\n--\n")

    def test_bus_works_and_output_is_the_commands(self):
        p = self.run_session("dbus-send", "--address=" + "ADDRESS", "--print-reply=literal", "--dest=x", "/", "x.y")
        self.assertNotEqual(p.returncode, 0)
        p = self.run_session(
            "sh",
            "-c",
            'dbus-send --bus="$XSCHED_BUS_ADDRESS" --print-reply=literal '
            "--dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId",
        )
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertRegex(p.stdout, r"^ *[0-9a-f]{32}\n?$")
        self.assertEqual(p.stderr, "")

    def test_daemon_environment_and_arguments(self):
        p = self.run_session(
            "--config=/some/file",
            "--log-level=debug",
            "sh",
            "-c",
            'echo "$XSCHED_BUS_ADDRESS"',
            WATCHDOG_USEC="1",
            LISTEN_FDS="3",
            XSCHED_JOB="x",
        )
        self.assertEqual(p.returncode, 0, p.stderr)
        daemon = self.daemon()
        clients, bus = p.stdout.strip().split(";")
        self.assertRegex(clients, "^xsched:path=/")
        self.assertEqual(
            daemon["argv"],
            [
                "--bus-address=" + bus,
                "--socket=" + clients.split("=")[1],
                "--log-target=console",
                "--log-level=debug",
                "--config=/some/file",
            ],
        )
        for name in ("WATCHDOG_USEC", "LISTEN_FDS", "XSCHED_JOB", "OPENCL_LAYERS"):
            self.assertNotIn(name, daemon["env"])

    def layers(self, *args, variable="OPENCL_LAYERS", **kwargs):
        p = self.run_session(*args, "sh", "-c", f'echo "${variable}"', **kwargs)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout.strip()

    def test_shim_environment(self):
        self.assertEqual(self.layers(), self.layer)
        self.assertEqual(self.layers(OPENCL_LAYERS="/a.so:/b.so"), f"{self.layer}:/a.so:/b.so")
        self.assertEqual(self.layers(OPENCL_LAYERS=f"/a.so:{self.layer}:/b.so"), f"{self.layer}:/a.so:/b.so")
        self.assertEqual(self.layers(OPENCL_LAYERS="/a.so:/usr/lib/libxsched-opencl.so"), f"{self.layer}:/a.so")
        self.assertEqual(
            self.layers(OPENCL_LAYERS="/a/notlibxsched-opencl.so"), f"{self.layer}:/a/notlibxsched-opencl.so"
        )
        self.assertEqual(self.layers("--shim=none"), "")
        self.assertEqual(self.layers("--shim=none", OPENCL_LAYERS="/a.so"), "/a.so")
        self.assertEqual(self.layers("--shim=preload"), "")

    def test_tools_are_in_the_path(self):
        """As README describes it: programs beside xsched-session are found by their names."""
        tools, path = f"{self.top}/tools", os.environ["PATH"]
        for name in ("xschedctl", "xsched-queues"):
            with open(f"{tools}/{name}", "w") as f:
                f.write(f"#!/bin/sh\necho here is {name}\n")
            os.chmod(f.name, 0o755)
            self.assertEqual(self.run_session("--", "bash", "-c", name).stdout, f"here is {name}\n")
        p = self.run_session("--", "xschedctl")  # looked for in the same places
        self.assertEqual((p.returncode, p.stdout), (0, "here is xschedctl\n"))
        self.assertEqual(self.layers(variable="PATH"), f"{tools}:{path}")
        for there in (f"{path}:{tools}", f"{tools}:{path}", f"/bin:{tools}:/usr/bin"):
            self.assertEqual(self.layers(variable="PATH", PATH=there), there)
        self.assertEqual(self.layers(variable="PATH", PATH=f"{tools}x:{path}"), f"{tools}:{tools}x:{path}")

    def test_readme(self):
        """The real ones of the build."""
        p = subprocess.run(
            [SESSION, "--", "bash", "-c", "xschedctl --no-legend list-clients && type -P xschedctl xsched-queues"],
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE,
        )
        beside = os.path.dirname(os.path.realpath(SESSION))
        self.assertEqual((p.returncode, p.stdout), (0, f"{beside}/xschedctl\n{beside}/xsched-queues\n"), p.stderr)

    def test_job_of_another_service_is_dropped(self):
        self.assertEqual(self.layers("--shim=none", variable="XSCHED_JOB", XSCHED_JOB="token"), "")

    def test_temporary_directory_goes_and_long_names_fall_back(self):
        p = self.run_session("sh", "-c", 'echo "$XSCHED_BUS_ADDRESS"')
        self.assertIn("/tmp/xsched-session-", p.stdout)
        p = self.run_session("sh", "-c", 'echo "$XSCHED_BUS_ADDRESS"', TMPDIR=self.top + "/tmp/" + "x" * 100)
        for address in p.stdout.strip().split(";"):
            self.assertRegex(address, "^(xsched|unix):path=/tmp/xsched-session-")
            self.assertFalse(os.path.exists(os.path.dirname(address.split("=")[1])))

    def test_address_is_quoted(self):
        tmp = tempfile.mkdtemp(prefix="a;b &", dir="/tmp")
        self.addCleanup(os.rmdir, tmp)
        p = self.run_session(
            "sh",
            "-c",
            'dbus-send --bus="$XSCHED_BUS_ADDRESS" --print-reply=literal '
            "--dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId",
            TMPDIR=tmp,
        )
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_daemon_that_dies(self):
        p = self.run_session("echo", "ran", how="die")
        self.assertEqual((p.returncode, p.stdout), (125, ""))
        self.assertIn("xschedd exited with status 3", p.stderr)

    def test_daemon_missing(self):
        os.remove(f"{self.top}/service/xschedd")
        os.mkdir(f"{self.top}/elsewhere")
        os.rename(self.session, f"{self.top}/elsewhere/xsched-session")
        self.session = f"{self.top}/elsewhere/xsched-session"
        if os.path.exists("/usr/libexec/xschedd"):
            self.skipTest("xschedd is installed")
        p = self.run_session("echo", "ran")
        self.assertEqual((p.returncode, p.stdout), (125, ""))

    def test_daemon_that_floods_is_never_blocked(self):
        self.assertEqual(self.run_session("true", how="flood").returncode, 0)

    def test_daemon_that_dies_under_the_command(self):
        os.mkfifo(self.env["FAKE_FIFO"])
        p = self.start('echo x >"$FAKE_FIFO"; read -r line; echo "$line"; exit 5', how="crash")
        self.assertIn("xschedd was killed by SIGKILL", p.stderr.readline())
        out, err = p.communicate("ran on\n", timeout=DEADLINE)
        self.assertEqual((p.returncode, out, err), (5, "ran on\n", ""))

    def test_deaf_daemon_is_killed(self):
        p = self.start('kill -STOP $(cut -d, -f1 "$FAKE_REPORT" | tr -dc 0-9); exit 4', how="")
        _, err = p.communicate(timeout=DEADLINE)
        self.assertEqual(p.returncode, 4, err)
        wait_gone(self.daemon()["pid"])

    def test_signal_is_forwarded(self):
        p = self.start('exec python3 -c "$WAIT_SIGNALS"')
        for line, sig in (("up\n", signal.SIGUSR1), ("SIGUSR1\n", signal.SIGHUP), ("SIGHUP\n", signal.SIGTERM)):
            self.assertEqual(p.stdout.readline(), line)
            p.send_signal(sig)
        self.assertEqual(p.stdout.readline(), "SIGTERM\n")
        self.assertEqual(p.wait(DEADLINE), 9)

    def test_unhandled_signal_ends_command(self):
        p = self.start("echo up; exec cat")
        self.assertEqual(p.stdout.readline(), "up\n")
        p.terminate()
        self.assertEqual(p.wait(DEADLINE), 128 + signal.SIGTERM)

    def test_signal_while_starting(self):
        p = self.start("echo ran", how="mute")
        self.assertEqual(p.stderr.readline(), "mute\n")
        p.terminate()
        out, _ = p.communicate(timeout=DEADLINE)
        self.assertEqual((p.returncode, out), (128 + signal.SIGTERM, ""))

    def test_kill_of_the_session_ends_everything(self):
        p = self.start("echo $$; exec cat")
        command = int(p.stdout.readline())
        daemon = self.daemon()["pid"]
        bus = int(subprocess.check_output(["pgrep", "-P", str(p.pid), "dbus-daemon"]))
        keeper = [int(x) for x in subprocess.check_output(["pgrep", "-P", str(p.pid), "xsched-session"]).split()]
        self.assertEqual(len(keeper), 1)
        p.kill()
        p.wait(DEADLINE)
        for pid in (command, daemon, bus, *keeper):
            wait_gone(pid)

    def test_help_and_version(self):
        for option in ("--help", "-h", "--version"):
            p = self.run_session(option)
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            self.assertIn("xsched-session", p.stdout)
            with open("/dev/full", "w", encoding="utf-8") as full:
                p = subprocess.run([self.session, option], stdout=full, stderr=subprocess.PIPE, text=True, env=self.env)
            self.assertEqual(p.returncode, 125)
            self.assertIn("No space left on device", p.stderr)


if __name__ == "__main__":
    if not shutil.which("dbus-daemon"):
        print("dbus-daemon is missing", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
