#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A server and its own batch work in one process, with PyTorch and asyncio: python3 pytorch-serve.py

Requests claim the class "interactive" for as long as there are any; training goes on at a lower priority than all other
work. On a machine without a GPU it computes on the CPU, which is not scheduled.
"""

import asyncio
import contextlib

import torch

import xsched

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def infer(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """In a thread of its own: the mode is the thread's, and the training goes on in the other one."""
    with torch.inference_mode():
        return model(x).cpu()


@xsched.priority(255)
async def answer(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Requests are above the training: during a request the process has all of the priority that it has claimed. With
    priority(0) it would have 0, since that only lowers."""
    return await asyncio.to_thread(infer, model, x)


@xsched.priority(-20)
async def train(model: torch.nn.Module, steps: int) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = torch.zeros(())
    for _ in range(steps):
        x = torch.randn(64, 256, device=DEVICE)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        await asyncio.sleep(0)
    return loss.item()


def urgent(stack: contextlib.ExitStack, reason: str) -> None:
    """Claims the class, where there is a service that grants it."""
    try:
        stack.enter_context(xsched.hold("interactive", reason))
    except OSError as e:
        print("without a claim:", e.strerror)


async def main() -> None:
    model = torch.nn.Linear(256, 256).to(DEVICE)
    training = asyncio.create_task(train(model, 50))
    with contextlib.ExitStack() as stack:
        urgent(stack, "a user waits")
        for _ in range(5):
            y = await answer(model, torch.randn(1, 256, device=DEVICE))
    print("answered", tuple(y.shape), "loss", round(await training, 3))


if __name__ == "__main__":
    asyncio.run(main())
