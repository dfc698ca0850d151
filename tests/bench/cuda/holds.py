# SPDX-License-Identifier: LGPL-2.1-or-later
"""Holds processes at random moments, and has the environment of programs that run under holds."""

import os
import random
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
LAYER = os.path.join(HERE, "../../../build/shim/libxsched-cuda.so")
WAYS = {"native": {}, "gate": {"XSCHED_CUDA_STOP": "0"}, "stop": {"XSCHED_CUDA_STOP": "any"}}


def environment(name, layer, **more):
    """Returns the environment of a program that is run in this way."""
    env = {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, **WAYS[name], **more}
    if name != "native":
        words = [layer, *([os.environ["XSCHED_DEMO_PRELOAD"]] if "XSCHED_DEMO_PRELOAD" in os.environ else [])]
        env["LD_PRELOAD"] = ":".join(words)
    return env


def ask(*words):
    return subprocess.run(["xschedctl", *words], capture_output=True, text=True, check=False).stdout


class Holder:
    """Suspends and resumes the targets at random moments, until it is ended."""

    def __init__(self, *targets, longest=0.03):
        subprocess.run(["xschedctl", "dump"], stdout=subprocess.DEVNULL, check=True)  # fails where nothing can be held
        self.targets, self.longest, self.over, self.seen = targets, longest, threading.Event(), {}
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        rng = random.Random(1)
        while not self.over.is_set():
            for t in self.targets:
                ask("suspend", str(t))
            time.sleep(rng.random() * self.longest)
            for line in ask("dump").splitlines():
                for word in line.split():
                    if word.startswith("level="):
                        self.seen[word] = self.seen.get(word, 0) + 1
            for t in self.targets:
                ask("resume", str(t))
            time.sleep(rng.random() * 0.02)

    def end(self):
        """Ends it. Returns how often each level was seen."""
        self.over.set()
        self.thread.join()
        return self.seen
