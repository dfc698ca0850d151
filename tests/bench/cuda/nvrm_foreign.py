# SPDX-License-Identifier: LGPL-2.1-or-later
"""A PyTorch program without xsched, and root, who finds its channels and stops them: for nvrm-foreign.py"""

import ctypes
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "nvrm-foreign.py")

SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438
CLIENT_FIRST, CLIENT_LAST = 0xC1D00000, 0xC1DFFFFF
ROOT_CLIENT, DEVICE, SUBDEVICE, GROUP = 0x41, 0x80, 0x2080, 0xA06C
CHILD_DEVICE, CHILD_GROUP = 0xE0AC20, 0x2B5B80  # the driver's own numbers of classes
HANDLE_INFO, CHILD_HANDLE, GET_ID, DISABLE = 0xD02, 0xD05, 0x20800142, 0x2080110B
MEMORY_USED = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]


def say(name, *values):
    print(f"{name}:", *values, flush=True)


def quantiles(seconds):
    us = sorted(s * 1e6 for s in seconds)
    at = lambda q: round(us[min(len(us) - 1, int(q * len(us)))])
    return f"p50 {at(0.5)} p90 {at(0.9)} max {at(1)} us ({len(us)})" if us else "none"


libc = ctypes.CDLL(None, use_errno=True)


def syscall(*arguments):
    r = libc.syscall(*[ctypes.c_long(a) for a in arguments])
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r


# --- what the program and the probe share ---


class Shared:
    """Numbers in a file: what the program has done, and what it is asked to do."""

    NAMES = ("count", "at", "wrong", "command", "done", "longest", "ready", "took")

    def __init__(self, path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if os.fstat(fd).st_uid == os.geteuid():
            os.fchmod(fd, 0o666)
            os.ftruncate(fd, 4096)
        self.map = mmap.mmap(fd, 4096)
        os.close(fd)

    def __getattr__(self, name):
        return struct.unpack_from("=q", self.map, 8 * self.NAMES.index(name))[0]

    def put(self, name, value):
        struct.pack_into("=q", self.map, 8 * self.NAMES.index(name), value)


# --- the program ---


def program(path, size):
    """Multiplies matrices, compares each product, and counts. Asked for it, makes streams and contexts meanwhile."""
    import threading

    import torch

    shared = Shared(path)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    right = a @ b
    out = torch.empty_like(right)
    kept = []

    def more():
        cu = ctypes.CDLL("libcuda.so.1")
        while True:
            command = shared.command
            if command == shared.done:
                time.sleep(0.001)
                continue
            if command % 10 == 1:
                stream = torch.cuda.Stream()
                kept.append(stream)
                with torch.cuda.stream(stream):
                    kept.append(torch.zeros(1, device="cuda"))
            elif command % 10 == 2:
                context = ctypes.c_void_p()
                if cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) != 0:
                    shared.put("wrong", -1)
                kept.append(context)
            elif command % 10 == 3:
                kept.append([torch.zeros(1 << 20, device="cuda") for _ in range(500)])
            elif command % 10 == 4:
                kept.clear()
                torch.cuda.empty_cache()
            shared.put("done", command)

    threading.Thread(target=more, daemon=True).start()
    torch.cuda.synchronize()
    shared.put("ready", 1)
    while shared.command >= 0:
        began = time.monotonic_ns()
        torch.matmul(a, b, out=out)
        if not torch.equal(out, right):
            shared.put("wrong", shared.wrong + 1)
        now = time.monotonic_ns()
        shared.put("count", shared.count + 1)
        shared.put("at", now)
        shared.put("took", now - began)
        if now - began > shared.longest:
            shared.put("longest", now - began)


class Tenant:
    def __init__(self, size=2048, user=None, recorder=None, trace=None):
        self.path = tempfile.mktemp(dir="/dev/shm")
        self.shared = Shared(self.path)
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        if recorder:
            env.update(LD_PRELOAD=recorder, RM_TRACE=trace)
        if user:
            env.update(HOME="/tmp", TORCHINDUCTOR_CACHE_DIR="/tmp/t")
        words = [sys.executable, PROGRAM, "--program", self.path, f"--size={size}"]
        more = {"user": user, "group": user, "extra_groups": []} if user else {}
        self.process = subprocess.Popen(words, env=env, **more)
        self.pid = self.process.pid
        until = time.monotonic() + 60
        while not self.shared.ready:
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the program has ended: {self.process.returncode}")
            time.sleep(0.01)
        self.number = 0
        self.pidfd = syscall(SYS_PIDFD_OPEN, self.pid, 0)

    def order(self, kind, wait=True):
        self.number += 10
        self.shared.put("command", self.number + kind)
        until = time.monotonic() + 10
        while wait and self.shared.done != self.number + kind and time.monotonic() < until:
            time.sleep(0.001)
        return self.shared.done == self.number + kind

    def done_in(self, seconds):
        before = self.shared.count
        time.sleep(seconds)
        return self.shared.count - before

    def end(self):
        self.shared.put("command", -1)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        status = self.process.returncode
        os.close(self.pidfd)
        os.unlink(self.path)
        return status


# --- the probe's calls ---


def ioc(nr, size):
    return (3 << 30) | (size << 16) | (ord("F") << 8) | nr


