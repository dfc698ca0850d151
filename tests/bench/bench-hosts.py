#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Simulates many hosts on one machine: bench-hosts.py [--hosts=N] [--gpus=N] [--events=N] [--rounds=N] [--seed=N]
               [--launch=MS] [--load=SECONDS]; prints JSON

Each host is an xschedd on a private bus, with fake GPUs, each of which two programs share. There are five events: the
service is killed, is stopped, or hangs and is killed; the bus dies; or programs die and others are started. First,
each event happens on a host drawn at random while its programs work. Then the programs of all hosts work until the end:
in each round events happen on several hosts at the same time, and finally all services are killed at once. After each
event, all programs of all hosts have to get on, those of the host have to be registered exactly once and with the
settings that were made at run time, and all results have to be right.

It measures memory without programs, with them, and while all work; and the CPU time of all services and buses while no
program works, while all work, and for a launch.
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import CLIENT, DEVICE, GROUP, MANAGER, NAME, PATH, Bus, Program, Service, proc, until  # noqa: E402

CONFIG = "[Limits]\nMaxClientsPerUser=200\n[Log]\nLevel=warning\n"
WEIGHTS = (100, 33)  # a process can only lower its own
ATTACHED = 2
STEPS = 5  # of each program, before and after an event
TOGETHER = 8  # hosts with an event at the same time, at most
WORKING_GPUS = 2  # of each host, while all hosts work: one machine has to do all of it
LONG = 120  # s; a busy machine may take long for many programs


def expected_sum(steps):
    value = 0
    for k in range(1, steps + 1):
        value = (value * 3 + k) & 0xFFFFFFFFFFFFFFFF
    return value


def pss_kb(pid):
    return int(re.search(r"^Pss:\s+(\d+)", proc(pid, "smaps_rollup"), re.M)[1])


