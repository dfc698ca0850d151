#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs jobs over two GPUs whose kernels wait for each other (NCCL) as gangs, on a real host with PyTorch: prints a line
for each way, and fails if a result differs or a job does not end.

nccl.py [--steps=N] [--layer=FILE]        inside of xsched-session

A job has a process for each GPU, which multiplies matrices and adds its result to the other's, step by step. A job runs
alone natively; alone as a gang that is suspended and resumed at random moments, at both levels; and two jobs run at a
time, as gangs that take turns.
"""

import argparse
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from holds import LAYER, Holder, ask, environment

GPUS = 2
SECONDS = 40


# --- a process of a job ---


def rank_main(rank, port, steps):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("nccl", rank=rank, world_size=GPUS)
    torch.manual_seed(rank)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    print(f"ready {os.getpid()}", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    for i in range(steps):
        for _ in range(4):
            x = a @ x
            x = x / x.abs().max()
        dist.all_reduce(x)
        if i % 16 == 15:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    took = time.monotonic() - began
    print(f"{hashlib.sha256(x.float().cpu().numpy().tobytes()).hexdigest()[:16]} {took:.2f}", flush=True)
    dist.destroy_process_group()


# --- jobs ---


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Job:
    def __init__(self, name, way, options):
        port = free_port()
        run = [] if way == "native" else ["xschedctl", "run", "--shim=none", f"--name={name}", "--"]
        env = environment(way, options.layer)
        # One more process starts those of the GPUs, so that they are in the group that "xschedctl run" names.
        words = [sys.executable, __file__, f"--job={port}", f"--steps={options.steps}"]
        self.process = subprocess.Popen(
            [*run, *words], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.timer = threading.Timer(SECONDS, os.killpg, (self.process.pid, signal.SIGKILL))
        self.timer.start()
        self.pids = [int(self.process.stdout.readline().split()[1]) for _ in range(GPUS)]

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        lines = [self.process.stdout.readline().split() for _ in range(GPUS)]
        self.process.stdin.close()
        status = self.process.wait()
        self.timer.cancel()
        return tuple(w[0] if w else "" for w in lines), max((float(w[1]) for w in lines if w), default=0), status


def job_main(port, options):
    """Starts the processes of the GPUs, and passes their lines on."""
    words = [sys.executable, __file__, f"--port={port}", f"--steps={options.steps}"]
    ranks = [
        subprocess.Popen([*words, f"--rank={i}"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for i in range(GPUS)
    ]
    for r in ranks:
        print(r.stdout.readline(), end="", flush=True)
    sys.stdin.readline()
    for r in ranks:
        r.stdin.write("go\n")
        r.stdin.flush()
    for r in ranks:
        print(r.stdout.readline(), end="", flush=True)
    statuses = [r.wait() for r in ranks]
    return max(map(abs, statuses))


def make_gang(pid):
    """Makes the process's group a gang. Returns the group."""
    group, until = "", time.monotonic() + 10
    while not group and time.monotonic() < until:
        group = ask("show", str(pid), "-p", "Group").strip().partition("=")[2]
    ask("set", group, "gang=yes")
    if ask("show", group, "-p", "Gang").strip() != "Gang=yes":
        raise SystemExit(f"{group or 'a process without a group'} is no gang")
    return group


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--layer", default=LAYER)
    p.add_argument("--job", type=int)
    p.add_argument("--rank", type=int)
    p.add_argument("--port", type=int)
    options = p.parse_args()
    if options.rank is not None:
        return rank_main(options.rank, options.port, options.steps)
    if options.job:
        return job_main(options.job, options)

    good, right = True, None
    for name, way, n in (
        ("alone, native", "native", 1),
        ("suspended, gate", "gate", 1),
        ("suspended, stop", "stop", 1),
        ("two gangs, gate", "gate", 2),
        ("two gangs, stop", "stop", 2),
    ):
        jobs = [Job(f"nccl{i}-{way}-{n}", way, options) for i in range(n)]
        groups = [make_gang(j.pids[0]) for j in jobs] if way != "native" else []
        for j in jobs:
            j.go()
        holder = Holder(*groups) if groups and n == 1 else None
        ends = [j.end() for j in jobs]
        levels = holder.end() if holder else {}
        right = right or ends[0][0]
        ok = all(digests == right and status == 0 for digests, _, status in ends)
        good &= ok
        took = ", ".join(f"{seconds:.1f} s" for _, seconds, _ in ends)
        print(f"{name}: {took}, held {levels}, {'the same bits' if ok else f'FAILED: {ends}'}", flush=True)
        if n == 2 and ask("list-groups", "--full"):
            print(ask("list-groups", "--full"), flush=True)
    print("all jobs have ended, with the same bits:", "yes" if good else "NO")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
