#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs llama.cpp's own programs, unchanged, on an NVIDIA GPU, with a model of random weights; prints one line of JSON

bench-llama.py [--seconds=S] [--layer=FILE] DIR...        inside of xsched-session

Each DIR contains llama-simple and llama-bench, as llama.cpp's own build makes them with CUDA, and their libraries: one
for a CUDA runtime that is linked statically, another for one that is not. What is found, for each: how many kernels
CUPTI and the layer count. For the first: whether a program that is held at random moments generates the same; what the
layer costs a program that is alone; two programs at 300:100; and a job of PyTorch's with precedence beside one. It
fails if a launch was missed, or something else was generated.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "cuda"))

from holds import environment  # pylint: disable=wrong-import-position
from llama import Llama  # pylint: disable=wrong-import-position

LEVELS = {"gate": "level=1", "stop": "level=3"}
WANTED = 20  # holds
BIG = {"layers": 8, "width": 2048}
TESTS = {"prompts": ["-p", "4096", "-n", "0"], "generation": ["-p", "0", "-n", "64"]}
STARTING_MAX = 60  # s


class Bench:
    """A llama-bench that runs one test again and again. It says when each run begins."""

    def __init__(self, llama, test, way):
        words = [llama.program("llama-bench"), "-m", llama.model(**BIG), *TESTS[test], "-r", "1000000", "--progress"]
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            words, env=environment(way, llama.layer), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.begun, self.rest, self.ready = [], [], threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stderr:
            if " run " in line and "warmup" not in line:
                self.begun.append(time.monotonic())
                if len(self.begun) == 3:
                    self.ready.set()
            elif not line.startswith("llama-bench: "):
                self.rest.append(line)
        self.ready.set()  # it has ended

    def wait(self):
        self.ready.wait(STARTING_MAX)
        if len(self.begun) < 3:
            raise RuntimeError("llama-bench does not run: " + "".join(self.rest[-5:]))

    def rate(self, since, until):
        """Returns the runs in a second of that time, from the first that began in it to the last."""
        found = [t for t in self.begun if since <= t <= until]
        return (len(found) - 1) / (found[-1] - found[0]) if len(found) > 1 else 0.0

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()


def set_settings(process, *settings):
    subprocess.run(["xschedctl", "set", str(process.pid), *settings], check=True, stdout=subprocess.DEVNULL)


def measure(benches, seconds):
    for b in benches:
        b.wait()
    since = time.monotonic()
    time.sleep(seconds)
    until = time.monotonic()
    return [b.rate(since, until) for b in benches]


def run_alone(llama, test, way, seconds):
    b = Bench(llama, test, way)
    try:
        return measure([b], seconds)[0]
    finally:
        b.end()


def run_cost(llama, seconds):
    """Returns what a program that is alone does with the layer and the service, of what it does without."""
    found = {}
    for test in TESTS:
        rates = {"native": [], "stop": []}
        for _ in range(2):
            for way, seen in rates.items():
                seen.append(run_alone(llama, test, way, seconds / 2))
        found[test] = {way: sum(seen) / len(seen) for way, seen in rates.items()}
    return found


def run_shares(llama, test, seconds):
    benches = [Bench(llama, test, "stop") for _ in range(2)]
    try:
        for b, weight in zip(benches, (300, 100)):
            b.wait()
            set_settings(b.process, f"weight={weight}")
        time.sleep(0.5)  # not measured: turns that began before the weights were set
        rates = measure(benches, 2 * seconds)
    finally:
        for b in benches:
            b.end()
    return {"asked": [300, 100], "rates": rates, "share": rates[0] / sum(rates)}


def run_beside(llama, way, seconds):
    """Returns how long the pictures of a job with precedence take, alone and beside prompts, and the rate of those."""
    tenant = os.path.join(HERE, "cuda/tenant.py")
    job = subprocess.Popen(
        [sys.executable, tenant, "latency"],
        env=environment(way, llama.layer),
        text=True,
        bufsize=1,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def ask():
        job.stdin.write(f"graph {seconds}\n")
        ms = sorted(json.loads(job.stdout.readline())["ms"])
        return {"p50": ms[len(ms) // 2], "p99": ms[int(0.99 * len(ms))]}

    bench = None
    try:
        job.stdout.readline()
        if way != "native":
            set_settings(job, "priority=200")
        found = {"alone": ask()}
        bench = Bench(llama, "prompts", way)
        bench.wait()
        since = time.monotonic()
        found["beside"] = ask()
        found["rate"] = bench.rate(since, time.monotonic())
    finally:
        if bench:
            bench.end()
        job.stdin.close()
        job.wait()
    return found


def run_held(llama):
    native, _ = llama.held("native")
    found = {"tokens": len(native.split())}
    for way, level in LEVELS.items():
        said, levels = llama.held(way)
        n = sum(n for of, n in levels.items() if of.startswith(level))
        found[way] = {"same": said == native, "holds": n, "good": said == native and n >= WANTED}
    return found


def query(what):
    words = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--layer", default=os.path.join(HERE, "../../build/shim/libxsched-cuda.so"))
    p.add_argument("directories", nargs="+", metavar="DIR")
    options = p.parse_args()
    llamas, good = [Llama(d, options.layer) for d in options.directories], True
    llama = llamas[0]
    result = {"gpu": True, "device": query("name"), "driver": query("driver_version"), "counts": {}}
    result["version"] = llama.version()
    try:
        for of in llamas:
            for name, n, seen in of.phases():
                result["counts"][f"{name} ({os.path.basename(of.programs)})"] = n
                good &= seen
                say(of.programs, name, n, "" if seen else "MISSED")
        result["held"] = run_held(llama)
        good &= all(result["held"][way]["good"] for way in LEVELS)
        say("held", result["held"])
        result["cost"] = run_cost(llama, options.seconds)
        say("cost", result["cost"])
        result["shares"] = {test: run_shares(llama, test, options.seconds) for test in TESTS}
        say("shares", result["shares"])
        result["beside"] = {way: run_beside(llama, way, options.seconds) for way in ("native", "stop")}
        say("beside", result["beside"])
    finally:
        for of in llamas:
            of.close()
    print(json.dumps(result))
    return 0 if good else 1


sys.exit(main())
