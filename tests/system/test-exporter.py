# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-exporter under systemd: it is started by its socket and ends when no scrape comes. It survives restarts of the
service and hostile scrapers, listens on a socket in the file system, and writes a text file."""

import glob
import json
import os
import re
import socket
import stat
import subprocess
import sys

import inside
from inside import Case, drop_in, run, show, until

sys.path.insert(0, "/mnt/source/tests/lib")
from processes import rss_kb
from scraper import ACCEPT, Metrics, scrape

PORT = 10371
SOCKET, SERVICE = "xsched-exporter.socket", "xsched-exporter.service"
LIFE = 15  # HTTP_LIFE_NS
NOBODY = 65534
GPU = "/dev/nvidia7"

# Opens connections as nobody, sends the given text on each, and holds them until it is killed.
HOSTILE = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
all = []
for i in range(int(sys.argv[1])):
    s = socket.create_connection(("127.0.0.1", 10371))
    s.sendall(sys.argv[2].encode())
    all.append(s)
    if i % 64 == 63:
        print("on", flush=True)
print("done", flush=True)
sys.stdin.read()
"""


# Registers a client without a queue, which stays until its standard input ends.
REGISTER = """
import sys
sys.path.insert(0, "/mnt/source/tests/lib")
import dbus
c = dbus.Connection("unix:path=/run/dbus/system_bus_socket")
NAME = "org.xsched.Scheduler"
answer = c.call(NAME, "/org/xsched/Scheduler", NAME, "RegisterClient", "ta{sv}", 0, {})
print("ready", flush=True)
sys.stdin.read()
"""


