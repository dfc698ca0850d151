#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures what tenants get of a device, for all mixes of kernels and patterns: bench-mix.py [--quick] PROGRAM
SUBSET...; prints JSON

Runs inside of xsched-session. PROGRAM is mix-tenant. Each SUBSET takes a few minutes, up to eight on a GPU:

  300, 900   all pairs of kernels of 5 us, 0.1, 1.2 and 10 ms, each deep, in bursts of 12 ms and synchronous, at 300:100
             and at 900:100
  long       twelve pairs at each of these weights, for 10 s
  more       three tenants, nested cgroups, Max=, Min=, and kernels longer than the time slice, for 10 s
  few        a choice that takes two minutes, for a CPU as the device and for trying this script

300:USEC and 900:USEC measure only the pairs that have a kernel of that length, for 1 s each, and stop after four
minutes; the figures of the pairs that were not reached stay as they were.

A GPU has a steady speed, so each tenant is measured alone before and after a subset. A CPU has none, and kernels as
short as a launch depend on the host's speed: there each tenant is measured alone around each mix.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import mix  # noqa: E402
from mix import KINDS, Kind  # noqa: E402

LONG = 10
SHORT = 2
SHORTER = 1
PART = 230
ALONE = 0.5
ALONE_SHORT = 0.3
AS_LAUNCH = 20  # us; a shorter kernel takes no longer than its launch

# (heavier, lighter): equal kernels, long beside short in both directions, synchronous beside deep.
PAIRS = [
    (Kind(1200, "deep"), Kind(1200, "deep")),
    (Kind(100, "burst"), Kind(1200, "burst")),
    (Kind(1200, "burst"), Kind(100, "burst")),
    (Kind(1200, "sync"), Kind(1200, "sync")),
    (Kind(10000, "sync"), Kind(10000, "sync")),
    (Kind(100, "sync"), Kind(1200, "deep")),
    (Kind(1200, "deep"), Kind(100, "sync")),
    (Kind(100, "sync"), Kind(100, "sync")),
    (Kind(10000, "deep"), Kind(100, "deep")),
    (Kind(100, "deep"), Kind(10000, "deep")),
    (Kind(5, "sync"), Kind(5, "deep")),
    (Kind(5, "deep"), Kind(10000, "sync")),
]
THREE = [
    (Kind(100, "deep"), Kind(1200, "burst"), Kind(1200, "sync")),
    (Kind(1200, "sync"), Kind(100, "deep"), Kind(10000, "deep")),
    (Kind(100, "sync"), Kind(100, "sync"), Kind(100, "sync")),
]
LIMITED = [Kind(100, "deep"), Kind(1200, "sync"), Kind(10000, "deep")]


class Bench:
    def __init__(self, program, subset, quick, only=None):
        self.calibration = mix.calibrate(program)
        self.session = mix.Session(program, self.calibration["kernels"])
        self.service = self.session.service
        mix.go_first(self.service.pid())
        self.subset, self.quick, self.rows, self.steady = subset, quick, [], self.calibration["gpu"]
        self.only = only  # pairs that have a kernel of this length
        self.tenants, self.alone = {}, {}  # by (kind, place); measurements by kind

    def tenant(self, kind, place, cgroups=None):
        """Returns the tenant of this kind in this place. It is started once, and idles between mixes."""
        key = (kind, place)
        if key not in self.tenants:
            self.tenants[key] = self.session.start(kind, f"mix-{place}", cgroups and cgroups.entering(place))
        return self.tenants[key]

    def measure_alone(self, tenant):
        self.alone.setdefault(tenant.kind, []).append(mix.alone(self.service, tenant, ALONE))

    def mix(self, what, seconds, kinds, asked, settings, limit=None, places=range(9)):
        """Measures a mix. `asked` is the part of the device that each tenant is to have; with `limit`, only the tenant
        of that index counts."""
        tenants = [self.tenant(k, place) for place, k in zip(places, kinds)]
        seconds = 1 if self.quick else seconds
        by_host = any(k.usec < AS_LAUNCH for k in kinds)
        if self.steady and not by_host:
            for t, values in zip(tenants, settings):
                self.service.set(t.group, **values)
            works = mix.measure(self.service, tenants, seconds)
            for t in tenants:
                self.service.set(t.group, **mix.DEFAULTS)
            mixed = mix.Mixed(tenants, works, self.alone, self.session.kernels)
        else:
            mixed = mix.mix(self.session, tenants, settings, seconds, ALONE_SHORT if self.steady else ALONE)
        self.rows.append((what, asked, limit, mixed))
        print(f"{self.subset}: {len(self.rows)} {what}: {', '.join(map(str, kinds))}", file=sys.stderr, flush=True)

    def pair(self, weight, pair, seconds):
        asked = [weight / (weight + 100), 100 / (weight + 100)]
        self.mix(f"{weight}:100", seconds, pair, asked, [{"Weight": weight}, {}])

    def result(self):
        """Returns the rows in JSON's types. `parts` relates the work that was done to that of the tenant alone;
        `device` is by device time, from the kernels' own lengths."""
        rows = [
            {
                "what": what,
                "kinds": [list(k) for k in m.kinds],
                "asked": asked,
                "limit": limit,
                "seconds": m.works[0].seconds,
                "parts": m.parts(),
                "device": m.device(),
                "busy": m.busy(),
                "accounted": m.accounted(),
                "drift": max(m.drifts()),
                "unknown": m.unknown(asked),
            }
            for what, asked, limit, m in self.rows
        ]
        return {
            "subset": self.subset,
            "part": self.only is not None,
            "rows": rows,
            "kernels": {str(usec): k["ns"] for usec, k in self.session.kernels.items()},
            "alone": {str(k): statistics.mean(a.rate for a in found) for k, found in self.alone.items()}
            if self.steady
            else None,
        }


