# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about the way from a doorbell to queues off the device, from what bench-preempt.py
measured."""


def preempt_rows(data):
    rows = []
    for d in data:
        title = " ".join(d["settings"]) or "defaults"
        yard = d["yardstick"]["eventfd"] if d["yardstick"] else None
        for key, text in (
            ("yardstick", "yardstick"),
            ("decision", "decision"),
            ("wake", "wake-up"),
            ("ioctl", "ioctl"),
        ):
            one = yard if key == "yardstick" else d[key]
            if not one:
                continue
            ratios = [f"{one[k] / yard[k]:.2f}x" if yard else "" for k in ("p50_us", "p99_us")]
            rows.append(
                [f"{title}: {text}"] + [f"{one[k]:.0f}" for k in ("p50_us", "p99_us", "max_us", "samples")] + ratios
            )
    return rows


def bare_wake_ups(data):
    """Returns a note if no service could reach the aim on this machine, because the kernel's wake-ups are too slow."""
    p99 = [d["yardstick"]["eventfd"]["p99_us"] for d in data]
    slow = sum(us >= 60 for us in p99)
    if slow == 0:
        return ""
    return (
        f"Under {slow} of the {len(p99)} settings the kernel's bare wake-up has a p99 of 60 us or more here (up to "
        f"{max(p99):.0f}), with nothing of ours in it. "
    )


def render_preempt(record, table):
    data = record["data"]
    text = (
        "The time from the doorbell of a high job until the low job's queues are off the device has three parts. The "
        "decision lasts until the verdict is written, the wake-up until the low job's control thread calls its driver, "
        "and the ioctl is that call. The last one depends on the simulator's model: an unmap and map costs 50 us, and "
        "the simulated hardware consists of threads that need a CPU to stop. The first two are ours. Each includes one "
        "wake-up by the kernel, which the yardstick measures: one process writes an eventfd, and another returns from "
        "epoll_wait(), with the CPU latency of the setting.\n\n"
    )
    text += table(["", "p50 us", "p99 us", "max us", "samples", "p50", "p99"], preempt_rows(data))
    met = [
        " ".join(d["settings"]) or "defaults" for d in data if max(d["decision"]["p99_us"], d["wake"]["p99_us"]) < 60
    ]
    text += (
        (
            "\n"
            "The aim is a p99 below 60 us for decision and wake-up each, on an otherwise idle machine. Here it is met "
            f"by: {', '.join(met) or 'none'}. "
        )
        + bare_wake_ups(data)
        + (
            ""
            if any("CPULatency=0us" in d["settings"] for d in data)
            else "The effect of BusyPoll= and CPULatency= has not been measured on a quiet machine."
        )
        + "\n\n"
    )
    return text
