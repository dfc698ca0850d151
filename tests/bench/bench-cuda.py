#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures a latency job beside trainings, and trainings beside each other, natively and scheduled, on a real GPU with
PyTorch; prints one line of JSON.

bench-cuda.py [--batch=gemm,resnet50] [--beside=0,1,3,7] [--seconds=S] [--rounds=N] [--layer=FILE] [--ways=NAME,...]
              [--modes=eager,graph] [--weights=S]
                                                                                inside of xsched-session

Ways:
  native     without the layer
  scheduled  with the layer as it is by default
  gate       channels are never stopped
  stop       channels are stopped, also with a version of the driver that was never tested
  slice      as stop, and the trainings' channels have time slices of 100 us
The rows of a way are measured in turns, in N rounds, because a machine is not equally fast all the time; native and
slice get half of the rounds. Of each picture it is noted how long the program launched, which is the CPU's time, and
how long it then waited. The rows at random moments need both modes. --weights also measures two trainings at 300:100,
for S seconds. --verbose prints what xschedd knows about the device after each way.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
TENANT = os.path.join(HERE, "cuda/tenant.py")
WAYS = {
    "native": {},
    "scheduled": {},
    "gate": {"XSCHED_CUDA_STOP": "0"},
    "stop": {"XSCHED_CUDA_STOP": "any"},
    "slice": {"XSCHED_CUDA_STOP": "any", "XSCHED_CUDA_SLICE": "100"},
}
MODES = ("eager", "graph")
RANDOM_MODES = ("eager-random", "graph-random", "graph-told")  # only beside most trainings, and with stops
SAMPLES = {}  # each picture's time, for --keep
SMALL_MEMORY = 100 << 30  # seven trainings of ResNet-50 in batches of 128 take more


class Tenant:
    def __init__(self, kind, layer, extra):
        env = {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, **extra}
        if layer:
            env["LD_PRELOAD"] = layer
        self.process = subprocess.Popen(
            [sys.executable, TENANT, kind], env=env, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a tenant ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, text):
        self.process.stdin.write(text + "\n")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def xschedctl(*words):
    return subprocess.run(["xschedctl", *words], check=True, capture_output=True, text=True).stdout


def set_settings(tenant, *settings):
    xschedctl("set", str(tenant.process.pid), *settings)


def show(*words):
    print(xschedctl(*words), file=sys.stderr, flush=True)


class Watch:
    """Counts at which level, and for how long, processes are held. It looks rarely, so that it costs nothing."""

    def __init__(self, wanted):
        self.over, self.seen = threading.Event(), collections.Counter()
        self.thread = threading.Thread(target=self.look) if wanted else None
        if wanted:
            self.thread.start()

    def look(self):
        while not self.over.wait(0.2):
            for line in xschedctl("dump").splitlines():
                words = dict(w.partition("=")[::2] for w in line.split())
                if "level" in words and "drain" in words:
                    self.seen[words["level"], f"{min(int(words['drain']) // 1000000, 1000)} ms"] += 1

    def end(self):
        self.over.set()
        if self.thread:
            self.thread.join()
            print("  held, level and drain:", dict(self.seen), file=sys.stderr, flush=True)


def stolen():
    """Returns how many seconds the hypervisor has kept this machine's CPUs from running when they had work."""
    with open("/proc/stat", encoding="utf-8") as f:
        return int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


class Cell:
    """The measurements of one row, from all rounds."""

    def __init__(self):
        self.ms, self.launching, self.rates, self.stolen, self.seconds = [], [], [], 0, 0

    def add(self, answer, rates, lost=0, seconds=0):
        self.ms += answer.get("ms", [])
        self.launching += answer.get("launching", [])
        self.rates.append(sum(rates))
        self.stolen += lost
        self.seconds += seconds

    def result(self):
        at = lambda q, ms: sorted(ms)[min(len(ms) - 1, int(q * len(ms)))]
        found = {"batch": round(sum(self.rates) / len(self.rates), 3)}
        if self.seconds:
            found["stolen"] = round(100 * self.stolen / self.seconds, 1)  # percent of one CPU
        if self.ms:
            found.update({"n": len(self.ms), **{f"p{100 * q:g}": at(q, self.ms) for q in (0.5, 0.9, 0.99)}})
            found["max"] = max(self.ms)
            found["launching p99"] = at(0.99, self.launching)
            found["waiting p99"] = round(at(0.99, [t - launch for t, launch in zip(self.ms, self.launching)]), 3)
        return found


