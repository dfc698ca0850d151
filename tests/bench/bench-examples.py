#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs XSched's own examples, unchanged, on a GPU: bench-examples.py [--seconds=N] [--layer=FILE] DIR; prints JSON

Runs inside of xsched-session. DIR contains the examples of XSched's repository (examples/Linux, 1 to 4 and 8) as nvcc
compiled them with our headers: app, app_with_hints, app_concurrent, app_sched, app_nontrans_sched. Each prints how long
each of its tasks took. Tasks count once all programs, or both threads, have ended one.

The programs of the first two examples ask for the priorities 0, 1 and 2, but a process's own hints can only lower its
priority. So this program does what an administrator would: it gives each process the priority 10.
"""

import argparse
import json
import os
import pty
import re
import selectors
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
TASK = re.compile(r"^(.*?)\s*Task \d+ completed in (\d+) ms")
STARTING_MAX = 40  # s; each fills arrays of 32 million numbers first
HIGH, LOW = "high", "low"
# The names that the threads of one program print.
NAMES = {"Prio 2": HIGH, "Prio 1": LOW, "high prio": HIGH, "low  prio": LOW}


def automatic(priority):
    """Returns the environment that the README of the first example sets in the terminal of this priority."""
    return {
        "XSCHED_SCHEDULER": "GLB",
        "XSCHED_AUTO_XQUEUE": "ON",
        "XSCHED_AUTO_XQUEUE_PRIORITY": str(priority),
        "XSCHED_AUTO_XQUEUE_LEVEL": "1",
        "XSCHED_AUTO_XQUEUE_THRESHOLD": "16" if priority else "4",
        "XSCHED_AUTO_XQUEUE_BATCH_SIZE": "8" if priority else "2",
    }


GLOBAL = {"XSCHED_SCHEDULER": "GLB"}
ROOM = 10
# (example, way, its programs: [(name, or None if its threads print theirs; program; arguments; environment)])
ONE = "1 transparent"
RUNS = [
    (ONE, "alone", [(HIGH, "app", [], None)]),
    (ONE, "without", [(HIGH, "app", [], None), (LOW, "app", [], None)]),
    (ONE, "with", [(HIGH, "app", [], automatic(1)), (LOW, "app", [], automatic(0))]),
    ("2 hints", "with", [(HIGH, "app_with_hints", ["2"], GLOBAL), (LOW, "app_with_hints", ["1"], GLOBAL)]),
    ("3 within a process", "without", [(None, "app_concurrent", [], None)]),
    ("3 within a process", "with", [(None, "app_concurrent", [], {})]),
    ("4 by hand", "with", [(None, "app_sched", [], {})]),
    ("8 not transparent", "with", [(None, "app_nontrans_sched", [], {})]),
]


class Program:
    def __init__(self, name, argv, env):
        self.name, self.rest, self.times, self.said = name, "", {}, []
        self.is_global = env.get("XSCHED_SCHEDULER") == "GLB"
        # On a terminal stdio writes line by line.
        self.fd, other = pty.openpty()
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)

    def read(self):
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # its end has hung up
            data = b""
        if not data:
            return False
        *lines, self.rest = (self.rest + data.decode(errors="replace")).split("\n")
        for line in lines:
            found = TASK.match(line)
            if found:
                who = self.name or NAMES.get(found[1], found[1])
                self.times.setdefault(who, []).append(int(found[2]))
            elif line.strip():
                self.said.append(line.strip())
        return True

    def begun(self):
        return len(self.times) == (1 if self.name else 2)

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


def environment(layer, more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("XSCHED_AUTO_")}
    if more is not None:
        env = env | more | {"LD_PRELOAD": layer}
    return env


def follow(programs, selector, until, done=lambda: False):
    while time.monotonic() < until and not done():
        for key, _ in selector.select(0.1):
            if not key.data.read():
                raise RuntimeError(f"a program has ended: {key.data.said[-3:]}")


def run(directory, layer, seconds, who):
    programs = [Program(n, [os.path.join(directory, p), *a], environment(layer, e)) for n, p, a, e in who]
    try:
        with selectors.DefaultSelector() as selector:
            for p in programs:
                selector.register(p.fd, selectors.EVENT_READ, p)
            follow(programs, selector, time.monotonic() + STARTING_MAX, lambda: all(p.begun() for p in programs))
            if not all(p.begun() for p in programs):
                raise RuntimeError(f"no task has ended: {[p.said[-3:] for p in programs]}")
            for p in programs:
                if p.is_global:
                    subprocess.run(["xschedctl", "set", str(p.process.pid), f"priority={ROOM}"], check=True)
            for p in programs:
                p.times = {}
            follow(programs, selector, time.monotonic() + seconds)
    finally:
        for p in programs:
            p.end()
    result = {}
    for p in programs:
        for name, times in p.times.items():
            result[name] = {
                "tasks": len(times),
                "mean_ms": round(statistics.mean(times), 1),
                "p50_ms": statistics.median(times),
                "max_ms": max(times),
            }
        # The programs print anything else only for a wrong result or an error.
        if p.said:
            raise RuntimeError("; ".join(p.said[:3]))
    return result


def device():
    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--layer", default=os.path.join(HERE, "../../build/shim/libxsched-cuda.so"))
    p.add_argument("directory")
    options = p.parse_args()
    gpu, rows = device(), []
    for example, way, who in RUNS:
        row = {"example": example, "way": way}
        try:
            row |= run(options.directory, os.path.realpath(options.layer), options.seconds, who)
        except RuntimeError as e:
            row["failed"] = str(e)
        print(json.dumps(row), file=sys.stderr, flush=True)
        rows.append(row)
    json.dump({"device": gpu, "gpu": True, "rows": rows}, sys.stdout)
    print()
    return any("failed" in row for row in rows)


sys.exit(main())
