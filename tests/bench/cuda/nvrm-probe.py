#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out what a stock NVIDIA driver does when a process stops its own channels, on a real GPU with PyTorch

nvrm-probe.py [--only=PART,...] [--layer=FILE] [--trace=FILE] [--keep=FILE]

It calls the CUDA layer (tests/cuda/layer-calls.c) and the driver itself, without a service. The parts are trace, stop,
crowd, copies and slices. Each prints "name: value"; if one fails, the next ones run. --keep is a file for the trace.
"""

import argparse
import collections
import ctypes
import glob
import hashlib
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from nvrm_trace import quantiles, say, show_trace

HERE = os.path.dirname(os.path.realpath(__file__))
BUILD = os.path.join(HERE, "../../../build")
SYS_IOCTL = 16
SET_SLICE, GET_SLICE, SET_INTERLEAVE, GET_INTERLEAVE = 0xA06C0103, 0xA06C0104, 0xA06C0107, 0xA06C0108
DISABLE_CHANNELS, CONTROL = 0x2080110B, (3 << 30) | (32 << 16) | (ord("F") << 8) | 0x2A


# --- the layer ---


class Layer:
    def __init__(self):
        self.calls = ctypes.CDLL(None, use_errno=True)
        self.calls.xsched_cuda_describe.restype = ctypes.c_size_t
        self.calls.xsched_cuda_describe.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def describe(self):
        text = ctypes.create_string_buffer(1 << 20)
        self.calls.xsched_cuda_describe(text, len(text))
        return text.value.decode()

    def objects(self):
        found = []
        for line in self.describe().splitlines()[1:]:
            kind, *rest = line.split()
            o = {k: v for k, _, v in (w.partition("=") for w in rest)}
            o["kind"] = kind
            found.append(o)
        return found

    def stop(self, stop):
        """Stops or resumes all channels. Returns the seconds that it took."""
        began = time.perf_counter()
        r = self.calls.xsched_cuda_stop(int(stop))
        took = time.perf_counter() - began
        if r != 0:
            raise OSError(-r, f"xsched_cuda_stop({stop}): {os.strerror(-r)}")
        return took

    def channels(self, engine=None):
        """Returns [(client, channel)] of the engine's groups, and (fd, client, subdevice) for calls about them."""
        objects = self.objects()
        fds = {o["client"]: int(o["fd"]) for o in objects if o["kind"] == "client"}
        groups = {(o["client"], o["object"]): o for o in objects if o["kind"] == "group" and "gpu" in o}
        wanted = {k for k, g in groups.items() if engine is None or int(g["engine"]) == engine}
        some = next(iter(groups.values()))
        of = [
            (int(o["client"], 16), int(o["object"], 16))
            for o in objects
            if o["kind"] == "channel" and (o["client"], o["parent"]) in wanted and "copy" not in o
        ]
        return of, (fds[some["client"]], int(some["client"], 16), int(some["subdevice"], 16))

    def call(self, fd, client, object_, command, data):
        """Makes a control call. Returns the driver's status, and the parameters as the driver left them."""
        parameters = ctypes.create_string_buffer(data, len(data))
        at = ctypes.addressof(parameters)
        head = struct.pack("=IIIIQII", client, object_, command, 0, at, len(data), 0)
        argument = ctypes.create_string_buffer(head, len(head))
        # syscall() bypasses the layer, which gives up on stopping if a program makes such calls itself.
        if self.calls.syscall(ctypes.c_long(SYS_IOCTL), ctypes.c_long(fd), ctypes.c_ulong(CONTROL), argument) < 0:
            raise OSError(ctypes.get_errno(), "ioctl")
        return struct.unpack_from("=I", argument, 28)[0], parameters.raw

    def control(self, via, channels, disable):
        """Disables or enables channels. Returns the driver's status."""
        clients = [c for c, _ in channels] + [0] * (64 - len(channels))
        objects = [o for _, o in channels] + [0] * (64 - len(channels))
        data = struct.pack("=B3xIBB6xQ64I64I", disable, len(channels), 0, 0, 0, *clients, *objects)
        return self.call(*via, DISABLE_CHANNELS, data)[0]


# --- work ---