def measure(cell, job, batch, how, seconds):
    before = stolen()
    for b in batch:
        b.ask(f"run {seconds + 0.3}")
    if job:
        job.ask(f"{how} {seconds}")
    answer = job.read() if job else {}
    rates = [r["steps"] / r["seconds"] for r in (b.read() for b in batch)]
    cell.add(answer, rates, stolen() - before, seconds)


def start_tenants(kinds, layer, extra, result):
    tenants = [Tenant(kind, layer, extra) for kind in kinds]
    for t in tenants:
        result.update(t.read())
    if result["memory"] < SMALL_MEMORY:
        result["resnet50 batch"] = 64
    return tenants


def run_beside(name, job, batch, options):
    """Measures the job beside each number of trainings, in turns."""
    cells, rows = collections.defaultdict(Cell), [(how, n) for how in options.modes for n in options.beside]
    if name in ("scheduled", "stop", "slice") and options.modes == list(MODES):
        rows += [(how, max(options.beside)) for how in RANDOM_MODES]
    for i in range(options.rounds if name not in ("native", "slice") else max(1, options.rounds // 2)):
        if options.alone:
            measure(cells["batch alone"], None, batch[:1], "", options.seconds)
        for how, n in rows:
            watch = Watch(name != "native" and options.verbose)
            measure(cells[f"{how} beside {n}"], job, batch[:n], how, options.seconds)
            watch.end()
        print(name, i, {k: c.result() for k, c in cells.items()}, file=sys.stderr, flush=True)
    SAMPLES[f"{name} beside {len(batch)}"] = {k: c.ms for k, c in cells.items()}
    return {k: c.result() for k, c in cells.items()}


def run_weights(batch, options):
    """Measures two trainings at 300:100, and each of them alone before and after. Returns what part each did of what it
    does alone."""
    alone, shared = [Cell(), Cell()], [Cell(), Cell()]
    for b, weight in zip(batch, (300, 100)):
        set_settings(b, f"weight={weight}")
    for i in range(2):
        for cell, b in zip(alone, batch):
            measure(cell, None, [b], "", options.weights / 4)
        if i > 0:
            continue
        for b in batch:
            b.ask(f"run {options.weights}")
        for cell, b in zip(shared, batch):
            r = b.read()
            cell.add({}, [r["steps"] / r["seconds"]])
    for b in batch:
        xschedctl("reset", str(b.process.pid))
    parts = [s.result()["batch"] / a.result()["batch"] for s, a in zip(shared, alone)]
    return {"asked": [300, 100], "parts": parts, "share": parts[0] / sum(parts)}


def run_kind(name, kind, job, options, result):
    layer = options.layer if name != "native" else None
    extra = dict(WAYS[name])
    if kind == "resnet50" and result["memory"] < SMALL_MEMORY:
        extra["RESNET50_BATCH"] = "64"
    batch = start_tenants([kind] * max(options.beside), layer, extra, result)
    found = run_beside(name, job, batch, options)
    if layer and options.weights:
        found["weights"] = run_weights(batch[:2], options)
        print(name, "weights", found["weights"], file=sys.stderr, flush=True)
    if layer:
        show("dump")
    if layer and options.verbose:
        show("show", "device:all")
        show("list-queues", "--full")
    for b in batch:
        b.end()
    return found


def run_way(name, options, result):
    layer = options.layer if name != "native" else None
    # Only the trainings get short time slices.
    env = {k: v for k, v in WAYS[name].items() if k != "XSCHED_CUDA_SLICE"}
    job = start_tenants(["latency"], layer, env, result)[0]
    if layer:
        set_settings(job, "priority=200")
    for kind in options.batch:
        result.setdefault(kind, {})[name] = run_kind(name, kind, job, options, result)
    job.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", default=["gemm"], type=lambda s: s.split(","))
    p.add_argument("--beside", default=[0, 1, 7], type=lambda s: [int(n) for n in s.split(",")])
    p.add_argument("--modes", default=list(MODES), type=lambda s: s.split(","))
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--weights", type=float, default=0)
    p.add_argument("--layer", default=os.path.join(HERE, "../../build/shim/libxsched-cuda.so"))
    p.add_argument("--ways", default="native,gate,stop")
    p.add_argument("--alone", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--keep", help="a file that gets what was found so far after each way")
    options = p.parse_args()
    result = {"gpu": True, "batch": options.batch, "seconds": options.seconds, "rounds": options.rounds}
    for name in options.ways.split(","):
        run_way(name, options, result)
        if options.keep:
            with open(options.keep, "w", encoding="utf-8") as f:
                json.dump({**result, "ms": SAMPLES}, f)
    print(json.dumps(result))


main()
