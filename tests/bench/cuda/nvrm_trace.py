#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads what rm-trace.c and nvrm-foreign.py write down of calls of NVIDIA's kernel driver

nvrm_trace.py FILE [FOR-TESTS]

Prints a summary. FOR-TESTS is written: the calls of which tests/cuda/fake-rm.c has the answers, in the order of time,
with files and processes numbered.
"""

import collections
import json
import os
import struct
import sys

GROUP, DISABLE = 0xA06C, 0x2080110B
DISABLE_FORMAT, DISABLE_SIZE = "=B3xIBB6xQ64I64I", 536
KEPT_CLASSES = (0x0, 0x1, 0x41, 0x80, 0x2080, GROUP)


def say(name, *values):
    print(f"{name}:", *values, flush=True)


def quantiles(seconds):
    us = sorted(s * 1e6 for s in seconds)
    at = lambda q: round(us[min(len(us) - 1, int(q * len(us)))])
    return f"p50 {at(0.5)} p90 {at(0.9)} p99 {at(0.99)} max {at(1)} us ({len(us)})"


def is_channel(class_):
    return class_ & 0xFF == 0x6F and class_ > 0xFF


def read_trace(path):
    with open(path, encoding="utf-8") as f:
        return sorted((json.loads(line) for line in f), key=lambda c: c["at"])


def show_trace(path):
    if not os.path.exists(path):
        say("trace", "NO CALL SEEN: libcuda's ioctl() does not come by")
        return
    calls = read_trace(path)
    say("calls", dict(collections.Counter(c["call"] for c in calls)))
    made = [c for c in calls if c["call"] == "alloc"]
    for (class_, status), n in collections.Counter((hex(c["class"]), hex(c["status"])) for c in made).most_common():
        say("alloc", "class", class_, "status", status, "n", n)
    first = [c for c in made if c["class"] == GROUP or is_channel(c["class"])]
    for c in first[:4] + first[-2:]:
        say("group" if c["class"] == GROUP else "channel", c)
    kin = {c["made"]: c["class"] for c in made}
    controls = [(kin.get(c["object"], 0), hex(c["command"]), hex(c["status"])) for c in calls if c["call"] == "control"]
    for (class_, command, status), n in collections.Counter(controls).most_common():
        if class_ in (GROUP, 0x2080) or is_channel(class_):
            say("control", "of", hex(class_), "command", command, "status", status, "n", n)
    for c in calls:
        if c["call"] == "dup" and kin.get(c["from"], 0) in (GROUP, 0x2080, 0x80):
            say("copied", c)


def short_list(parameters):
    """Returns the parameters of a call that disables or enables channels, without the rest of its list."""
    on, n, only, rewind, event, *numbers = struct.unpack(DISABLE_FORMAT, parameters)
    assert only == rewind == 0
    return {"disable": on, "event": event, "list": [list(pair) for pair in zip(numbers[:n], numbers[64 : 64 + n])]}


def whole_list(call):
    """Returns the parameters of which short_list() was made."""
    clients, channels = ([pair[i] for pair in call["list"]] for i in (0, 1))
    rest = [0] * (64 - len(clients))
    return struct.pack(
        DISABLE_FORMAT, call["disable"], len(clients), 0, 0, call["event"], *clients, *rest, *channels, *rest
    )


def for_tests(calls):
    """Returns the calls that the stand-in answers: those about clients, devices, groups and channels."""
    files, processes, kept, out = {}, {}, set(), []
    for c in calls:
        if c["call"] == "alloc":
            if c["class"] not in KEPT_CLASSES and not is_channel(c["class"]):
                continue
            kept.add((c["client"] or c["made"], c["made"]))
        elif c["call"] == "free" and (c["client"], c["object"]) not in kept:
            continue
        elif c["call"] == "dup" and (c["from_client"], c["from"]) not in kept:
            continue
        elif c["call"] == "control" and "in" not in c:
            continue
        c = {k: v for k, v in c.items() if k not in ("at", "took")}
        if "file" in c:
            c["file"] = files.setdefault(c["file"], len(files) + 1)
        if "process" in c:
            c["process"] = processes.setdefault(c["process"], len(processes) + 1)
        if c.get("command") == DISABLE and len(c["in"]) == 2 * DISABLE_SIZE:
            c.update(short_list(bytes.fromhex(c.pop("in"))))
        out.append(c)
    return out


def main():
    show_trace(sys.argv[1])
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            for c in for_tests(read_trace(sys.argv[1])):
                f.write(json.dumps(c, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
