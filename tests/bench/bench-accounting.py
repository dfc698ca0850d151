#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures what accounting costs a program that is alone. Runs inside of xsched-session.

    bench-accounting.py [--json] [--check] [--seconds=N] XSCHEDCTL TEST-CLIENT

The program only launches (tests/lib/test-client, with the real library), and each launch is over at once, so no program
can lose more. It counts its launches while it is watched and while it is not. Both counts come from the same seconds,
so the machine's load is in both, and no two runs have to be compared. The loss is the difference to what it would have
launched unwatched."""

import argparse
import collections
import json
import subprocess

Sample = collections.namedtuple("Sample", "unwatched unwatched_ns watched watched_ns longest_ns")


class Program:
    def __init__(self, path):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([path, "bench:0", "1"], stdin=pipe, stdout=pipe, text=True, bufsize=1)
        assert self.process.stdout.readline().strip() == "ready"

    def sample(self, seconds):
        self.process.stdin.write(f"sample {int(seconds * 1000)}\n")
        return Sample(*map(int, self.process.stdout.readline().split()))

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def rate(launches, ns):
    return launches / ns * 1e9 if ns else 0


def lost(s, yardstick):
    """Returns the part that was lost of the launches at the unwatched rate."""
    return 1 - (s.unwatched + s.watched) / (yardstick * (s.unwatched_ns + s.watched_ns) / 1e9)


def line(mode, s, found):
    part = s.watched_ns / (s.watched_ns + s.unwatched_ns)
    rates = [
        f"{rate(n, ns) / 1e6:.2f} million launches a second {when}"
        for n, ns, when in ((s.unwatched, s.unwatched_ns, "unwatched"), (s.watched, s.watched_ns, "watched"))
        if ns
    ]
    return f"{mode + ':':8} watched for {100 * part:6.2f} % of the time; {', '.join(rates)}; {100 * found:.2f} % lost"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--check", action="store_true", help="fail when samples cost more than 1 %%")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("xschedctl")
    p.add_argument("client")
    a = p.parse_args()

    program = Program(a.client)
    samples = {}
    for mode, seconds in (("off", a.seconds / 10), ("sampled", a.seconds), ("exact", a.seconds / 10)):
        command = [a.xschedctl, "set", "device:all", f"accounting={mode}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        samples[mode] = program.sample(seconds)
    program.end()
    s = samples["sampled"]
    yardstick = rate(s.unwatched, s.unwatched_ns)
    costs = {mode: lost(v, yardstick) for mode, v in samples.items()}
    if a.json:
        print(json.dumps({"samples": {mode: v._asdict() for mode, v in samples.items()}, "costs": costs}))
    else:
        for mode in ("sampled", "exact"):
            print(line(mode, samples[mode], costs[mode]))
    if a.check and costs["sampled"] > 0.01:
        raise SystemExit(f"samples cost {costs['sampled'] * 100:.2f} %")


if __name__ == "__main__":
    main()