class Work:
    """Multiplies matrices, one product after the other, and records an event after each."""

    def __init__(self, n=8192, k=28672):
        import torch

        self.torch = torch
        torch.manual_seed(1)
        self.a = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        self.b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        self.out = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
        self.events = []
        self.launch(3)
        self.wait()
        self.result = self.digest()
        self.launch(10)
        self.wait()
        self.kernel_ms = self.events[0].elapsed_time(self.events[9]) / 9

    def launch(self, n):
        self.events = []
        for _ in range(n):
            self.torch.matmul(self.a, self.b, out=self.out)
            e = self.torch.cuda.Event(enable_timing=True)
            e.record()
            self.events.append(e)

    def done(self):
        return sum(e.query() for e in self.events)

    def wait(self):
        self.torch.cuda.synchronize()

    def digest(self):
        return hashlib.sha256(self.out.view(self.torch.int16).cpu().numpy().tobytes()).hexdigest()[:16]

    def is_right(self):
        return self.digest() == self.result

    def progresses(self, seconds=0.06):
        before = self.done()
        time.sleep(seconds)
        return self.done() - before


# --- parts, each in a process of its own ---


def part_trace():
    import torch

    layer = Layer()
    torch.zeros(1, device="cuda")
    torch.matmul(*(torch.randn(512, 512, device="cuda") for _ in range(2)))
    torch.cuda.synchronize()
    say("driver and layer", layer.describe().splitlines()[0])
    for kind, n in collections.Counter(o["kind"] for o in layer.objects()).items():
        say(f"objects, {kind}", n)
    for o in layer.objects():
        if o["kind"] in ("client", "device", "subdevice", "group"):
            below = [c for c in layer.objects() if c["kind"] == "channel" and c["parent"] == o["object"]]
            classes = collections.Counter(c["class"] for c in below)
            say("object", {**o, "channels": dict(classes), "scheduled": sum(c.get("scheduled") == "1" for c in below)})
    streams = [torch.cuda.Stream() for _ in range(16)]
    for s in streams:
        with torch.cuda.stream(s):
            torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    say("channels with 16 streams", sum(o["kind"] == "channel" for o in layer.objects()))


def try_hold(layer, work):
    bad, stop, resume, late = 0, [], [], []
    for cycle in range(60):
        work.launch(12)
        time.sleep(0.001 * (cycle % 7) + 0.002)
        stop.append(layer.stop(True))
        at_once = work.done()
        time.sleep(0.03)
        bad += work.done() != at_once or at_once == 12
        resume.append(layer.stop(False))
        began = time.perf_counter()
        while work.done() == at_once:
            pass
        late.append(time.perf_counter() - began)
        work.wait()
        bad += not work.is_right()
    say("60 stops in a queue of matmuls: kernels that ended while stopped, or results that differ", bad)
    say("stop", quantiles(stop))
    say("resume", quantiles(resume))
    say("from resume to the end of the next kernel", quantiles(late))


def try_middle(layer, work):
    begin = work.torch.cuda.Event(enable_timing=True)
    begin.record()
    work.launch(1)
    time.sleep(work.kernel_ms * 0.0005)
    layer.stop(True)
    before = work.done()
    time.sleep(0.2)
    after = work.done()
    layer.stop(False)
    work.wait()
    say(
        "one kernel stopped in its middle",
        f"done before {before}, after 200 ms {after},",
        f"took {begin.elapsed_time(work.events[0]):.1f} ms, alone {work.kernel_ms:.2f}, right {work.is_right()}",
    )


def try_lists(layer, work):
    """Measures what a call costs by the number of channels that it names, and whether naming these is enough."""
    everything, via = layer.channels()
    compute, _ = layer.channels(engine=1)
    say("channels", len(everything), "of compute", len(compute))
    for name, which in (("all", everything), ("compute", compute), ("first of compute", compute[:1])):
        took, status, went_on = {True: [], False: []}, set(), 0
        for _ in range(25):
            work.launch(6)
            time.sleep(0.004)
            for disable in (True, False):
                began = time.perf_counter()
                for i in range(0, len(which), 64):
                    status.add(layer.control(via, which[i : i + 64], disable))
                took[disable].append(time.perf_counter() - began)
                if disable:
                    went_on += work.progresses(0.02) > 0
            work.wait()
        say(
            f"list of {name} ({len(which)})",
            "status",
            status,
            "went on",
            went_on,
            "of 25; disable",
            quantiles(took[True]),
            "enable",
            quantiles(took[False]),
        )
    began = time.perf_counter()
    for c in everything:
        layer.control(via, [c], True)
    for c in everything:
        layer.control(via, [c], False)
    say("one by one, both ways", f"{(time.perf_counter() - began) * 1e3:.2f} ms")


