#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the CUDA layer adds to a launch of a tiny kernel: launch+finish, and pipelined

bench-cuda-launch.py [--rounds=N] [--pairs=N] PROGRAM LAYER          inside of xsched-session, without its shim

As bench-launch.c for OpenCL: two programs, one native and one with the layer, take turns on the same device, in many
short turns. What counts is the ratio of the two in one pair of turns, and of these the median. In a second run a
bystander launches a kernel now and then, so that the queue is watched.
"""

import argparse
import os
import statistics
import subprocess

TURNS = {"launch+finish": "finish 200", "pipelined": "pipelined 1500"}


class Program:
    def __init__(self, options, layer, **more):
        env = {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, **more}
        if layer:
            env["LD_PRELOAD"] = options.layer
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [options.program], env=env, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.device = self.process.stdout.readline().strip()

    def turn(self, words):
        """Returns how many microseconds a launch takes."""
        self.process.stdin.write(words + "\n")
        return int(self.process.stdout.readline()) / 1000 / int(words.split()[1])

    def end(self):
        """It has checked its results, and how many launches the layer has seen."""
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit(f"{self.process.args[0]} ended with status {self.process.returncode}")


def run_pairs(options, found):
    native, layer = Program(options, False), Program(options, True)
    for name, turn in TURNS.items():
        for i in range(options.pairs + 1):
            # The order changes, so that each gains as often from what the other leaves behind.
            first, second = (native, layer) if i % 2 else (layer, native)
            took = {first: first.turn(turn), second: second.turn(turn)}
            if i > 0:
                found.setdefault(name, []).append((took[native], took[layer]))
    native.end()
    layer.end()


def run(options, what):
    found = {}
    for _ in range(options.rounds):
        run_pairs(options, found)
    for name, pairs in found.items():
        a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        ratio = statistics.median(y / x for x, y in pairs)
        print(f"{what + ': ' + name:<34} {a:8.2f} us native {b:8.2f} us with the layer, ratio {ratio:.3f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--pairs", type=int, default=40)
    p.add_argument("program")
    p.add_argument("layer")
    options = p.parse_args()
    seen = Program(options, False)
    print(seen.device, flush=True)
    seen.end()
    run(options, "gate open")
    bystander = Program(options, True, XSCHED_WEIGHT="99")  # an entity of its own
    bystander.process.stdin.write("bystander\n")
    run(options, "watched")
    bystander.end()


main()
