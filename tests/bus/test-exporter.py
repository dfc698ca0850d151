#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-exporter with a real service: its metrics in both formats, and what scrapers can do to it."""

import os
import resource
import select
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from exporter import *
from harness import *
from scraper import ACCEPT, Metrics, get, scrape


class Exporter(ExporterCase):
    def test_what_it_tells(self):
        high, slot, low, low_slot = self.load()
        before = self.call("ListStatistics", "t", 0)
        m = self.fresh()
        after = self.call("ListStatistics", "t", 0)
        self.promtool(m.text)
        self.assertEqual(
            (
                m.value("xsched_up"),
                m.value("xsched_clients"),
                m.value("xsched_queues"),
                m.value("xsched_degraded_reasons"),
            ),
            (1, 2, 3, 0),
        )
        self.assertEqual(m.all("xsched_build_info"), [({"version": self.get("Version")}, 1)])
        counters = {
            "run": "RunUSec",
            "kept": "KeptUSec",
            "wait": "WaitUSec",
            "drain_wait": "DrainWaitUSec",
            "service_wait": "ServiceWaitUSec",
        }
        found = 0
        for (kind, name, device, a), (_, _, _, b) in zip(before, after):
            if kind == "group":
                found += 1
                for metric, key in counters.items():
                    told = m.value(f"xsched_group_{metric}_seconds_total", group=name, device=device)
                    self.assertTrue(a[key] <= round(told * 1e6) <= b[key], (name, key, a[key], told, b[key]))
                for metric, key in (
                    ("priority", "Priority"),
                    ("weight", "Weight"),
                    ("clients", "NClients"),
                    ("queues", "NQueues"),
                    ("held", "NHeld"),
                ):
                    self.assertEqual(m.value(f"xsched_group_{metric}", group=name, device=device), a[key], (name, key))
                ((labels, _),) = m.all("xsched_group_run_seconds_total", group=name, device=device)
                self.assertEqual(labels, {"group": name, "device": device, "class": "default"})
                self.assertEqual(
                    m.all("xsched_group_run_source", group=name, device=device),
                    [({**labels, "source": a["GPUTimeSource"]}, 1)],
                )
            if kind == "device":
                for metric, key in (("busy", "BusyUSec"), ("kept", "KeptUSec"), ("idle", "IdleUSec")):
                    told = m.value(f"xsched_device_{metric}_seconds_total", device=device)
                    self.assertTrue(a[key] <= round(told * 1e6) <= b[key], (device, key, a[key], told, b[key]))
                self.assertEqual(m.value("xsched_device_queues", device=device), a["NQueues"])
                self.assertEqual(m.value("xsched_device_unheld_queues", device=device), a["NQueuesUnheld"])
                hooked = {labels["hooked"]: v for labels, v in m.all("xsched_device_hooked_queues", device=device)}
                kinds = ("calls", "doorbell", "create", "poll", "none", "unknown")
                self.assertEqual(hooked, {k: a[f"NQueues{k.title()}"] for k in kinds})
                self.assertEqual(hooked["unknown"], a["NQueues"])
                self.assertEqual(
                    m.value("xsched_ready_to_run_seconds_count", device=device), a["ReadyToRunHistogram"][2]
                )
                buckets = [v for l, v in m.all("xsched_ready_to_run_seconds_bucket", device=device)]
                self.assertEqual(buckets, [c for _, c in a["ReadyToRunHistogram"][0]] + [a["ReadyToRunHistogram"][2]])
        self.assertEqual(found, 3)
        ((labels, seconds),) = m.all("xsched_group_held_seconds", group=low.get("Group"))
        self.assertEqual(labels["reason"], "priority")
        self.assertGreater(seconds, 0)
        # Only devices with a PCI address are measured.
        self.assertEqual(m.all("xsched_device_temperature_celsius"), [({"device": DEVICE_ID}, 61.5)])
        self.assertEqual(
            [
                m.value(f"xsched_device_{n}", device=DEVICE_ID)
                for n in ("utilisation_ratio", "memory_bytes", "memory_used_bytes", "power_watts")
            ],
            [0.37, 64000, 5000, 212.5],
        )

    def test_formats(self):
        self.load()
        for accept in (ACCEPT, "application/openmetrics-text"):
            status, kind, text = get(self.port, accept=accept)
            self.assertEqual((status, kind), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
            self.assertTrue(text.endswith("\n# EOF\n"))
        status, kind, classic = get(self.port)
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertNotIn("# EOF", classic)
        self.assertEqual({n for n, _, _ in Metrics(classic).samples}, {n for n, _, _ in Metrics(text).samples})

    def test_what_else_is_asked(self):
        self.assertEqual(get(self.port, "/")[0], 200)
        self.assertEqual(get(self.port, "/other")[0], 404)
        self.assertEqual(get(self.port, "/metrics/../x")[0], 404)
        self.assertEqual(get(self.port, method="HEAD")[::2], (200, ""))
        for url in (
            "http://host/metrics",
            "HTTP://127.0.0.1:1/metrics?x=y",
            "http:///metrics",
            "http://host/",
            "http://host",
            "http://",
        ):
            self.assertEqual(get(self.port, url)[0], 200, url)
        for url in (
            "http://host/other",
            "http://host//metrics",
            "http:/metrics",
            "ftp://host/metrics",
            "http://a/http://b/metrics",
        ):
            self.assertEqual(get(self.port, url)[0], 404, url)
        self.assertIn("xsched_up 1", get(self.port, "http://host/metrics")[2])
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(get(self.port, method=method)[0], 405)

    def test_without_the_service(self):
        """The exporter reports that the service is missing, and does not start it; it also reports the service after a
        restart."""
        self.load()
        before = self.fresh()
        self.assertEqual(before.value("xsched_up"), 1)
        self.service.kill()
        m = until(
            lambda: (lambda x: x if x.value("xsched_up") == 0 else None)(self.scrape()), "it to be gone", nap=0.05
        )
        self.assertEqual(
            {n for n, _, _ in m.samples},
            {
                "xsched_up",
                "xsched_exporter_groups_left_out",
                "xsched_exporter_devices_left_out",
                "xsched_exporter_collect_seconds",
            },
        )
        self.promtool(m.text)
        self.service.start()
        m = until(
            lambda: (lambda x: x if x.value("xsched_up") == 1 else None)(self.scrape()), "it to be back", nap=0.05
        )
        self.assertEqual(m.value("xsched_clients"), 0)

    def test_the_bus_restarts(self):
        self.assertEqual(self.fresh().value("xsched_up"), 1)
        self.service.stop()
        self.bus.restart()
        self.service.start()
        until(lambda: self.scrape().value("xsched_up") == 1, "it to be found again", nap=0.05)

    def test_degraded(self):
        self.service.configure("[Scheduler]\nTimeSlice=no time\n")
        self.c.call(NAME, PATH, MANAGER, "Reload")
        reason = self.get("Degraded")[0].split(":")[0]
        m = self.fresh()
        self.assertEqual(m.all("xsched_degraded"), [({"reason": reason}, 1)])
        self.assertEqual(m.value("xsched_degraded_reasons"), 1)
        self.service.configure(self.config)
        self.c.call(NAME, PATH, MANAGER, "Reload")

    def test_a_service_that_does_not_answer(self):
        """The exporter does not wait for the service for ever."""
        self.service.freeze()
        self.assertEqual(self.scrape().value("xsched_up"), 0)
        self.service.thaw()

    def test_a_measurement_that_hangs(self):
        self.measures("exec sleep 1000")
        self.load()
        m = self.scrape()
        self.assertEqual((m.value("xsched_up"), m.value("xsched_device_queues", device=DEVICE_ID)), (1, 2))
        self.assertEqual(m.all("xsched_device_power_watts"), [])

    def test_no_measure(self):
        self.exporter.kill(signal.SIGTERM)
        self.exporter.wait()
        self.start("--no-measure")
        self.load()
        self.assertEqual(self.fresh().all("xsched_device_power_watts"), [])


class Together(ExporterCase):
    exporter_build = EXPORTER

    def test_many_scrapes_are_one_question(self):
        """While the service is stopped scrapers wait for one answer; those within the next second get the same answer
        again."""
        self.scrape()
        monitor = self.connect()
        monitor.monitor("member='ListStatistics'", "member='ListClients'")
        time_of_last = now_ns()
        until(lambda: now_ns() - time_of_last > FRESH_NS, "the answer to be old")
        self.service.freeze()
        got, threads = [], []
        for _ in range(CONNECTIONS_MAX - 2):
            threads.append(threading.Thread(target=lambda: got.append(self.scrape())))
            threads[-1].start()
        while monitor.next_message().member != "ListStatistics":
            pass
        until(
            lambda: sum(len(os.listdir(f"/proc/{self.exporter.pid}/fd")) > CONNECTIONS_MAX for _ in (1,)),
            "all to be connected",
        )
        self.service.thaw()
        for t in threads:
            t.join()
        self.assertEqual(len({m.text for m in got}), 1)
        self.assertEqual(got[0].value("xsched_up"), 1)
        self.scrape()
        self.call("ListClients")  # answered after all earlier calls
        self.assertEqual(monitor.next_message().member, "ListClients")


class Bounds(ExporterCase):
    exporter_options = ("--max-series=1000",)

    def test_series(self):
        n = 90
        jobs = [self.tenant(f"job-{i}") for i in range(n)]
        jobs[0][0].queue(OTHER_ID, DeviceName=("s", 'A "GPU" \\' + "\n" + "x" * 230))
        m = self.fresh()
        self.promtool(m.text)
        self.assertLessEqual(len(m.samples), 1000)
        left_out = m.value("xsched_exporter_groups_left_out")
        self.assertGreater(left_out, 0)
        groups = [l["group"] for l, _ in m.all("xsched_group_queues")]
        self.assertEqual(len(set(groups)), len(groups) - 1)  # one of them has two devices
        self.assertEqual(len(groups), n + 1 - left_out + 1)
        self.assertEqual(m.value("xsched_group_queues", group="(others)"), left_out)
        self.assertEqual(sum(v for _, v in m.all("xsched_group_queues")), n + 1)
        ((labels, _),) = m.all("xsched_device_info", device=OTHER_ID)
        self.assertRegex(labels["name"], r'^A \\"GPU\\" \\\\\\nx+~[0-9a-f]{16}$')
        self.assertLessEqual(len(labels["name"]), 200 + 17 + 4)
        # The groups wait, and their waits are counted together.
        for _, slot in jobs:
            slot.edge(1)
        waited = lambda: m.value("xsched_group_wait_seconds_total", group="(others)")
        before = waited()
        for _ in range(2):
            m = self.fresh()
            self.assertGreater(waited(), before)
            before = waited()

    def test_devices(self):
        client = self.raw()
        for i in range(30):
            client.queue(f"test:{i}")
        client.queue(DEVICE_ID)
        m = self.fresh()
        self.promtool(m.text)
        self.assertLessEqual(len(m.samples), 1000)
        left_out = m.value("xsched_exporter_devices_left_out")
        self.assertGreater(left_out, 0)
        self.assertEqual(m.value("xsched_device_queues", device=DEVICE_ID), 1)
        self.assertEqual(m.value("xsched_device_queues", device="(others)"), left_out)


class HostileCase(ExporterCase):
    def connect_http(self, data=b"", **options):
        s = socket.socket()
        self.addCleanup(s.close)
        if "rcvbuf" in options:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["rcvbuf"])
        s.settimeout(30)
        s.connect(("127.0.0.1", self.port))
        if data:
            s.sendall(data)
        return s

    def check_served(self, n=3):
        for _ in range(n):
            self.assertEqual(self.scrape().value("xsched_up"), 1)