def try_counts(layer, work):
    everything, via = layer.channels()
    everything = everything[:64]
    call = lambda disable, which=None: layer.control(via, which or everything, disable)
    running = lambda: work.progresses() > 0
    work.launch(150)
    r = [call(False), call(False)]
    say("enabled twice while enabled", "status", r, "runs", running())
    r = [call(True)]
    say("then disabled once", "status", r, "runs", running())
    r = [call(False)]
    say("then enabled once", "status", r, "runs", running())
    r = [call(True), call(True), call(False)]
    say("disabled twice, enabled once", "status", r, "runs", running())
    r = [call(False)]
    say("and once more", "status", r, "runs", running())
    work.wait()
    say("right", work.is_right())
    bogus = (everything[0][0], 0xDEAD0001)
    middle = len(everything) // 2
    for name, which in (
        ("first", [bogus] + everything[:63]),
        ("in the middle", everything[:middle] + [bogus] + everything[middle:63]),
        ("last", everything[:63] + [bogus]),
    ):
        work.launch(60)
        r = [call(True, which)]
        ran = running()
        r += [call(False, which), call(False)]
        say(
            f"a list with an unknown channel {name}",
            "status",
            [hex(s) for s in r],
            "ran after it",
            ran,
            "runs now",
            running(),
        )
        work.wait()
    # As the layer does after such an error: enable each channel by itself.
    for c in everything:
        call(False, [c])
    work.launch(40)
    layer.stop(True)
    stopped = not running()
    layer.stop(False)
    say("after that, stopped and let go by the layer", stopped, running())
    work.wait()
    say("right", work.is_right())


def driver_library():
    cu = ctypes.CDLL("libcuda.so.1")
    cu.cuCtxCreate_v2.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint, ctypes.c_int]
    cu.cuCtxDestroy_v2.argtypes = [ctypes.c_void_p]
    cu.cuCtxSetCurrent.argtypes = [ctypes.c_void_p]
    return cu


def in_thread(name, f, layer):
    """Calls f() while everything is stopped, and says whether it returns then or only after the resume."""
    took = []

    def run():
        began = time.perf_counter()
        r = f()
        took.append((r, time.perf_counter() - began))

    t = threading.Thread(target=run, daemon=True)
    layer.stop(True)
    t.start()
    t.join(3)
    by_itself = not t.is_alive()
    stopped = [o["stopped"] for o in layer.objects() if o["kind"] == "channel" and "stopped" in o]
    layer.stop(False)
    t.join(10)
    say(
        name,
        "while stopped" if by_itself else "ONLY WHEN LET GO",
        took,
        f"channels {len(stopped)}, stopped {stopped.count('1')}",
    )


def try_contexts(layer, work):
    cu, contexts = driver_library(), []

    def create():
        c = ctypes.c_void_p()
        r = cu.cuCtxCreate_v2(ctypes.byref(c), 0, 0)
        contexts.append(c)
        return r

    work.launch(30)
    in_thread("a context made", create, layer)
    work.wait()
    create()
    work.torch.cuda.synchronize()
    while contexts:
        in_thread("a context destroyed", lambda: cu.cuCtxDestroy_v2(contexts.pop()), layer)
    cu.cuCtxSetCurrent(None)
    work.torch.cuda.set_device(0)
    work.launch(5)
    work.wait()
    say(
        "right after contexts have come and gone",
        work.is_right(),
        "channels left",
        sum(o["kind"] == "channel" for o in layer.objects()),
    )


