#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares MeanUSec with the device's own time stamps: bench-mean.py [--quick] TIMED MIX-TENANT; prints JSON

Runs inside of xsched-session. TIMED launches kernels of one length, synchronously or eight deep, in a queue with
profiling enabled, which the layer does not use; meanwhile MeanUSec is read. Each kind of kernel runs alone and beside
its equal, and short ones run beside long ones. tests/opencl/test-mean.py asserts the same on a CPU.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import mix  # noqa: E402

LENGTHS = (20, 100, 1000, 20000)  # us
HOWS = ("sync", "deep")
LONG_BESIDE_SHORT = ((20, 20000), (100, 1000))
SECONDS, WARM_UP = 1.0, 0.3
LOOK = 0.005
LOOKS_MIN = 10  # with fewer, because the machine was busy, it is measured again
PROPERTIES, QUEUE = "org.freedesktop.DBus.Properties", "org.xsched.Scheduler.Queue"


class Program:
    def __init__(self, service, path, kind):
        self.service, self.kind = service, kind
        env = {**os.environ, **mix.ENVIRONMENT}
        self.process = subprocess.Popen(
            [path, *map(str, kind)], env=env, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        mix.go_first(self.process.pid)
        assert self.process.stdout.readline().split()[:1] == ["ready"], kind
        self.queue = None

    def run(self, begin, end):
        """Returns the device's (mean, median) in us of the launches that were complete between the two times; (0, 0):
        none was."""
        self.process.stdin.write(f"{begin} {end}\n")
        mean, median, _ = map(int, self.process.stdout.readline().split())
        return mean / 1000, median / 1000

    def find_queue(self):
        state = self.service.describe()
        ids = [c["id"] for c in state["clients"] if c["pid"] == self.process.pid]
        self.queue = next((q["id"] for q in state["queues"] if q["client"] in ids), None)

    def mean(self):
        path = f"{mix.PATH}/queue/{self.queue}"
        return self.service.bus.call(mix.NAME, path, PROPERTIES, "Get", "ss", QUEUE, "MeanUSec")[0]

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(mix.TIMEOUT) == 0, self.kind
        self.process.stdout.close()


def measure(programs, seconds):
    """Returns for each program what it says about its launches, and MeanUSec meanwhile: in one window, in which all of
    them work. What they have in flight at its end, they run alone."""
    said, seen = [None] * len(programs), [[] for _ in programs]
    begin = time.monotonic_ns() + int(WARM_UP * 1e9)
    end = begin + int(seconds * 1e9)

    def work(i):
        said[i] = programs[i].run(begin, end)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(programs))]
    for t in threads:
        t.start()
    for p in programs:
        while p.queue is None:
            p.find_queue()
    mix.sleep_until(begin)
    while time.monotonic_ns() < end:
        for i, p in enumerate(programs):
            mean = p.mean()
            if mean > 0:
                seen[i].append(mean)
        time.sleep(LOOK)
    for t in threads:
        t.join()
    if min(map(len, seen)) < LOOKS_MIN or not all(mean for mean, _ in said):
        return measure(programs, seconds)
    return [
        {"how": p.kind[0], "usec": p.kind[1], "mean": mean, "median": median, "seen": statistics.median(looks)}
        for p, (mean, median), looks in zip(programs, said, seen)
    ]


def mixes():
    alone = itertools.product(HOWS, LENGTHS)
    for kind in alone:
        yield [kind]
    for kind in itertools.product(HOWS, LENGTHS):
        yield [kind, kind]
    for lengths in LONG_BESIDE_SHORT:
        for hows in itertools.product(HOWS, repeat=2):
            yield list(zip(hows, lengths))


def main():
    arguments = [a for a in sys.argv[1:] if a != "--quick"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    timed, tenant = arguments
    found = mix.calibrate(tenant, (100,))
    service = mix.Service(os.environ["XSCHED_BUS_ADDRESS"])
    mix.go_first(service.pid())
    subprocess.run(["xschedctl", "set", "device:all", "accounting=exact"], check=True, stdout=subprocess.DEVNULL)
    rows = []
    for kinds in mixes():
        programs = [Program(service, timed, kind) for kind in kinds]
        rows.append(measure(programs, SECONDS / 2 if len(arguments) < len(sys.argv) - 1 else SECONDS))
        print(rows[-1], file=sys.stderr, flush=True)
        for p in programs:
            p.end()
    print(json.dumps({**{k: found[k] for k in ("device", "driver", "gpu", "cpu")}, "rows": rows}))


if __name__ == "__main__":
    main()
