#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the effect of the bound on launches in flight and of the time slice: study.py [--quick] XSCHED-DEMO; prints
JSON

Bounds: a job with precedence launches one kernel now and then, and a batch job of lower priority always has work, with
at most Threshold= launches in flight (Budget=0: only their number counts). Slices: the same two jobs are equals, whose
turns last TimeSlice=. For each value it measures the latency of the first job, in relation to its latency alone, and
the work of the second, in relation to its work unscheduled. xsched-demo chooses the device, a CPU or a GPU."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import mix  # noqa: E402

BOUNDS = (1, 2, 4, 8, 16, 32, 64)
SLICES = (500, 1000, 2000, 5000, 10000, 20000, 50000)  # us
TASK_USEC = 50000  # of the batch job; more than 64 launches


def play(demo, seconds, *more):
    command = [demo, "--json", "--quiet", "--no-plot", f"--duration={seconds}", "--low=1", "--kernels=1", *more]
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout)
    return result, {p["phase"]: p for p in result["phases"]}


def figures(phase):
    return {k: phase["latency"][k] for k in ("tasks", "p50_us", "p99_us", "max_us")} | {
        "tasks_per_s": phase["batch"]["tasks_per_s"]
    }


def main():
    quick = "--quick" in sys.argv
    demo = sys.argv[-1]
    seconds, each = (1, 3) if quick else (3, 1)
    mix.go_first()
    usec = 500
    load = [f"--kernel-us={usec}", f"--batch-kernels={TASK_USEC // usec}", "--period-ms=10"]
    result, phases = play(demo, seconds, *load, "--only=alone,shared")
    found = {k: result[k] for k in ("device", "driver", "gpu")} | {
        "seconds": seconds,
        "usec": usec,
        "alone": figures(phases["alone"]),
        "shared": figures(phases["shared"]),
        "bounds": [],
        "slices": [],
    }
    for bound in BOUNDS[::each]:
        _, phases = play(demo, seconds, *load, "--only=xsched", "--budget=0", f"--threshold={bound}")
        found["bounds"].append({"value": bound} | figures(phases["xsched"]))
        print(f"study: {bound} in flight", file=sys.stderr)
    equal = ["--high-priority=0", "--low-priority=0"]
    for usec in SLICES[::each]:
        _, phases = play(demo, seconds, *load, *equal, "--only=xsched", f"--timeslice={usec}")
        found["slices"].append({"value": usec} | figures(phases["xsched"]))
        print(f"study: slices of {usec} us", file=sys.stderr)
    print(json.dumps(found))


main()
