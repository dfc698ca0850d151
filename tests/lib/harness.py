# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base of tests of whole programs: a private bus of either kind, xschedd, a file-descriptor store, clients.

Everything started here dies with the test and is waited for: see processes.py.
"""

import array
import faulthandler
import fcntl
import mmap
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import dbus
from processes import *
from store import Store

TEST_FILE_DEADLINE = float(os.environ.get("TEST_FILE_DEADLINE", 280))  # then every thread prints its stack
NAME = "org.xsched.Scheduler"
PATH = "/org/xsched/Scheduler"
MANAGER = "org.xsched.Scheduler"
CLIENT, QUEUE, GROUP, DEVICE = (f"{NAME}.{i}" for i in ("Client", "Queue", "Group", "Device"))
ERROR = f"{NAME}.Error."
INVALID_ARGS = "org.freedesktop.DBus.Error.InvalidArgs"
ACCESS_DENIED = "org.freedesktop.DBus.Error.AccessDenied"

LEASE = 1.0  # PAGE_LEASE_NS

BUS_KINDS = ("daemon", "broker")
bus_kind = "daemon"


# --- the bus ---

_DAEMON_CONF = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>{kind}</type>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow receive_sender="*" eavesdrop="true"/>
  </policy>
  <limit name="max_connections_per_user">100000</limit>
  <limit name="max_completed_connections">100000</limit>
  <limit name="max_incomplete_connections">10000</limit>
  <limit name="max_replies_per_connection">100000</limit>
  <limit name="max_match_rules_per_connection">100000</limit>
</busconfig>
"""


