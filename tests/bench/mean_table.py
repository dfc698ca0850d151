# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section of BENCHMARKS.md about MeanUSec, from what bench-mean.py measured."""

WITHIN = 0.1
GPU_NOTE = (
    "These programs have enabled profiling, so their launches' own stamps are read (`opencl-stamps.h`). A GPU's "
    "runtime calls back late; of a program without profiling the time is what passes between completions that are "
    "noticed soon (`opencl-guess.h`), and that has two things in it that are not the launch's. A synchronous "
    "program's launch has the way to the device and back in it, some 5 us. And synchronous programs of one weight "
    "are let into each other's gaps, since nobody would gain if the device stood still for them: what others have "
    "on the device meanwhile is in the time from a launch to its end. Measured that way on 2026-11-23, at "
    "3263594, 25 of 40 were within 10 %: all but one of the deep ones, and of the synchronous ones few.\n\n"
)


def length(usec):
    return f"{usec} us" if usec < 1000 else f"{usec / 1000:g} ms"


def kind(part):
    return f"{length(part['usec'])} {part['how']}"


def off(part):
    """Launches of one length take no less than their median, which one that was interrupted does not move, and no more
    than their mean, which it does."""
    low, high = sorted((part["mean"], part["median"]))
    return max(1 - part["seen"] / low, part["seen"] / high - 1, 0)


def cells(part, others):
    return [
        kind(part),
        " and ".join(map(kind, others)) or "alone",
        f"{part['median']:.1f}",
        f"{part['mean']:.1f}",
        f"{part['seen']:.1f}",
        f"{100 * off(part):.1f} %",
    ]


def render_mean(record, table):
    data = record["data"]
    parts = [(p, [other for j, other in enumerate(row) if j != i]) for row in data["rows"] for i, p in enumerate(row)]
    good = sum(off(p) <= WITHIN for p, _ in parts)
    text = (
        f"{data['device']}: the mean time of a launch that the service goes by (`MeanUSec`), beside "
        "the median and the mean "
        "of what the device's own time stamps say of the same launches, us; *off*: how far it is from "
        "between the two. "
        f"{good} of {len(parts)} are within {100 * WITHIN:.0f} %, the farthest is "
        f"{100 * max(off(p) for p, _ in parts):.0f} % "
        "off.\n\n"
    )
    if data["gpu"]:
        text += GPU_NOTE
    head = ["launches", "beside", "median", "mean", "MeanUSec", "off"]
    return text + table(head, [cells(p, others) for p, others in parts]) + "\n"
