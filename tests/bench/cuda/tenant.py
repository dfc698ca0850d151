#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tenant that uses PyTorch. Like any program, it is not written for xsched.

tenant.py proof            prints the launches of each phase, as torch.profiler and as the layer count them
tenant.py latency          ResNet-18, one picture at a time; reads "eager SECONDS" or "graph SECONDS", either with
                           "-random" for pictures at unforeseeable moments, or "graph-told SECONDS" for such moments
                           announced by xsched_hint("WillLaunch"); prints how long each picture took, and how much of
                           that passed before it was launched
tenant.py gemm|resnet50    training; reads "run SECONDS", and prints its steps and the time that they took

The last two print what they run on once they have warmed up, and answer each line with a line of JSON.
"""

import ctypes
import json
import os
import random
import sys
import time

import torch
from torch import nn

import foreign

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../tools/demo"))
from cuda_models import layer_count, launches_seen, resnet18, resnet50  # pylint: disable=wrong-import-position

PERIOD = 0.025
TOLD = 0.003  # s that a launch is announced ahead


# --- proof ---

try:
    import triton
    import triton.language as tl

    @triton.jit
    def triple(x, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)

except ImportError:
    triton = None


def phases():
    model = resnet18().eval()
    x = torch.randn(1, 3, 224, 224, device="cuda")
    a = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    own = torch.cuda.Stream()

    def eager():
        with torch.no_grad():
            for _ in range(10):
                model(x)

    def on_stream():
        with torch.cuda.stream(own):
            eager()

    def matmul():
        for _ in range(50):
            torch.matmul(a, a)

    def training():
        m = resnet18()
        o = torch.optim.SGD(m.parameters(), lr=0.01)
        for _ in range(3):
            o.zero_grad()
            m(x.expand(8, -1, -1, -1)).square().mean().backward()
            o.step()

    def compiled():
        f = torch.compile(lambda t: torch.relu(t * 2 + 1).sum(dim=0))
        for _ in range(5):
            f(a)

    def with_triton():
        t = torch.ones(1 << 20, device="cuda")
        for _ in range(5):
            triple[(1024,)](t, t.numel(), block=1024)

    def with_cupy():
        import cupy

        c = cupy.arange(1 << 20, dtype=cupy.float32)
        for _ in range(5):
            c = c * 2 + 1
        cupy.cuda.Device().synchronize()

    table = {
        "eager": eager,
        "stream": on_stream,
        "matmul": matmul,
        "training": training,
        "compiled": compiled,
        "cupy": with_cupy,
        "cuda-python": foreign.cuda_python(),
        "static cudart": foreign.static_cudart(),
        "jax": foreign.jax_jit(),
        "transformers": foreign.language_model(),
        "nccl": foreign.all_reduce(),
    }
    if triton:
        table["triton"] = with_triton
    return table, model, x


def kernels(p):
    """Returns the number of kernels that the profiler has seen on the device."""
    events = (e for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA)
    return sum(1 for e in events if not e.name.startswith(("Mem", "Context")))


def proof():
    from torch.profiler import ProfilerActivity, profile

    count, launched = layer_count(), launches_seen
    table, model, x = phases()
    result = {}
    for name, f in table.items():
        try:
            f()  # makes what is made only once
        except (ImportError, RuntimeError) as e:
            result[name] = {"left out": str(e).splitlines()[0][:100]}
            continue
        torch.cuda.synchronize()
        before = launched()
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            f()
            torch.cuda.synchronize()
        result[name] = {"profiler": kernels(p), "layer": launched() - before}
    with torch.no_grad():
        graph = torch.cuda.CUDAGraph()
        before, graphs = launched(), count(b"cuGraphLaunch") if count else -1
        # Captured kernels are not launched, but PyTorch's own preparations (its seed and offset) are.
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            with torch.cuda.graph(graph):
                model(x)
            torch.cuda.synchronize()
        result["capture"] = {"profiler": kernels(p), "layer": launched() - before}
        for _ in range(10):
            graph.replay()
        torch.cuda.synchronize()
        result["graph"] = {"launches": count(b"cuGraphLaunch") - graphs if count else -1}
    print(json.dumps(result))


# --- tenants ---


def serve(handlers):
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__.split("+")[0]}
    about["memory"] = torch.cuda.get_device_properties(0).total_memory
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        how, seconds = line.split()
        print(json.dumps(handlers[how](float(seconds))), flush=True)


def find_hint():
    """Returns xsched_hint() of the library that the layer has loaded, or a dummy without the layer."""
    for line in open("/proc/self/maps", encoding="utf-8"):
        if "/libxsched.so" in line:
            f = ctypes.CDLL(line.split()[-1]).xsched_hint
            f.argtypes = [ctypes.c_char_p, ctypes.c_int64]
            return f
    return lambda name, value: 0


def latency():
    model = resnet18().eval()
    x = torch.randn(1, 3, 224, 224, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        for _ in range(20):
            model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = model(x)

    def measure(f, seconds, jitter=0, told=False):
        took, launching, end, due = [], [], time.monotonic() + seconds, time.monotonic()
        while due < end:
            if told:
                time.sleep(max(0, due - TOLD - time.monotonic()))
                hint(b"WillLaunch", max(0, int(1e6 * (due - time.monotonic()))))
            time.sleep(max(0, due - time.monotonic()))
            began = time.monotonic()
            f()
            launching.append(time.monotonic() - began)
            torch.cuda.synchronize()
            took.append(time.monotonic() - began)
            due = max(due + PERIOD * (1 + jitter * random.uniform(-1, 1)), time.monotonic())
        return {name: [round(1000 * t, 3) for t in times] for name, times in (("ms", took), ("launching", launching))}

    def eager():
        with torch.no_grad():
            model(x)

    for f in (eager, graph.replay):
        measure(f, 1)
    hint = find_hint()
    serve(
        {
            "eager": lambda s: measure(eager, s),
            "graph": lambda s: measure(graph.replay, s),
            "eager-random": lambda s: measure(eager, s, 0.8),
            "graph-random": lambda s: measure(graph.replay, s, 0.8),
            "graph-told": lambda s: measure(graph.replay, s, 0.8, True),
        }
    )


def train(kind):
    if kind == "gemm":
        model = nn.Linear(8192, 28672, bias=False, device="cuda", dtype=torch.bfloat16)
        x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    else:
        model = resnet50()
        batch = int(os.environ.get("RESNET50_BATCH", "128"))
        x = torch.randn(batch, 3, 224, 224, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    def run(seconds):
        n, began = 0, time.monotonic()
        while time.monotonic() < began + seconds:
            for _ in range(2):
                step()
            torch.cuda.synchronize()
            n += 2
        return {"steps": n, "seconds": time.monotonic() - began}

    run(1)
    serve({"run": run})


if __name__ == "__main__":
    torch.backends.cudnn.benchmark = False
    {"proof": proof, "latency": latency}.get(sys.argv[1], lambda: train(sys.argv[1]))()
