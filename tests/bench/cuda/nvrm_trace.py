# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prints libcuda's calls of the kernel driver, from the trace that rm-trace.c writes."""

import collections
import os


def say(name, *values):
    print(f"{name}:", *values, flush=True)


def quantiles(seconds):
    us = sorted(s * 1e6 for s in seconds)
    at = lambda q: round(us[min(len(us) - 1, int(q * len(us)))])
    return f"p50 {at(0.5)} p90 {at(0.9)} p99 {at(0.99)} max {at(1)} us ({len(us)})"


def show_trace(path):
    if not os.path.exists(path):
        say("trace", "NO CALL SEEN: libcuda's ioctl() does not come by")
        return
    with open(path, encoding="utf-8") as f:
        lines = [line.split() for line in f]
    allocs = collections.Counter((w[1], w[5], w[7]) for w in lines if w[1].startswith("alloc"))
    say("calls", dict(collections.Counter(w[1] for w in lines)))
    for (how, class_, status), n in sorted(allocs.items(), key=lambda i: -i[1]):
        say("alloc", how, "class", class_, "status", status, "n", n)
    first = [i for i, w in enumerate(lines) if w[1].startswith("alloc") and (w[5] == "a06c" or w[5].endswith("6f"))]
    known = {"a06c": "group"}
    for i in first[:4] + first[-2:]:
        say("channel or group", known.get(lines[i][5], "channel"), *lines[i])
    kin = {w[4]: w[5] for w in lines if w[1].startswith("alloc")}
    controls = collections.Counter((kin.get(w[4], "?"), w[5], w[7]) for w in lines if w[1] == "control")
    for (class_, command, status), n in sorted(controls.items(), key=lambda i: -i[1]):
        if class_ in ("a06c", "2080") or class_.endswith("6f"):
            say("control", "of", class_, "command", command, "status", status, "n", n)
    for w in lines:
        if w[1] == "dup" and kin.get(w[5], "") in ("a06c", "2080", "80"):
            say("copied", kin[w[5]], *w)
