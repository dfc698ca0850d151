# SPDX-License-Identifier: LGPL-2.1-or-later
"""Slurm's accounting gets the GPU time of jobs. The nodes are those of the examples: jobs share GPUs by shards."""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, "/mnt/source/tests/system")
import cluster  # noqa: E402  pylint: disable=wrong-import-position
import inside  # noqa: E402  pylint: disable=wrong-import-position
from cluster import ClusterCase  # noqa: E402  pylint: disable=wrong-import-position
from inside import CLIENT, run, until, write  # noqa: E402  pylint: disable=wrong-import-position

EXAMPLES = "/usr/share/doc/xsched-slurm/examples"
TENANT, USEC = "/mnt/build/tests/opencl/tenant", 5000


def read(name):
    """Returns the lines of an example, without comments and empty lines."""
    with open(f"{EXAMPLES}/{name}", encoding="utf-8") as f:
        return [i for i in f.read().splitlines() if i and not i.startswith("#")]


class Accounting(ClusterCase):
    @classmethod
    def start(cls):
        """Configures the cluster by the examples, with its own nodes, partitions and devices."""
        lines = read("slurm.conf")
        node = re.search(r"Gres=\S+", next(i for i in lines if i.startswith("NodeName="))).group()
        known = [i.split("=")[0] for i in cluster.CONFIG.splitlines()] + ["NodeName", "PartitionName"]
        more = "\n".join(i for i in lines if i.split("=")[0] not in known)
        for i in range(2):
            os.mknod(f"/dev/gpu{i}", 0o020666, os.makedev(1, 3))
        write("/etc/slurm/gres.conf", "\n".join(read("gres.conf")).replace("/dev/nvidia", "/dev/gpu") + "\n")
        cluster.start(more, node)

    def step(self, *options):
        """Starts a step that computes until its standard input ends. Returns (its process, its client)."""
        known = {c[-1] for c in self.call("ListClients")[0]}
        command = ["timeout", "100", *cluster.AS_USER, "srun", *options, TENANT, str(USEC)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        new = cluster.wait_for(lambda: {c[-1] for c in self.call("ListClients")[0]} - known, "it to be a client")
        return process, new.pop()

    def compute(self, *options):
        """Runs a step. Returns how long its kernels took that were tracked, by their number, and how long the whole
        step took. What it launches before the service has answered its registration is not tracked, and not counted:
        polkit, which is asked, may take longer than all kernels. Submitted includes these launches, Completed does
        not."""
        began = time.monotonic()
        process, client = self.step(*options)

        def enough():
            n_tracked = self.get("Completed", client, CLIENT)
            return n_tracked if n_tracked > 100 else None

        n_tracked = until(enough, "it to have computed something")
        output, _ = process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assertGreaterEqual(int(output), n_tracked)
        return n_tracked * USEC / 1e6, time.monotonic() - began

    def test_of_job_and_steps(self):
        """The comment has the seconds that were logged, and these are the time of the tracked kernels."""
        allocation = cluster.as_user("salloc", "-p", "bulk", "--no-shell")
        job = re.search(r"job allocation (\d+)", allocation.stderr).group(1)
        cgroup = self.cgroup(job)
        took = [self.compute(f"--jobid={job}") for _ in range(2)]
        run("scancel", job)
        said = until(lambda: self.comment(job), "the job's comment")
        total, *steps = (float(i) for i in re.fullmatch(r"gpu@n1=([\d.]+)\(0=([\d.]+),1=([\d.]+)\)", said).groups())
        for i, step in enumerate(steps):
            self.assertAlmostEqual(step, self.logged(f"{cgroup}/step_{i}"), delta=0.001)
            self.assertGreater(step, took[i][0] * 0.8)
            self.assertLess(step, took[i][1])
        self.assertAlmostEqual(total, sum(steps), delta=0.002)

    def test_on_two_nodes(self):
        """Both nodes add to the comment, and keep what was in it before."""
        os.mkfifo("/run/pocl/end")
        task = f"read x < /run/pocl/end | {TENANT} {USEC}"
        job = self.sbatch("-p", "bulk", "-N2", "-n2", script=[f"srun sh -c '{task}'"])
        until(lambda: len(self.clients_of(job)) == 2, "both tasks")
        for client in self.clients_of(job):
            until(lambda c=client: self.get("Completed", c, CLIENT) > 20, "it to have computed something")
        run("scontrol", "update", f"jobid={job}", "admincomment=watched, by us")
        with open("/run/pocl/end", "w", encoding="ascii") as f:
            f.write("\n\n")
            f.flush()
            until(lambda: not self.clients_of(job), "both to end")
        pattern = r" gpu@(\w+)=\d+\.\d{3}\(0=\d+\.\d{3}\)"
        until(lambda: {"n1", "n2"} == set(re.findall(pattern, self.comment(job))), "both nodes' comments", 90)
        self.assertTrue(self.comment(job).startswith("watched, by us gpu@"), self.comment(job))

    def test_without_gpu_work(self):
        done = cluster.as_user("srun", "-p", "bulk", "sh", "-c", "echo $SLURM_JOB_ID")
        until(self.is_empty, "it to end")
        self.assertEqual(self.comment(done.stdout.strip()), "")

    def test_shards(self):
        """Jobs of both partitions share one GPU, with the priorities of their classes."""
        command = ("sh", "-c", f"echo $CUDA_VISIBLE_DEVICES >/run/pocl/$SLURM_JOB_PARTITION; exec {cluster.ENDLESS}")
        for partition in ("online", "bulk"):
            options = ("-w", "n1", "--gres=shard:3", "-p", partition)
            command_line = [*cluster.AS_USER, "srun", *options, *command]
            process = subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
        until(lambda: self.get("NQueues") == 2, "both jobs")
        clients = [c[-1] for c in self.call("ListClients")[0]]
        found = {self.get("Class", c, CLIENT): self.get("Priority", c, CLIENT) for c in clients}
        self.assertEqual(found, {"interactive": 50, "batch": -50})
        self.assertEqual(run("cat", "/run/pocl/online", "/run/pocl/bulk").split(), ["0", "0"])


if __name__ == "__main__":
    inside.main()
