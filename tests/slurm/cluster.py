# SPDX-License-Identifier: LGPL-2.1-or-later
"""A cluster in the booted system: a controller, its accounts in a database, and two nodes, which both are this machine.

It differs from a real site in two ways. The nodes' network is a pair of virtual interfaces, since slurmd does not start
with a loopback interface alone. And a hybrid host's version 1 controllers are hidden from slurmd (hide-v1.c)."""

import functools
import os
import re
import socket
import subprocess

import inside
from inside import CLIENT, Case, journal, run, until, write

ADDRESS = "10.11.12.13"
NODES = {"n1": 17001, "n2": 17002}
NODE = "CPUs=8 RealMemory=500"
PARTITIONS = ("online", "bulk", "other Default=YES")
PARTITION = "Nodes=n1,n2 State=UP OverSubscribe=FORCE:4"
QOS = ("normal", "urgent", "spare", "spare time")
USER = "alice"
HIDE = "/mnt/build/tests/slurm/libhide-v1.so"
NODE_OPTIONS = ("-p", "Delegate=yes", "-p", "KillMode=process", "-p", f"Environment=LD_PRELOAD={HIDE}")

OWNED = (
    "/etc/munge",
    "/var/lib/munge",
    "/var/log/munge",
    "/run/munge",
    "/var/lib/slurm/state",
    "/var/log/slurm",
    "/run/slurmctld",
    "/run/slurmdbd",
    "/run/mysqld",
)

CONFIG = """\
ClusterName=test
SlurmctldHost={host}({address})
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdLogFile=/var/log/slurm/%n.log
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdDebug=verbose
SlurmctldTimeout=10
MessageTimeout=5
ReturnToService=2
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PrologFlags=Contain
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStorageEnforce=qos
AccountingStoreFlags=job_comment
{more}
{nodes}
{partitions}
"""

# We create the database: if slurmdbd does, its next query fails with Debian 13's libmariadb (error 5027).
SQL = """
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""

DATABASE = """\
AuthType=auth/munge
DbdHost={host}
DbdAddr={address}
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
PidFile=/run/slurmdbd/slurmdbd.pid
LogFile=/var/log/slurm/slurmdbd.log
"""


def logs():
    files = sorted(os.listdir("/var/log/slurm"))
    return "".join(run("tail", "-n", "40", f"/var/log/slurm/{i}", status=None) for i in files)


def inhabitants(cgroup):
    """Returns what is known of the processes in a cgroup and below it, as text."""
    found = ""
    for folder, _, _ in os.walk("/sys/fs/cgroup" + cgroup):
        found += f"{folder}, frozen: {run('cat', f'{folder}/cgroup.freeze', status=None)}"
        for pid in run("cat", f"{folder}/cgroup.procs", status=None).split():
            found += f"{pid}: " + run("cat", f"/proc/{pid}/cmdline", status=None).replace("\0", " ") + "\n"
            found += run("head", "-n", "60", *(f"/proc/{pid}/{i}" for i in ("status", "wchan", "stack")), status=None)
    return found


def configure(more, node):
    host = socket.gethostname()
    write("/etc/hosts", f"127.0.0.1 localhost\n{ADDRESS} {host} n1 n2\n")
    where = f"NodeHostname={host} NodeAddr={ADDRESS}"
    nodes = "\n".join(f"NodeName={n} {where} Port={port} {NODE} {node}" for n, port in NODES.items())
    partitions = "\n".join(f"PartitionName={p} {PARTITION}" for p in PARTITIONS)
    write(
        "/etc/slurm/slurm.conf",
        CONFIG.format(host=host, address=ADDRESS, nodes=nodes, partitions=partitions, more=more),
    )
    write("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v2\n")
    write("/etc/slurm/slurmdbd.conf", DATABASE.format(host=host, address=ADDRESS))
    run("chmod", "600", "/etc/slurm/slurmdbd.conf")
    run("chown", "slurm", "/etc/slurm/slurmdbd.conf")


def start_unit(name, *command, options=()):
    run("systemd-run", "--quiet", "--collect", f"--unit={name}", *options, "--", *command)


def prepare():
    """Makes what a cluster needs: an address, a key, directories, a user."""
    run("ip", "link", "add", "veth-a", "type", "veth", "peer", "name", "veth-b")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", "veth-a")
    run("ip", "link", "set", "veth-a", "up")
    run("ip", "link", "set", "veth-b", "up")
    write("/etc/munge/munge.key", "0123456789abcdef" * 64)
    for path in OWNED:
        owner = "mysql" if "mysql" in path else "munge" if "munge" in path else "slurm"
        os.makedirs(path, exist_ok=True)
        run("chown", "-R", owner, path)
    run("chmod", "400", "/etc/munge/munge.key")
    run("useradd", "--create-home", USER)


def succeeds(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def start(more="", node=""):
    prepare()
    configure(more, node)
    start_unit("test-munge", "/usr/sbin/munged", "--foreground", options=["--uid=munge", "--gid=munge"])
    start_unit("test-mysql", "/usr/sbin/mariadbd", "--user=mysql", "--skip-networking", "--innodb-log-file-size=4M")
    until(lambda: succeeds("mariadb", "-e", SQL), "the database")
    start_unit("test-slurmdbd", "/usr/sbin/slurmdbd", "-D", options=["--uid=slurm", "--gid=slurm"])
    until(lambda: succeeds("sacctmgr", "-n", "show", "qos"), "slurmdbd")
    run("sacctmgr", "-i", "add", "cluster", "test", status=None)
    for name in QOS[1:]:
        run("sacctmgr", "-i", "add", "qos", name)
    run("sacctmgr", "-i", "add", "account", "lab", f"qos={','.join(QOS)}", "defaultqos=normal")
    run("sacctmgr", "-i", "add", "user", USER, "account=lab")
    run("sacctmgr", "-i", "add", "user", "root", "account=lab", status=None)
    start_unit("test-slurmctld", "/usr/sbin/slurmctld", "-D", options=["--uid=slurm", "--gid=slurm"])
    for name in NODES:
        start_unit(f"test-{name}", "/usr/sbin/slurmd", "-D", "-N", name, options=NODE_OPTIONS)

    def up():
        return run("sinfo", "-h", "-N", "-p", "other", "-o", "%T", status=None).split() == ["idle"] * len(NODES)

    wait_for(up, "the nodes")


def wait_for(condition, what):
    """Waits for a condition. If it does not become true, the error includes Slurm's logs."""
    try:
        return until(condition, what)
    except AssertionError as e:
        raise AssertionError(f"{e}\n{logs()}") from e


