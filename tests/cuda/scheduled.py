# SPDX-License-Identifier: LGPL-2.1-or-later
"""CUDA programs under a real service, for test-cuda.py, which says what the environment has"""

import json
import os
import subprocess

from harness import *

APP, FAKES = os.environ["CUDA_APP"], os.environ["FAKE_CUDA_DIR"]
LAYER, LIBRARY = os.environ["XSCHED_LAYER"], os.path.dirname(os.environ["LIBXSCHED"])


def environment(*preload, libraries=(), **more):
    ours = ("LD_PRELOAD", "LD_LIBRARY_PATH")
    env = {k: v for k, v in os.environ.items() if not k.startswith("XSCHED_") and k not in ours}
    env["LD_LIBRARY_PATH"] = ":".join((*libraries, FAKES))
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    return {**env, **more}


class ScheduledCase(Case):
    """Programs under a real service."""

    def start(self, how, usec, *others, **more):
        env = environment(*others, LAYER, libraries=[LIBRARY], XSCHED_BUS_ADDRESS=self.bus.address, **more)
        p = subprocess.Popen([APP, how, str(usec)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.stop, p)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p

    def stop(self, p):
        if p.poll() is not None:
            return 0
        n = int(p.communicate(timeout=DEADLINE)[0])
        self.assertEqual(p.returncode, 0)
        return n

    def queue_of(self, p):
        found = []

        def look():
            state = json.loads(self.call("Describe"))
            clients = [c["id"] for c in state["clients"] if c["pid"] == p.pid]
            found[:] = [q for q in state["queues"] if q["client"] in clients]
            return bool(found)

        until(look, "its queue is registered")
        return found[0]

    def launches(self, queue):
        return self.get("Submitted", f"{PATH}/queue/{queue['id']}", QUEUE)
