#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the effect of the bound on launches in flight, with kernels of 5 us to 20 ms: bound.py [--quick]
XSCHED-DEMO; prints JSON

A job with precedence launches one kernel now and then; a batch job of lower priority always has work. For each kernel
length and each Budget= it measures how much longer a launch of the first job takes than alone, and how much the batch
job gets done in relation to unscheduled."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import mix  # noqa: E402

LENGTHS = (5, 20, 100, 500, 1200, 5000, 20000)  # us
BUDGETS = (0, 100, 200, 300, 400, 1000)  # us
TASK_USEC = 20000  # of the batch job


def play(demo, seconds, usec, *more):
    batch = max(1, min(TASK_USEC // usec, 4000))
    period = max(20, 3 * usec / 1000)
    command = [
        demo,
        "--json",
        "--quiet",
        "--no-plot",
        f"--duration={seconds}",
        "--low=1",
        f"--kernel-us={usec}",
        "--kernels=1",
        f"--batch-kernels={batch}",
        f"--period-ms={period:g}",
        *more,
    ]
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout)
    return result, {p["phase"]: p for p in result["phases"]}


def figures(phase):
    latency = phase["latency"]
    return {k: latency[k] for k in ("tasks", "p50_us", "p99_us", "max_us")} | {
        "tasks_per_s": phase["batch"]["tasks_per_s"]
    }


def main():
    quick = "--quick" in sys.argv
    demo = sys.argv[-1]
    seconds, rows = (1, []) if quick else (3, [])
    mix.go_first()
    about = {}
    for usec in LENGTHS[::3] if quick else LENGTHS:
        result, phases = play(demo, seconds, usec, "--only=alone,shared")
        about = {k: result[k] for k in ("device", "driver", "gpu")}
        row = {"usec": usec, "alone": figures(phases["alone"]), "shared": figures(phases["shared"]), "budgets": {}}
        for budget in BUDGETS:
            _, phases = play(demo, seconds, usec, "--only=xsched", f"--budget={budget}")
            row["budgets"][budget] = figures(phases["xsched"])
        rows.append(row)
        print(f"bound: {usec} us", file=sys.stderr)
    print(json.dumps(about | {"seconds": seconds, "rows": rows}))


main()