# --- for the tests ---

# A login is adopted by the user's newest job on node n1.
PAM = """\
auth sufficient pam_rootok.so
account required pam_slurm_adopt.so service=* nodename=n1 action_unknown=newest
session required pam_permit.so
"""
GROUP_ENDED = "a92e9df7555545c6a63ea3c2b63219f5"
PLUGSTACK = "/etc/slurm/plugstack.conf.d/xsched.conf"
MAPPING = (
    "partition.online=interactive partition.bulk=batch qos.urgent=interactive qos.spare=idle qos.spare%20time=idle "
    "min=20%"
)
AS_USER = (
    "setpriv",
    f"--reuid={USER}",
    f"--regid={USER}",
    "--init-groups",
    "env",
    f"HOME=/home/{USER}",
    "POCL_CACHE_DIR=/run/pocl",
)
# A client that runs until it is killed, for scripts, whose standard input is empty.
ENDLESS = f"sh -c 'sleep infinity | {inside.TEST_CLIENT} {inside.DEVICE_ID} 1'"


def map_classes(arguments=MAPPING):
    """Replaces the arguments in the installed plugstack.conf's line."""
    with open(PLUGSTACK, encoding="utf-8") as f:
        line = [i for i in f.read().splitlines() if i and not i.startswith("#")][-1]
    write(PLUGSTACK, f"{' '.join(line.split()[:2])} {arguments}\n")


def as_user(*command, environment=(), **kwargs):
    """Runs a command as the user, for a minute at most: Slurm's commands wait long for a cluster that is not there."""
    variables = [f"{k}={v}" for k, v in dict(environment).items()]
    return subprocess.run(
        ["timeout", "60", *AS_USER, *variables, *command],
        cwd=f"/home/{USER}",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **kwargs,
    )


