# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jobs of Slurm on two nodes: the settings that they get by partition and QOS, and those that users may choose."""

import os
import re
import subprocess
import sys

sys.path.insert(0, "/mnt/source/tests/system")
import cluster  # noqa: E402  pylint: disable=wrong-import-position
import inside  # noqa: E402  pylint: disable=wrong-import-position
from cluster import ClusterCase  # noqa: E402  pylint: disable=wrong-import-position
from inside import CLIENT, GROUP, run, until  # noqa: E402  pylint: disable=wrong-import-position

# Priorities of the classes that are shipped.
INTERACTIVE, BATCH, IDLE = 50, -50, -200


class Mapping(ClusterCase):
    def test_batch_step_and_extern(self):
        """All processes of a job have its partition's class: those of its script, of its steps, and adopted ones."""
        job = self.sbatch("-p", "online", "-w", "n1", script=["{client} &", "srun {client} &", "wait"])
        batch, step = self.client_of_step(job, "batch"), self.client_of_step(job, "0")
        session, adopted = self.adopt(job)
        for client in (batch, step, adopted):
            until(lambda c=client: self.get("Priority", c, CLIENT) == INTERACTIVE, "its priority")
        name = cluster.name_of(job).removeprefix("job_")
        self.assertEqual(self.get("SlurmJob", adopted, CLIENT), f"{name}.extern")
        self.assertEqual(os.getxattr(f"/sys/fs/cgroup{self.cgroup(job)}", "user.xsched.class"), b"interactive")
        # Slurm ends the session with the job.
        self.cancel(job)
        self.assertNotEqual(session.end(), 0)

    def test_qos_overrides_the_partition(self):
        for qos in ("spare", "spare time"):
            with self.subTest(qos):
                job = self.sbatch("-p", "online", f"--qos={qos}", script=["{client}"])
                self.assertEqual(self.get("Priority", self.client_of_step(job, "batch"), CLIENT), IDLE)
                self.cancel(job)

    def test_asked_again(self):
        """If the controller cannot be asked, the default class= applies, until a step of the job can ask it."""
        helper, go = "/usr/libexec/xsched-slurm", "/run/pocl/go"
        cluster.map_classes(cluster.MAPPING + " class=idle")
        self.addCleanup(cluster.map_classes)
        os.mkfifo(go)
        os.rename(helper, helper + ".away")
        try:
            job = self.sbatch("-p", "bulk", script=["{client} &", f"read x <{go}", "srun {client} &", "wait"])
            batch = self.client_of_step(job, "batch")
            self.assertEqual(self.get("Priority", batch, CLIENT), IDLE)
        finally:
            os.rename(helper + ".away", helper)
        inside.write(go, "\n")
        step = self.client_of_step(job, "0")
        self.assertEqual([self.get("Priority", c, CLIENT) for c in (batch, step)], [BATCH, BATCH])
        self.cancel(job)

    def test_unmapped_partition(self):
        job = self.sbatch("-p", "other", script=["{client}"])
        self.assertEqual(self.get("Priority", self.client_of_step(job, "batch"), CLIENT), 0)
        self.assertRaises(OSError, os.getxattr, f"/sys/fs/cgroup{self.cgroup(job)}", "user.xsched.class")
        self.cancel(job)

    def test_unknown_class(self):
        """The job gets what it would get without the mapping; the node's log and the explanation say why."""
        cluster.map_classes("partition.other=intercative")
        self.addCleanup(cluster.map_classes)
        job = self.sbatch("-p", "other", script=["{client}"])
        client = self.client_of_step(job, "batch")
        self.assertEqual((self.get("Priority", client, CLIENT), self.get("Class", client, CLIENT)), (0, "default"))
        said = f'xsched: class intercative of job {job}, which "xschedctl list-classes" does not have here'
        self.assertIn(said, run("cat", "/var/log/slurm/n1.log", "/var/log/slurm/n2.log"))
        chain = [i["detail"] for i in self.explain(self.get("PID", client, CLIENT)) if i["detail"].startswith("Class:")]
        self.assertEqual(chain[0], f"Class: inherited from {self.cgroup(job)} (no such class)")
        self.cancel(job)

    def test_both_nodes(self):
        job = self.sbatch("-p", "bulk", "-N2", script=["srun {client}"])
        cluster.wait_for(lambda: len(self.clients_of(job)) == 2, "a client on each node")
        for client in self.clients_of(job):
            self.assertEqual(self.get("Priority", client, CLIENT), BATCH)
        groups = {self.get("Group", c, CLIENT).split("/")[2] for c in self.clients_of(job)}
        self.assertEqual(groups, {"n1_slurmstepd.scope", "n2_slurmstepd.scope"})
        self.cancel(job)