class Hostile(HostileCase):
    def test_who_says_nothing(self):
        """Ten times as many connections as there is room for."""
        self.check_served(1)
        before = rss_kb(self.exporter.pid)
        idle = [self.connect_http() for _ in range(10 * CONNECTIONS_MAX)]
        self.check_served()
        partly = [self.connect_http(b"GET /metrics HTTP/1.1\r\nHost: x\r\n") for _ in range(10 * CONNECTIONS_MAX)]
        self.check_served()
        self.assertLessEqual(count_fds(self.exporter.pid), CONNECTIONS_MAX + 20)
        self.assert_not_grown(before, 8 * 1024)
        del idle, partly

    def test_who_says_too_much(self):
        for data in (
            b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
            b"\0" * 200_000,
            os.urandom(200_000),
            b"\r\n" * 100_000,
            b"POST /metrics HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n" + b"z" * 200_000,
            b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"ffffffffffffffff\r\n" + b"z" * 200_000,
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 5000,
        ):
            s = self.connect_http()
            try:
                s.sendall(data)
            except OSError:
                pass  # the exporter has hung up already
            got = b""
            try:
                while chunk := s.recv(65536):
                    got += chunk
            except OSError:
                pass
            self.assertLessEqual(got.count(b"HTTP/1.1 200"), 1, data[:60])
            self.check_served(1)

    def test_who_trickles(self):
        """A byte now and then does not keep a connection for ever: it ends with its time, or to make room for
        another."""
        trickling = [self.connect_http(b"GET /metrics HTTP/1.1\r\nX: ") for _ in range(CONNECTIONS_MAX)]
        stop = threading.Event()

        def trickle():
            while not stop.is_set():
                for s in trickling:
                    try:
                        s.send(b"x")
                    except OSError:
                        pass
                stop.wait(0.01)

        t = threading.Thread(target=trickle)
        t.start()
        try:
            self.check_served()

            # No other connection wants the place of the last one.
            def gone():
                try:
                    return trickling[-1].recv(1) == b""
                except OSError:
                    return True

            self.assertTrue(gone())
        finally:
            stop.set()
            t.join()