def try_fork(layer, work):
    work.launch(40)
    pid = os.fork()
    if pid == 0:
        status = -layer.calls.xsched_cuda_stop(1)
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    say("a child's stop says", os.strerror(status), "and the parent runs", work.progresses() > 0)
    work.wait()
    say("right", work.is_right())


def part_stop():
    layer, work = Layer(), Work()
    say("layer", layer.describe().splitlines()[0])
    say("a matmul takes", f"{work.kernel_ms:.2f} ms")
    for f in (try_hold, try_middle, try_lists, try_counts, try_contexts, try_fork):
        began = time.perf_counter()
        try:
            f(layer, work)
        except Exception:
            traceback.print_exc()
            layer.calls.xsched_cuda_stop(0)
        say("time", f.__name__, f"{time.perf_counter() - began:.1f} s")
    for how in ("exit", "kill"):
        end_while_stopped(how)
    work.launch(5)
    work.wait()
    say("right after others have ended while stopped", work.is_right())


def end_while_stopped(how):
    p = subprocess.Popen([sys.executable, __file__, f"--part=end-{how}"], stdout=subprocess.PIPE, text=True)
    line = p.stdout.readline().strip()
    began = time.perf_counter()
    if how == "kill":
        p.send_signal(signal.SIGKILL)
    try:
        p.wait(20)
    except subprocess.TimeoutExpired:
        p.kill()
    say(f"{how} while stopped", line, "status", p.returncode, f"after {time.perf_counter() - began:.2f} s")


def part_end(how):
    layer, work = Layer(), Work()
    work.launch(50)
    layer.stop(True)
    print("stopped", flush=True)
    if how == "kill":
        signal.pause()


def copied(torch, stops):
    """Returns the results of kernels between copies in both directions, while a thread stops channels at random."""
    torch.manual_seed(3)
    into, out_of = torch.cuda.Stream(), torch.cuda.Stream()
    host = [torch.randn(2048, 2048).pin_memory() for _ in range(4)]
    kept = [torch.empty(2048, 2048).pin_memory() for _ in range(60)]
    w, y, over = torch.randn(2048, 2048, device="cuda") / 64, torch.zeros(2048, 2048, device="cuda"), threading.Event()
    thread = threading.Thread(target=stops, args=(over,))
    thread.start()
    for i, k in enumerate(kept):
        with torch.cuda.stream(into):
            x = host[i % 4].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(into)
        for _ in range(8):
            y = torch.tanh(y @ w + x)
        x.record_stream(torch.cuda.current_stream())
        out_of.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(out_of):
            k.copy_(y, non_blocking=True)
        y.record_stream(out_of)
    torch.cuda.synchronize()
    over.set()
    thread.join()
    return hashlib.sha256(b"".join(k.numpy().tobytes() for k in kept)).hexdigest()[:16]


def part_copies():
    """Checks that copies are right, although the channels of copy engines are not stopped with the others."""
    import random
    import torch

    layer, n = Layer(), [0]
    random.seed(1)

    def stops(over):
        while not over.is_set():
            layer.stop(True)
            time.sleep(random.random() * 0.004)
            layer.stop(False)
            n[0] += 1
            time.sleep(random.random() * 0.003)

    torch.zeros(1, device="cuda")
    want = copied(torch, lambda over: None)
    stopped = [o for o in layer.objects() if o.get("stopped") == "1"]
    say("stopped while nothing is", len(stopped), "channels", sum(o["kind"] == "channel" for o in layer.objects()))
    layer.stop(True)
    say("stopped", sum(o.get("stopped") == "1" for o in layer.objects()))
    layer.stop(False)
    got = [copied(torch, stops) for _ in range(5)]
    say("copies under stops: runs that differ", sum(g != want for g in got), "of", len(got), "stops", n[0])


STEP = 0.8  # s; long enough for the queued work of all members


def part_member():
    layer, work = Layer(), Work(4096, 28672)
    print("ready", sum(o["kind"] == "channel" for o in layer.objects()), flush=True)
    for line in sys.stdin:
        at, n = float(line.split()[0]), int(line.split()[1])
        stop, resume, late = [], [], []
        for i in range(n):
            work.launch(40)
            while time.time() < at + i * STEP:
                pass
            stop.append(layer.stop(True))
            late.append(time.time() - at - i * STEP)
            while time.time() < at + i * STEP + 0.03:
                pass
            resume.append(layer.stop(False))
            work.wait()
        print(statistics.mean(stop), statistics.mean(resume), max(late), work.is_right(), flush=True)


