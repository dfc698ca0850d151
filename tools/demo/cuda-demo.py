#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shows what xsched does for CUDA programs, and that it changes no bit of their results: ./demo --device=cuda

cuda-demo.py [--build=DIR] [--program=torch|driver] [--size=N] [--large=N] [--steps=N] [--json=FILE]
                                                                                inside of xsched-session

First come single steps without xsched and with it: a tensor, a product of matrices, a convolution, and a model. Their
results have to be the same, bit by bit. Then a small model that answers each 25 ms (PyTorch: ResNet-18) runs alone,
beside a large one that works all the time (ResNet-50 in training) without xsched, and beside it with xsched. Again the
results are compared. The programs use PyTorch if python3 has it, else the driver's own interface (xsched-demo-cuda).
"""

import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
CHECK = "import sys, torch; sys.exit(not torch.cuda.is_available())"


class Failure(Exception):
    pass


class Tenant:
    """A process that runs natively, or with the layer in front of libcuda."""

    def __init__(self, options, scheduled, *words, priority=0):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        if scheduled:
            more = [os.environ["XSCHED_DEMO_PRELOAD"]] if "XSCHED_DEMO_PRELOAD" in os.environ else []
            env["LD_PRELOAD"] = ":".join([os.path.join(options.build, "shim/libxsched-cuda.so"), *more])
        self.words = words
        run = ["xschedctl", "run", "--shim=none", f"--priority={priority}", "--"] if scheduled else []
        self.process = subprocess.Popen(
            [*run, *options.command, *map(str, words)],
            env=env,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{' '.join(map(str, self.words))}: ended with status {self.process.wait()}")
        return json.loads(line)

    def go(self):
        self.process.stdin.write("go\n")

    def end(self):
        """Ends the process. Returns its last line."""
        self.process.stdin.close()
        found = self.read()
        if self.process.wait() != 0:
            raise Failure(f"{' '.join(map(str, self.words))}: ended with status {self.process.returncode}")
        return found


def run_steps(options, scheduled):
    t = Tenant(options, scheduled, "steps", *options.size)
    t.process.stdin.close()
    found = [json.loads(line) for line in t.process.stdout]
    if t.process.wait() != 0:
        raise Failure(f"steps: ended with status {t.process.returncode}")
    return found


def check_seen(found, what):
    """Checks that the layer has seen launches, and all of them if the program counts them."""
    if found["seen"] <= 0 or found.get("launches", found["seen"]) != found["seen"]:
        raise Failure(f"{what}: of {found.get('launches', 'its')} launches the layer saw {found['seen']}")


def compare_steps(options):
    print(f"{'':14}{'without xsched':>18}{'with xsched':>18}   the same bits")
    pairs = list(zip(run_steps(options, False), run_steps(options, True)))
    if not pairs:
        raise Failure("nothing was computed")
    for without, scheduled in pairs:
        same = without["digest"] == scheduled["digest"]
        print(f"{without['step']:14}{without['digest']:>18}{scheduled['digest']:>18}   {'yes' if same else 'NO'}")
        if not same:
            raise Failure(f"{without['step']}: the results differ")
        check_seen(scheduled, without["step"])
    return [{"step": w["step"], "digest": w["digest"]} for w, _ in pairs]


def wait_for_service(tenant):
    """Waits until the program is registered: the demo is about programs that are scheduled."""
    until = time.monotonic() + 10
    while (
        subprocess.run(["xschedctl", "show", str(tenant.process.pid)], capture_output=True, check=False).returncode != 0
    ):
        if time.monotonic() > until:
            raise Failure(f"{tenant.words[0]}: xschedd does not know it")
        time.sleep(0.02)


def beside(options, scheduled, with_large):
    """Runs the small model, alone or beside the large one."""
    tenants = [Tenant(options, scheduled, "small", *options.size, priority=10)]
    if with_large:
        tenants.append(Tenant(options, scheduled, "large", *options.large, options.steps, priority=-10))
    device = [t.read() for t in tenants][0]["device"]
    for t in tenants if scheduled else []:
        wait_for_service(t)
    for t in reversed(tenants):
        t.go()
    large = tenants[1].end() if with_large else None
    if not with_large:
        try:
            tenants[0].process.wait(options.seconds)
        except subprocess.TimeoutExpired:
            pass
    small = tenants[0].end()
    for found in (small, large):
        if scheduled and found:
            check_seen(found, "small" if found is small else "large")
    return device, small, large


def quantile(ms, q):
    ms = sorted(ms)
    return ms[min(len(ms) - 1, int(q * len(ms)))]


def compare_beside(options):
    rows = (("alone", False, False), ("beside, without xsched", False, True), ("beside, with xsched", True, True))
    found, device = {}, None
    for name, scheduled, with_large in rows:
        device, small, large = beside(options, scheduled, with_large)
        found[name] = {"small": small["digest"], "n": len(small["ms"])}
        found[name].update({f"p{q}": quantile(small["ms"], q / 100) for q in (50, 99)})
        if large:
            found[name].update({"large": large["digest"], "rate": large["steps"] / large["seconds"]})
    print(f"\nA small model beside a large one, on {device}:\n")
    print(f"{'':26}{'pictures':>9}{'p50 ms':>9}{'p99 ms':>9}{'large, steps/s':>16}")
    for name, r in found.items():
        rate = f"{r['rate']:16.1f}" if "rate" in r else ""
        print(f"{name:26}{r['n']:9}{r['p50']:9.2f}{r['p99']:9.2f}{rate}")
    for key in ("small", "large"):
        if len({r[key] for r in found.values() if key in r}) != 1:
            raise Failure(f"the results of the {key} model differ")
    print("\nThe results of both are the same, bit by bit, without xsched and with it.")
    return found


def has_torch():
    try:
        return subprocess.run([sys.executable, "-c", CHECK], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", help=argparse.SUPPRESS)
    p.add_argument("--build", default=os.path.join(HERE, "../../build"))
    p.add_argument("--program", choices=("torch", "driver"))
    p.add_argument("--size", default="256")
    p.add_argument("--large", default="2048")
    p.add_argument("--steps", default=200, type=int)
    p.add_argument("--seconds", default=5, type=float, help="how long the small model runs alone")
    p.add_argument("--json", help="a file for the results")
    options = p.parse_args()
    if options.program == "torch" or (not options.program and has_torch()):
        options.command = [sys.executable, os.path.join(HERE, "cuda-torch.py")]
        options.size = options.large = []
        print("The programs use PyTorch.\n")
    else:
        options.command = [os.path.join(options.build, "tools/demo/xsched-demo-cuda")]
        options.size, options.large = [options.size], [options.large]
        print("The programs call the driver; there is no PyTorch, or it has no device.\n")
    try:
        result = {"steps": compare_steps(options), "beside": compare_beside(options)}
    except Failure as e:
        print(f"demo: {e}", file=sys.stderr)
        return 1
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(result, f)
    return 0


sys.exit(main())