class Bus:
    def __init__(self, directory, kind=None):
        self.kind = kind or bus_kind
        path = os.path.join(directory, "bus")
        self.address = f"unix:path={path}"
        self._start = self._start_daemon if self.kind == "daemon" else self._start_broker
        self.directory, self.path = directory, path
        self._start(directory, path)
        os.chmod(path, 0o777)

    def restart(self):
        """Kills the bus and starts another one in its place: every connection is lost."""
        self.end()
        self.start_again()

    def start_again(self):
        os.unlink(self.path)
        self._start(self.directory, self.path)
        os.chmod(self.path, 0o777)

    def _start_daemon(self, directory, path):
        conf = os.path.join(directory, "bus.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(_DAEMON_CONF.format(kind="session", path=path))
        r, w = os.pipe()
        log = open(os.path.join(directory, "bus.log"), "wb")  # it complains when it may not have its fds
        self.process = Process(
            ["dbus-daemon", "--nofork", "--nopidfile", f"--config-file={conf}", "--print-address=3"],
            fds=[w],
            stderr=log.fileno(),
        )
        os.close(w)
        log.close()
        with open(r, encoding="utf-8") as f:
            if not f.readline():
                raise AssertionError("dbus-daemon does not start")

    def _start_broker(self, directory, path):
        """dbus-broker without its launcher (which wants a journal and a systemd): we are the controller."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(path)
        listener.listen(4096)
        ours, theirs = socket.socketpair()
        limits = {"max-bytes": 1 << 30, "max-fds": 1 << 17, "max-matches": 1 << 17, "max-objects": 1 << 20}
        self.process = Process(
            ["dbus-broker", "--controller", "3", "--machine-id", "0123456789abcdef" * 2]
            + [f"--{k}={v}" for k, v in limits.items()],
            fds=[theirs.fileno()],
        )
        theirs.close()
        batch = "bta(btbs)a(btssssuutt)a(btssssuutt)"
        policy = f"(a(u({batch}))a(buu({batch}))a(ss)bs)"
        anything = (True, 1, "", "", "", "", 0, 0, 0, (1 << 64) - 1)
        everybody = (0xFFFFFFFF, (True, 1, [(True, 1, True, "")], [anything], [anything]))
        self.controller = dbus.Connection(ours, hello=False)
        self.controller.call(
            None,
            "/org/bus1/DBus/Broker",
            "org.bus1.DBus.Broker",
            "AddListener",
            "ohv",
            "/org/bus1/DBus/Listener/0",
            listener.fileno(),
            (policy, ([everybody], [], [], False, "session")),
        )
        listener.close()

    def connect(self):
        return dbus.Connection(self.address)

    def end(self):
        self.process.end()
        if self.kind == "broker":
            self.controller.close()


# --- the service ---


class Service:
    def __init__(self, bus, directory, keep=False, config="", options=(), command=(), program="XSCHEDD"):
        self.bus, self.directory, self.options, self.command = bus, directory, list(options), list(command)
        self.program = os.environ[program]
        self.store = Store(directory, keep)
        self.config = os.path.join(directory, "xsched.conf")
        self.configure(config)
        os.makedirs(os.path.join(directory, "classes.d"), exist_ok=True)
        self.log = os.path.join(directory, "xschedd.log")
        self.process = None
        self.start()

    def configure(self, text):
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(text)

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        self.store.settle()
        with self.store.lock:
            self.store.state.clear()
            kept = list(self.store.kept)
        with open(self.log, "ab") as log:
            self.process = Process(
                [
                    *self.command,
                    self.program,
                    f"--bus-address={self.bus.address}",
                    f"--config={self.config}",
                    *self.options,
                ],
                env={"NOTIFY_SOCKET": self.store.path},
                fds=[fd for _, fd in kept],
                names=[n for n, _ in kept] if kept else None,
                stderr=log.fileno(),
                stdout=log.fileno(),
            )
        try:
            self.store.wait_for("READY", self.process)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.messages()}") from e

    def kill(self, sig=signal.SIGKILL):
        self.process.kill(sig)
        status = self.process.wait()
        self.store.settle()
        return status

    def stop(self):
        """Stops the service as systemctl stop does. The test fails if the service does not end well."""
        status = self.kill(signal.SIGTERM)
        if status != 0:
            raise AssertionError(f"xschedd ended with status {status}:\n{self.messages()}")

    def freeze(self):
        self.process.kill(signal.SIGSTOP)
        until(lambda: proc(self.pid, "stat").rsplit(")", 1)[1].split()[0] == "T", "the service stops")

    def thaw(self):
        self.process.kill(signal.SIGCONT)

    def messages(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def end(self):
        if self.process.status is None:
            self.process.kill(signal.SIGCONT)
            self.process.end()
        self.store.end()


# --- clients ---


class Program:
    """tests/lib/test-client: the real library in its own process."""

    def __init__(self, bus, device="pci:0000:01:00.0", queues=1, env=None, command=(), wait=True):
        out_r, out_w = os.pipe()
        in_r, in_w = os.pipe()
        self.process = Process(
            [*command, os.environ["TEST_CLIENT"], device, str(queues)],
            env={"XSCHED_BUS_ADDRESS": bus.address, **(env or {})},
            stdin=in_r,
            stdout=out_w,
        )
        os.close(out_w)
        os.close(in_r)
        self.out, self.into, self.buffer = out_r, in_w, b""
        if wait:
            self.expect("ready")

    @property
    def pid(self):
        return self.process.pid

    def line(self, timeout=DEADLINE):
        """The next line of output; None when there is none in time."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            if not is_readable(self.out, max(0, end - time.monotonic())):
                return None
            data = os.read(self.out, 4096)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def expect(self, what, timeout=DEADLINE):
        line = self.line(timeout)
        if line is None or not re.fullmatch(what, line):
            raise AssertionError(f"client {self.pid}: expected {what!r}, got {line!r}")
        return line

    def tell(self, text):
        os.write(self.into, text.encode() + b"\n")

    def ask(self, text, timeout=DEADLINE):
        self.tell(text)
        line = self.line(timeout)
        if line is None:
            raise AssertionError(f"client {self.pid}: no answer to {text!r}")
        return line

    def counters(self):
        keys = ("state", "queues", "launches", "tracked", "waited")
        return dict(zip(keys, map(int, self.ask("counters").split())))

    def close_input(self):
        os.close(self.into)
        self.into = -1

    def end(self):
        self.process.kill(signal.SIGCONT)
        self.process.end()
        os.close(self.out)
        if self.into >= 0:
            os.close(self.into)


HOLD = 1
UNTRACKED = 0x80000000
_SLOT = {  # common/page.h: name -> (offset, code)
    "verdict": (0, "I"),
    "threshold": (4, "I"),
    "budget_us": (8, "I"),
    "watch": (12, "I"),
    "level": (16, "I"),
    "queue_id": (24, "Q"),
    "ordered_ns": (32, "Q"),
    "hold_wake_ns": (40, "I"),
    "hold_call_ns": (44, "I"),
    "release_wake_ns": (48, "I"),
    "release_call_ns": (52, "I"),
    "outstanding": (64, "I"),
    "waiters": (68, "I"),
    "applied": (72, "I"),
    "boost": (76, "I"),
    "submitted": (80, "Q"),
    "completed": (88, "Q"),
    "held_ns": (96, "Q"),
    "busy_ns": (104, "Q"),
    "ready_since_ns": (112, "Q"),
    "mean_ns": (120, "I"),
    "lease_expiries": (124, "I"),
    "launched_ns": (128, "Q"),
    "drained_ns": (136, "Q"),
    "hooked": (144, "I"),
    "flying_ns": (152, "Q"),
    "flying_since_ns": (160, "Q"),
}
SLOT_SIZE = 192
PAGE_SIZE = 4096 + 4096 * SLOT_SIZE
WATCH_DRAINED = 4


class Slot:
    def __init__(self, raw, number):
        self.__dict__.update(raw=raw, number=number, base=4096 + SLOT_SIZE * number)

    def __getattr__(self, name):
        offset, code = _SLOT[name]
        return struct.unpack_from(code, self.raw.page, self.base + offset)[0]

    def __setattr__(self, name, value):
        offset, code = _SLOT[name]
        struct.pack_into(code, self.raw.page, self.base + offset, value)

    @property
    def held(self):
        return bool(self.verdict & HOLD)

    def edge(self, outstanding):
        """Becomes ready or idle as a client does: writes the word, then, if watched, the bit, then the eventfd."""
        before, self.outstanding = self.outstanding, outstanding
        if outstanding and not before:
            self.submitted += 1
            self.ready_since_ns = self.launched_ns = now_ns()
        if before and not outstanding:
            self.completed += 1
            self.drained_ns = now_ns()
        if bool(before) != bool(outstanding) and self.watch:
            self.raw.mark_dirty(self.number)
            self.raw.wake_up()

    def wait_at_gate(self, waiters):
        """`waiters` of its launches wait, and the others are in flight; reports the drain, where none is, as a client
        does."""
        if waiters == self.outstanding and waiters != self.waiters:
            self.drained_ns = now_ns()
        self.waiters = waiters
        if self.watch & WATCH_DRAINED and self.held and waiters == self.outstanding:
            self.raw.mark_dirty(self.number)
            self.raw.wake_up()


class Raw:
    """A client by bus calls, whose page the test writes; a process may have any number of them."""

    def __init__(self, connection, properties=None):
        self.connection = connection
        self.path, page, self.lifeline, self.wake = connection.call(
            NAME, PATH, MANAGER, "RegisterClient", "ta{sv}", 0, properties or {}
        )
        self.page = mmap.mmap(page, PAGE_SIZE, mmap.MAP_SHARED)
        os.close(page)
        self.ids = []

    def queue(self, device="pci:0000:01:00.0", **properties):
        wanted = {"Device": ("s", device), "Backend": ("s", "test"), **properties}
        id_, slot = self.connection.call(NAME, PATH, MANAGER, "RegisterQueue", "oa{sv}", self.path, wanted)
        self.ids.append(id_)
        return Slot(self, slot)

    def queues(self, n, device="pci:0000:01:00.0"):
        """Registers n clients, with fewer calls at once than may wait."""
        slots = []
        while len(slots) < n:
            wanted = {"Device": ("s", device), "Backend": ("s", "test")}
            for s in self.connection.send_times(
                min(n - len(slots), 64), NAME, PATH, MANAGER, "RegisterQueue", "oa{sv}", self.path, wanted
            ):
                id_, slot = self.connection.reply(s)
                self.ids.append(id_)
                slots.append(Slot(self, slot))
        return slots

    def unregister(self, index=0):
        self.connection.call(NAME, PATH, MANAGER, "UnregisterQueue", "t", self.ids.pop(index))

    def get(self, name):
        return self.connection.get(NAME, self.path, CLIENT, name)

    @property
    def lease_until(self):
        return struct.unpack_from("Q", self.page, 64)[0]

    def mark_dirty(self, slot):
        at = 128 + slot // 8
        self.page[at] = self.page[at] | 1 << slot % 8

    def wake_up(self):
        try:
            os.write(self.wake, struct.pack("Q", 1))
        except BlockingIOError:
            pass

    def hung_up(self):
        p = select.poll()
        p.register(self.lifeline, select.POLLRDHUP)
        return any(e & (select.POLLHUP | select.POLLRDHUP) for _, e in p.poll(0))

    def close(self):
        if self.lifeline >= 0:
            self.page.close()
            os.close(self.lifeline)
            os.close(self.wake)
            self.lifeline = self.wake = -1

    def hang_up(self):
        """Closes only the lifeline: the test keeps the page and the eventfd."""
        os.close(self.lifeline)
        self.lifeline = os.open("/dev/null", os.O_RDONLY)


# --- the case ---


class Case(unittest.TestCase):
    """One bus and one service for each test. Whatever the test does, its service must be able to end well."""

    keep = False
    config = ""
    options = ()
    command = ()
    build = "XSCHEDD"  # XSCHEDD_QUICK waits less: quick-build.h

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="xsched-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        self.bus = Bus(self.directory)
        self.addCleanup(self.bus.end)
        self.service = Service(self.bus, self.directory, self.keep, self.config, self.options, self.command, self.build)
        self.addCleanup(self.service.end)
        self.c = self.connect()

    def tearDown(self):
        # Leaks and sanitizers are reported at the service's end.
        if self.service.process.status is None:
            self.service.thaw()
            self.service.stop()

    def connect(self):
        c = self.bus.connect()
        self.addCleanup(c.close)
        return c

    def program(self, *args, **kwargs):
        p = Program(self.bus, *args, **kwargs)
        self.addCleanup(p.end)
        return p

    def raw(self, connection=None, **properties):
        r = Raw(connection or self.c, properties)
        self.addCleanup(r.close)
        return r

    def job(self, name, **settings):
        """Makes a job for this process: (token, path of its group)."""
        codes = {"Priority": "i", "Weight": "u", "Threshold": "u", "Class": "s", "Gang": "b"}
        values = {k: (codes[k], v) for k, v in settings.items()}
        return self.call("CreateJob", "sa{sv}utt", name, values, *process_id(os.getpid()), 0)

    def tenant(self, name, device="pci:0000:01:00.0", **settings):
        """A raw client in its own job, with one queue."""
        client = self.raw(Job=("s", self.job(name, **settings)[0]))
        return client, client.queue(device)

    def call(self, member, signature="", *args):
        body = self.c.call(NAME, PATH, MANAGER, member, signature, *args)
        return body[0] if len(body) == 1 else body

    def get(self, name, path=PATH, interface=MANAGER):
        return self.c.get(NAME, path, interface, name)

    def assert_error(self, name, function, *args, **kwargs):
        with self.assertRaises(dbus.DBusError) as caught:
            function(*args, **kwargs)
        names = name if isinstance(name, tuple) else (name,)
        self.assertIn(caught.exception.name, names, caught.exception.text)
        return caught.exception

    def all_kept(self):
        """Waits until the store has all clients. Messages that a killed service had not sent yet are lost."""
        until(lambda: all(self.service.store.has(c[5]) for c in self.call("ListClients")), "all to be kept")

    def cpu_ns(self, function):
        """CPU time of the service's main thread for it."""

        def taken():
            with open(f"/proc/{self.service.pid}/task/{self.service.pid}/schedstat", encoding="ascii") as f:
                return int(f.read().split()[0])

        before = taken()
        function()
        return taken() - before

    def assert_not_grown(self, before_kb, allowed_kb):
        if not grows_by_design():
            self.assertLess(rss_kb(self.service.pid) - before_kb, allowed_kb)

    def assert_gone(self, *, clients=0, queues=0):
        until(lambda: self.get("NClients") == clients and self.get("NQueues") == queues, "clients and queues go")

    def assert_same_service(self, pid):
        self.assertFalse(self.service.process.ended(), self.service.messages())
        self.assertEqual(self.c.bus("GetConnectionUnixProcessID", "s", NAME), pid)


def main():
    """test-X.py KIND [unittest arguments]: all tests of the file on one kind of bus."""
    global bus_kind
    if len(sys.argv) > 1 and sys.argv[1] in BUS_KINDS:
        bus_kind = sys.argv.pop(1)
    program = {"daemon": "dbus-daemon", "broker": "dbus-broker"}[bus_kind]
    if not shutil.which(program):
        print(f"{program} is not installed")
        sys.exit(77)
    faulthandler.dump_traceback_later(TEST_FILE_DEADLINE, exit=True)
    unittest.main(verbosity=2, warnings="ignore")
