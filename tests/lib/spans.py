# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whose turn it was on the device, and for how long, by the device's own stamps

A tenant (mix-tenant) stamps each launch as it begins and ends on the device, and keeps the spans of launches that
follow each other at once. From the spans of all tenants, each moment of a window is somebody's: a tenant's launches
run, or the device is idle between two launches of one tenant, which is a gap in its turn, or it is idle from the last
launch of one tenant to the first of another, which is a hand-over. A hand-over has the time in which the service
notices the end, opens the gate, the program launches, and the device changes to its context. From the launch on the
device has work of the one who comes, and before nobody's: so a tenant's real time is that of its turns at least, and
at most that with the hand-overs to it."""

import array
import collections
import os

Turns = collections.namedtuple("Turns", "ran gaps handovers turns longest")  # in parts of the window; numbers of turns


def read(path):
    """Returns ((begin, end) of the window, [(begin, end)]) in the device's time; None without a file."""
    if not os.path.exists(path):
        return None
    values = array.array("Q")
    with open(path, "rb") as f:
        values.frombytes(f.read())
    os.unlink(path)
    pairs = list(zip(values[::2], values[1::2]))
    return pairs[0], pairs[1:]


def edges(spans, window):
    """Returns (when, which, +1 or -1) for all spans, in their order; an end comes before a begin at the same time."""
    begin, end = window
    found = []
    for i, of_one in enumerate(spans):
        for a, b in of_one:
            a, b = max(a, begin), min(b, end)
            if a < b:
                found += [(a, 1, i), (b, -1, i)]
    return sorted(found)


def turns(spans, window):
    """Returns the Turns of each tenant. `spans` has a list of (begin, end) for each. Where launches of several ran at
    once, each has an equal part of that time."""
    n, last, at = len(spans), None, window[0]
    ran, gaps, handovers, numbers = [0] * n, [0] * n, [0] * n, [0] * n
    running, idle, longest = [0] * n, 0, [0] * n
    began = window[0]
    for when, change, i in edges(spans, window):
        who = [j for j in range(n) if running[j]]
        for j in who:
            ran[j] += (when - at) / len(who)
        if not who:
            idle += when - at
        if change > 0 and not who:
            (gaps if last == i else handovers)[i] += idle
            idle = 0
        if change > 0 and last != i:
            numbers[i] += 1
            if last is not None:
                longest[last] = max(longest[last], at - began)
            last, began = i, when
        running[i] += change
        at = when
    whole = window[1] - window[0]
    values = zip(ran, gaps, handovers, numbers, longest)
    return [Turns(r / whole, g / whole, h / whole, k, m / whole) for r, g, h, k, m in values]
