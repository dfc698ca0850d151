#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the CUDA layer adds to a launch of a tiny kernel: launch+finish, and pipelined

bench-cuda-launch.py [OPTION...] PROGRAM LAYER          inside of xsched-session, without its shim

In one process: turns through the layer, and by addresses in libcuda of which the layer knows nothing, in pairs. What
counts is the ratio of the two turns of a pair and their difference, and of these the medians over all processes. The
program checks that each turn is what it is said to be. Pipelined turns are of 500 and of 1500 launches, after a pause.
So there is a part of both that the layer adds once in a turn, where the queue gets busy, and where the program waits
for its end; and a part of each launch. Both are printed, as the two turns give them.

From process to process, as bench-launch.c for OpenCL: a native process and one with the layer take turns. On a GPU two
native processes differ by as much as a tenth.

Each is done twice: with an open gate, and while another program is there, which launches a kernel in front of each
turn, so that the queue is watched.
"""

import argparse
import os
import statistics
import subprocess

SHORT, LONG = "pipelined", "pipelined, 1500"
TURNS = {"launch+finish": ("finish", 100), SHORT: ("pipelined", 500), LONG: ("pipelined", 1500)}
LONG_TURNS = {"launch+finish": ("finish", 200), "pipelined": ("pipelined", 1500)}


class Program:
    def __init__(self, options, layer, bystander=None, **more):
        """`bystander`: this one may tell it to launch."""
        self.bystander_fd = bystander.process.stdin.fileno() if bystander else -1
        env = {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, **more}
        if layer:
            env["LD_PRELOAD"] = options.layer
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [options.program],
            env=env,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self.bystander_fd] if bystander else [],
        )
        self.device = self.process.stdout.readline().strip()

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def numbers(self):
        line = self.process.stdout.readline()
        if not line:
            self.end()
            raise SystemExit(f"{self.process.args[0]} has ended")
        return [int(word) for word in line.split()]

    def turn(self, how, n):
        """Returns how many microseconds a launch takes."""
        self.say(how, n)
        return self.numbers()[0] / 1000 / n

    def compare(self, gate, how, n, pairs):
        """Returns pairs of the same: natively, and with the layer."""
        self.say("compare", gate, how, n, pairs, self.bystander_fd)
        return [[ns / 1000 / n for ns in self.numbers()] for _ in range(pairs)]

    def end(self):
        """It has checked its results, and how many launches the layer has seen."""
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit(f"{self.process.args[0]} ended with status {self.process.returncode}")


def run_one(options, gate, bystander, found):
    """One process."""
    program = Program(options, True, bystander)
    for name, (how, n) in TURNS.items():
        # The first pair does not count.
        n //= options.divide
        found.setdefault(name, []).append(program.compare(gate, how, n, options.pairs + 1)[1:])
    program.end()


def run_two(options, _gate, bystander, found):
    """Two processes."""
    native, layer = Program(options, False), Program(options, True)
    for name, (how, n) in LONG_TURNS.items():
        turn = how, n // options.divide
        pairs = []
        for i in range(options.pairs + 1):
            # The order changes, so that each gains as often from what the other leaves behind.
            took = {}
            for program in (native, layer) if i % 2 else (layer, native):
                if bystander:
                    bystander.turn("finish", 1)
                took[program] = program.turn(*turn)
            pairs.append((took[native], took[layer]))
        found.setdefault(name, []).append(pairs[1:])
    native.end()
    layer.end()


def added_ns(processes):
    return statistics.median(y - x for process in processes for x, y in process) * 1000


def report_parts(options, gate, found):
    """Of what is added to both lengths of turns: once in a turn, and by each launch."""
    short, long = TURNS[SHORT][1] // options.divide, TURNS[LONG][1] // options.divide
    each = (added_ns(found[LONG]) * long - added_ns(found[SHORT]) * short) / (long - short)
    once = (added_ns(found[SHORT]) - each) * short
    native = statistics.median(x for process in found[LONG] for x, _ in process)
    print(
        f"  {gate + ': of that':<26} {once / 1000:+.1f} us once in a turn, {each:+.0f} ns by each launch"
        f" ({1 + each / native / 1000:.3f})",
        flush=True,
    )


def report(what, processes):
    pairs = [pair for process in processes for pair in process]
    native, layer = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    ratio = statistics.median(y / x for x, y in pairs)
    added = added_ns(processes)
    each = [statistics.median(y / x for x, y in process) for process in processes]
    print(
        f"  {what:<26} {native:7.3f} us native {layer:7.3f} us with the layer, ratio {ratio:.3f}"
        f" ({min(each):.3f} to {max(each):.3f}), {added:+.0f} ns",
        flush=True,
    )


def run(options, title, run_once, rounds):
    """`run_once` adds the pairs of a process, or of two, to those of each kind of turn."""
    print(f"{title}, {rounds} times {options.pairs} pairs:", flush=True)
    bystander = None
    for gate in ("open", "watched"):
        found = {}
        if gate == "watched":
            bystander = Program(options, True, XSCHED_WEIGHT="99")  # an entity of its own
        for _ in range(rounds):
            run_once(options, gate, bystander, found)
        for name, processes in found.items():
            report(f"{gate}: {name}", processes)
        if SHORT in found and LONG in found:
            report_parts(options, gate, found)
    bystander.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--processes", type=int, default=20)
    p.add_argument("--rounds", type=int, default=3, help="from process to process")
    p.add_argument("--pairs", type=int, default=30)
    p.add_argument("--divide", type=int, default=1, help="turns of a part of the launches, for a slow device")
    p.add_argument("program")
    p.add_argument("layer")
    options = p.parse_args()
    seen = Program(options, False)
    print(seen.device, flush=True)
    seen.end()
    run(options, "in one process", run_one, options.processes)
    if options.rounds > 0:
        run(options, "process to process", run_two, options.rounds)


main()
