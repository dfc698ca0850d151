#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedd as a process: command line, readiness, reload, signals, watchdog, log control, and the fd store over restarts

The service manager is played by this test: it listens on $NOTIFY_SOCKET, keeps what it is given, and hands it to the
next xschedd."""

import contextlib
import fcntl
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import Client, EmptyBus, ctl_json, wait_until

XSCHEDD = os.environ["XSCHEDD"]
DEADLINE = 30
SCHEDULER = ["org.xsched.Scheduler", "/org/xsched/Scheduler", "org.xsched.Scheduler"]
LOG_CONTROL = ["org.xsched.Scheduler", "/org/freedesktop/LogControl1", "org.freedesktop.LogControl1"]
ROLES = {"page", "lifeline", "wake", "pidfd", "meta"}


class ServiceManager:
    """Plays systemd for a service of Type=notify with a file-descriptor store."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.store = []  # (name, fd)
        self.seen = []  # messages, without those about the store

    def receive(self, timeout):
        """Takes in one message; False when none came in time."""
        if not select.select([self.socket], [], [], timeout)[0]:
            return False
        data, fds, _, _ = socket.recv_fds(self.socket, 65536, 16)
        for fd in fds:
            os.set_inheritable(fd, False)
        fields = dict(line.split("=", 1) for line in data.decode().splitlines())
        if "FDSTORE" in fields:
            self.store += [(fields["FDNAME"], fd) for fd in fds]
        elif "FDSTOREREMOVE" in fields:
            for name, fd in self.store:
                if name == fields["FDNAME"]:
                    os.close(fd)
            self.store = [(name, fd) for name, fd in self.store if name != fields["FDNAME"]]
        else:
            self.seen.append(fields)
            for fd in fds:  # BARRIER=1: the answer is to close the descriptor
                os.close(fd)
        return True

    def drain(self):
        while self.receive(0):
            pass

    def expect(self, key):
        """Returns the next message with this key; earlier messages are dropped."""
        while True:
            for i, fields in enumerate(self.seen):
                if key in fields:
                    del self.seen[: i + 1]
                    return fields
            if not self.receive(DEADLINE):
                raise AssertionError(f"no {key}=")

    def clients(self):
        """{number: roles} of the kept descriptors."""
        self.drain()
        found = {}
        for name, _ in self.store:
            match = re.fullmatch(r"c([0-9]+)-([a-z]+)", name)
            if match:
                found.setdefault(int(match[1]), set()).add(match[2])
        return found

    def close(self):
        for _, fd in self.store:
            os.close(fd)
        self.socket.close()


class Service:
    """One xschedd. With a manager it gets the kept descriptors, as in sd_listen_fds(3)."""

    def __init__(self, *args, manager=None, **variables):
        env = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "JOURNAL_STREAM")}
        env.update(variables)
        fds = []
        self.manager = manager
        if manager:
            manager.drain()
            fds = [fd for _, fd in manager.store]
            env["NOTIFY_SOCKET"] = manager.path
            if fds:
                env["LISTEN_FDS"] = str(len(fds))
                env["LISTEN_FDNAMES"] = ":".join(name for name, _ in manager.store)

        def arrange():
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(fds)) for fd in fds]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)

        self.process = subprocess.Popen(
            ["sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh", XSCHEDD, *args],
            env=env,
            preexec_fn=arrange if fds else None,
            close_fds=not fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, number=signal.SIGTERM):
        """(status, stderr)"""
        self.process.send_signal(number)
        while self.manager and self.process.poll() is None:  # a service manager never stops listening
            self.manager.receive(0.01)
        _, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, err


def run(*args, **variables):
    service = Service(*args, **variables)
    out, err = service.process.communicate(timeout=DEADLINE)
    return service.process.returncode, out, err


class CommandLine(unittest.TestCase):
    def test_said_and_done(self):
        for option in ("--help", "-h", "--version"):
            status, out, err = run(option)
            self.assertEqual((status, err), (0, ""), option)
            self.assertIn("xschedd", out)

    def test_refused(self):
        with EmptyBus() as address:
            for args in (
                ["--nonsense"],
                ["argument"],
                ["--log-level=loud"],
                ["--bus-address"],
                [f"--bus-address={address}", "--config=/nonexistent/xsched.conf"],
                ["--bus-address=unix:path=/nonexistent/bus"],
                ["--bus-address=rubbish"],
            ):
                status, out, err = run(*args)
                self.assertEqual((status, out), (1, ""), args)
                self.assertTrue(err.strip(), args)
        self.assertEqual(run("--nonsense")[2].count("\n"), 1)


