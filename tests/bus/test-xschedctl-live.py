#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl over time and on a terminal: top, monitor, the pager, colours, and columns that a narrow screen leaves
out."""

import json
import os
import re
import select
import signal
import subprocess
import unittest

from harness import DEADLINE, DEVICE, XSCHEDCTL, Client, Lines, Terminal, ctl, ctl_json, environment, main, wait_until


class Monitor(unittest.TestCase):
    def start(self, *args):
        p = subprocess.Popen(
            [XSCHEDCTL, "monitor", *args],
            env=environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.assertIn("Watching org.xsched.Scheduler on the bus", p.stderr.readline())
        self.addCleanup(lambda: [p.kill(), p.wait()] + [f.close() for f in (p.stdout, p.stderr)])
        p.lines = Lines(p.stdout)
        return p

    def events_until(self, p, last):
        """Events up to the one for which `last` is true."""
        events = []
        while not events or not last(events[-1]):
            events.append(json.loads(p.lines.next()))
        return events

    def end(self, p, sig=signal.SIGTERM):
        p.send_signal(sig)
        self.assertEqual(p.wait(DEADLINE), 0, p.stderr.read())

    def test_nobody_takes_it(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            p = subprocess.Popen(
                [XSCHEDCTL, "monitor"], env=environment(), text=True, stdout=full, stderr=subprocess.PIPE
            )
        self.addCleanup(lambda: [p.kill(), p.wait(), p.stderr.close()])
        self.assertIn("Watching", p.stderr.readline())
        with Client():
            self.assertEqual(p.wait(DEADLINE), 1)
        self.assertIn("cannot write: No space left on device", p.stderr.read())

    def test_clients_come_and_go(self):
        wait_until(lambda: not ctl_json("list-clients"), "the clients of the test before are gone")
        p = self.start("--json=short")
        with Client(queues=2, prefix=(XSCHEDCTL, "run", "--name=seen", "--")) as c:
            group = c.row()["group"]
        events = self.events_until(p, lambda e: e["signal"] == "GroupRemoved" and e["name"] == group)
        # Parent groups appear with the first group below them.
        kinds = [e["signal"] for e in events if e["signal"] != "GroupAdded" or e["name"] == group]
        for kind, number in (
            ("ClientAdded", 1),
            ("ClientRemoved", 1),
            ("QueueAdded", 2),
            ("QueueRemoved", 2),
            ("GroupAdded", 1),
        ):
            self.assertEqual(kinds.count(kind), number, kind)
        added = next(e for e in events if e["signal"] == "ClientAdded")
        self.assertEqual(added["client"], f'/org/xsched/Scheduler/client/{added["id"]}')
        times = [e["realtime_usec"] for e in events]
        self.assertEqual(times, sorted(times))
        self.end(p, signal.SIGINT)

    def test_changes(self):
        with Client() as c:
            p = self.start("--json=short")
            ctl("set", c.pid, "priority=-3")
            event = self.events_until(p, lambda e: e.get("Priority") == -3 and "/client/" in e["object"])[-1]
            self.assertEqual(event["signal"], "Changed")
            self.end(p)

    def test_preempted(self):
        with Client() as low, Client(prefix=(XSCHEDCTL, "run", "--name=high", "--priority=9", "--")) as high:
            p = self.start("--json=short")
            low.do("run 1")  # tracked from here on
            low.do("begin 0")
            high.do("begin 0")
            event = self.events_until(p, lambda e: e["signal"] == "Preempted")[-1]
            self.assertEqual((event["group"], event["by"]), (low.row()["group"], high.row()["group"]))
            self.assertTrue(event["device"].startswith("/org/xsched/Scheduler/device/"))
            low.do("complete 0")
            high.do("complete 0")
            self.end(p)

    def test_text(self):
        p = self.start()
        with Client():
            self.assertRegex(p.lines.next(), r"^\d\d:\d\d:\d\d\.\d{6} [A-Z][A-Za-z]+ +[a-z]+=")
        self.end(p)

    def test_reader_that_goes_away(self):
        p = self.start()
        p.stdout.close()
        # The program notices the closed pipe by itself, or ends at its next write like any writer.
        self.assertIn(p.wait(DEADLINE), (0, -signal.SIGPIPE))


class Top(unittest.TestCase):
    def test_batch(self):
        with Client() as c:
            text = ctl("top", "-b", "-n", "2", "-d", "20ms", "--full")
            tables = [t.splitlines() for t in text.strip("\n").split("\n\n")]
            self.assertEqual(len(tables), 4)
            for t in tables[::2]:
                self.assertEqual(t[0].split(), ["DEVICE", "%RUN", "%KEPT", "%IDLE", "RUN", "BY"])
                self.assertEqual(len(t), 1 + len(ctl_json("list-devices")))
            for t in tables[1::2]:
                self.assertEqual(t[0].split()[:4], ["GROUP", "CLASS", "PRIO", "WEIGHT"])
                self.assertEqual(len(t), 1 + len(ctl_json("list-groups")))
            self.assertIn(c.row()["group"], text)

    def test_rates(self):
        with Client(prefix=(XSCHEDCTL, "run", "--name=busy", "--")) as c:
            p = subprocess.Popen(
                [XSCHEDCTL, "top", "-n1", "-d1s", "--json=short", "--clients"],
                env=environment(),
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
            # Launches until top has ended: some launches fall between its two looks.
            launches = 0
            while not select.select([p.stdout], [], [], 0)[0]:
                c.do("run 1000")
                launches += 1000
            rows = json.loads(p.communicate()[0])
            group = next(r for r in rows if r["name"].endswith(":busy"))
            client = next(r for r in rows if r["pid"] == c.pid)
            self.assertGreater(group["launches_per_sec"], 0)
            self.assertLessEqual(group["launches_per_sec"], launches)
            self.assertEqual(client["launches_per_sec"], group["launches_per_sec"])
            # The client is alone, and accounted; the group's two counters are read one after the other.
            self.assertGreater(group["gpu_percent"], 0)
            self.assertAlmostEqual(client["gpu_percent"], group["gpu_percent"], delta=1)
            self.assertEqual((group["clients"], client["clients"], group["pid"]), (1, None, None))

    def test_where_the_time_goes(self):
        """Two clients share a device: both run, both wait, the device is not idle, and the parts add up."""
        with Client(prefix=(XSCHEDCTL, "run", "--name=one", "--")) as one, Client(
            prefix=(XSCHEDCTL, "run", "--name=two", "--")
        ) as two:
            for c in (one, two):
                c.do("stream")
            names = [c.row()["group"] for c in (one, two)]
            held = lambda: {c["group"] for c in ctl_json("list-clients") if c["held_usec"] > 0}
            wait_until(lambda: held() >= set(names), "both have waited")
            rows = ctl_json("top", "-n1", "-d1s")
            groups = {r["name"]: r for r in rows if r["kind"] == "group"}
            device = next(r for r in rows if r["kind"] == "device" and r["name"] == DEVICE)
            self.assertEqual(rows[-1]["kind"], "device")  # after the groups
            self.assertGreater(device["gpu_percent"], 0)
            # The two looks and the counters are read at slightly different times.
            self.assertAlmostEqual(
                device["gpu_percent"] + device["kept_percent"] + device["idle_percent"], 100, delta=10
            )
            self.assertAlmostEqual(sum(groups[n]["gpu_percent"] for n in names), device["gpu_percent"], delta=10)
            for n in names:
                g = groups[n]
                self.assertGreater(g["wait_percent"], 0)
                self.assertAlmostEqual(
                    g["policy_wait_percent"] + g["drain_wait_percent"] + g["service_wait_percent"],
                    g["wait_percent"],
                    delta=0.01,
                )

            # The important columns fit a terminal of 80 columns, and no line is wider.
            lines = []

            def both_ran():
                """In a moment in which the machine ran none of us, one of the two may have had the device alone."""
                text = Terminal("top", "-b", "-n1", "-d200ms", columns=80).end().replace("\r", "")
                lines[:] = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in text.split("\n")]
                line = next(line for line in lines if line.startswith(DEVICE))
                return all(re.search(re.escape(n.rsplit("/", 1)[-1]) + r" \d", line) for n in names)

            wait_until(both_ran, "both ran, and are named")
            self.assertLessEqual(max(map(len, lines)), 80)
            heading = next(line for line in lines if line.startswith("GROUP")).split()
            self.assertLessEqual({"PRIO", "WEIGHT", "STATE", "%GPU", "%WAIT", "%POL", "%DRAIN", "%SERV"}, set(heading))

            # The same as text.
            text = ctl("status")
            self.assertRegex(
                text,
                (
                    rf'Time: {DEVICE}: of .* in use [\d.]+% \(.*{names[0].rsplit("/", 1)[-1]} [\d.]+%.*\), kept idle '
                    r"though wanted .*, idle"
                ),
            )
            text = ctl("status", names[0])
            self.assertRegex(
                text, rf"Group: {re.escape(names[0])} ran .*, and waited .*: .* for others\' turns and limits"
            )
            self.assertNotIn(f"Group: {names[1]}", text)
            for c in (one, two):
                c.do("rest")

    def test_sort(self):
        with Client(prefix=(XSCHEDCTL, "run", "--name=zz", "--")) as last, Client(
            prefix=(XSCHEDCTL, "run", "--name=aa", "--")
        ):
            rows = ctl_json("top", "-n1", "-d20ms", "--sort=name")
            names = [r["name"] for r in rows]
            self.assertEqual(names, sorted(names))
            p = subprocess.Popen(
                [XSCHEDCTL, "top", "-n1", "-d500ms", "--json=short", "--sort=launches"],
                env=environment(),
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
            while not select.select([p.stdout], [], [], 0)[0]:
                last.do("run 1000")
            self.assertTrue(json.loads(p.communicate()[0])[0]["name"].endswith(":zz"))

    def test_keys(self):
        with Client() as c:
            t = Terminal("top", "-d10s", columns=120)
            t.read_until("every 10s")
            t.type("n")
            t.read_until("sorted by name")
            t.type("-")
            t.read_until("every 9s")
            t.type("+")
            t.type("c")
            t.read_until(f"{c.pid} test-client")
            t.type("h")
            t.read_until("any key goes on")
            t.type("q")
            t.end()
            self.assertEqual(t.process.returncode, 0)
            self.assert_restored(t)

    def assert_restored(self, t):
        self.assertEqual(t.after, t.before)
        self.assertTrue(t.text.rstrip().endswith("\x1b[?25h\x1b[?1049l"), t.text[-60:])

    def test_terminal_is_restored_whatever_ends_it(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(sig):
                t = Terminal("top")
                t.read_until("GROUP")
                t.process.send_signal(sig)
                t.end()
                self.assertEqual(t.process.returncode, 0)
                self.assert_restored(t)

    def test_terminal_is_given_back_while_stopped(self):
        t = Terminal("top", "-d10s")
        t.read_until("GROUP")
        t.process.send_signal(signal.SIGTSTP)
        os.waitpid(t.process.pid, os.WUNTRACED)
        t.read_until("\x1b[?1049l")
        t.text = ""
        t.process.send_signal(signal.SIGCONT)
        t.read_until("GROUP")
        t.type("q")
        t.end()
        self.assert_restored(t)

    def test_iterations_end_it(self):
        t = Terminal("top", "-n2", "-d20ms")
        t.end()
        self.assertEqual(t.process.returncode, 0)
        self.assert_restored(t)


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(queues=1, prefix=(XSCHEDCTL, "run", "--name=" + "n" * 60, "--"))

    @classmethod
    def tearDownClass(cls):
        cls.client.end()

    def on_terminal(self, *args, **kwargs):
        t = Terminal(*args, **kwargs)
        return t.end().replace("\r\n", "\n")

    def test_pager(self):
        pager = "sed s/^/paged:/"
        text = self.on_terminal("list-groups", SYSTEMD_PAGER=pager)
        self.assertTrue(all(line.startswith("paged:") for line in text.splitlines()), text)
        self.assertIn("paged:", self.on_terminal("list-groups", PAGER=pager))
        for kwargs in ({"SYSTEMD_PAGER": "", "PAGER": pager}, {"PAGER": "cat"}):
            self.assertNotIn("paged:", self.on_terminal("list-groups", **kwargs))
        self.assertNotIn("paged:", self.on_terminal("list-groups", "--no-pager", SYSTEMD_PAGER=pager))
        self.assertNotIn("paged:", ctl("list-groups", SYSTEMD_PAGER=pager))

    def test_pager_that_reads_nothing_is_no_error(self):
        # One answer fits into the pipe, the other does not: xschedctl ends with the pager.
        with Client(queues=1000):
            for args in (("list-groups",), ("list-queues", "--json=short")):
                with self.subTest(args=args):
                    t = Terminal(*args, SYSTEMD_PAGER="true")
                    self.assertEqual(t.end(), "")
                    self.assertEqual(t.process.returncode, 0)

    def test_colours(self):
        def coloured(text):
            return "\x1b[" in text

        self.assertTrue(coloured(self.on_terminal("status", "--no-pager")))
        self.assertFalse(coloured(self.on_terminal("status", "--no-pager", NO_COLOR="1")))
        self.assertFalse(coloured(self.on_terminal("status", "--no-pager", SYSTEMD_COLORS="0")))
        self.assertFalse(coloured(self.on_terminal("status", "--no-pager", TERM="dumb")))
        self.assertTrue(coloured(self.on_terminal("status", "--no-pager", NO_COLOR="1", SYSTEMD_COLORS="1")))
        self.assertFalse(coloured(ctl("status")))
        self.assertTrue(coloured(ctl("status", SYSTEMD_COLORS="1")))

    def test_narrow_terminal(self):
        group = self.client.row()["group"]
        for locale, dots in (("C.UTF-8", "…"), ("C", "...")):
            text = self.on_terminal("list-groups", "--no-pager", columns=100, NO_COLOR="1", LC_ALL=locale)
            self.assertIn(dots, text)
            self.assertNotIn(group, text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
            # A long name is cut in its middle, because its end tells more.
            shown = re.search(r"job:\S+", text)[0]
            head, tail = shown.split(dots)
            self.assertTrue(group.startswith(head) and group.endswith(tail) and len(tail) > len(head), shown)
        self.assertIn(group, self.on_terminal("list-groups", "--no-pager", "--full", columns=100))
        text = self.on_terminal("list-groups", "--no-pager", columns=80, NO_COLOR="1", LC_ALL="C.UTF-8")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        heading = text.splitlines()[0].split()
        self.assertLessEqual({"GROUP", "STATE", "CLASS", "PRIO", "WEIGHT", "CLIENTS", "GPU"}, set(heading))
        self.assertNotIn("PREEMPTED", heading)
        for wide in (
            self.on_terminal("list-groups", "--no-pager", "-l", columns=80, NO_COLOR="1"),
            ctl("list-groups"),
            self.on_terminal("list-groups", "--no-pager", columns=250, NO_COLOR="1"),
        ):
            self.assertLessEqual(
                {"UNIT", "MAX", "MIN", "SOURCE", "RUN", "WAIT", "PREEMPTED"}, set(wide.splitlines()[0].split())
            )
        text = self.on_terminal("list-queues", "--no-pager", columns=80, NO_COLOR="1", LC_ALL="C.UTF-8")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertLessEqual({"QUEUE", "PID", "DEVICE", "STATE", "PRIO", "HELD"}, set(text.splitlines()[0].split()))
        self.assertIn(group, self.on_terminal("list-groups", "--no-pager", columns=200))
        self.assertIn(group, self.on_terminal("list-groups", "--no-pager", columns=100, COLUMNS="200"))
        self.assertIn(group, ctl("list-groups"))
        self.assertIn(group, ctl("list-groups", COLUMNS="60"))


if __name__ == "__main__":
    main(unittest)
