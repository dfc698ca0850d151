# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base of tests with pods: containerd's pods, in cgroups as kubelet makes them, and a node's classes."""

import os

import cri
import inside
from image import make_image
from inside import CLIENT, Case, run, until, write

IMAGE, USR = "/run/image", "/run/image-usr"
UID = "01234567-89ab-cdef-0123-456789abcdef"
FLAT = UID.replace("-", "_")
IDS = {"systemd": "a1" * 32, "cgroupfs": "b2" * 32}
# By cgroup driver: kubelet's name of a pod's cgroup, runc's options, and the container's name as containerd makes it.
TREES = {
    "systemd": (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice",
        ("--runc-systemd-cgroup", f"--cgroup=kubepods-burstable-pod{FLAT}.slice:cri-containerd:{IDS['systemd']}"),
        f"cri-containerd-{IDS['systemd']}.scope",
    ),
    "cgroupfs": (
        f"/kubepods/besteffort/pod{UID}",
        (f"--cgroup=/kubepods/besteffort/pod{UID}/{IDS['cgroupfs']}",),
        IDS["cgroupfs"],
    ),
}
QOS = {"systemd": "burstable", "cgroupfs": "besteffort"}
CLASS = """[Class]
Priority={priority}
[Match]
{match}
"""


class PodCase(Case):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(IMAGE):
            make_image(IMAGE, USR)
            cls.write_classes()

    @staticmethod
    def write_classes():
        # Classes match by priority class, by namespace, by QoS class, and by label.
        for name, priority, match in (
            ("10-online", 40, "PriorityClass=online"),
            ("20-research", 30, "Namespace=research-*"),
            ("30-besteffort", -30, "Pod=besteffort:*"),
            ("40-team", -40, "PodLabel=team=a*"),
        ):
            write(f"/etc/xsched/classes.d/{name}.class", CLASS.format(priority=priority, match=match))
        run("systemctl", "restart", "xsched")
        run("xschedctl", "cdi", "generate")

    def client_there_is(self):
        return until(lambda: [c[-1] for c in self.call("ListClients")[0]], "it to register")[0]

    def settle(self, client, expected):
        def got():
            return tuple(self.get(p, client, CLIENT) for p in ("Priority", "Class"))

        until(lambda: got() == expected, f"{expected}, not {got()}")

    def check_pod(self, driver, client, container):
        pod, _, name = TREES[driver]
        name = name.replace(IDS[driver], container)
        self.assertEqual(self.get("Group", client, CLIENT), f"{pod}/{name}")
        self.assertEqual(self.get("Pod", client, CLIENT), UID)
        self.assertEqual(self.get("PodQOS", client, CLIENT), QOS[driver])
        return f"/sys/fs/cgroup{pod}/{name}"

    @staticmethod
    def attributes(directory):
        names = [n for n in os.listxattr(directory) if n.startswith("user.xsched.")]
        return {n.removeprefix("user.xsched."): os.getxattr(directory, n).decode() for n in names}


class KubeletCase(PodCase):
    """Pods that are made over CRI, as kubelet does. Each test chooses the cgroup driver."""

    COMMAND = ("/bin/sh", "-c", f"sleep infinity | {inside.TEST_CLIENT} {inside.DEVICE_ID} 1")
    MOUNTS = ((f"{USR}/usr", "/usr"), ("/mnt/build", "/mnt/build"))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cri.configure("systemd")
        cri.import_images(IMAGE)

    def setUp(self):
        super().setUp()
        self.runtime = cri.Runtime()
        self.pods = []

    def tearDown(self):
        for pod in self.pods:
            self.runtime.remove_pod(pod)
        self.runtime.channel.close()
        super().tearDown()

    def make(self, driver, namespace, annotations=None, labels=None, devices=(), command=COMMAND):
        """Makes a pod with a container, which may have any names. Returns the container's id."""
        parent = os.path.basename(TREES[driver][0]) if driver == "systemd" else TREES[driver][0]
        config = self.runtime.sandbox("train", namespace, UID, parent, labels or {}, annotations or {})
        self.pods.append(self.runtime.run_pod(config))
        env = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/opt/xsched"}
        return self.runtime.run_container(self.pods[-1], config, "worker", command, self.MOUNTS, devices, env)