class Short(HostileCase):
    def test_of_files(self):
        """A connection that cannot be accepted, for want of files, wakes the exporter ten times a second and no more;
        with files again it is served."""
        self.check_served(1)
        limits = resource.prlimit(self.exporter.pid, resource.RLIMIT_NOFILE)
        # None from 3 on, so that it does not matter when the connection that was served is closed.
        resource.prlimit(self.exporter.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        waiting = self.connect_http(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        before = self.cpu_seconds()
        self.assertFalse(select.select([waiting], [], [], 1)[0], "it is not accepted")
        self.assertLess(self.cpu_seconds() - before, 0.1)
        resource.prlimit(self.exporter.pid, resource.RLIMIT_NOFILE, limits)
        self.assertEqual(waiting.recv(12), b"HTTP/1.1 200")

    def cpu_seconds(self):
        fields = proc(self.exporter.pid, "stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Reading(HostileCase):
    exporter_build = EXPORTER  # its time limits are longer than the test

    def connected(self):
        """Number of connections that the exporter has accepted and that neither side has closed."""
        rows = [line.split() for line in proc(self.exporter.pid, "net/tcp").splitlines()[1:]]
        return sum(
            (int(local.split(":")[1], 16), state) == (self.port, "01") and inode != "0"
            for _, local, _, state, *_, inode in (r[:10] for r in rows)
        )

    def test_who_has_just_come(self):
        """A new connection is not closed for the next one: its request may be on its way."""
        start = time.monotonic()
        idle = [self.connect_http() for _ in range(CONNECTIONS_MAX)]
        late = self.connect_http(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(idle[0].recv(1), b"")
        self.assertGreaterEqual(time.monotonic() - start, ASKING)
        self.assertEqual(late.recv(12), b"HTTP/1.1 200")

    def test_who_does_not_read(self):
        """Connections that do not read an answer longer than the kernel's buffers: as many as necessary are closed for
        others, and not all of them."""
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # for accepted connections
        clients = [self.tenant(f"job-{i}-" + "x" * 50) for i in range(20)]
        request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        slow = [self.connect_http(request, rcvbuf=2048) for _ in range(CONNECTIONS_MAX)]
        for s in slow:
            self.assertEqual(s.recv(1, socket.MSG_PEEK), b"H")  # its answer is there to be read
        self.assertEqual(self.connected(), CONNECTIONS_MAX)
        self.check_served()
        until(lambda: self.connected() < CONNECTIONS_MAX)  # the connection served last has been closed
        self.assertIn(self.connected(), range(CONNECTIONS_MAX - 3, CONNECTIONS_MAX))
        del slow, clients


class End(ExporterCase):
    exporter_options = ("--idle-timeout=300ms",)

    def test_it_ends_when_nobody_asks(self):
        """Later requests are served by the next exporter: the socket stays."""
        self.assertEqual(self.scrape().value("xsched_up"), 1)
        self.assertEqual(self.exporter.wait(), 0)
        got = []
        t = threading.Thread(target=lambda: got.append(self.scrape()))
        t.start()
        self.start()
        t.join()
        self.assertEqual(got[0].value("xsched_up"), 1)

    def test_not_while_somebody_waits(self):
        self.service.freeze()
        got = []
        t = threading.Thread(target=lambda: got.append(self.scrape()))
        t.start()
        t.join()
        self.assertEqual(got[0].value("xsched_up"), 0)
        self.service.thaw()

    def test_without_a_socket(self):
        done = subprocess.run([EXPORTER], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("xsched-exporter.socket", done.stderr)
        for option in (
            "--max-series=10",
            "--max-series=x",
            "--idle-timeout=0",
            "--idle-timeout=x",
            "--nonsense",
            "argument",
        ):
            self.assertEqual(subprocess.run([EXPORTER, option], capture_output=True, check=False).returncode, 1, option)
        self.assertEqual(
            subprocess.run([EXPORTER, "--version"], capture_output=True, text=True, check=True).stdout,
            f"xsched-exporter {self.get('Version')}\n",
        )


class Textfile(ExporterCase):
    def write(self, path, status=0):
        done = subprocess.run(
            [EXPORTER, f"--bus-address={self.bus.address}", f"--textfile={path}"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_a_pipe_stays_a_pipe(self):
        """A file like /dev/stdout or /dev/null, which root could replace."""
        path, begun = f"{self.directory}/pipe", []
        os.mkfifo(path)

        def reader():
            with open(path, encoding="utf-8") as f:
                begun.append(f.readline())
                f.read()

        t = threading.Thread(target=reader)
        t.start()
        self.write(path)
        self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))
        t.join()
        self.assertRegex(begun[0], "^# ")

    def test_a_link_is_replaced(self):
        """Root may write here: the directory's owner cannot make root replace another file."""
        other, path = f"{self.directory}/other", f"{self.directory}/link.prom"
        with open(other, "w", encoding="utf-8") as f:
            f.write("mine")
        os.symlink("other", path)
        self.write(path)
        self.assertFalse(os.path.islink(path))
        with open(other, encoding="utf-8") as f:
            self.assertEqual(f.read(), "mine")

    def test_whole_files_only(self):
        """A reader always finds the whole old file or the whole new one."""
        self.load()
        os.mkdir(f"{self.directory}/text")
        path = f"{self.directory}/text/xsched.prom"
        self.write(path)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o644)
        stop, read, names = threading.Event(), [], set()

        def reader():
            while not stop.is_set():
                with open(path, encoding="utf-8") as f:
                    read.append(f.read())
                names.update(n for n in os.listdir(f"{self.directory}/text") if n.endswith(".prom") and n[0] != ".")

        t = threading.Thread(target=reader)
        t.start()
        for _ in range(20):
            self.write(path)
        stop.set()
        t.join()
        self.assertEqual(os.listdir(f"{self.directory}/text"), ["xsched.prom"])
        self.assertEqual(names, {"xsched.prom"})
        for text in set(read):
            self.assertRegex(text, r"\nxsched_exporter_collect_seconds \S+\n$")
            self.promtool(text)

    def test_help_and_version(self):
        for option in ("--help", "--version"):
            p = subprocess.run([EXPORTER, option], capture_output=True, text=True, check=True)
            self.assertIn("xsched-exporter", p.stdout)
            with open("/dev/full", "w", encoding="utf-8") as full:
                p = subprocess.run([EXPORTER, option], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(p.returncode, 1)
            self.assertIn("No space left on device", p.stderr)

    def test_others(self):
        """Processes that end at once do not count for others; the exposition tells the number of others."""
        done = subprocess.run(
            [EXPORTER, f"--bus-address={self.bus.address}", "--textfile=-", "--max-series=1000"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(Metrics(done.stdout).value("xsched_exporter_groups_left_out"), 0)
        jobs = [self.tenant(f"job-{i}") for i in range(90)]
        done = subprocess.run(
            [EXPORTER, f"--bus-address={self.bus.address}", "--textfile=-", "--max-series=1000"],
            capture_output=True,
            text=True,
            check=True,
        )
        m = Metrics(done.stdout)
        self.promtool(m.text)
        self.assertGreater(m.value("xsched_exporter_groups_left_out"), 0)
        self.assertEqual(m.all("xsched_group_wait_seconds_total", group="(others)"), [])
        self.assertEqual(m.value("xsched_group_queues", group="(others)"), m.value("xsched_exporter_groups_left_out"))
        del jobs

    def test_what_does_not_work(self):
        self.assertIn("/nowhere/x.prom", self.write("/nowhere/x.prom", status=1).stderr)
        os.makedirs(f"{self.directory}/text/xsched.prom")  # cannot be replaced
        self.write(f"{self.directory}/text/xsched.prom", status=1)
        self.assertEqual(os.listdir(f"{self.directory}/text"), ["xsched.prom"])

    def test_without_the_service(self):
        self.service.kill()
        self.write(f"{self.directory}/x.prom")
        with open(f"{self.directory}/x.prom", encoding="utf-8") as f:
            self.assertEqual(Metrics(f.read()).value("xsched_up"), 0)
        self.service.start()


if __name__ == "__main__":
    main()