class Driver:
    trace = None

    def __init__(self, fd, name):
        self.fd, self.name = fd, name

    def write(self, **line):
        if Driver.trace:
            Driver.trace.write(json.dumps({"at": time.monotonic_ns(), "file": self.name, **line}) + "\n")

    def call(self, nr, data):
        buffer = ctypes.create_string_buffer(data, len(data))
        if libc.ioctl(self.fd, ctypes.c_ulong(ioc(nr, len(data))), buffer) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return buffer.raw

    def control(self, client, object_, command, data):
        parameters = ctypes.create_string_buffer(data, len(data))
        head = struct.pack("=IIIIQII", client, object_, command, 0, ctypes.addressof(parameters), len(data), 0)
        status = struct.unpack_from("=I", self.call(0x2A, head), 28)[0]
        line = {"call": "control", "client": client, "object": object_, "command": command, "size": len(data)}
        line.update({"status": status, "in": data.hex()})
        if parameters.raw != data:
            line["out"] = parameters.raw.hex()
        self.write(**line)
        return status, parameters.raw

    def alloc(self, client, parent, object_, class_, data=b""):
        parameters = ctypes.create_string_buffer(data, len(data))
        at = ctypes.addressof(parameters) if data else 0
        head = struct.pack("=IIIIQII", client, parent, object_, class_, at, len(data), 0)
        reply = self.call(0x2B, head)
        made, status = struct.unpack_from("=I", reply, 8)[0], struct.unpack_from("=I", reply, 28)[0]
        line = {"call": "alloc", "client": client, "parent": parent, "object": object_, "made": made, "class": class_}
        self.write(**line, size=len(data), status=status, **({"in": data[:4].hex()} if data else {}))
        return status, made

    def info(self, client, object_, what):
        status, out = self.control(client, client, HANDLE_INFO, struct.pack("=IIQ", object_, what, 0))
        return status, struct.unpack_from("=Q", out, 8)[0]

    def child(self, client, parent, class_):
        status, out = self.control(client, client, CHILD_HANDLE, struct.pack("=III", parent, class_, 0))
        return status, struct.unpack_from("=I", out, 8)[0]

    def disable(self, via, channels, disable):
        """Disables or enables channels. Returns the driver's status."""
        clients = [c for c, _ in channels] + [0] * (64 - len(channels))
        objects = [o for _, o in channels] + [0] * (64 - len(channels))
        data = struct.pack("=B3xIBB6xQ64I64I", disable, len(channels), 0, 0, 0, *clients, *objects)
        return self.control(*via, DISABLE, data)[0]


class Finder:
    """What hal/nvrm-find.h finds of a process, and calls through copies of its files."""

    def __init__(self, calls, tenant):
        self.calls, self.tenant, self.files = calls, tenant, []
        calls.xsched_nvrm_forget()
        self.clients, self.objects, self.took = [], [], (0, 0)

    def ctl_numbers(self):
        numbers = []
        for n in os.listdir(f"/proc/{self.tenant.pid}/fd"):
            try:
                if os.readlink(f"/proc/{self.tenant.pid}/fd/{n}") == "/dev/nvidiactl":
                    numbers.append(int(n))
            except OSError:
                pass
        return sorted(numbers)

    def take(self, number):
        fd = syscall(SYS_PIDFD_GETFD, self.tenant.pidfd, number, 0)
        return Driver(fd, f"{self.tenant.pid}:{number}")

    def find(self, file, first=CLIENT_FIRST, last=CLIENT_LAST):
        text = ctypes.create_string_buffer(1 << 22)
        n = self.calls.xsched_nvrm_find(file.fd, first, last, text, len(text))
        if n < 0:
            raise OSError(-n, f"find: {os.strerror(-n)}")
        lines = [line.split() for line in text.value.decode().splitlines()]
        self.took = tuple(int(w) / 1e9 for w in lines[0][1:])
        self.clients = [tuple(map(int, w[1:])) for w in lines if w[0] == "client"]
        self.objects = [tuple(map(int, w[1:])) for w in lines if w[0] == "object"]

    def of_class(self, *classes):
        return [o for o in self.objects if o[3] in classes]

    def channels(self):
        return [o for o in self.objects if o[3] & 0xFF == 0x6F and o[3] > 0xFF]

    def via(self, client):
        return next((o[0], o[1]) for o in self.of_class(SUBDEVICE) if o[0] == client)

    def stop(self, file, stop, channels=None):
        """Returns the statuses of the calls, and the seconds that they took."""
        began, statuses = time.perf_counter(), []
        channels = self.channels() if channels is None else channels
        for client in {o[0] for o in channels}:
            of = [(o[0], o[1]) for o in channels if o[0] == client]
            for i in range(0, len(of), 64):
                statuses.append(file.disable(self.via(client), of[i : i + 64], int(stop)))
        return statuses, time.perf_counter() - began


def mark(tenant, runs):
    """Puts what the program was seen to do into the trace."""
    if Driver.trace:
        line = {"at": time.monotonic_ns(), "call": "seen", "process": tenant.pid, "runs": bool(runs)}
        Driver.trace.write(json.dumps(line) + "\n")


def newest_client(calls):
    fd = os.open("/dev/nvidiactl", os.O_RDWR | os.O_CLOEXEC)
    n = calls.xsched_nvrm_newest(fd)
    os.close(fd)
    return n


def open_and_find(calls, tenant, quiet=False):
    """Returns what was found on the file that has channels, and a copy of it."""
    newest = newest_client(calls)
    for n in Finder(calls, tenant).ctl_numbers():
        f = Finder(calls, tenant)
        file = f.take(n)
        f.find(file, CLIENT_FIRST, newest)
        if not quiet:
            took = [f"{t * 1e3:.2f} ms" for t in f.took]
            clients = [tuple(map(hex, c)) for c in f.clients]
            say(f"fd {n}", "clients", clients, "objects", len(f.objects), "took (clients, objects)", took)
        if f.channels():
            return f, file
        os.close(file.fd)
    raise RuntimeError("no channels")
