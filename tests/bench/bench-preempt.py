#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the time from a high job's doorbell until the low job's queues are off the device, on a simulated AMD GPU:
bench-preempt.py [--quick]; prints JSON

Both jobs are programs on AMD's HSA runtime, with the KFD layer in front of it, under a real service. The three parts
are the service's own figures. The decision lasts from the doorbell until the verdict is written; the wake-up from there
until the low job's control thread calls its driver; and the ioctl is that call. The simulator's model decides how long
that takes: an unmap and map costs 50 us, plus the CPU time of the simulator's own threads. Each of several settings is
measured once, after the kernel's bare wake-ups (bench-wake), which are the yardstick."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

KERNEL_NS = 500_000
QUICK = "--quick" in sys.argv

# Everything may sleep; the service stays awake; the CPUs stay awake; both do.
SETTINGS = ("", "BusyPoll=50ms", "CPULatency=0us", "BusyPoll=50ms\nCPULatency=0us")


class Player:
    """A tenant of xsched-demo, controlled by lines of text (tools/demo/demo.h)."""

    def __init__(self, bus, token, role, kernels, environment):
        out_r, out_w = os.pipe()
        in_r, in_w = os.pipe()
        self.process = Process(
            [os.environ["PLAYER"], "--tenant", role, "amd-sim", "1", str(kernels), str(KERNEL_NS), "1"],
            env={"XSCHED_BUS_ADDRESS": bus.address, "XSCHED_JOB": token, **environment},
            stdin=in_r,
            stdout=out_w,
        )
        os.close(out_w)
        os.close(in_r)
        self.into, self.out = in_w, os.fdopen(out_r)
        if self.out.readline() != "ready\n":
            raise AssertionError(f"the {role} job does not start")

    def go(self, start, end, period):
        os.write(self.into, f"go {start} {end} {period}\n".encode())

    def stop(self):
        os.write(self.into, b"stop\n")

    def done(self):
        for line in self.out:
            if line.startswith("error"):
                raise AssertionError(line)
            if line.startswith("done"):
                return int(line.split()[1])
        raise AssertionError("a job ended without a word")


def job(c, name, priority):
    return c.call(NAME, PATH, MANAGER, "CreateJob", "sa{sv}utt", name, {"Priority": ("i", priority)}, 0, 0, 0)[0]


def figures(c, name):
    return dict(zip(("p50_us", "p99_us", "max_us", "samples"), c.get(NAME, PATH, MANAGER, name)))


def yardstick(config):
    """Measures the kernel's own wake-ups, with the CPU latency of this setting."""
    awake = re.search(r"CPULatency=(\d+)us", config)
    command = [os.environ["YARDSTICK"], "--json", "--count=200" if QUICK else "--count=600"]
    command += [f"--cpu-latency={awake[1]}"] if awake else []
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def becomes_realtime(service, until_ns):
    """Returns whether the service becomes realtime before until_ns. It is so only while several jobs compete."""
    while now_ns() < until_ns:
        if os.sched_getscheduler(service.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR:
            return True
        time.sleep(0.05)
    return False


def play(config, seconds):
    with tempfile.TemporaryDirectory() as directory:
        environment = {"KFDSIM_DIR": os.path.join(directory, "kfdsim"), "KFDSIM_GPUS": "gfx90a"}
        bus = Bus(directory, "daemon")
        service = Service(
            bus,
            directory,
            config=f"[Log]\nLevel=warning\n[Scheduler]\nPreemption=auto\nThreshold=16\nBudget=0\n{config}\n",
        )
        c = bus.connect()
        low = Player(bus, job(c, "low", -10), "batch", 100, environment)
        high = Player(bus, job(c, "high", 10), "latency", 4, environment)
        start = now_ns() + 10**9
        low.go(now_ns(), 0, 0)
        high.go(start, start + seconds * 10**9, 20_000_000)
        realtime = becomes_realtime(service, start + 2 * 10**9)
        tasks = high.done()
        low.stop()
        result = {
            name: figures(c, prop)
            for name, prop in (("decision", "DecisionLatency"), ("wake", "WakeLatency"), ("ioctl", "DriverLatency"))
        }
        device = c.call(NAME, PATH, MANAGER, "ListDevices")[0][0][5]
        result.update(
            seconds=seconds,
            tasks=tasks,
            batch_tasks=low.done(),
            realtime=realtime,
            hold_us=c.get(NAME, device, DEVICE, "HoldCostUSec"),
            release_us=c.get(NAME, device, DEVICE, "ReleaseCostUSec"),
        )
        low.process.end()
        high.process.end()
        c.close()
        service.end()
        bus.end()
    if result["ioctl"]["samples"] == 0:
        raise AssertionError("no queue was ever taken off")
    return result


def main():
    rows = []
    for config in SETTINGS:
        if "CPULatency" in config and not os.access("/dev/cpu_dma_latency", os.W_OK):
            print(f"/dev/cpu_dma_latency may not be written: {config.split()} is left out", file=sys.stderr)
            continue
        rows.append({"settings": config.split(), "yardstick": yardstick(config), **play(config, 2 if QUICK else 10)})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
