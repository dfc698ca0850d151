#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures what tenants get of a device, for all mixes of kernels and patterns: bench-mix.py [--quick] [--seconds=S]
[--limit=S] [--part=I/N] PROGRAM SUBSET...; prints JSON

Runs inside of xsched-session. PROGRAM is mix-tenant. Each SUBSET takes a few minutes, up to eight on a GPU:

  300, 900   all pairs of kernels of 5 us, 0.1, 1.2 and 10 ms, each deep, in bursts of 12 ms and synchronous, at 300:100
             and at 900:100
  long       twelve pairs at each of these weights, for 10 s
  more       three tenants, nested cgroups, Max=, Min=, and kernels longer than the time slice, for 10 s
  few        a choice that takes two minutes, for a CPU as the device and for trying this script

300:USEC and 900:USEC measure only the pairs that have a kernel of that length.

  --pairs=S     each pair of 300 and 900 takes S seconds (2)
  --seconds=S   no mix is longer than S seconds
  --limit=S     no mix of a subset begins more than S seconds after its first
  --part=I/N    every Nth mix only, beginning with number I, as for several GPUs at once
  --only=FILE   only the mixes that FILE names, one a line, as "300:100: 5 us deep, 1.2 ms sync"
The figures of mixes that were not measured stay as they were.

On a GPU, and on the paced device, what a tenant does alone is measured without the layer, so that nothing of ours is in
the yardstick: before and after a subset for kernels that the device is busy with, and every few seconds for kernels as
short as a launch, which depend on the host's speed. There, too, each kind is measured with the layer, alone and watched
as it is among others (Accounting=exact): the difference is what watching costs it. A CPU has no steady speed: there
each tenant is measured alone around each mix, with the layer.
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
import mix_table  # noqa: E402
from mix import KINDS, Kind  # noqa: E402

LONG = 10
SHORT = 2
ALONE = 0.5
ALONE_SHORT = 0.3
ALONE_EVERY = 4  # s, for kernels as short as a launch
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


class Options:
    def __init__(self, arguments):
        self.seconds, self.pairs, self.limit, self.part, self.words = LONG, SHORT, None, (0, 1), []
        self.only = None  # names of mixes
        for a in arguments:
            key, _, value = a.partition("=")
            if key == "--quick":
                self.seconds = 1
            elif key == "--seconds":
                self.seconds = float(value)
            elif key == "--pairs":
                self.pairs = float(value)
            elif key == "--limit":
                self.limit = float(value)
            elif key == "--part":
                self.part = tuple(map(int, value.split("/")))
            elif key == "--only":
                with open(value, encoding="utf-8") as f:
                    self.only = f.read().splitlines()
            else:
                self.words.append(a)