def cpu_us(pid):
    """Returns the CPU time of all threads of a process, by the kernel's clock for it."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1000


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Host:
    def __init__(self, directory, n_gpus, rng):
        os.mkdir(directory)
        self.rng = rng
        self.bus = Bus(directory)
        self.service = Service(self.bus, directory, keep=True, config=CONFIG)
        self.c = self.bus.connect()
        self.gpus = [f"pci:0000:{i + 1:02x}:00.0" for i in range(n_gpus)]
        self.programs, self.n_at_work = [], 0
        self.cpu_before_us = 0  # of services and buses that are gone

    def call(self, member, signature="", *args):
        r = self.c.call(NAME, PATH, MANAGER, member, signature, *args)
        return r[0] if len(r) == 1 else r

    def get(self, name, path=PATH, interface=MANAGER):
        return self.c.get(NAME, path, interface, name)

    def start_program(self, n):
        """Starts the n-th program: there are two on each GPU, with different weights."""
        gpu, weight = self.gpus[n // len(WEIGHTS)], WEIGHTS[n % len(WEIGHTS)]
        return Program(self.bus, gpu, wait=False, env={"XSCHED_WEIGHT": str(weight)})

    def populate(self):
        self.programs = [self.start_program(n) for n in range(len(self.gpus) * len(WEIGHTS))]

    def settle(self):
        for p in self.programs:
            p.expect("ready", LONG)

    def set_something(self):
        self.call("SetGroup", "sta{sv}", "later.service", 0, {"Priority": ("i", 12)})
        for gpu in self.gpus:
            self.call("SetPolicy", "ssta{sv}", gpu, "", 0, {"LingerUSec": ("t", 123)})
        first = min(self.call("ListClients"), key=lambda c: c[1])
        self.c.call(NAME, first[5], CLIENT, "Set", "ta{sv}", 0, {"Threshold": ("u", 5)})

    def state(self):
        """Returns the clients, their queues and all settings."""
        clients = {
            c[1]: (c[5], self.get("Weight", c[5], CLIENT), self.get("Threshold", c[5], CLIENT))
            for c in self.call("ListClients")
        }
        lingers = {d[0]: self.get("LingerUSec", d[-1], DEVICE) for d in self.call("ListDevices")}
        return {
            "clients": clients,
            "n": len(self.call("ListClients")),
            "queues": sorted(self.call("ListQueues")),
            "lingers": {gpu: lingers.get(gpu) for gpu in self.gpus},
            "group": self.get("Priority", self.call("GetGroup", "s", "later.service"), GROUP),
        }

    # --- work ---

    def begin(self, launch_ms=1, n_gpus=None):
        """Starts the programs of the first n_gpus GPUs, or of all."""
        self.launch_ms, self.n_at_work = launch_ms, len(WEIGHTS) * (n_gpus or len(self.gpus))
        for p in self.at_work:
            p.tell(f"work {launch_ms}")
        for p in self.at_work:
            p.expect("working", LONG)

    @property
    def at_work(self):
        return self.programs[: self.n_at_work]

    def progress(self):
        for p in self.at_work:
            p.tell("progress")
        return [int(p.line(LONG)) for p in self.at_work]

    def steps(self):
        """Returns the steps of all programs since they were started."""
        return sum(int(p.ask("progress", LONG)) for p in self.programs)

    def gets_on(self, when, start=None):
        start = start or self.progress()
        until(
            lambda: all(now >= then + STEPS for now, then in zip(self.progress(), start)),
            f"everybody to get on {when}",
            deadline=LONG,
            nap=0.05,
        )

    def rest(self):
        """Stops the programs, and checks their results. Returns their steps since they were started."""
        total = 0
        for p in self.at_work:
            p.tell("rest")
        for p in self.at_work:
            steps, value = map(int, p.line(LONG).split())
            check(value == expected_sum(steps), f"{steps} steps came to {value}")
            check(p.counters()["launches"] == steps, "a launch without a step, or a step without its launch")
            total += steps
        return total

    # --- events, and the recovery from them ---

    def cpu_us(self):
        return self.cpu_before_us + cpu_us(self.service.pid) + cpu_us(self.bus.process.pid)

    def stop(self):
        self.cpu_before_us += cpu_us(self.service.pid)
        self.service.stop()

    def kill(self):
        self.cpu_before_us += cpu_us(self.service.pid)
        self.service.kill()

    def hang(self):
        self.service.freeze()
        self.gets_on("while the service hangs")
        self.cpu_before_us += cpu_us(self.service.pid)
        self.service.process.kill(signal.SIGABRT)
        self.service.thaw()
        check(self.service.process.wait() == -signal.SIGABRT, "the watchdog's signal does not end it")

    def lose_bus(self):
        self.cpu_before_us = self.cpu_us()
        self.c.close()
        self.bus.end()
        check(self.service.process.wait() == 1, "it goes on without a bus")

    def replace(self):
        """Kills half of the programs."""
        self.gone = sorted(self.rng.sample(range(len(self.programs)), len(self.programs) // 2))
        for n in self.gone:
            self.programs[n].end()

    def come_back(self, what):
        if what in ("stop", "kill", "hang"):
            self.service.start()
        elif what == "lose_bus":
            self.bus.start_again()
            self.service.start()
            self.c = self.bus.connect()
        elif what == "replace":
            for n in self.gone:
                self.programs[n] = self.start_program(n)
            for n in self.gone:
                self.programs[n].expect("ready", LONG)
                if n < self.n_at_work:
                    self.programs[n].tell(f"work {self.launch_ms}")
                    self.programs[n].expect("working", LONG)

    def end(self):
        for p in self.programs:
            p.end()
        self.c.close()
        self.service.end()
        self.bus.end()


class Bench:
    def __init__(self, directory, n_hosts, n_gpus, seed):
        self.rng = random.Random(seed)
        self.hosts = [Host(os.path.join(directory, str(i)), n_gpus, self.rng) for i in range(n_hosts)]
        self.happened, self.struck = {}, {}

    def memory(self):
        """Returns the memory of the average host in KiB: the service, its bus, and its programs."""
        n = len(self.hosts)
        return {
            "service": sum(pss_kb(h.service.pid) for h in self.hosts) / n,
            "bus": sum(pss_kb(h.bus.process.pid) for h in self.hosts) / n,
            "programs": sum(pss_kb(p.pid) for h in self.hosts for p in h.programs) / n,
        }

    def populate(self):
        for h in self.hosts:
            h.populate()
            h.settle()
            h.set_something()

    def check_state(self, host, before, everybody=True):
        """Checks that the host is as before. If programs were replaced, their number, queues and weights are."""
        expected = sorted(p.pid for p in host.programs)
        until(lambda: sorted(c[1] for c in host.call("ListClients")) == expected, "all clients", deadline=LONG)
        until(lambda: len(host.call("ListQueues")) == len(expected), "all queues", deadline=LONG)
        until(
            lambda: {(c["state"], c["queues"]) for c in (p.counters() for p in host.programs)} == {(ATTACHED, 1)},
            "all attached",
            deadline=LONG,
        )
        now = host.state()
        if everybody:
            check(now == before, f"{now} is not {before}")
        check(now["n"] == len(expected), "somebody is registered twice")
        weights = [now["clients"][p.pid][1] for p in host.programs]
        check(weights == [WEIGHTS[n % len(WEIGHTS)] for n in range(len(weights))], f"weights are {weights}")
        check((now["lingers"], now["group"]) == (before["lingers"], before["group"]), f"settings are {now}")

    def happen(self, what):
        """Makes an event happen on one host while its programs work. Returns their steps, and the CPU time of the
        service and the bus in us."""
        host = self.rng.choice(self.hosts)
        before, cpu, steps = host.state(), host.cpu_us(), host.steps()
        host.begin()
        host.gets_on("at first")
        if what != "nothing":
            getattr(host, what)()
            host.come_back(what)
        host.gets_on(f"after {what}")
        self.check_state(host, before, what != "replace")
        steps = host.rest() - steps
        self.happened[what] = self.happened.get(what, 0) + 1
        return steps, host.cpu_us() - cpu

    # --- all at work ---

    def begin(self, launch_ms):
        for h in self.hosts:
            h.begin(launch_ms, WORKING_GPUS)

    def progress(self):
        return [h.progress() for h in self.hosts]

    def get_on(self, when, but=()):
        """Waits until the programs of all hosts get on, also those without a service or a bus."""
        waited = {h: h.progress() for h in self.hosts if h not in but}
        for h, start in waited.items():
            h.gets_on(when, start)

    def round(self):
        """Makes events happen on several hosts at the same time: all are down before the first one recovers."""
        struck = self.rng.sample(self.hosts, self.rng.randint(2, min(TOGETHER, len(self.hosts))))
        whats = [self.rng.choice(EVENTS) for _ in struck]
        before = [h.state() for h in struck]
        for h, what in zip(struck, whats):
            getattr(h, what)()
        self.get_on("while others are gone", [h for h, what in zip(struck, whats) if what == "replace"])
        for h, what in zip(struck, whats):
            h.come_back(what)
        for h, what, b in zip(struck, whats, before):
            self.check_state(h, b, what != "replace")
        self.get_on(f"after {', '.join(whats)}")
        for what in whats:
            self.struck[what] = self.struck.get(what, 0) + 1
        return len(struck)

    def all_die(self):
        before = [h.state() for h in self.hosts]
        for h in self.hosts:
            h.kill()
        self.get_on("without any service")
        start = time.monotonic()
        for h in self.hosts:
            h.come_back("kill")
        for h, b in zip(self.hosts, before):
            self.check_state(h, b)
        return time.monotonic() - start

    def rest(self):
        """Stops all programs, and checks their results. Returns their steps."""
        return sum(h.rest() for h in self.hosts)

    def cpu_in(self, seconds):
        """Returns the CPU time of all services and buses in us a second, and the steps of all programs a second."""
        steps = sum(map(sum, self.progress()))
        start, cpu = time.monotonic(), sum(h.cpu_us() for h in self.hosts)
        time.sleep(seconds)  # the span that is measured
        took = time.monotonic() - start
        cpu = sum(h.cpu_us() for h in self.hosts) - cpu
        return cpu / took, (sum(map(sum, self.progress())) - steps) / took

    def end(self):
        for h in self.hosts:
            h.end()


EVENTS = ("kill", "stop", "hang", "lose_bus", "replace")


def measure(bench, options):
    result = {"hosts": len(bench.hosts), "gpus": len(bench.hosts[0].gpus), "empty_kb": bench.memory()}
    bench.populate()
    result["full_kb"] = bench.memory()
    result["programs"] = sum(len(h.programs) for h in bench.hosts)
    result["idle_cpu_us_per_s"], _ = bench.cpu_in(options["load"])
    steps, cpu = bench.happen("nothing")
    result["launches"], result["cpu_us_per_launch"] = steps, cpu / steps
    n_events, n_rounds = options["events"], options["rounds"]
    for n in range(n_events):
        what = EVENTS[n] if n < len(EVENTS) else bench.rng.choice(EVENTS)
        print(f"{n + 1} of {n_events}: {what}", file=sys.stderr, flush=True)
        bench.happen(what)
    result["happened"] = bench.happened
    bench.begin(options["launch"])
    bench.get_on("at first")
    result["load_ms"], result["load_gpus"] = options["launch"], min(WORKING_GPUS, len(bench.hosts[0].gpus))
    result["load_cpu_us_per_s"], result["load_launches_per_s"] = bench.cpu_in(options["load"])
    result["load_kb"] = bench.memory()
    result["most_together"] = 0
    for n in range(n_rounds):
        result["most_together"] = max(result["most_together"], bench.round())
        print(f"round {n + 1} of {n_rounds}", file=sys.stderr, flush=True)
    result["rounds"], result["struck"] = n_rounds, bench.struck
    result["all_back_s"] = bench.all_die()
    bench.get_on("at last")
    result["right_steps"] = bench.rest()
    return result


def main():
    options = {"hosts": 100, "gpus": 8, "events": 10, "rounds": 10, "seed": 1, "launch": 100, "load": 10}
    for argument in sys.argv[1:]:
        key, _, value = argument.removeprefix("--").partition("=")
        check(key in options, f"unknown option {argument}")
        options[key] = int(value)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    directory = tempfile.mkdtemp(prefix="xsched-hosts-")
    try:
        bench = Bench(directory, options["hosts"], options["gpus"], options["seed"])
        print(json.dumps(measure(bench, options), indent=1))
        bench.end()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


main()
