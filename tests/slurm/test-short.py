# SPDX-License-Identifier: LGPL-2.1-or-later
"""A short test of each feature, for every release of Slurm: classes, users' options, suspension by hand and by
preemption, and accounting."""

import os
import re
import sys
import time

sys.path.insert(0, "/mnt/source/tests/system")
import cluster  # noqa: E402  pylint: disable=wrong-import-position
import inside  # noqa: E402  pylint: disable=wrong-import-position
from cluster import ClusterCase  # noqa: E402  pylint: disable=wrong-import-position
from inside import CLIENT, GROUP, run, until, write  # noqa: E402  pylint: disable=wrong-import-position

# Jobs of the partition online preempt those of bulk, which are suspended meanwhile.
MORE = """\
Epilog=/usr/share/xsched-slurm/epilog
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
"""
TIERS = ("online PriorityTier=2", "bulk PriorityTier=1", "other PriorityTier=1 Default=YES")
# Priorities of the classes that are shipped.
INTERACTIVE, BATCH = 50, -50
WHOLE = ("-n1", "--cpus-per-task=8")


class Short(ClusterCase):
    @classmethod
    def start(cls):
        cluster.PARTITIONS = TIERS
        # A held job that waits long would get a turn.
        write("/etc/xsched/xsched.conf.d/50-test.conf", "[Scheduler]\nStarveAfter=1h\n")
        run("systemctl", "restart", "xsched")
        cluster.start(MORE)
        print(run("srun", "--version").strip(), file=sys.stderr)

    def task(self, *options):
        """Starts a job that follows the test's commands. Returns (it, its client)."""
        known = {c[-1] for c in self.call("ListClients")[0]}
        task = self.client(command=["timeout", "100", *cluster.AS_USER, "srun", *options], unit="a job")
        return task, ({c[-1] for c in self.call("ListClients")[0]} - known).pop()

    @staticmethod
    def number_of(name):
        return run("squeue", "-h", "-t", "all", "-n", name, "-o", "%A").strip()

    def test_classes_and_options(self):
        """The batch script, a step, and an adopted session have the class and the options of the job."""
        forged = {"SLURM_JOB_QOS": "urgent", "SLURM_JOB_PARTITION": "online", "XSCHED_PRIORITY": "99"}
        job = self.sbatch(
            *("-p", "bulk", "-w", "n1", "--gpu-priority=99", "--gpu-max=30", "--gpu-min=15"),
            script=["{client} &", "srun --gpu-priority=-60 --gpu-max=20 {client} &", "wait"],
            environment=forged,
        )
        batch, step = self.client_of_step(job, "batch"), self.client_of_step(job, "0")
        session, adopted = self.adopt(job)
        for client, priority in ((batch, BATCH), (step, -60), (adopted, BATCH)):
            until(lambda c=client, p=priority: self.get("Priority", c, CLIENT) == p, f"priority {priority}")
        limits = [[self.get(p, self.group_of(job, g), GROUP) for p in ("Max", "Min")] for g in ("", "/step_0")]
        self.assertEqual(limits, [[30, 15], [20, 0]])
        session.end()
        self.cancel(job)

    def test_suspended(self):
        """scontrol suspends a job; the one that waits for the GPU gets it, although the first has a launch on it."""
        high, at_high = self.task("-p", "online", "-w", "n1", "-J", "high")
        low, at_low = self.task("-p", "bulk", "-w", "n2")
        self.assertIn(high.ask("begin 0"), ("tracked", "untracked"))
        until(lambda: self.get("State", at_high, CLIENT) == "running", "it to run")
        low.tell("begin 0")
        until(lambda: self.get("State", at_low, CLIENT) == "held", "the low one to be held")
        run("scontrol", "suspend", self.number_of("high"))
        self.assertEqual(low.line(), "tracked")
        until(lambda: self.get("Frozen", at_high, CLIENT), "the job to be frozen")
        self.assertEqual(low.ask("complete 0"), "completed")
        run("scontrol", "resume", self.number_of("high"))
        self.assertEqual(high.ask("complete 0"), "completed")
        until(lambda: not self.get("Frozen", at_high, CLIENT), "the job to be thawed")

    def test_preempted(self):
        """A job of a higher tier preempts one, and gets the GPU at once, although the first has a launch on it."""
        low, at_low = self.task("-p", "bulk", "-w", "n1", *WHOLE)
        self.assertIn(low.ask("begin 0"), ("tracked", "untracked"))
        high, _ = self.task("-p", "online", "-w", "n1", *WHOLE)
        until(lambda: self.get("Frozen", at_low, CLIENT), "the low one to be suspended")
        self.assertIn(high.ask("begin 0"), ("tracked", "untracked"))
        self.assertEqual(high.ask("complete 0"), "completed")
        high.end()
        until(lambda: not self.get("Frozen", at_low, CLIENT), "the low one to be resumed")
        self.assertEqual(low.ask("complete 0"), "completed")

    def test_accounting(self):
        """The comment has the seconds that were logged, and these are the time that the job worked."""
        # With another client on the device each launch is counted.
        other, _ = self.task("-p", "other")
        task, client = self.task("-p", "other", "-J", "counted")
        job = self.number_of("counted")
        cgroup = self.get("Group", client, CLIENT).split("/step_")[0]
        began = time.monotonic()
        self.assertEqual(task.ask("work"), "working")
        until(lambda: int(task.ask("progress")) > 100, "it to have worked")
        task.ask("rest")
        until(lambda: self.get("State", client, CLIENT) == "idle", "the service to have heard of its end")
        took, worked = time.monotonic() - began, int(task.ask("worked")) / 1e6
        task.end()
        other.end()
        said = until(lambda: self.comment(job), "the job's comment", 60)
        total, step = (float(i) for i in re.fullmatch(r"gpu@\w+=([\d.]+)\(0=([\d.]+)\)", said).groups())
        self.assertEqual(total, step)
        self.assertAlmostEqual(total, self.logged(cgroup), delta=0.001)
        self.assertGreater(total, worked * 0.8)
        self.assertLessEqual(total, round(took, 3))  # as the comment is

    def test_node_in_a_container(self):
        """A slurmd in a PID namespace sees the host's cgroups, and has its scope below the container's cgroup. GPU time
        is counted as on a host."""
        box = "/machine.slice/box.scope"
        os.makedirs(f"/sys/fs/cgroup{box}/init")
        self.check_box(box, "", f"/sys/fs/cgroup{box}/init")

    def test_node_in_a_container_with_its_own_cgroups(self):
        """In a cgroup namespace slurmd sees nothing above its own cgroup; the host's systemd tells where that is."""
        cgroups = "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; mkdir /sys/fs/cgroup/init; "
        self.check_box("/machine.slice/own.service", cgroups, "/sys/fs/cgroup/init", "--cgroup")

    def check_box(self, box, prepare, init, *namespaces):
        write("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n")
        run("systemctl", "stop", "test-n1")
        # The newly mounted /proc would show the real host's boot ID, and not the one of this booted system.
        run("cp", "/proc/sys/kernel/random/boot_id", "/run/bootid")
        enter = f"{prepare}echo 0 >{init}/cgroup.procs"
        enter += "; mount --bind /run/bootid /proc/sys/kernel/random/boot_id"
        node = f"LD_PRELOAD={cluster.HIDE} slurmd -D -N n1 & wait"
        unshare = " ".join(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *namespaces])
        command = f"exec {unshare} sh -c '{enter}; {node}'"
        options = ["-p", "KillMode=process", "-p", "Delegate=yes", "--slice=machine.slice"]
        cluster.start_unit(os.path.basename(box).split(".")[0], "sh", "-c", command, options=options)
        scope = f"{box}/system.slice/n1_slurmstepd.scope"
        until(lambda: os.path.exists(f"/sys/fs/cgroup{scope}"), "the node in the container")
        self.addCleanup(self.start_node_again, box)
        other, _ = self.task("-p", "other", "-w", "n2")
        name = os.path.basename(box)
        task, client = self.task("-p", "other", "-w", "n1", "-J", name)
        job = self.number_of(name)
        self.assertTrue(self.get("Group", client, CLIENT).startswith(f"{scope}/"), self.get("Group", client, CLIENT))
        task.ask("work")
        until(lambda: int(task.ask("progress")) > 100, "it to have worked")
        task.ask("rest")
        worked = int(task.ask("worked")) / 1e6
        task.end()
        other.end()
        said = until(lambda: self.comment(job), "the job's comment", 60)
        counted = float(re.fullmatch(r"gpu@n1=([\d.]+)\(0=[\d.]+\)", said).group(1))
        self.assertGreater(counted, worked * 0.8)

    def start_node_again(self, box):
        run("scancel", "-u", cluster.USER)
        until(self.is_empty, "jobs to go")
        run("sh", "-c", f"echo 1 >/sys/fs/cgroup{box}/cgroup.kill")
        until(lambda: "populated 1" not in run("cat", f"/sys/fs/cgroup{box}/cgroup.events", status=None), "its end")
        write("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v2\n")
        cluster.start_unit("test-n1", "/usr/sbin/slurmd", "-D", "-N", "n1", options=cluster.NODE_OPTIONS)


if __name__ == "__main__":
    inside.main()
