#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""`xschedctl check` reports how the layer gets into AMD's runtime, and `run` sets variables for it. On a simulated
GPU."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

XSCHEDCTL, LAYER, HIP_LAYER, TOOL = (os.environ[name] for name in ("XSCHEDCTL", "LAYER", "HIP_LAYER", "TOOL"))
DEADLINE = 60


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if k not in ("HSA_TOOLS_LIB", "DEBUG_CLR_DIRECT_DOORBELL")}
    return {**env, **changes}


def check(*pid, **changes):
    p = subprocess.run(
        [XSCHEDCTL, "check", "--json=short", *pid],
        env=environment(**changes),
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    return {row["check"]: (row["state"], row["detail"]) for row in json.loads(p.stdout)}


class Check(unittest.TestCase):
    def test_tool(self):
        state, text = check()["amd tool"]
        self.assertEqual(state, "warning")
        self.assertIn("does not name libxsched-hsa.so", text)
        self.assertEqual(check(HSA_TOOLS_LIB=TOOL)["amd tool"], ("ok", f"HSA_TOOLS_LIB names {TOOL}"))

    def test_somebody_elses(self):
        for tools, words in (
            ("librocprofiler64.so", "it stays, and who calls past what is preloaded is not held"),
            (f"{TOOL} librocprofiler64.so", "what the others do with calls on their way cannot be seen"),
            (f"librocprofiler64.so {TOOL}", "what the others do with calls on their way cannot be seen"),
        ):
            state, text = check(HSA_TOOLS_LIB=tools)["amd tool"]
            self.assertEqual(state, "warning")
            self.assertIn(f"HSA_TOOLS_LIB is {tools}: {words}", text)
        state, text = check(HSA_TOOLS_LIB=TOOL, ROCP_TOOL_LIBRARIES="/x/librocprofv3.so")["amd tool"]
        self.assertEqual(state, "warning")
        self.assertIn("ROCP_TOOL_LIBRARIES is /x/librocprofv3.so", text)

    def test_doorbells(self):
        self.assertNotIn("amd doorbells", check())
        self.assertNotIn("amd doorbells", check(DEBUG_CLR_DIRECT_DOORBELL="0"))
        state, text = check(DEBUG_CLR_DIRECT_DOORBELL="1")["amd doorbells"]
        self.assertEqual(state, "warning")
        self.assertIn("rings past the gate", text)

    def test_hip_layer(self):
        """The layer for HIP's streams is named where somebody preloads it, here and in a process."""
        self.assertNotIn("hip layer", check())
        preload = os.environ["LD_PRELOAD"]
        self.assertEqual(check(LD_PRELOAD=f"{preload}:{HIP_LAYER}")["hip layer"], ("ok", f"{HIP_LAYER} can be loaded"))
        self.assertEqual(check(LD_PRELOAD=f"{preload}:/nonexistent/libxsched-hip.so")["hip layer"][0], "failed")
        for env in ({}, {"LD_PRELOAD": f"{preload}:{HIP_LAYER}"}):
            with subprocess.Popen(
                ["cat"], env=environment(**env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as p:
                p.stdin.write("begun\n")
                p.stdin.flush()
                self.assertEqual(p.stdout.readline(), "begun\n")
                rows = check(str(p.pid))
                p.communicate(timeout=DEADLINE)
            self.assertEqual(rows.get("hip layer"), ("ok", f"has loaded {HIP_LAYER}, and not HIP") if env else None)

    def wait_for(self, pid, check_name, words):
        """Returns the state of a check as soon as it says these words."""
        deadline = time.monotonic() + DEADLINE
        state, text = None, None
        while text is None or words not in text:
            self.assertLess(time.monotonic(), deadline, f"{check_name}: {text}")
            state, text = check(str(pid)).get(check_name, (None, None))
        return state

    def test_without_libxsched(self):
        """Where the layer is there and libxsched is not, or is none, check says that."""
        cases = ((None, "No such file"), ("/dev/null", "libxsched.so.0: file too short"), (TOOL, "lacks functions"))
        for library, words in cases:
            with self.subTest(words), tempfile.TemporaryDirectory() as directory:
                shutil.copy(LAYER, directory)
                if library:
                    shutil.copy(library, f"{directory}/libxsched.so.0")
                preload = os.environ["LD_PRELOAD"].split()
                env = environment(LD_PRELOAD=" ".join(preload[:-1] + [f"{directory}/libxsched-kfd.so", preload[-1]]))
                env.pop("LD_LIBRARY_PATH", None)  # meson's, which leads to libxsched
                command = [os.environ["KFD_TENANT"], "--run-ms=60000"]
                with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as p:
                    state = self.wait_for(p.pid, "registered", "no, libxsched cannot be loaded: ")
                    rows = check(str(p.pid))
                    p.terminate()
                self.assertEqual(p.returncode, 0)
                self.assertEqual(state, "failed")
                self.assertIn(words, rows["registered"][1])
                if library != TOOL:
                    self.assertEqual(rows["process"][0], "warning")
                    self.assertIn("libxsched-kfd.so, and no queue of it is known", rows["process"][1])

    def test_user_queues(self):
        self.assertNotIn("amd user queues", check())
        directory = os.environ["KFDSIM_DIR"] + "/module/parameters"
        os.makedirs(directory, exist_ok=True)
        for value, expected in (("-1", False), ("0", False), ("1", True), ("2", True)):
            with open(f"{directory}/user_queue", "w", encoding="ascii") as f:
                f.write(value + "\n")
            rows = check()
            self.assertEqual("amd user queues" in rows, expected, value)
            if expected:
                self.assertIn(f"amdgpu.user_queue={value}: ", rows["amd user queues"][1])
        os.unlink(f"{directory}/user_queue")

    def test_runtime(self):
        """check reports whether the runtime of a process has really loaded the tool."""
        program = """if True:
            import ctypes, sys
            hsa = ctypes.CDLL("libhsa-runtime64.so.1")
            for step in (lambda: 0, hsa.hsa_init, hsa.hsa_shut_down):
                print(step(), flush=True)
                sys.stdin.readline()
        """
        command = [sys.executable, "-c", program]
        with subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as p:  # and is no worse for a process without the variable
            self.assertEqual(p.stdout.readline(), "0\n")
            rows = check(str(p.pid))
            self.assertEqual((rows["hsa"][0], rows["amd tool"][0]), ("failed", "warning"))
            self.assertNotIn("amd runtime", rows)
            p.communicate("\n\n\n", timeout=DEADLINE)
        for tools in (TOOL, f"{TOOL} {TOOL}"):
            self.runtime_takes(command, tools)

    def runtime_takes(self, command, tools):
        with subprocess.Popen(
            command, env=environment(HSA_TOOLS_LIB=tools), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as p:
            self.assertEqual(p.stdout.readline(), "0\n")
            state, text = check(str(p.pid))["amd runtime"]
            self.assertEqual(state, "warning")
            self.assertIn("has not loaded libxsched-hsa.so", text)
            p.stdin.write("\n")
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), "0\n")
            state, text = check(str(p.pid))["amd runtime"]
            self.assertEqual(state, "ok")
            self.assertRegex(text, r"libhsa-runtime64\S+ has loaded libxsched-hsa.so")
            p.communicate("\n\n", timeout=DEADLINE)
            self.assertEqual(p.returncode, 0)

    def run_sets(self, **changes):
        show = 'printf "%s\\n" "$LD_PRELOAD" "$HSA_TOOLS_LIB"'
        if os.environ.get("SANITIZER"):
            # In the shell, the layer is loaded before the sanitizer's runtime.
            changes["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        p = subprocess.run(
            [XSCHEDCTL, "run", "--name=x", "--", "sh", "-c", show],
            env=environment(**changes),
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE,
            check=True,
        )
        return p.stdout.splitlines()

    def test_run(self):
        preload, tools = self.run_sets()
        self.assertIn(LAYER, preload)
        self.assertEqual(tools, TOOL)
        preload, tools = self.run_sets(HSA_TOOLS_LIB="librocprofiler64.so")
        self.assertIn(LAYER, preload)
        self.assertEqual(tools, "librocprofiler64.so")


if __name__ == "__main__":
    unittest.main(verbosity=2)