class Exporter(Case):
    def setUp(self):
        super().setUp()
        run("systemctl", "start", SOCKET)

    def tearDown(self):
        run("rm", "-rf", f"/run/systemd/system/{SOCKET}.d", f"/run/systemd/system/{SERVICE}.d")
        run("systemctl", "daemon-reload")
        run("systemctl", "stop", SOCKET, SERVICE)
        super().tearDown()

    def fresh(self, condition):
        """Waits for an answer that meets the condition. The exporter reuses an answer for a second at most."""
        return until(lambda: (lambda m: m if condition(m) else None)(scrape(PORT)), "an answer")

    def test_started_by_its_socket(self):
        run("systemctl", "enable", SOCKET)
        self.assertEqual(run("systemctl", "is-enabled", SOCKET).strip(), "enabled")
        self.assertEqual(show(SERVICE, "ActiveState"), "inactive")
        c = self.client()
        m = scrape(PORT, ACCEPT)
        self.assertEqual((m.value("xsched_up"), m.value("xsched_clients")), (1, 1))
        ((labels, _),) = m.all("xsched_group_queues")
        self.assertEqual((labels["unit"], labels["group"].rsplit("/", 1)[1]), (c.unit, c.unit))
        self.assertEqual(show(SERVICE, "ActiveState"), "active")
        with open(f"/proc/{show(SERVICE, 'MainPID')}/status", encoding="utf-8") as f:
            status = f.read()
        uid = int(re.search(r"(?m)^Uid:\t(\d+)\t", status)[1])
        self.assertEqual(uid, int(run("id", "-u", "xsched-exporter")))
        self.assertNotEqual(uid, int(run("id", "-u", "xsched")))  # the service's user may do everything
        self.assertIn("CapEff:\t0000000000000000\n", status)
        self.assertIn("NoNewPrivs:\t1\n", status)
        run("systemctl", "disable", SOCKET)

    def test_processes_with_a_gpu(self):
        """xschedctl lists each process that has a GPU open, and why it is not scheduled; the exporter counts them. The
        GPU here is a device that anybody can open, under the name of a GPU's."""
        os.mknod(GPU, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        self.addCleanup(os.unlink, GPU)
        gpu = lambda *command: ("sh", "-c", 'exec 9<>"$0"; exec "$@"', GPU, *command)
        shim = glob.glob("/usr/lib/*/xsched/libxsched-kfd.so")[0]
        expected = {}

        def start(state, *options, program=gpu("sleep", "infinity")):
            unit = f"gpu-{state}.service"
            run("systemd-run", "--quiet", "--collect", f"--unit={unit}", *options, "--", *program)
            self.addCleanup(run, "systemctl", "stop", unit)
            expected[int(show(unit, "MainPID"))] = state

        start("no-layer")
        start("unregistered", "-E", f"LD_PRELOAD={shim}")
        start("disabled", "-E", f"LD_PRELOAD={shim}", "-E", "XSCHED_DISABLE=1")
        start("none", program=("sleep", "infinity"))
        expected = {pid: state for pid, state in expected.items() if state != "none"}
        c = self.client(program=gpu(inside.TEST_CLIENT, inside.DEVICE_ID, "1"))
        expected[int(show(c.unit, "MainPID"))] = "scheduled"
        idle = self.client(program=gpu("/usr/bin/python3", "-B", "-c", REGISTER))
        expected[int(show(idle.unit, "MainPID"))] = "no-queue"

        def check(status=1):
            return json.loads(run("xschedctl", "--json=short", "check", "--host", status=status))

        def states():
            return {p["pid"]: p["state"] for p in check()["processes"]}

        until(lambda: states() == expected, f"{expected}, not {states()}")
        found = check()
        self.assertEqual((found["up"], found["unseen"]), (True, 0))
        one = next(p for p in found["processes"] if p["state"] == "unregistered")
        self.assertEqual((one["uid"], one["command"], one["devices"]), (0, "sleep", "nvidia"))
        self.assertIn("kfd", one["detail"])
        text = run("xschedctl", "check", "--all", status=1)
        self.assertIn(f"{len(expected)} with a GPU open, {len(expected) - 1} of them not scheduled.", text)

        # Without the privilege to look, xschedctl reports how many processes it could not see.
        as_nobody = ("setpriv", f"--reuid={NOBODY}", "--clear-groups", "xschedctl")
        blind = json.loads(run(*as_nobody, "--json=short", "check", "--host", status=1))
        self.assertEqual(blind["processes"], [])
        self.assertGreater(blind["unseen"], len(expected))

        # The exporter's own unit may not look either, and leaves the metric out instead of reporting none. With the
        # example's drop-in it may look.
        self.assertEqual(scrape(PORT).all("xsched_host_processes"), [])
        with open("/usr/share/doc/xsched/examples/exporter-host.conf", encoding="utf-8") as f:
            drop_in(SERVICE, "host", f.read())
        run("systemctl", "stop", SERVICE)
        m = scrape(PORT)
        counted = {labels["state"]: n for labels, n in m.all("xsched_host_processes")}
        self.assertEqual({k: n for k, n in counted.items() if n > 0}, {state: 1 for state in expected.values()})
        self.assertEqual(m.value("xsched_host_unseen_processes"), 0)

        run("systemctl", "stop", "xsched")
        found = check()
        self.assertFalse(found["up"])
        self.assertEqual({p["state"] for p in found["processes"]}, {"no-layer", "unregistered", "disabled"})
        self.assertIn("xschedd is not running", str(found))

    def test_only_this_machine(self):
        listening = run("systemctl", "show", "-P", "Listen", SOCKET)
        self.assertIn(f"127.0.0.1:{PORT}", listening)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.2", PORT), timeout=5)

    def test_the_service_goes_and_comes(self):
        """The exporter's questions do not start the service, even where the bus could activate it."""
        run("systemctl", "enable", "xsched")
        self.fresh(lambda m: m.value("xsched_up") == 1)
        pid = show(SERVICE, "MainPID")
        run("systemctl", "stop", "xsched")
        self.fresh(lambda m: m.value("xsched_up") == 0)
        self.assertEqual(show("xsched", "ActiveState"), "inactive")
        run("systemctl", "start", "xsched")
        self.fresh(lambda m: m.value("xsched_up") == 1)
        c = self.client()
        run("systemctl", "restart", "xsched")
        m = self.fresh(lambda m: m.value("xsched_up") == 1 and m.value("xsched_clients") == 1)
        self.assertEqual([l["unit"] for l, _ in m.all("xsched_group_queues")], [c.unit])
        self.assertEqual(show(SERVICE, "MainPID"), pid)
        run("systemctl", "disable", "xsched")

    def test_ends_when_nobody_asks(self):
        drop_in(SERVICE, "idle", "[Service]\nExecStart=\nExecStart=/usr/bin/xsched-exporter --idle-timeout=200ms\n")
        for _ in range(3):
            self.assertEqual(scrape(PORT).value("xsched_up"), 1)
            until(lambda: show(SERVICE, "ActiveState") == "inactive", "it to end")
            self.assertEqual(
                (show(SERVICE, "Result"), show(SERVICE, "NRestarts"), show(SOCKET, "ActiveState")),
                ("success", "0", "active"),
            )

    def hostile(self, n, text):
        p = subprocess.Popen(
            [sys.executable, "-c", HOSTILE, str(n), text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def end():
            p.kill()
            p.communicate()

        self.addCleanup(end)
        self.assertEqual(p.stdout.readline(), "on\n")
        return p

    def test_scrapers_that_mean_no_good(self):
        """Another user opens far more connections than there is room for: scrapes are still answered, and the
        scheduler is not delayed."""
        c = self.client()
        self.assertEqual(scrape(PORT).value("xsched_up"), 1)
        pid = show(SERVICE, "MainPID")
        before = rss_kb(pid)
        for text in (
            "",
            "GET /metrics HTTP/1.1\r\nX: ",
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /" + "x" * 30000,
        ):
            self.hostile(320, text)
            for _ in range(3):
                self.assertEqual(scrape(PORT, timeout=LIFE).value("xsched_up"), 1)
            self.assertEqual(c.ask("run 1"), "ran")
        self.assertEqual(show(SERVICE, "MainPID"), pid)
        self.assertLess(rss_kb(pid) - before, 8 * 1024)

    def test_a_flood_of_scrapes_is_few_questions(self):
        """How often the exporter asks the service depends on the time, not on the number of scrapes."""
        nobody = subprocess.Popen(
            [
                "setpriv",
                "--reuid",
                str(NOBODY),
                "--regid",
                str(NOBODY),
                "--clear-groups",
                sys.executable,
                "-c",
                "import http.client, itertools\n"
                "for i in itertools.count():\n"
                f"    c = http.client.HTTPConnection('127.0.0.1', {PORT}); c.request('GET', '/metrics'); "
                "c.getresponse().read(); c.close()\n"
                "    if i % 50 == 49: print(i, flush=True)\n",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            monitor = inside.dbus.Connection(inside.SYSTEM_BUS)
            self.addCleanup(monitor.close)
            monitor.monitor("member='ListStatistics'", "member='ListPolicies'")
            n_scrapes, n_asked, rounds = 0, 0, 0
            while rounds < 3 or n_scrapes < 200:
                n_scrapes = int(nobody.stdout.readline())
                rounds += 1
            self.call("ListPolicies")
            while (m := monitor.next_message()).member != "ListPolicies":
                n_asked += m.member == "ListStatistics"
            self.assertLess(n_asked * 10, n_scrapes)
        finally:
            nobody.kill()
            nobody.communicate()

    def test_a_socket_for_fewer(self):
        path = "/run/xsched-exporter.socket"
        run("systemctl", "stop", SOCKET)
        drop_in(SOCKET, "unix", f"[Socket]\nListenStream=\nListenStream={path}\nSocketMode=0660\nSocketGroup=daemon\n")
        run("systemctl", "start", SOCKET)
        self.assertEqual(scrape(path).value("xsched_up"), 1)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", PORT), timeout=5)
        fetch = ["curl", "--silent", "--unix-socket", path, "http://localhost/metrics"]
        refused = subprocess.run(
            ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *fetch],
            capture_output=True,
            check=False,
        )
        self.assertEqual((refused.returncode != 0, refused.stdout), (True, b""))
        member = run(
            "setpriv",
            "--reuid",
            str(NOBODY),
            "--regid",
            str(NOBODY),
            "--groups",
            str(int(run("getent", "group", "daemon").split(":")[2])),
            *fetch,
        )
        self.assertEqual(Metrics(member).value("xsched_up"), 1)

    def test_textfile(self):
        """Any user who may write to the directory can write the file, whether or not the service runs."""
        os.makedirs("/run/textfile", exist_ok=True)
        os.chmod("/run/textfile", 0o777)
        write = [
            "setpriv",
            "--reuid",
            str(NOBODY),
            "--regid",
            str(NOBODY),
            "--clear-groups",
            "xsched-exporter",
            "--textfile=/run/textfile/xsched.prom",
        ]
        for expected, verb in ((1, "start"), (0, "stop"), (1, "start")):
            run("systemctl", verb, "xsched")
            run(*write)
            with open("/run/textfile/xsched.prom", encoding="utf-8") as f:
                self.assertEqual(Metrics(f.read()).value("xsched_up"), expected)
        self.assertEqual(os.listdir("/run/textfile"), ["xsched.prom"])

    def test_units_are_valid(self):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", SERVICE, SOCKET], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        run("systemd-analyze", "security", "--no-pager", "--threshold=10", SERVICE)
        self.assertEqual([m["MESSAGE"] for m in inside.journal("-p", "warning", f"_SYSTEMD_UNIT={SERVICE}")], [])


if __name__ == "__main__":
    inside.main()
