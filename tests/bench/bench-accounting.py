#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What it costs a program that is alone to be counted: launches in a second with Accounting= off, sampled and exact, by turns. Runs inside of xsched-session.

    bench-accounting.py [--json] [--rounds=N] [--seconds=N] XSCHEDCTL TEST-CLIENT

The program does nothing but launch (tests/lib/test-client, through the real library; a launch is over at once): nobody loses more by it. What counts is the sum over
all turns, not their median, which a window now and then would leave as it is."""

import argparse
import json
import subprocess
import time

MODES = ("off", "sampled", "exact")
LAUNCHES = 20000


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path, "bench:0", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout.readline().strip() == "ready"

    def run(self):
        self.process.stdin.write(f"run {LAUNCHES}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "ran"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--check", action="store_true", help="fail when samples cost more than 1 %%, beyond what off differs from itself")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("xschedctl")
    p.add_argument("client")
    a = p.parse_args()

    program = Program(a.client)
    launches, seconds = dict.fromkeys((*MODES, "off again"), 0), dict.fromkeys((*MODES, "off again"), 0.0)
    for _ in range(a.rounds):
        for mode in launches:
            subprocess.run([a.xschedctl, "set", "device:all", f"accounting={mode.split()[0]}"], check=True, stdout=subprocess.DEVNULL)
            begin = time.monotonic()
            while time.monotonic() < begin + a.seconds:
                program.run()
                launches[mode] += LAUNCHES
            seconds[mode] += time.monotonic() - begin
    program.end()
    rates = {mode: launches[mode] / seconds[mode] for mode in launches}
    yardstick = (rates["off"] + rates["off again"]) / 2
    noise = abs(rates["off"] - rates["off again"]) / yardstick
    costs = {mode: 1 - rates[mode] / yardstick for mode in ("sampled", "exact")}
    if a.json:
        print(json.dumps({"rates": rates, "costs": costs, "noise": noise}))
    else:
        print(f"off:     {rates['off'] / 1e6:8.2f} and {rates['off again'] / 1e6:.2f} million launches a second")
        for mode in costs:
            print(f"{mode + ':':8} {rates[mode] / 1e6:8.2f} million, {costs[mode] * 100:.2f} % less")
    if a.check and costs["sampled"] > 0.01 + noise:
        raise SystemExit(f"samples cost {costs['sampled'] * 100:.2f} %; off differs from itself by {noise * 100:.2f} %")


if __name__ == "__main__":
    main()
