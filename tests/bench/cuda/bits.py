#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Training under holds gives the same bits, on a real GPU with PyTorch: prints a line for each way, and fails when one
differs or was not held.

bits.py [--steps=N] [--layer=FILE]        inside of xsched-session

The same steps with deterministic algorithms: natively, held at the gate at random moments, and stopped so.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
WAYS = {"native": {}, "gate": {"XSCHED_CUDA_STOP": "0"}, "stop": {"XSCHED_CUDA_STOP": "any"}}
WANTED = 20


def train(steps):
    import torch
    from tenant import resnet

    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(7)
    model = resnet((2, 2, 2, 2), False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    print("ready", flush=True)
    sys.stdin.readline()
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 3, 128, 128).cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    digest = hashlib.sha256(torch.stack(losses).cpu().numpy().tobytes())
    for p in model.state_dict().values():
        digest.update(p.cpu().numpy().tobytes())
    print(digest.hexdigest(), flush=True)


def hold_at_random(pid, over, seen):
    rng = random.Random(1)
    ask = lambda *words: subprocess.run(["xschedctl", *words], capture_output=True, text=True, check=False).stdout
    while not over.is_set():
        ask("suspend", str(pid))
        time.sleep(rng.random() * 0.03)
        held = [w for line in ask("dump").splitlines() for w in line.split() if w.startswith("level=")]
        seen.extend(held)
        ask("resume", str(pid))
        time.sleep(rng.random() * 0.02)


def run(name, options):
    env = {
        **{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},
        **WAYS[name],
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    if name != "native":
        env["LD_PRELOAD"] = options.layer
    p = subprocess.Popen(
        [sys.executable, __file__, "--train", f"--steps={options.steps}"],
        env=env,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    p.stdout.readline()
    over, seen = threading.Event(), []
    holder = threading.Thread(target=hold_at_random, args=(p.pid, over, seen))
    began = time.monotonic()
    if name != "native":
        holder.start()
    p.stdin.write("go\n")
    p.stdin.flush()
    digest = p.stdout.readline().strip()
    over.set()
    if name != "native":
        holder.join()
    p.stdin.close()
    status = p.wait()
    levels = {level: seen.count(level) for level in sorted(set(seen))}
    print(
        json.dumps(
            {
                "way": name,
                "digest": digest[:16],
                "seconds": round(time.monotonic() - began, 1),
                "held, as seen": levels,
                "status": status,
            }
        ),
        flush=True,
    )
    return digest if status == 0 else "", levels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--layer", default=os.path.join(HERE, "../../../build/shim/libxsched-cuda.so"))
    p.add_argument("--train", action="store_true")
    options = p.parse_args()
    if options.train:
        train(options.steps)
        return 0
    native, _ = run("native", options)
    good = bool(native)
    for name, level in (("gate", "level=1"), ("stop", "level=3")):
        digest, levels = run(name, options)
        good &= digest == native and sum(n for of, n in levels.items() if of.startswith(level)) >= WANTED
    print("the same bits under holds at both levels:", "yes" if good else "NO")
    return 0 if good else 1


sys.exit(main())
