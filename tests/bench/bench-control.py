#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures what the control plane costs: bench-control.py [--quick]; prints JSON

The service is on a bus of its own. Each time is printed beside a yardstick of the same run: a round trip to the bus
daemon, or a process that does nothing. No time is asserted. The part about units is left out ("units": null) if cgroups
cannot be made here."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import (  # noqa: E402
    CLIENT,
    GROUP,
    MANAGER,
    NAME,
    PATH,
    Bus,
    Process,
    Program,
    Raw,
    Service,
    now_ns,
    proc,
    until,
)

CONFIG = """[Scheduler]
StarveAfter=1h
[Limits]
MaxClientsPerUser=4096
MaxQueuesPerUser=8192
MaxJobsPerUser=4096
[Log]
Level=warning
"""
QUICK = "--quick" in sys.argv
MANY = 100 if QUICK else 1000


def summary(samples_ns):
    s = sorted(samples_ns)
    return {"p50_us": s[len(s) // 2] / 1000, "p99_us": s[min(len(s) - 1, len(s) * 99 // 100)] / 1000, "samples": len(s)}


def timed(function):
    start = now_ns()
    function()
    return now_ns() - start


class Bench:
    def __init__(self, directory):
        self.bus = Bus(directory)
        self.service = Service(self.bus, directory, keep=False, config=CONFIG)
        self.c = self.bus.connect()

    def call(self, member, signature="", *args):
        return self.c.call(NAME, PATH, MANAGER, member, signature, *args)

    def get(self, name):
        return self.c.get(NAME, PATH, MANAGER, name)

    def cpu_us(self):
        """Returns the CPU time of the service."""
        return int(proc(self.service.pid, "schedstat").split()[0]) / 1000

    def memory(self):
        """Returns the service's memory in bytes: private, and in pages that it shares with clients."""
        fields = dict(line.split(":", 1) for line in proc(self.service.pid, "status").splitlines())
        return {k: int(fields[v].split()[0]) * 1024 for k, v in (("private", "RssAnon"), ("shared", "RssShmem"))}

    def gone(self):
        until(lambda: self.get("NClients") == 0, "clients to go")

    # --- start ---

    def start(self):
        times, yard = [], []
        for _ in range(3 if QUICK else 30):
            self.service.stop()
            times.append(timed(self.service.start))
            yard.append(timed(lambda: Process(["true"]).wait()))
        return {"ready": summary(times), "yardstick": summary(yard)}

    # --- registration ---

    def registration(self):
        times, yard = [], []
        for _ in range(MANY):
            start = now_ns()
            r = Raw(self.c)
            r.queue()
            times.append(now_ns() - start)
            yard.append(timed(lambda: self.c.bus("GetId")))
            r.close()
        self.gone()
        return {"registered": summary(times), "yardstick": summary(yard), **self.messages()}

    def messages(self):
        """Counts all messages on the bus for one program with one queue, until it is registered and until its end."""
        monitor = subprocess.Popen(
            ["busctl", f"--address={self.bus.address}", "monitor", "--json=short"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        monitor.stderr.readline()
        # Messages arrive in order: once our mark is seen, those before it are, too.
        counts = []
        self.mark("begin")
        self.count(monitor, "begin")
        p = Program(self.bus)
        self.mark("registered")
        counts.append(self.count(monitor, "registered"))
        p.close_input()
        p.process.wait()
        self.gone_quietly(p)
        self.mark("end")
        counts.append(counts[0] + self.count(monitor, "end"))
        monitor.kill()
        monitor.communicate()
        return {"messages_registered": counts[0], "messages": counts[1]}

    def gone_quietly(self, p):
        """Waits for the client's end without sending a message: the service unmaps the client's page."""
        until(lambda: "xsched-page" not in proc(self.service.pid, "maps"), "the client to go")
        p.end()

    def mark(self, what):
        """Sends a message that marks this point."""
        try:
            self.c.bus("GetNameOwner", "s", f"mark.{what}")
        except Exception:  # pylint: disable=broad-except
            pass

    @staticmethod
    def count(monitor, mark):
        n = 0
        while f"mark.{mark}" not in (line := monitor.stdout.readline()):
            if not line:
                raise AssertionError("the monitor has ended")
            n += "mark." not in line
        return n

    # --- units ---

    @staticmethod
    def cgroup_root():
        with open("/proc/self/cgroup", encoding="ascii") as f:
            own = next((line[3:].strip() for line in f if line.startswith("0::")), None)
        for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            if own and os.path.exists(f"{mount}/cgroup.procs"):
                return f"{mount}{own}".rstrip("/")
        return None

    def cycle(self, root, with_client):
        """Makes and removes units, each with a process that registers or that the service does not care about."""
        sleeper = subprocess.Popen(["sleep", "infinity"])
        cpu, wakeups, before = self.cpu_us(), self.get("NWakeups"), self.memory()
        start = now_ns()
        for i in range(MANY):
            unit = f"{root}/bench-{os.getpid()}-{i}.service"
            os.mkdir(unit)
            mover = os.getpid() if with_client else sleeper.pid
            self.put(mover, unit)
            if with_client:
                r = Raw(self.c)
                r.queue()
                r.close()
            self.put(mover, root)
            os.rmdir(unit)
        wall = now_ns() - start
        if with_client:
            until(lambda: self.get("NClients") == 1, "clients to go")
        result = {
            "units": MANY,
            "wall_us": wall / 1000 / MANY,
            "cpu_us": (self.cpu_us() - cpu) / MANY,
            "wakeups": (self.get("NWakeups") - wakeups) / MANY,
            "left_over_bytes": (self.memory()["private"] - before["private"]) / MANY,
        }
        sleeper.kill()
        sleeper.wait()
        return result

    @staticmethod
    def put(pid, cgroup):
        fd = os.open(f"{cgroup}/cgroup.procs", os.O_WRONLY)
        os.write(fd, str(pid).encode())
        os.close(fd)

    def units(self):
        root = self.cgroup_root()
        if not root or not os.access(f"{root}/cgroup.procs", os.W_OK):
            return None
        # Without a client the service would watch no units, so one stays registered, in a process of its own.
        p = Program(self.bus)
        self.cycle(root, True)
        result = {"others": self.cycle(root, False), "clients": self.cycle(root, True)}
        p.end()
        self.gone()
        return result

    # --- priority ---

    def job(self, name):
        token, group = self.call("CreateJob", "sa{sv}utt", name, {}, 0, 0, 0)
        client = Raw(self.c, {"Job": ("s", token)})
        slot = client.queue()
        slot.edge(1)
        return group, client, slot

    def priority(self):
        """Raises each of two ready groups above the other in turns, and takes the time from the call to the verdict."""
        jobs = [self.job("a"), self.job("b")]
        raised, yard = [], []
        level = 0
        for i in range(200 if QUICK else 2000):
            group, _, slot = jobs[i % 2]
            level = -250 if level >= 250 else level + 1
            if level == -250:
                for g, _, _ in jobs:
                    self.c.set(NAME, g, GROUP, "Priority", "i", -251)
            start = now_ns()
            serial = self.c.send(
                NAME, group, "org.freedesktop.DBus.Properties", "Set", "ssv", GROUP, "Priority", ("i", level)
            )
            while slot.held:
                pass
            raised.append(now_ns() - start)
            self.c.reply(serial)
            yard.append(timed(lambda: self.c.bus("GetId")))
        for _, client, _ in jobs:
            client.close()
        self.gone()
        return {"verdict": summary(raised), "yardstick": summary(yard)}

    # --- memory ---

    def sizes(self):
        def grown(make):
            before = self.memory()
            things = [make(i) for i in range(MANY)]
            after = self.memory()
            return things, {k: (after[k] - before[k]) / MANY for k in after}

        # A fresh service has no free memory of former clients, which would hide what new ones take.
        self.service.stop()
        self.service.start()
        clients, client = grown(lambda i: Raw(self.c))
        queues = grown(lambda i: clients[i].queue())[1]
        for r in clients:
            r.close()
        self.gone()
        group = grown(lambda i: self.call("SetGroup", "sta{sv}", f"/bench/{i}.service", 0, {"Weight": ("u", 7)}))[1]
        return {"client": client, "queue": queues, "group": group}

    def run(self):
        return {
            "start": self.start(),
            "registration": self.registration(),
            "priority": self.priority(),
            "units": self.units(),
            "memory": self.sizes(),
        }


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    directory = tempfile.mkdtemp(prefix="xsched-bench-")
    try:
        os.chmod(directory, 0o755)
        bench = Bench(directory)
        try:
            print(json.dumps(bench.run(), indent=1))
        finally:
            bench.c.close()
            bench.service.end()
            bench.bus.end()
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
