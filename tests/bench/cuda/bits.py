#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks that a training under holds gives the same bits, on a real GPU with PyTorch: prints a line for each way, and
fails if one differs or was not held.

bits.py [--steps=N] [--layer=FILE]        inside of xsched-session

The same steps run with deterministic algorithms: natively, held at the gate at random moments, and stopped at random
moments.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../tools/demo"))

from holds import LAYER, Holder, environment  # pylint: disable=wrong-import-position

WANTED = 20


def train(steps):
    import torch
    from cuda_models import resnet18

    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(7)
    model = resnet18()
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


def run(name, options):
    env = environment(name, options.layer, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    p = subprocess.Popen(
        [sys.executable, __file__, "--train", f"--steps={options.steps}"],
        env=env,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    p.stdout.readline()
    began = time.monotonic()
    holder = Holder(p.pid) if name != "native" else None
    p.stdin.write("go\n")
    p.stdin.flush()
    digest = p.stdout.readline().strip()
    levels = holder.end() if holder else {}
    p.stdin.close()
    status = p.wait()
    what = {"way": name, "digest": digest[:16], "seconds": round(time.monotonic() - began, 1), "held, as seen": levels}
    print(json.dumps({**what, "status": status}), flush=True)
    return digest if status == 0 else "", levels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--layer", default=LAYER)
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