@functools.lru_cache
def name_of(job):
    """Returns the name of the job's cgroup: it has the job's number, or, since Slurm 26.05, its SLUID."""
    sluid = re.search(r"\bSLUID=(s\w{13})\b", run("scontrol", "-d", "show", "job", job))
    return sluid.group(1) if sluid else f"job_{job}"


class ClusterCase(Case):
    adopting = set()  # jobs that have had adopted sessions

    @classmethod
    def start(cls):
        start()

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(f"/home/{USER}"):
            cls.start()
            map_classes()
            os.makedirs("/run/pocl")
            run("chown", USER, "/run/pocl")

    def tearDown(self):
        run("scancel", "-u", USER)
        until(self.is_empty, "jobs to go")
        super().tearDown()

    @staticmethod
    def is_empty():
        states = run("squeue", "-h", "-t", "all", "-o", "%T").split()
        return not {"RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "CONFIGURING"} & set(states)

    def sbatch(self, *options, script, environment=()):
        text = "#!/bin/sh\n" + "\n".join(script).replace("{client}", ENDLESS) + "\n"
        write("/run/job.sh", text)
        where = ("-o", "/run/pocl/job-%j.out")
        done = as_user("sbatch", "--parsable", *where, *options, "/run/job.sh", environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def cancel(self, job):
        run("scancel", job)
        self.gone(job)

    def gone(self, job):
        """Waits until the job's cgroup and its clients are gone. The settings of the job were the cgroup's. After an
        adopted session, Slurm 24.11 sometimes leaves empty cgroups: the step that ends them has the user's rights for
        a moment ("Unable to move pid to system cgroup: Permission denied"). Other releases have to remove them."""
        try:
            until(lambda: not any(map(self.remains, self.cgroups(job))), f"the cgroup of job {job} to go")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{logs()}\n{''.join(map(inhabitants, self.cgroups(job)))}") from e
        until(lambda: not self.clients_of(job), "its clients to go")

    def remains(self, cgroup):
        adopting = os.path.basename(cgroup) in map(name_of, self.adopting)
        may_stay = adopting and run("srun", "--version").startswith("slurm-wlm 24.11.")
        return not may_stay or "populated 1" in run("cat", f"/sys/fs/cgroup{cgroup}/cgroup.events", status=None)

    @staticmethod
    def cgroups(job):
        found = (f"/system.slice/{n}_slurmstepd.scope/{name_of(job)}" for n in NODES)
        return [c for c in found if os.path.exists("/sys/fs/cgroup" + c)]

    def cgroup(self, job):
        return until(lambda: self.cgroups(job), "the job to be on a node")[0]

    def clients_of(self, job, step=None):
        """Returns the job's clients, by their cgroups: one call lists all of these."""
        pattern = rf"/{name_of(job)}/step_{step or '[^/]+'}/"
        return [c[-1] for c in self.call("ListClients")[0] if re.search(pattern, c[-2])]

    def client_of_step(self, job, step):
        def settled():
            found = self.clients_of(job, step)
            return found and self.get("NQueues", found[0], CLIENT) and found[0]

        return wait_for(settled, f"a client of step {job}.{step}")

    def adopt(self, job):
        """Opens a session of the user as sshd does; pam_slurm_adopt puts it into the job. Returns (it, its client)."""
        write("/etc/pam.d/su", PAM)
        shell = f"exec {inside.TEST_CLIENT} {inside.DEVICE_ID} 1"
        session = self.client(program=("su", "-s", "/bin/sh", "-c", shell, USER))
        self.adopting.add(job)
        return session, self.client_of_step(job, "extern")

    @staticmethod
    def output(job):
        return run("cat", f"/run/pocl/job-{job}.out", status=None)

    def group_of(self, job, below=""):
        name = self.cgroup(job) + below
        return until(lambda: [g[-1] for g in self.call("ListGroups")[0] if g[0] == name], f"group {name}")[0]

    # --- accounting ---

    @staticmethod
    def comment(job):
        return run("sacct", "-n", "-P", "-X", "-j", job, "-o", "AdminComment").strip()

    @staticmethod
    def logged(cgroup):
        """Returns the seconds of all groups in the cgroup, as the service logged them."""
        found = [m for m in journal(f"MESSAGE_ID={GROUP_ENDED}") if m["XSCHED_GROUP"].startswith(cgroup + "/")]
        return sum(int(m["XSCHED_RUN_USEC"]) for m in found) / 1e6
