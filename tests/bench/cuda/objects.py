#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the cases of cuda-objects under holds at random moments at both levels: graphs with copies, host functions and
conditions, memory and events that two processes share, streams that wait for values, memory of pools, and launches
while another context is current. Prints a line for each, and fails if a result is wrong or a program does not end.

objects.py [--program=FILE] [--holds=N] [--layer=FILE]        inside of xsched-session
"""

import argparse
import os
import re
import subprocess
import sys
import threading
import time

from holds import HERE, LAYER, WAYS, Holder, environment

CASES = ("graph", "conditional", "ipc", "values", "pool", "elsewhere")
SECONDS = 60
LEVELS = {"gate": "level=1/1", "stop": "level=3/3"}


def run(case, way, options):
    """Returns whether the case went well. Of two processes that share memory only one is held; the other waits for it
    on the device."""
    p = subprocess.Popen(
        [options.program, case],
        env=environment(way, options.layer),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    timer = threading.Timer(SECONDS, p.kill)
    timer.start()
    said, began, holder = p.stdout.readline().strip(), time.monotonic(), None
    if said == "ready" and way != "native":
        holder = Holder(p.pid)
        while holder.seen.get(LEVELS[way], 0) < options.holds and p.poll() is None:
            time.sleep(0.01)
        levels = holder.end()
    elif said == "ready":
        time.sleep(0.2)
    p.stdin.close()
    said = said if said != "ready" else p.stdout.read().strip()
    status, took = p.wait(), time.monotonic() - began
    timer.cancel()
    good = status == 0 and re.fullmatch(r"[1-9]\d* right|left out: .*", said)
    held = f", held {levels}" if holder else ""
    print(f"{case:12} {way:7} {said} in {took:.1f} s{held}{'' if good else f' FAILED: {status}'}", flush=True)
    return good


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", default=os.path.join(HERE, "../../../build/tests/cuda/cuda-objects"))
    p.add_argument("--holds", type=int, default=40, help="the least number of holds")
    p.add_argument("--layer", default=LAYER)
    p.add_argument("--cases", default=CASES, type=lambda s: s.split(","))
    options = p.parse_args()
    results = [run(case, way, options) for case in options.cases for way in WAYS]
    print("all are right:", "yes" if all(results) else "NO")
    return 0 if all(results) else 1


sys.exit(main())
