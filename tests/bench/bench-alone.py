#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the GPU time that each way of counting finds for a program that is alone, and what counting costs:
bench-alone.py [--quick] MIX-TENANT; prints JSON

Runs inside of xsched-session. GPUTimeUSec is compared with the time in which the device had work of the program, as the
program's results tell. Launches are compared with those of Accounting=off in alternating turns, so that the machine is
equally busy for both. The differences of neighbouring turns are the loss, and their spread is its uncertainty."""

import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import mix  # noqa: E402
from mix import Kind  # noqa: E402

KINDS = (Kind(5, "deep"), Kind(1200, "sync"), Kind(10000, "deep"))
MODES = ("auto", "sampled")
SECONDS, ASK = 2.5, 1.2  # the driver is asked once a second, and a count begins with two answers
TURN, TURNS = 0.4, 12
COSTS = {Kind(5, "deep"): ("sampled",)}


def set_mode(mode):
    subprocess.run(["xschedctl", "set", "device:all", f"accounting={mode}"], check=True, stdout=subprocess.DEVNULL)


def counted(service, tenant, seconds):
    """Returns (the increase of GPUTimeUSec in s; its source; the work that was done meanwhile)."""
    found = []

    def look():
        found.append(service.groups()[tenant.group])

    work = mix.measure(service, [tenant], seconds, look)[tenant]
    first, last = found[0], found[-1]
    return (last["gpu_time_usec"] - first["gpu_time_usec"]) / 1e6, last["gpu_time_source"], work


def count(service, tenant, seconds):
    rows = []
    for mode in MODES:
        set_mode(mode)
        mix.measure(service, [tenant], ASK)
        time, source, work = counted(service, tenant, seconds)
        rows.append({"mode": mode, "source": source, "counted": time, "busy": work.busy, "seconds": work.seconds})
    return rows


def cost(service, tenant, mode, turns):
    """Returns the loss in each pair of neighbouring turns, one with the mode and one without."""
    lost = []
    for _ in range(turns):
        units = {}
        for m in ("off", mode) if len(lost) % 2 else (mode, "off"):
            set_mode(m)
            units[m] = mix.measure(service, [tenant], TURN)[tenant].units
        lost.append(1 - units[mode] / units["off"])
    return {"mode": mode, "lost": lost}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--quick"]
    quick = len(arguments) < len(sys.argv) - 1
    if len(arguments) != 1:
        sys.exit(__doc__)
    calibration = mix.calibrate(arguments[0])
    session = mix.Session(arguments[0], calibration["kernels"])
    mix.go_first(session.service.pid())
    rows = []
    for kind in KINDS:
        tenant = session.start(kind, "alone")
        row = {"kind": list(kind), "counts": count(session.service, tenant, 1 if quick else SECONDS)}
        row["costs"] = [cost(session.service, tenant, m, 4 if quick else TURNS) for m in COSTS.get(kind, ())]
        rows.append(row)
        session.end(tenant)
        texts = [f"{c['mode']} ({c['source']}) {c['counted']:.3f} of {c['busy']:.3f} s" for c in row["counts"]]
        texts += [f"{c['mode']} loses {100 * statistics.median(c['lost']):.2f} %" for c in row["costs"]]
        print(f"{kind}: {'; '.join(texts)}", file=sys.stderr, flush=True)
    print(json.dumps({**{k: calibration[k] for k in ("device", "driver", "gpu", "cpu")}, "rows": rows}))


if __name__ == "__main__":
    main()