class Bench:
    def __init__(self, program, subset, options, only=None, lengths=mix.LENGTHS):
        self.calibration = mix.calibrate(program, lengths)
        self.session = mix.Session(program, self.calibration["kernels"])
        self.service = self.session.service
        mix.go_first(self.service.pid())
        if self.calibration["device"] == mix.PACED:
            mix.go_real_time(self.service.pid())
        self.subset, self.options, self.rows, self.steady = subset, options, [], self.calibration["gpu"]
        self.only = only  # pairs that have a kernel of this length
        self.tenants, self.unwatched = {}, {}  # by (kind, place); by kind
        self.alone, self.watched = {}, {}  # by kind: [(when, measurement)], [measurement]
        self.n_mixes, self.n_left_out, self.began = 0, 0, time.monotonic()

    def tenant(self, kind, place, cgroups=None):
        """Returns the tenant of this kind in this place. It is started once, and idles between mixes."""
        key = (kind, place)
        if key not in self.tenants:
            self.tenants[key] = self.session.start(kind, f"mix-{place}", cgroups and cgroups.entering(place))
        return self.tenants[key]

    def measure_alone(self, kind, span=ALONE):
        if kind not in self.unwatched:
            self.unwatched[kind] = self.session.start_unwatched(kind)
        found = mix.alone(self.service, self.unwatched[kind], span)
        self.alone.setdefault(kind, []).append((time.monotonic(), found))

    def measure_watched(self, tenant):
        set_accounting("exact")
        self.watched.setdefault(tenant.kind, []).append(mix.alone(self.service, tenant, ALONE_SHORT))
        set_accounting("off")

    def measure_due(self, kinds):
        """Measures those alone whose yardstick is missing, or of another time."""
        for kind in dict.fromkeys(kinds):
            found = self.alone.get(kind)
            if not found or (kind.usec < AS_LAUNCH and time.monotonic() - found[-1][0] > ALONE_EVERY):
                self.measure_alone(kind, ALONE_SHORT)

    def measure_rest(self, kinds=None):
        """Measures all that were in a mix once more, or these kinds, and what being watched costs them."""
        for kind in dict.fromkeys(kinds or self.alone):
            self.measure_alone(kind, ALONE_SHORT)
        for kind, tenant in {t.kind: t for t in self.tenants.values()}.items():
            if not kinds or kind in kinds:
                self.measure_watched(tenant)

    def is_left_out(self, name):
        """Whether a mix is not to be measured, or is another part's."""
        options = self.options
        late = options.limit is not None and time.monotonic() - self.began > options.limit
        if late or (options.only is not None and name not in options.only):
            self.n_left_out += 1
            return True
        self.n_mixes += 1
        return (self.n_mixes - 1) % options.part[1] != options.part[0]

    def mix(self, what, seconds, kinds, asked, settings, limit=None, places=range(9)):
        """Measures a mix. `asked` is the part of the device that each tenant is to have; with `limit`, only the tenant
        of that index counts."""
        if self.is_left_out(mix_table.name_of(what, kinds)):
            return
        tenants = [self.tenant(k, place) for place, k in zip(places, kinds)]
        seconds = min(seconds, self.options.seconds)
        if self.steady:
            self.measure_due(kinds)
            when = time.monotonic()
            for t, values in zip(tenants, settings):
                self.service.set(t.group, **values)
            works = mix.measure(self.service, tenants, seconds)
            for t in tenants:
                self.service.set(t.group, **mix.DEFAULTS)
            mixed = mix.Mixed(tenants, works, None, self.session.kernels)
        else:
            when = None
            mixed = mix.mix(self.session, tenants, settings, seconds, ALONE)
        self.rows.append((what, asked, limit, when, mixed))
        print(f"{self.subset}: {len(self.rows)} {mix_table.name_of(what, kinds)}", file=sys.stderr, flush=True)

    def alone_at(self, when):
        """Returns what each kind did alone: the last time before, and the first time after."""
        found = {}
        for kind, measured in self.alone.items():
            before, after = [a for t, a in measured if t <= when], [a for t, a in measured if t > when]
            found[kind] = before[-1:] + after[:1]
        return found

    def pair(self, weight, pair, seconds):
        asked = [weight / (weight + 100), 100 / (weight + 100)]
        self.mix(f"{weight}:100", seconds, pair, asked, [{"Weight": weight}, {}])

    def row(self, what, asked, limit, when, m):
        """Returns a row in JSON's types. `parts` relates the work that was done to that of the tenant alone; `device`
        is by device time, from the kernels' own lengths. `ran` and `turns` are by the device's stamps. `watched` is how
        fast each is alone when it is watched, related to how fast it is when it is not."""
        if when is not None:
            m.alones = self.alone_at(when)
        return {
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
            "ran": [w.device / w.seconds if w.device is not None else None for w in m.works],
            "turns": [list(w.turns) for w in m.works] if all(w.turns for w in m.works) else None,
            "watched": [self.watched_part(k) for k in m.kinds] if self.watched else None,
        }

    def watched_part(self, kind):
        if kind not in self.watched:
            return None
        alone = statistics.mean(a.rate for _, a in self.alone[kind])
        return statistics.mean(a.rate for a in self.watched[kind]) / alone

    def result(self):
        return {
            "subset": self.subset,
            "part": self.only is not None or self.n_left_out > 0 or self.options.part != (0, 1),
            "left_out": self.n_left_out,
            "rows": [self.row(*r) for r in self.rows],
            "kernels": {str(usec): k["ns"] for usec, k in self.session.kernels.items()},
            "alone": {str(k): statistics.mean(a.rate for _, a in found) for k, found in self.alone.items()}
            if self.steady
            else None,
        }


def set_accounting(how):
    subprocess.run(["xschedctl", "set", "device:all", f"accounting={how}"], check=True, stdout=subprocess.DEVNULL)


def run_pairs(bench, weight):
    for pair in itertools.product(KINDS, KINDS):
        if bench.only is None or bench.only in (pair[0].usec, pair[1].usec):
            bench.pair(weight, pair, bench.options.pairs)


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


def run(program, subset, options, only):
    """Measures a subset. If a mix fails, the rows that were measured before are kept."""
    bench = Bench(program, subset, options, only)
    try:
        SUBSETS[subset](bench)
        if bench.steady:
            bench.measure_rest()
        bench.session.end()
    except Exception:  # pylint: disable=broad-exception-caught
        if not bench.rows:
            raise
        traceback.print_exc()
        bench.session.abandon()
    return bench.calibration, bench.result()


def main():
    options = Options(sys.argv[1:])
    wanted = [a.partition(":") for a in options.words[1:]]
    wrong = [name for name, _, _ in wanted if name not in SUBSETS]
    wrong += [only for name, _, only in wanted if only and not (only.isdigit() and name in PARTED)]
    if not wanted or wrong:
        sys.exit(__doc__)
    results = []
    for subset, _, only in wanted:
        calibration, result = run(options.words[0], subset, options, int(only) if only else None)
        results.append(result)
    print(json.dumps({**{k: calibration[k] for k in ("device", "driver", "gpu", "cpu")}, "subsets": results}))


if __name__ == "__main__":
    main()
