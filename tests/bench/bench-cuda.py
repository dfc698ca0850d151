#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A latency job beside trainings, natively and scheduled, on a real GPU with PyTorch: prints one line of JSON.

bench-cuda.py [--batch=gemm|resnet50] [--most=N] [--seconds=S] [--layer=FILE] [--ways=NAME,...]
                                                                                inside of xsched-session

Ways: native: no layer. scheduled: as everybody has it. gate: channels are never stopped. stop: they are, also with a
version of the driver that was never seen at work. --verbose: what xschedd says of the device, after each.
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


WAYS = {"native": {}, "scheduled": {}, "gate": {"XSCHED_CUDA_STOP": "0"}, "stop": {"XSCHED_CUDA_STOP": "any"}}


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
        return line

    def ask(self, text):
        self.process.stdin.write(text + "\n")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def set_priority(tenant, priority):
    subprocess.run(["xschedctl", "set", str(tenant.process.pid), f"priority={priority}"], check=True)


def measure(job, batch, how, seconds):
    for b in batch:
        b.ask(f"run {seconds + 1}")
    if job:
        job.ask(f"{how} {seconds}")
    result = json.loads(job.read()) if job else {}
    result["batch"] = round(sum(json.loads(b.read())["rate"] for b in batch), 2)
    return result


def xschedctl(*words):
    return subprocess.run(["xschedctl", *words], check=True, capture_output=True, text=True).stdout


def show(*words):
    print(xschedctl(*words), file=sys.stderr, flush=True)


class Watch:
    """Whoever is held in between, and how far; seen at a few moments, so that it costs nothing."""

    def __init__(self, wanted):
        self.over, self.seen = threading.Event(), collections.Counter()
        self.thread = threading.Thread(target=self.look) if wanted else None
        if wanted:
            self.thread.start()

    def look(self):
        while not self.over.wait(0.2):
            for line in xschedctl("dump").splitlines():
                if " level=" in line and " drain=" in line:
                    words = dict(w.partition("=")[::2] for w in line.split())
                    drain = int(words["drain"])
                    self.seen[
                        words["level"],
                        "none"
                        if drain == 0
                        else "< 1 ms"
                        if drain < 1e6
                        else "< 3 ms"
                        if drain < 3e6
                        else "unknown"
                        if drain > 1e11
                        else "more",
                    ] += 1

    def end(self):
        self.over.set()
        if self.thread:
            self.thread.join()
            print("  held, level and drain:", dict(self.seen), file=sys.stderr, flush=True)


def run_way(name, options, result):
    layer = options.layer if name != "native" else None
    job = Tenant("latency", layer, WAYS[name])
    batch = [Tenant(options.batch, layer, WAYS[name]) for _ in range(options.most)]
    for t in (job, *batch):
        result.update(json.loads(t.read()))
    if layer:
        set_priority(job, 200)
        show("list-queues", "--full")
    found = result[name] = {}
    if options.alone:
        found["batch alone"] = measure(None, batch[:1], "", options.seconds)["batch"]
    for n in sorted(set(options.beside or (0, 1, options.most))):
        for how in ("eager", "graph"):
            watch = Watch(layer and options.verbose)
            found[f"{how} beside {n}"] = measure(job, batch[:n], how, options.seconds)
            watch.end()
            print(name, how, n, found[f"{how} beside {n}"], file=sys.stderr, flush=True)
            if layer and options.verbose:
                show("show", "device:all")
    if layer:
        show("list-queues", "--full")
    for t in (job, *batch):
        t.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", default="gemm")
    p.add_argument("--most", type=int, default=7)
    p.add_argument("--beside", type=lambda s: [int(n) for n in s.split(",")])
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--layer", default=os.path.join(HERE, "../../build/shim/libxsched-cuda.so"))
    p.add_argument("--ways", default="native,gate,stop")
    p.add_argument("--alone", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--verbose", action="store_true")
    options = p.parse_args()
    result = {"gpu": True, "batch": options.batch, "seconds": options.seconds}
    for name in options.ways.split(","):
        run_way(name, options, result)
    print(json.dumps(result))


main()
