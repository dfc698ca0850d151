# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jobs with real kernels: a job waits for one of higher priority, suspended jobs leave the GPU, and jobs end with the
same results without xschedd."""

import glob
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, "/mnt/source/tests/system")
import cluster  # noqa: E402  pylint: disable=wrong-import-position
import inside  # noqa: E402  pylint: disable=wrong-import-position
from cluster import ClusterCase  # noqa: E402  pylint: disable=wrong-import-position
from inside import CLIENT, run, show, until, write  # noqa: E402  pylint: disable=wrong-import-position

# Launches kernels all the time; in the end it checks their number, and prints it.
TENANT = "/mnt/build/tests/opencl/tenant"
# Lengths of the tenants' kernels. Unscheduled, the low tenant would run forty kernels during each of the high tenant's.
# Held, it may still run some in gaps between these, if the machine is slow to run programs: at most HELD for each.
LOW_USEC, HIGH_USEC = 500, 20000
HELD = 10
# Prints the results of real kernels.
COMPUTES = ["/mnt/build/tests/opencl/conformance", "in-order", "pipeline"]
ENOUGH = {LOW_USEC: 200, HIGH_USEC: 20}  # launches that show that a tenant is not held
CUDA, DRIVER = "/mnt/build/tests/cuda", "/run/pocl/driver"
LAYER = r"/usr/lib/[^:]*/xsched/libxsched-opencl\.so"


class RunningCase(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Tenants that wait long would get a turn, and launch.
        write("/etc/xsched/xsched.conf.d/50-test.conf", "[Scheduler]\nStarveAfter=1h\n")
        run("systemctl", "restart", "xsched")

    def tenant(self, usec, *options):
        """Starts a job that launches kernels until its standard input ends. Returns (its process, its client)."""
        known = {c[-1] for c in self.call("ListClients")[0]}
        command = ["timeout", "100", *cluster.AS_USER, "POCL_MAX_PTHREAD_COUNT=1", "srun", "-n1", *options]
        command += [TENANT, str(usec)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, process)
        new = cluster.wait_for(lambda: {c[-1] for c in self.call("ListClients")[0]} - known, "it to be a client")
        return process, new.pop()

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def launches(self, client):
        return self.get("Submitted", client, CLIENT)

    def goes_on(self, client, usec=LOW_USEC):
        """Waits until the client has launched enough. Returns the number of its launches meanwhile."""
        before = self.launches(client)
        until(lambda: self.launches(client) >= before + ENOUGH[usec], "it to go on")
        return self.launches(client) - before

    def check_blocked(self, low, high):
        """Checks that the high client works while the low one is held, except for launches that were in flight."""
        until(lambda: self.get("State", low, CLIENT) == "held", "the low one to be held")
        before = self.launches(low)
        done = self.goes_on(high, HIGH_USEC)
        self.assertLess(self.launches(low) - before, HELD * done)

    def end(self, *processes):
        """Ends tenants. Each prints the number of its kernels, and its status says that their results were right."""
        for p in processes:
            output, _ = p.communicate()
            self.assertEqual(p.returncode, 0)
            self.assertGreater(int(output), 0)


class Held(RunningCase):
    def setUp(self):
        super().setUp()
        self.low_job, self.low = self.tenant(LOW_USEC, "-p", "bulk")
        self.goes_on(self.low)
        self.high_job, self.high = self.tenant(HIGH_USEC, "-p", "online")

    def test_low_waits_for_high(self):
        self.check_blocked(self.low, self.high)
        self.end(self.high_job)
        self.goes_on(self.low)
        self.end(self.low_job)

    def test_restart_of_the_service(self):
        self.check_blocked(self.low, self.high)
        run("systemctl", "restart", "xsched")
        self.check_blocked(self.low, self.high)
        before = show("xsched", "MainPID")
        run("systemctl", "kill", "--signal=KILL", "xsched")
        until(lambda: show("xsched", "MainPID") not in ("0", before), "another service")
        until(lambda: show("xsched", "ActiveState") == "active", "it to be up")
        self.check_blocked(self.low, self.high)
        self.end(self.high_job, self.low_job)

    def test_suspend_and_resume(self):
        """A job that Slurm suspends is off the GPU, and the jobs that it held run."""
        job = self.get("SlurmJob", self.high, CLIENT).split(".")[0]
        self.check_blocked(self.low, self.high)
        run("scontrol", "suspend", job)
        until(lambda: self.get("Frozen", self.high, CLIENT), "the job to be frozen")
        before = self.launches(self.high)
        self.goes_on(self.low)
        self.assertEqual(self.launches(self.high), before)
        run("scontrol", "resume", job)
        until(lambda: not self.get("Frozen", self.high, CLIENT), "the job to be thawed")
        self.check_blocked(self.low, self.high)
        self.end(self.high_job, self.low_job)


class Alone(RunningCase):
    """Jobs run and end in the same way if parts of xsched are missing."""

    def outcome(self):
        """Returns what users see of a job that computes, one that fails, and one with several tasks."""
        fails, several = "echo said; echo warned >&2; exit 7", "echo $SLURM_PROCID"
        commands = (COMPUTES, ["sh", "-c", fails], ["-n2", "-N2", "sh", "-c", several])
        done = [cluster.as_user("srun", "-p", "bulk", *c) for c in commands]
        return [(d.returncode, sorted(d.stdout.split()), self.errors(d.stderr)) for d in done]

    @staticmethod
    def errors(text):
        """Returns the sorted lines of standard error, without numbers and without messages about waiting for a node."""
        return sorted(re.sub(r"\d", "", i) for i in text.splitlines() if not re.match(r"srun: job \d+ ", i))

    def test_without_the_service(self):
        expected = self.outcome()
        native = run(*COMPUTES, env={**os.environ, "POCL_CACHE_DIR": "/run"}).split()
        self.assertEqual(len(native), 4)
        self.assertEqual([i[:2] for i in expected], [(0, sorted(native)), (7, ["said"]), (0, ["0", "1"])])
        job, client = self.tenant(LOW_USEC, "-p", "bulk")
        self.goes_on(client)
        run("systemctl", "stop", "xsched")
        self.assertEqual(self.outcome(), expected)
        self.end(job)
        # A job that began before the service gets its class once the service is up, as when slurmd starts first.
        early = self.sbatch("-p", "bulk", script=["{client}"])
        until(lambda: self.cgroups(early), "it to begin")
        self.assertEqual(show("xsched", "ActiveState"), "inactive")
        run("systemctl", "start", "xsched")
        self.assertEqual(self.get("Priority", self.client_of_step(early, "batch"), CLIENT), -50)
        self.cancel(early)

    def test_without_the_helper_and_the_shim(self):
        """Jobs end in the same way without the helper and the layers. Without the plugin, too, if plugstack.conf still
        names it; then srun prints a message about it."""
        expected = self.outcome()
        for path in ["/usr/libexec/xsched-slurm", *glob.glob("/usr/lib/*/xsched/libxsched-*.so")]:
            self.put_away(path)
        self.assertEqual(self.outcome(), expected)
        self.put_away(*glob.glob("/usr/lib/*/xsched/slurm/spank-xsched.so"))
        without = self.outcome()
        self.assertEqual([i[:2] for i in without], [i[:2] for i in expected])
        for said, errors in zip((i[2] for i in expected), (i[2] for i in without)):
            self.assertEqual([e for e in errors if "spank" not in e], said)
            self.assertTrue([e for e in errors if "spank-xsched.so" in e], errors)

    def put_away(self, path):
        self.addCleanup(os.rename, path + ".away", path)
        os.rename(path, path + ".away")

    def test_nothing_is_left(self):
        job = self.sbatch("-p", "online", "--gpu-priority=3", script=["srun " + " ".join(COMPUTES)])
        until(self.is_empty, "it to end")
        self.assertIn("[pipeline]", self.output(job))
        self.gone(job)
        until(lambda: not [g for g in self.call("ListGroups")[0] if "/job_" in g[0]], "groups to go")
        self.assertEqual(run("pgrep", "-u", cluster.USER, status=1), "")


class Environment(RunningCase):
    def variable(self, name, *options, **environment):
        done = cluster.as_user("srun", "-p", "bulk", *options, "printenv", name, environment=environment)
        return done.stdout.strip()

    def test_what_is_there_stays(self):
        self.assertRegex(self.variable("OPENCL_LAYERS"), rf"^{LAYER}$")
        self.assertRegex(self.variable("OPENCL_LAYERS", OPENCL_LAYERS="/opt/mine.so"), rf"^{LAYER}:/opt/mine\.so$")
        self.assertEqual(self.variable("LD_PRELOAD"), "")
        # With an AMD GPU's driver.
        os.mknod("/dev/kfd")
        self.addCleanup(os.unlink, "/dev/kfd")
        theirs = self.variable("LD_PRELOAD", LD_PRELOAD=cluster.HIDE)
        self.assertRegex(theirs, rf"^/usr/lib/[^:]*/xsched/libxsched-kfd\.so:{cluster.HIDE}$")

    @unittest.skipUnless(os.path.exists(f"{CUDA}/cuda-app"), "built without CUDA")
    def test_cuda(self):
        """With an NVIDIA GPU, a CUDA program gets the layer. A library stands in for the driver's."""
        self.assertEqual(self.variable("LD_PRELOAD"), "")
        os.mknod("/dev/nvidiactl")
        self.addCleanup(os.unlink, "/dev/nvidiactl")
        self.assertRegex(self.variable("LD_PRELOAD"), r"^/usr/lib/[^:]*/xsched/libxsched-cuda\.so$")
        # In a folder of its own: beside the stand-in there is a layer that misbehaves on purpose.
        os.mkdir(DRIVER)
        os.symlink(f"{CUDA}/libcuda.so.1", f"{DRIVER}/libcuda.so.1")
        environment = {"LD_LIBRARY_PATH": DRIVER}
        native = run(f"{CUDA}/cuda-app", "proc", env={**os.environ, **environment})
        counters = "/run/pocl/counters"
        srun = ("srun", "-p", "bulk")
        done = cluster.as_user(
            *srun, f"{CUDA}/cuda-app", "proc", environment={**environment, "TEST_COUNTERS": counters}
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, native, ""))
        with open(counters, encoding="utf-8") as f:
            found = dict(line.split()[:2] for line in f)
        self.assertEqual(found["layer"], "1")
        self.assertGreater(int(found["counted"]), 100)
        # A program that runs for longer has its job's class.
        command = [
            "timeout",
            "100",
            *cluster.AS_USER,
            f"LD_LIBRARY_PATH={DRIVER}",
            *srun,
            f"{CUDA}/cuda-app",
            "time",
            "500",
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, process)
        (client,) = cluster.wait_for(lambda: [c[-1] for c in self.call("ListClients")[0]], "it to be a client")
        self.goes_on(client)
        self.assertEqual((self.get("Priority", client, CLIENT), self.get("Class", client, CLIENT)), (-50, "batch"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.end(process)

    def test_once(self):
        """A step inherits its batch script's environment, and the layer is not added again."""
        job = self.sbatch("-p", "bulk", script=["printenv OPENCL_LAYERS", "srun printenv OPENCL_LAYERS"])
        until(self.is_empty, "it to end")
        self.assertRegex(self.output(job), rf"^{LAYER}\n{LAYER}\n$")

    def test_without_the_shim(self):
        cluster.map_classes(cluster.MAPPING + " shim=no")
        self.addCleanup(cluster.map_classes)
        self.assertEqual(self.variable("OPENCL_LAYERS"), "")


if __name__ == "__main__":
    inside.main()