class Life(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.directory = stack.enter_context(tempfile.TemporaryDirectory())
        self.address = stack.enter_context(EmptyBus())
        self.manager = ServiceManager(self.directory)
        stack.callback(self.manager.close)
        self.config = Path(self.directory, "xsched.conf")
        self.config.write_text("")
        self.services = []
        self.addCleanup(self.end_services)
        os.environ["XSCHED_BUS_ADDRESS"] = self.address
        self.addCleanup(os.environ.pop, "XSCHED_BUS_ADDRESS")

    def end_services(self):
        for service in self.services:
            if service.process.returncode is None:
                service.end(signal.SIGKILL)

    def start(self, *args, **variables):
        service = Service(
            f"--bus-address={self.address}", f"--config={self.config}", *args, manager=self.manager, **variables
        )
        self.services.append(service)
        self.assertEqual(self.manager.expect("READY")["READY"], "1")
        return service

    def bus(self, *args, status=0):
        p = subprocess.run(
            ["busctl", f"--address={self.address}", *args], text=True, capture_output=True, timeout=DEADLINE
        )
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stdout.strip() if status == 0 else p.stderr.strip()

    def test_start_and_stop(self):
        service = self.start()
        self.assertEqual(self.bus("get-property", *SCHEDULER, "Degraded"), "as 0")
        status, err = service.end()
        self.assertEqual(status, 0)
        self.assertEqual(self.manager.expect("STOPPING")["STOPPING"], "1")
        self.assertIn("is up", err)

    def test_sigint(self):
        self.assertEqual(self.start().end(signal.SIGINT)[0], 0)

    def test_name_is_taken(self):
        self.start()
        status, _, err = run(f"--bus-address={self.address}", f"--config={self.config}")
        self.assertEqual(status, 1)
        self.assertIn("org.xsched.Scheduler", err)

    def test_bus_goes(self):
        with EmptyBus() as address:
            service = Service(f"--bus-address={address}", manager=self.manager)
            self.services.append(service)
            self.manager.expect("READY")
        _, err = service.process.communicate(timeout=DEADLINE)
        self.assertEqual(service.process.returncode, 1)
        self.assertIn("bus", err)

    def test_reload(self):
        service = self.start()
        with Client() as client:
            device = next(iter(ctl_json("list-devices")))
            self.assertEqual(device["threshold"], 1)

            def reloaded():
                fields = self.manager.expect("RELOADING")
                self.assertEqual(fields["RELOADING"], "1")
                self.assertGreater(int(fields["MONOTONIC_USEC"]), 0)
                self.manager.expect("READY")

            def threshold():
                return next(iter(ctl_json("list-devices")))["threshold"]

            self.config.write_text("[Scheduler]\nThreshold=3\n")
            service.process.send_signal(signal.SIGHUP)
            reloaded()
            self.assertEqual(threshold(), 3)

            # A reload by the bus: a bad line keeps the former settings, and is reported.
            self.config.write_text("[Scheduler]\nThreshold=many\nConcurrency=2\n")
            self.bus("call", *SCHEDULER, "Reload")
            reloaded()
            self.assertEqual(threshold(), 3)
            self.assertEqual(next(iter(ctl_json("list-devices")))["concurrency"], 2)
            self.assertIn("1 problem", self.bus("get-property", *SCHEDULER, "Degraded"))

            # A file that cannot be read changes nothing at all.
            self.config.unlink()
            self.bus("call", *SCHEDULER, "Reload", status=1)
            reloaded()
            self.assertEqual(threshold(), 3)
            self.assertIn("could not be read", self.bus("get-property", *SCHEDULER, "Degraded"))

            # Nor does a drop-in that is a dangling link.
            self.config.write_text("")
            drop_in = self.config.with_name(f"{self.config.name}.d") / "10.conf"
            drop_in.parent.mkdir()
            drop_in.symlink_to("nowhere")
            self.bus("call", *SCHEDULER, "Reload", status=1)
            reloaded()
            self.assertEqual(threshold(), 3)
            self.assertIn(
                "could not be read again: A link leads to nothing", self.bus("get-property", *SCHEDULER, "Degraded")
            )
            drop_in.unlink()

            # A link to /dev/null counts as an empty file.
            self.config.unlink()
            self.config.symlink_to("/dev/null")
            self.bus("call", *SCHEDULER, "Reload")
            reloaded()
            self.assertEqual(threshold(), 1)
            self.assertEqual(self.bus("get-property", *SCHEDULER, "Degraded"), "as 0")
            self.assertEqual(client.do("run 3"), "ran")
        _, err = service.end()
        self.assertIn(f"{self.config}:2: Threshold=many is not auto or a whole number", err)
        self.assertIn(f"{drop_in}: Not read, as it is a link to nowhere, where there is no file", err)

    def test_problem_at_the_start(self):
        self.config.write_text("[Scheduler]\nTreshold=3\n")
        service = self.start()
        self.assertIn("1 problem", self.bus("get-property", *SCHEDULER, "Degraded"))
        self.assertIn(f"{self.config}:2: Unknown key Treshold=", service.end()[1])

    def test_log_control(self):
        service = self.start("--log-level=notice")
        self.assertEqual(self.bus("get-property", *LOG_CONTROL, "LogLevel"), 's "notice"')
        self.assertEqual(self.bus("get-property", *LOG_CONTROL, "LogTarget"), 's "console"')
        self.assertEqual(self.bus("get-property", *LOG_CONTROL, "SyslogIdentifier"), 's "xschedd"')
        self.bus("set-property", *LOG_CONTROL, "LogLevel", "s", "debug")
        self.assertEqual(self.bus("get-property", *LOG_CONTROL, "LogLevel"), 's "debug"')
        self.assertIn("loud", self.bus("set-property", *LOG_CONTROL, "LogLevel", "s", "loud", status=1))
        self.assertIn("paper", self.bus("set-property", *LOG_CONTROL, "LogTarget", "s", "paper", status=1))
        self.assertEqual(self.bus("get-property", *LOG_CONTROL, "LogLevel"), 's "debug"')
        self.assertIn("Log level is now debug", service.end()[1])

    def test_watchdog(self):
        self.start(WATCHDOG_USEC="200000")
        for _ in range(2):
            self.assertEqual(self.manager.expect("WATCHDOG")["WATCHDOG"], "1")

    def test_service_manager_does_not_read(self):
        """The service manager's socket takes some ten messages. The service does not wait for it, and sends all
        messages that still count, in order."""
        service = self.start(WATCHDOG_USEC="200000")
        with Client() as stays, Client(queues=2) as moves:
            for _ in range(3):
                with Client() as goes:
                    self.assertEqual(goes.do("run 3"), "ran")
            self.assertEqual(len(ctl_json("list-clients")), 2)
            self.config.write_text("[Scheduler]\nTreshold=3\n")
            self.bus("call", *SCHEDULER, "Reload")
            self.assertEqual(stays.do("run 3"), "ran")
            self.assertEqual(moves.do("run 3"), "ran")
            there = {c.row()["client"]: ROLES for c in (stays, moves)}

            while "READY" not in self.manager.expect("STATUS"):
                pass
            self.manager.expect("WATCHDOG")
            wait_until(lambda: self.manager.clients() == there, "both are kept, and nobody else")
            service.end(signal.SIGKILL)
            service = self.start()
            self.assertEqual({c.row()["client"] for c in (stays, moves)}, set(there))
        self.assertNotIn("Failed to tell", service.end()[1])

    def test_service_manager_does_not_read_at_the_end(self):
        """The rest is sent as soon as the manager reads again."""
        service = self.start()
        with Client() as one, Client() as two, Client() as three:
            there = {c.row()["client"]: ROLES for c in (one, two, three)}
            self.assertEqual(service.end()[0], 0)
            self.assertEqual(self.manager.clients(), there)
        self.assertEqual(self.manager.expect("STOPPING")["STOPPING"], "1")

    def test_restart_keeps_clients(self):
        service = self.start()
        with Client(queues=2) as client:
            number = client.row()["client"]
            self.assertEqual(self.manager.clients(), {number: ROLES})
            for how in (signal.SIGTERM, signal.SIGKILL):
                service.end(how)
                self.assertEqual(self.manager.clients(), {number: ROLES})
                service = self.start()
                row = client.row()
                self.assertEqual((row["client"], row["queues"]), (number, 2))
                self.assertEqual(client.do("run 5"), "ran")
                self.assertRegex(client.do("counters"), "^2 2 ")  # attached, two queues
            self.assertEqual(self.manager.clients(), {number: ROLES})
        wait_until(lambda: self.manager.clients() == {}, "the store is empty")
        self.assertEqual(ctl_json("list-clients"), [])
        self.assertIn("Took over 1 of 1", service.end()[1])

    def test_client_ends_while_nobody_looks(self):
        service = self.start()
        with Client() as client:
            client.row()
            service.end(signal.SIGKILL)
        service = self.start()
        wait_until(lambda: self.manager.clients() == {}, "the store is empty")
        self.assertEqual(ctl_json("list-clients"), [])

    def test_incomplete_set(self):
        """One fd of one client was lost: the client registers again, the other one notices nothing."""
        service = self.start()
        with Client() as whole, Client() as maimed:
            kept, lost = whole.row()["client"], maimed.row()["client"]
            self.assertEqual(self.manager.clients(), {kept: ROLES, lost: ROLES})
            service.end(signal.SIGKILL)
            self.manager.drain()
            for name, fd in self.manager.store:
                if name == f"c{lost}-wake":
                    os.close(fd)
            self.manager.store = [(name, fd) for name, fd in self.manager.store if name != f"c{lost}-wake"]
            self.manager.store.append(("c7-nonsense", os.open("/dev/null", os.O_RDONLY)))

            service = self.start()
            wait_until(lambda: self.manager.clients() and len(ctl_json("list-clients")) == 2, "both are there")
            self.assertEqual(whole.row()["client"], kept)
            self.assertNotEqual(maimed.row()["client"], lost)
            wait_until(lambda: set(self.manager.clients()) == {kept, maimed.row()["client"]}, "the store is clean")
            self.assertEqual(whole.do("run 2"), "ran")
            self.assertEqual(maimed.do("run 2"), "ran")
        err = service.end()[1]
        self.assertIn(f"Client {lost} cannot be taken over: its wake was not kept", err)
        self.assertIn('unknown name "c7-nonsense"', err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