def part_crowd(members=7):
    """Lets several processes stop and resume their own channels at the same time."""
    all_ = [
        subprocess.Popen(
            [sys.executable, __file__, "--part=member"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(members)
    ]
    say("channels of each", [p.stdout.readline().split()[1] for p in all_])
    for n in (1, 2, members):
        at = time.time() + 0.5
        for p in all_[:n]:
            p.stdin.write(f"{at} 10\n")
        for p in all_[:n]:
            stop, resume, late, right = p.stdout.readline().split()
            say(
                f"of {n} at once",
                f"stop {float(stop) * 1e3:.2f} ms, resume {float(resume) * 1e3:.2f},",
                f"stopped at the latest after {float(late) * 1e3:.2f}, right {right}",
            )
    for p in all_:
        p.stdin.close()
        p.wait()


def part_slices():
    """Sets time slices and interleave of the group that runs kernels, and prints the driver's answers."""
    layer, work = Layer(), Work()
    objects = layer.objects()
    fds = {o["client"]: int(o["fd"]) for o in objects if o["kind"] == "client"}
    for g in objects:
        if g["kind"] != "group" or int(g["engine"]) != 1:
            continue
        of = (fds[g["client"]], int(g["client"], 16), int(g["object"], 16))
        say("group", g["object"], "set by the layer:", g["sliced"])
        ask = lambda command, data: layer.call(*of, command, data)
        get = lambda: (ask(GET_SLICE, bytes(8)), ask(GET_INTERLEAVE, bytes(4)))
        say("slice, interleave", *get())
        for usec in (100, 1, 2000):
            say(f"set slice {usec}", *ask(SET_SLICE, struct.pack("=Q", usec)), "now", *get())
            began = time.perf_counter()
            work.launch(3)
            work.wait()
            say(f"three products with {usec} us", f"{(time.perf_counter() - began) * 1e3:.2f} ms")
        for level in (0, 1, 2):
            say(f"set interleave {level}", *ask(SET_INTERLEAVE, struct.pack("=I", level)), "now", *get())
    say("results", work.is_right())


# --- all ---


def find(option, pattern):
    if option:
        return os.path.abspath(option)
    found = glob.glob(os.path.join(BUILD, pattern))
    return os.path.realpath(found[0]) if found else ""


def run_part(part, options):
    env = {**os.environ, "XSCHED_BUS_ADDRESS": "unix:path=/nonexistent", "XSCHED_CUDA_STOP": "1"}
    preload = [find(options.layer, "tests/cuda/libxsched-cuda-calls.so")]
    folder = tempfile.mkdtemp(prefix="nvrm-probe-")
    if part == "trace":
        preload.append(find(options.trace, "tests/bench/librm-trace.so"))
        env["RM_TRACE"] = options.keep or os.path.join(folder, "trace")
    env["LD_PRELOAD"] = ":".join(preload)
    print(f"=== {part}", flush=True)
    began = time.monotonic()
    try:
        p = subprocess.run([sys.executable, __file__, f"--part={part}"], env=env, timeout=options.limit, check=False)
        say("status", p.returncode)
    except subprocess.TimeoutExpired:
        say("status", f"NOT DONE after {options.limit} s")
    if part == "trace":
        show_trace(env["RM_TRACE"])
    say("time", f"{time.monotonic() - began:.1f} s")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--only", default="trace,stop,crowd,copies")
    p.add_argument("--layer")
    p.add_argument("--trace")
    p.add_argument("--keep")
    p.add_argument("--limit", type=float, default=90)
    p.add_argument("--part")
    options = p.parse_args()
    if not options.part:
        for part in options.only.split(","):
            run_part(part, options)
    elif options.part.startswith("end-"):
        part_end(options.part[4:])
    else:
        {
            "trace": part_trace,
            "stop": part_stop,
            "crowd": part_crowd,
            "member": part_member,
            "copies": part_copies,
            "slices": part_slices,
        }[options.part]()


main()
