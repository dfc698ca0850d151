#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A latency job beside trainings, natively and scheduled, on a real GPU with PyTorch: prints one line of JSON.

bench-cuda.py [--batch=gemm|resnet50] [--most=N] [--seconds=S] [--layer=FILE]    inside of xsched-session
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TENANT = os.path.join(HERE, "cuda/tenant.py")


class Tenant:
    def __init__(self, kind, layer):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        if layer:
            env["LD_PRELOAD"] = layer
        self.process = subprocess.Popen([sys.executable, TENANT, kind], env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

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


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", default="gemm")
    p.add_argument("--most", type=int, default=7)
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--layer", default=os.path.join(HERE, "../../build/shim/libxsched-cuda.so"))
    options = p.parse_args()
    result = {"gpu": True, "batch": options.batch, "seconds": options.seconds}
    for scheduled in (False, True):
        name = "scheduled" if scheduled else "native"
        layer = options.layer if scheduled else None
        job = Tenant("latency", layer)
        batch = [Tenant(options.batch, layer) for _ in range(options.most)]
        for t in (job, *batch):
            result.update(json.loads(t.read()))
        if scheduled:
            set_priority(job, 200)
            subprocess.run(["xschedctl", "list-queues"], check=True, stdout=sys.stderr)
        found = result[name] = {"batch alone": measure(None, batch[:1], "", options.seconds)["batch"]}
        for n in sorted({0, 1, options.most}):
            for how in ("eager", "graph"):
                found[f"{how} beside {n}"] = measure(job, batch[:n], how, options.seconds)
                print(name, how, n, found[f"{how} beside {n}"], file=sys.stderr, flush=True)
        if scheduled:
            subprocess.run(["xschedctl", "list-queues"], check=True, stdout=sys.stderr)
        for t in (job, *batch):
            t.end()
    print(json.dumps(result))


main()
