# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl plot, the picture of the last minutes, in a booted system: with real kernels, as an ordinary user, and with
hostile names of groups."""

import glob
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import inside
from inside import GROUP, Case, run, show, until

TENANT = "/mnt/build/tests/opencl/tenant"
LAYER = glob.glob("/usr/lib/*/xsched/libxsched-opencl.so")[0]
SVG = "{http://www.w3.org/2000/svg}"
TIMES = {
    "run_usec": "RunUSec",
    "kept_usec": "KeptUSec",
    "wait_usec": "WaitUSec",
    "drain_wait_usec": "DrainWaitUSec",
    "service_wait_usec": "ServiceWaitUSec",
}

# In a delegated cgroup, this makes a group with a given name, and more groups than the picture lists, with long names.
# All have a client with work.
NAMES = r"""
import os, subprocess, sys
with open("/proc/self/cgroup") as f:
    place = "/sys/fs/cgroup" + next(l for l in f if l.startswith("0::"))[3:].strip()
def start(name):
    os.makedirs(f"{place}/{name}", exist_ok=True)
    def join():
        with open(f"{place}/{name}/cgroup.procs", "w") as f:
            f.write("0")
    p = subprocess.Popen(
        [sys.argv[1], sys.argv[2], "1"],
        preexec_fn=join,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert p.stdout.readline() == "ready\n"
    p.stdin.write("stream\n")
    assert p.stdout.readline() == "streaming\n"
    return p
many = [start(name) for name in [sys.argv[3]] + [f"{i}".rjust(200, "x") for i in range(20)]]
print("started", flush=True)
sys.stdin.read()
for p in many:
    p.stdin.write("rest\n")
    p.stdout.readline()
    p.stdin.close()
    p.wait()
"""

HOSTILE = "<script>&\"'--> ]]>\x1b[31m \u202e\U0001f600"


def user(name):
    if subprocess.run(["id", name], capture_output=True, check=False).returncode != 0:
        run("useradd", "--create-home", name)


class Plot(Case):
    def as_user(self, name, *argv, **kwargs):
        user(name)
        return run("setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", "--", *argv, **kwargs)

    def samples(self, *args):
        return json.loads(self.as_user("carol", "xschedctl", "--json=short", "plot", *args))["samples"]

    def sums(self):
        sums = {}
        for s in self.samples():
            if s["group"] is not None:
                mine = sums.setdefault(s["group"], dict.fromkeys(TIMES, 0))
                for key in TIMES:
                    mine[key] += s[key]
        return sums

    def picture(self, *args):
        return ElementTree.fromstring(self.as_user("carol", "xschedctl", "plot", *args))

    def test_real_kernels(self):
        """With two tenants with kernels on a CPU, the record and the picture have the times that were counted for
        them."""
        tenants = [
            subprocess.Popen(
                [
                    "systemd-run",
                    "--quiet",
                    "--pipe",
                    "--wait",
                    "--collect",
                    f"--unit={unit}",
                    "-p",
                    "User=carol",
                    f"--setenv=OPENCL_LAYERS={LAYER}",
                    "--setenv=POCL_MAX_PTHREAD_COUNT=1",
                    TENANT,
                    "1000",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for unit in ("one.service", "two.service")
        ]
        self.addCleanup(lambda: [t.kill() for t in tenants])
        groups = ["/system.slice/one.service", "/system.slice/two.service"]
        until(lambda: {g[0] for g in self.call("ListGroups")[0]} >= set(groups), "the tenants to be clients")
        for group, weight in zip(groups, (300, 100)):
            self.call("SetGroup", "sta{sv}", group, 0, {"Weight": ("u", weight)})
            self.addCleanup(self.call, "ResetGroup", "st", group, 0)
        both = lambda samples: [
            b
            for b in {s["begin_usec"] for s in samples}
            if {s["group"] for s in samples if s["begin_usec"] == b and s.get("run_usec", 0) > 0} >= set(groups)
        ]
        until(lambda: len(both(self.samples())) > 3, "several seconds of both in the record", 60)
        before = self.counters(groups)
        have = self.sums()
        after = self.counters(groups)
        for group in groups:
            for key in TIMES:
                # The record lacks the time since its last reading: a second, and the time of the call.
                self.assertLessEqual(have[group][key], after[group][key] + 2, key)
                self.assertGreaterEqual(have[group][key], before[group][key] - 3_000_000, key)
        # The tenants end with an error if any result is wrong.
        for t in tenants:
            out, _ = t.communicate(timeout=120)
            self.assertEqual(t.returncode, 0, inside.log_tail())
            self.assertGreater(int(out), 0)
        until(lambda: self.get("NClients") == 0, "the clients to go")

        # The record still has all of their time, and so has the picture.
        until(lambda: all(self.sums()[g]["run_usec"] >= after[g]["run_usec"] for g in groups), "the rest of the time")
        said, samples = self.sums(), self.samples()
        self.assertGreater(said[groups[0]]["run_usec"], said[groups[1]]["run_usec"])
        self.assertGreater(said[groups[1]]["wait_usec"], 0)
        legend = self.legend(self.picture())
        for group in groups:
            self.assertAlmostEqual(legend[group], said[group]["run_usec"] / 9e6, delta=0.1)
        devices = {s["device"] for s in samples if s["group"] in groups}
        busy = sum(s["busy_usec"] for s in samples if s["device"] in devices and s["group"] is None)
        self.assertAlmostEqual(busy / sum(said[g]["run_usec"] for g in groups), 1, delta=0.05)

    def counters(self, groups):
        return {
            g: {key: self.get(name, self.call("GetGroup", "s", g)[0], GROUP) for key, name in TIMES.items()}
            for g in groups
        }

    def legend(self, picture):
        """Returns the legend of a picture: {name: percent}."""
        return {
            line.find(f"{SVG}title").text: float(line.text.split("%")[0])
            for line in picture.iter(f"{SVG}text")
            if line.find(f"{SVG}title") is not None
        }

    def test_names_that_users_give(self):
        user("mallory")
        steady = self.client(unit="steady.service")
        self.assertEqual(steady.ask("stream"), "streaming")
        hostile = subprocess.Popen(
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=mallory.service",
                "-p",
                "User=mallory",
                "-p",
                "Delegate=yes",
                "--",
                "/usr/bin/python3",
                "-c",
                NAMES,
                inside.TEST_CLIENT,
                inside.DEVICE_ID,
                HOSTILE,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(hostile.kill)
        self.assertEqual(hostile.stdout.readline(), "started\n")
        try:
            self.check_names()
        finally:
            hostile.stdin.close()
            hostile.wait(inside.DEADLINE)
        self.assertRegex(steady.ask("rest"), r"^\d+ \d+$")

    def check_names(self):
        named = lambda: {s["group"] for s in self.samples() if s["group"] and s["run_usec"] > 0}
        until(
            lambda: any("script" in n for n in named())
            and "/system.slice/steady.service" in named()
            and len(named()) > 12,
            "all in the record",
            60,
        )
        text = self.as_user("carol", "xschedctl", "plot", "--since=1min")
        picture = ElementTree.fromstring(text)
        self.assertEqual([e for e in picture.iter() if e.tag.endswith("script")], [])
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u202e", text)
        self.assertLess(len(text), 60000)
        self.assertIn("others", [t.text for t in picture.iter(f"{SVG}title")])
        self.assertGreater(sum(self.legend(picture).values()), 99)
        for verb in (
            ["plot", "-o", "-"],
            ["top", "-bn1", "-d100ms"],
            ["status"],
            ["status", f"device:{inside.DEVICE_ID}"],
        ):
            self.assertNotRegex(
                self.as_user("carol", "xschedctl", "--no-pager", *verb), "[\x00-\x08\x0b-\x1f\x7f]", verb
            )

    def test_a_file_of_ones_own(self):
        """xschedctl writes the file with the rights of its caller; the service writes none."""
        user("carol")
        self.as_user("carol", "xschedctl", "plot", "-o", "/home/carol/x.svg")
        ElementTree.parse("/home/carol/x.svg")
        self.assertEqual(os.stat("/home/carol/x.svg").st_uid, int(run("id", "-u", "carol")))
        self.as_user("carol", "xschedctl", "plot", "-o", "/etc/x.svg", status=1)
        self.assertFalse(os.path.exists("/etc/x.svg"))

    def test_a_restart_begins_anew(self):
        c = self.client()
        other = self.client()
        for each in (c, other):
            each.ask("stream")
        until(lambda: self.samples(), "something in the record")
        last = max(s["end_usec"] for s in self.samples())
        pid = show("xsched", "MainPID")
        run("systemctl", "restart", "xsched")
        self.assertNotEqual(show("xsched", "MainPID"), pid)
        self.assertTrue(all(s["begin_usec"] >= last - 1_000_000 for s in self.samples()))
        until(lambda: self.samples(), "the record to go on")
        for each in (c, other):
            self.assertRegex(each.ask("rest"), re.compile(r"^\d+ \d+$"))


if __name__ == "__main__":
    inside.main()
