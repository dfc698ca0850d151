#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Slurm's epilog counts the cgroups of a job and no others: test-epilog.py EPILOG

Calls the epilog's own functions, without Slurm.
"""

import json
import os
import subprocess
import sys
import unittest

with open(sys.argv.pop(1), encoding="utf-8") as epilog:
    FUNCTIONS = epilog.read().partition("\nBASE=")[0]
JOB, SLUID = 4711, "sD6SM85E6NGA00"
SCOPE = "/system.slice/slurmstepd.scope"
# Names that a user can give to cgroups below a delegated one.
FORGED = (
    f"/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_{JOB}/step_0",
    f"/user.slice/user-1000.slice/user@1000.service{SCOPE}/job_{JOB}/step_0",
    f"/user.slice/user-1000.slice/user@1000.service{SCOPE}/{SLUID}/step_0",
    f"/system.slice/his.service/n1_slurmstepd.scope/job_{JOB}/step_0",
    f"/machine.slice/libpod-1.scope{SCOPE}/job_{JOB}/step_0",
    f"/docker/1{SCOPE}/job_{JOB}/step_0",
    f'/system.slice/his.service/:"{SCOPE}/job_{JOB}/step_0',
    # Slurm's names within another user's job.
    f"{SCOPE}/job_1/step_0{SCOPE}/job_{JOB}/step_0",
    f"{SCOPE}/job_1/step_0/user/job_{JOB}/step_0",
)
OTHERS = (f"{SCOPE}/job_{JOB}1/step_0", f"{SCOPE}/job_1/step_0", f"/system.slice/his.slurmstepd.scope/job_{JOB}/step_0")


class Epilog(unittest.TestCase):
    base = "/init.scope"

    def call(self, function, text, sluid=SLUID):
        """Calls a function of the epilog. Returns (its exit status, its output)."""
        variables = {"SLURM_JOB_ID": str(JOB), "SLURMD_NODENAME": "n1", "SLURM_JOB_SLUID": sluid, "BASE": self.base}
        # The function prints $LISTED in place of xschedctl.
        done = subprocess.run(
            ["sh", "-c", f'{FUNCTIONS}\ntimeout() {{ printf "%s\\n" "$LISTED"; }}\n{function}'],
            input=text,
            env={**variables, "LISTED": text},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip()

    def sum(self, *used, **kwargs):
        """Calls sum() with (cgroup, usec) pairs, as journalctl exports them."""
        entries = (f"__CURSOR=x\nXSCHED_GROUP={g}\nXSCHED_RUN_USEC={u}\n" for g, u in used)
        return self.call("sum", "\n".join(entries), **kwargs)[1]

    def known(self, *groups):
        listed = json.dumps([{"group": g, "parent": os.path.dirname(g)} for g in groups], separators=(",", ":"))
        return self.call("known", listed)[0] == 0

    def test_of_the_job(self):
        for scope in (SCOPE, "/system.slice/n1_slurmstepd.scope", "/hpc.slice/hpc-gpu.slice/slurmstepd.scope"):
            for name in (f"job_{JOB}", SLUID):
                with self.subTest(scope, name=name):
                    steps = [(f"{scope}/{name}/step_{s}", 1500000) for s in ("0/user/task_0", "batch", "0")]
                    self.assertEqual(self.sum(*steps), "4.500(0=3.000,batch=1.500)")
                    self.assertTrue(self.known(steps[0][0]))
                    self.assertTrue(self.known(f"{scope}/{name}"))

    def test_forged(self):
        """The GPU time of cgroups that a user has named like the job's is not counted."""
        step = f"{SCOPE}/job_{JOB}/step_0"
        for group in FORGED + OTHERS:
            with self.subTest(group):
                self.assertRegex(self.sum((group, 9000000)), "^(not counted: .*)?$")
                self.assertEqual(self.sum((group, 9000000), (step, 1000), (group, 9000000)), "0.001(0=0.001)")
                self.assertFalse(self.known(group))

    def test_without_sluid(self):
        self.assertEqual(self.sum((f"{SCOPE}/{SLUID}/step_0", 1000), (f"{SCOPE}//step_0", 1000), sluid=""), "")
        self.assertEqual(self.sum((f"{SCOPE}/job_{JOB}/step_0", 1000), sluid=""), "0.001(0=0.001)")

    def test_said(self):
        """If only cgroups that do not count have the job's name, one of them is named."""
        self.assertEqual(self.sum((FORGED[0], 1000), (OTHERS[0], 1000)), f"not counted: {FORGED[0]}")
        of_another_node = f"/system.slice/n2_slurmstepd.scope/job_{JOB}/step_0"
        self.assertEqual(self.sum(*((group, 1000) for group in (*OTHERS, of_another_node))), "")

    def test_base(self):
        """base() prints the cgroup of process 1, on a host and in containers."""
        for text, expected in (
            ("0::/init.scope\n", "/init.scope"),
            ("12:pids:/a\n1:name=systemd:/init.scope\n0::/init.scope\n", "/init.scope"),
            ("0::/\n", "/"),
            ("0::/docker/1f2e\n", "/docker/1f2e"),
            ("", ""),
        ):
            with self.subTest(text):
                self.assertEqual(self.call("base /dev/stdin /dev/null ''", text)[1], expected)

    def test_own_namespace(self):
        """In a cgroup namespace, base() prints the container's cgroup as the host's systemd knows it."""
        unit = "/machine.slice/box.scope"
        for own, expected in (
            ("/init", f"{unit}/container"),
            ("/", f"{unit}/container"),
            (f"{unit}2/init", f"{unit}/container"),
            (unit, ""),
            (f"{unit}/init", ""),
        ):
            with self.subTest(own):
                self.assertEqual(self.call(f"base /dev/null /dev/stdin {unit}", f"0::{own}\n")[1], expected)


class InAContainer(Epilog):
    """The same with slurmd in a container: cgroups that a user names outside, or in another container, do not count."""

    box = "/machine.slice/libpod-1f+e.scope"
    base = f"{box}/init/system"

    def forged(self):
        step = f"job_{JOB}/step_0"
        other = self.box.replace("+", "2")
        return (
            f"/docker/1{SCOPE}/{step}",
            f"/docker/1{self.box}{SCOPE}/{step}",
            f"{other}{SCOPE}/{step}",
            f"/x{self.box}{SCOPE}/{step}",
        )

    def sum(self, *used, **kwargs):
        return super().sum(*((self.inside(group), usec) for group, usec in used), **kwargs)

    def known(self, *groups):
        return super().known(*map(self.inside, groups))

    def inside(self, group):
        return self.box + group

    def test_said(self):
        """As above, with the host's paths."""
        self.assertEqual(self.sum((FORGED[0], 1000)), f"not counted: {self.box}{FORGED[0]}")

    def test_of_an_older_release(self):
        """An older slurmd in a container has its scope below the root."""
        step = f"{SCOPE}/job_{JOB}/step_0"
        self.assertEqual(super().sum((step, 1000)), "0.001(0=0.001)")
        self.assertTrue(super().known(step))

    def test_outside(self):
        for group in self.forged():
            with self.subTest(group):
                self.assertEqual(super().sum((group, 9000000)), f"not counted: {group}")
                self.assertFalse(super().known(group))


if __name__ == "__main__":
    unittest.main()