def run_pairs(bench, weight):
    start = time.monotonic()
    for pair in itertools.product(KINDS, KINDS):
        if bench.only is None:
            bench.pair(weight, pair, SHORT)
        elif bench.only in (pair[0].usec, pair[1].usec) and time.monotonic() - start < PART:
            bench.pair(weight, pair, SHORTER)


def run_long(bench):
    for weight in (300, 900):
        for pair in PAIRS:
            bench.pair(weight, pair, LONG)


def run_few(bench):
    for weight, pairs in ((300, PAIRS[:8]), (900, [PAIRS[i] for i in (0, 1, 3)])):
        for pair in pairs:
            bench.pair(weight, pair, LONG / 2)
    run_limits(bench, [Kind(1200, "sync")])
    bench.mix("300:200:100", LONG / 2, THREE[0], [3 / 6, 2 / 6, 1 / 6], [{"Weight": 300}, {"Weight": 200}, {}])


def run_limits(bench, kinds):
    other = Kind(1200, "deep")
    for kind in kinds:
        bench.mix("Max=20%", LONG, [kind, other], [0.2, 0.8], [{"Max": 20}, {}], limit=0)
        bench.mix("Min=30%", LONG, [kind, other], [0.3, 0.7], [{"Min": 30, "Priority": -10}, {}], limit=0)


def run_nested(bench):
    """Measures nested weights: a 300, b 100; within a: c 100, d 200."""
    kinds = (Kind(100, "deep"), Kind(1200, "sync"), Kind(1200, "burst"))
    with mix.Cgroups("a/c", "a/d", "b") as cgroups:
        if not cgroups.directory:
            print("no cgroup can be made here: nested weights are left out", file=sys.stderr)
            return
        for i in range(3):
            mixed = kinds[i:] + kinds[:i]
            for name, kind in zip(("a/c", "a/d", "b"), mixed):
                bench.tenant(kind, name, cgroups)
            bench.service.set(f"{cgroups.path}/a", Weight=300)
            bench.mix(
                "nested, 1:2:1",
                LONG,
                mixed,
                [1 / 4, 2 / 4, 1 / 4],
                [{}, {"Weight": 200}, {}],
                places=("a/c", "a/d", "b"),
            )
        for key in [k for k in bench.tenants if k[1] in cgroups.names]:
            bench.session.end(bench.tenants.pop(key))


def run_more(bench):
    for kinds in THREE:
        bench.mix("300:200:100", LONG, kinds, [3 / 6, 2 / 6, 1 / 6], [{"Weight": 300}, {"Weight": 200}, {}])
    run_limits(bench, LIMITED)
    subprocess.run(["xschedctl", "set", "device:all", "timeslice=1ms"], check=True)
    for pair in ((Kind(10000, "deep"), Kind(100, "deep")), (Kind(100, "deep"), Kind(10000, "deep"))):
        bench.mix("300:100, TimeSlice=1ms", LONG, pair, [0.75, 0.25], [{"Weight": 300}, {}])
    subprocess.run(["xschedctl", "reset", "device:all"], check=True)
    run_nested(bench)


SUBSETS = {
    "300": lambda b: run_pairs(b, 300),
    "900": lambda b: run_pairs(b, 900),
    "long": run_long,
    "more": run_more,
    "few": run_few,
}


PARTED = ("300", "900")  # subsets of which a part can be measured


def run(program, subset, quick, only):
    """Measures a subset. If a mix fails, the rows that were measured before are kept."""
    bench = Bench(program, subset, quick, only)
    if bench.steady:
        for kind in KINDS:
            bench.measure_alone(bench.tenant(kind, 0))
    try:
        SUBSETS[subset](bench)
        if bench.steady:
            for kind in KINDS:
                bench.measure_alone(bench.tenant(kind, 0))
        bench.session.end()
    except Exception:  # pylint: disable=broad-exception-caught
        if not bench.rows:
            raise
        traceback.print_exc()
        bench.session.abandon()
    return bench.calibration, bench.result()


def main():
    arguments = [a for a in sys.argv[1:] if a != "--quick"]
    wanted = [a.partition(":") for a in arguments[1:]]
    wrong = [name for name, _, _ in wanted if name not in SUBSETS]
    wrong += [only for name, _, only in wanted if only and not (only.isdigit() and name in PARTED)]
    if not wanted or wrong:
        sys.exit(__doc__)
    results = []
    for subset, _, only in wanted:
        calibration, result = run(arguments[0], subset, len(arguments) < len(sys.argv) - 1, int(only) if only else None)
        results.append(result)
    print(json.dumps({**{k: calibration[k] for k in ("device", "driver", "gpu", "cpu")}, "subsets": results}))


if __name__ == "__main__":
    main()