class Requests(ClusterCase):
    def priority(self, *options, **environment):
        job = self.sbatch("-p", "bulk", *options, script=["{client}"], environment=environment)
        priority = self.get("Priority", self.client_of_step(job, "batch"), CLIENT)
        self.cancel(job)
        return priority

    def test_users_only_lower(self):
        self.assertEqual(self.priority("--gpu-priority=99"), BATCH)
        self.assertEqual(self.priority("--gpu-priority=-77"), -77)
        self.assertEqual(self.priority(XSCHED_PRIORITY="99", XSCHED_CLASS="system"), BATCH)
        # Each of these variables would raise the priority if it counted.
        self.assertEqual(
            self.priority(SLURM_JOB_QOS="urgent", SLURM_JOB_PARTITION="online", SLURM_SPANK_class="system"), BATCH
        )
        # A user's own slurm.conf may name a controller that does not answer, or one that answers what the user wants.
        evil = f"ClusterName=evil\nSlurmctldHost=evil({cluster.ADDRESS})\nSlurmctldPort=9\n"
        inside.write("/run/pocl/evil.conf", evil)
        self.assertEqual(self.priority("--export=ALL,SLURM_CONF=/run/pocl/evil.conf,PATH=/run/pocl:/usr/bin"), BATCH)

    def test_of_the_job(self):
        job = self.sbatch("-p", "bulk", "--gpu-weight=40", "--gpu-max=30%", "--gpu-min=15", script=["{client}"])
        self.client_of_step(job, "batch")
        group = self.group_of(job)
        self.assertEqual([self.get(p, group, GROUP) for p in ("Weight", "Max", "Min", "Priority")], [40, 30, 15, BATCH])
        self.cancel(job)

    def test_of_a_step(self):
        job = self.sbatch("-p", "bulk", "--gpu-max=30", script=["srun --gpu-max=20 --gpu-priority=-60 {client}"])
        step = self.client_of_step(job, "0")
        self.assertEqual(self.get("Priority", step, CLIENT), -60)
        self.assertEqual([self.get("Max", self.group_of(job, s), GROUP) for s in ("", "/step_0")], [30, 20])
        self.cancel(job)

    def test_of_an_allocation(self):
        """The options of salloc apply to its steps, unless these have options of their own."""
        step = f"srun {{}} {cluster.ENDLESS} & read x; kill $!; wait"
        asked = ("--gpu-priority=-60", "--gpu-max=30", "--gpu-min=15", "--gpu-weight=40")
        command = ["timeout", "100", *cluster.AS_USER, "salloc", "-p", "bulk", *asked, "sh", "-c"]
        for own, expected in (("", [-60, 30, 40]), ("--gpu-priority=-70 --gpu-max=20", [-70, 20, 40])):
            with self.subTest(own):
                process = subprocess.Popen(
                    [*command, step.format(own)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                said = iter(process.stderr.readline, "")
                job = next(m[1] for m in map(re.compile(r"Granted job allocation (\d+)").search, said) if m)
                client, group = self.client_of_step(job, "0"), self.group_of(job, "/step_0")
                found = [self.get("Priority", client, CLIENT), *(self.get(p, group, GROUP) for p in ("Max", "Weight"))]
                self.assertEqual(found, expected)
                self.assertEqual(self.get("Min", self.group_of(job), GROUP), 15)
                process.communicate("\n")
                self.gone(job)

    def test_own_plugstack(self):
        """If a user's own plugstack.conf allows more, the administrator's ceiling still applies on the node."""
        with open("/etc/slurm/slurm.conf", encoding="utf-8") as f:
            inside.write("/run/pocl/mine.conf", f.read() + "PlugStackConfig=/run/pocl/plugstack.conf\n")
        with open(cluster.PLUGSTACK, encoding="utf-8") as f:
            inside.write("/run/pocl/plugstack.conf", f.read().replace("min=20%", "min=100% partition.bulk=system"))
        mine = {"SLURM_CONF": "/run/pocl/mine.conf"}
        job = self.sbatch("-p", "bulk", "--gpu-min=90%", script=["{client}"], environment=mine)
        self.client_of_step(job, "batch")
        group = self.group_of(job)
        self.assertEqual([self.get(p, group, GROUP) for p in ("Min", "Priority")], [20, BATCH])
        self.cancel(job)

    def test_wrong_argument(self):
        """srun reports the wrong argument; the other arguments apply."""
        cluster.map_classes("qos.spare time=idle " + cluster.MAPPING)
        self.addCleanup(cluster.map_classes)
        done = cluster.as_user("srun", "-p", "bulk", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("'qos.spare' in the plugin's line of plugstack.conf is not one of", done.stderr)
        self.assertEqual(self.priority(), BATCH)

    def test_refused(self):
        for option, range_ in (
            ("--gpu-priority=256", "-255..255"),
            ("--gpu-weight=0", "1..10000"),
            ("--gpu-max=x", "a percentage"),
            ("--gpu-min=21%", "at most 20%"),
        ):
            for command in (["srun", option, "true"], ["sbatch", option, "--wrap=true"], ["salloc", option, "true"]):
                done = cluster.as_user(*command)
                self.assertNotEqual(done.returncode, 0, command)
                self.assertIn(option, done.stderr)
                self.assertIn(range_, done.stderr)


if __name__ == "__main__":
    inside.main()
