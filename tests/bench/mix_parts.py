# SPDX-License-Identifier: LGPL-2.1-or-later
"""bench-mix.py on several GPUs at once, and what it measured on each as one; and which mixes to measure again"""

import json
import os
import subprocess
import tempfile

from mix_table import SUBSETS, WITHIN, accounted_off, name, off


def environment_of(part):
    """Each part has a GPU of its own, or a paced device of its own."""
    environment = {"CUDA_VISIBLE_DEVICES": str(part)}
    if "PACED_DEVICE" in os.environ:
        environment["PACED_DEVICE"] = f"{os.environ['PACED_DEVICE']}-{part}"
    return environment


def run(commands):
    """Runs the commands at once, one on each GPU. Returns what each of them printed; nothing of one that failed."""
    outputs = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in commands]
    running = [
        subprocess.Popen(command, stdout=output, env={**os.environ, **environment_of(i)})
        for i, (command, output) in enumerate(zip(commands, outputs))
    ]
    found = []
    for process, output in zip(running, outputs):
        if process.wait() == 0:
            output.seek(0)
            found.append(json.load(output))
        output.close()
    return found


def joined(parts, is_whole):
    """Returns the data of all parts as that of one run. `is_whole`: none of the parts is missing."""
    found = {}
    for subset in (s for data in parts for s in data["subsets"] if s["rows"]):
        one = found.setdefault(subset["subset"], {**subset, "rows": [], "alone": None, "part": not is_whole})
        one["rows"] += subset["rows"]
        one["part"] = one["part"] or subset["left_out"] > 0
        if subset["alone"]:
            one["alone"] = {**subset["alone"], **(one["alone"] or {})}
    return {**parts[0], "subsets": [found[s] for s in SUBSETS if s in found]}


def names_again(path, subsets):
    """Returns the names of those mixes of a result whose share of the work, or whose accounted time, is farther off
    than it should be."""
    with open(path, encoding="utf-8") as f:
        rows = [r for s in json.load(f)["data"]["subsets"] if s["subset"] in subsets for r in s["rows"]]
    return [name(r) for r in rows if off(r) > WITHIN or accounted_off(r) > WITHIN]
