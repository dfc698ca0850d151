#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tenant of a CUDA device that uses PyTorch. Its commands and output are those of xsched-demo-cuda (cuda-tenant.c).

cuda-torch.py steps | small | large STEPS

steps computes a tensor, a product of matrices, a convolution and ResNet-18. small runs ResNet-18, a picture each 25 ms,
until standard input ends. large trains ResNet-50 for STEPS steps. All use deterministic algorithms.
"""

import hashlib
import json
import os
import select
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # pylint: disable=wrong-import-position
from cuda_models import launches_seen, resnet18, resnet50  # pylint: disable=wrong-import-position

PERIOD = 0.025


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().cpu().numpy().tobytes())
    return h.hexdigest()[:16]


def say(**what):
    print(json.dumps(what), flush=True)


def wait_for_word():
    say(device=torch.cuda.get_device_name())
    if not sys.stdin.readline():
        sys.exit(1)


def steps():
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    a, b = (torch.randn(1024, 1024, device="cuda") for _ in range(2))
    pictures, weights = torch.randn(8, 16, 64, 64, device="cuda"), torch.randn(32, 16, 3, 3, device="cuda")
    y = 5 * (3 * x + 1) + 2
    assert torch.equal(y.cpu(), 5 * (3 * x.cpu() + 1) + 2), "the tensor is wrong"
    say(step="tensor", digest=digest(y), seen=launches_seen())
    c = a @ b
    assert torch.allclose(c.cpu(), a.cpu() @ b.cpu(), rtol=1e-2, atol=1e-1), "the product is wrong"
    say(step="matmul", digest=digest(c), seen=launches_seen())
    d = torch.nn.functional.conv2d(pictures, weights, padding=1)
    right = torch.nn.functional.conv2d(pictures.cpu(), weights.cpu(), padding=1)
    assert torch.allclose(d.cpu(), right, rtol=1e-2, atol=1e-1), "the convolution is wrong"
    say(step="convolution", digest=digest(d), seen=launches_seen())
    with torch.no_grad():
        out = resnet18().eval()(torch.randn(4, 3, 224, 224, device="cuda"))
    say(step="ResNet-18", digest=digest(out), seen=launches_seen())


def small():
    model, x, ms = resnet18().eval(), torch.randn(1, 3, 224, 224, device="cuda"), []
    with torch.no_grad():
        for _ in range(20):
            first = model(x)
        first = first.cpu()
        wait_for_word()
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            time.sleep(max(0, due - time.monotonic()))
            began = time.monotonic()
            out = model(x)
            torch.cuda.synchronize()
            ms.append(round(1000 * (time.monotonic() - began), 3))
            assert torch.equal(out.cpu(), first), f"picture {len(ms)} has another result"
            due = max(due + PERIOD, time.monotonic())
    say(digest=digest(first), ms=ms, seen=launches_seen())


def large(n_steps):
    model, x = resnet50(), torch.randn(32, 3, 224, 224, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    wait_for_word()
    began = time.monotonic()
    losses = [step() for _ in range(n_steps)]
    torch.cuda.synchronize()
    seconds = time.monotonic() - began
    say(
        digest=digest(torch.stack(losses), *model.state_dict().values()),
        seconds=seconds,
        steps=n_steps,
        seen=launches_seen(),
    )


def main():
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(7)
    what, *rest = sys.argv[1:]
    {"steps": steps, "small": small, "large": large}[what](*map(int, rest))


main()
