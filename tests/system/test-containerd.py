# SPDX-License-Identifier: LGPL-2.1-or-later
"""Containers of containerd with one of our CDI devices, in the cgroups that kubelet makes for pods.

containerd applies CDI for kubelet (over CRI), but not for ctr. WithContainerd runs containers by ctr, and puts the
device's edits into their specifications itself. AsKubelet asks over CRI, and containerd applies the edits."""

import json
import os
import signal
import subprocess

import cri
import inside
from inside import run, until, write
from pods import IMAGE, IDS, TREES, USR, KubeletCase, PodCase


def edited(spec, device):
    """Applies the CDI edits of a device to a container's specification. Returns it, and how many devices matched."""
    with open("/etc/cdi/xsched.yaml", encoding="utf-8") as f:
        cdi = json.loads("".join(line for line in f if not line.startswith("#")))
    found = [d["containerEdits"] for d in cdi["devices"] if f'{cdi["kind"]}={d["name"]}' == device]
    for edits in [cdi.get("containerEdits", {}), *found]:
        for m in edits.get("mounts", []):
            mount = {"source": m["hostPath"], "destination": m["containerPath"], "options": m["options"]}
            spec["mounts"].append({**mount, "type": "bind"})
        for h in edits.get("hooks", []):
            hook = {k: v for k, v in h.items() if k != "hookName"}
            spec.setdefault("hooks", {}).setdefault(h["hookName"], []).append(hook)
    return spec, len(found)


class WithContainerd(PodCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("systemctl", "start", "containerd")

    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for name, p in self.processes:
            p.stdin.close()
            p.wait(inside.DEADLINE)
            p.stdout.close()
            p.stderr.close()
            run("ctr", "container", "delete", name, status=None)
        super().tearDown()

    def specification(self, driver, annotations, device):
        spec, found = edited(json.loads(run("ctr", "oci", "spec")), device)
        self.assertEqual(found, 1)
        spec["process"].update(
            args=["/mnt/build/tests/lib/test-client", inside.DEVICE_ID, "1"],
            env=["PATH=/usr/bin", "LD_LIBRARY_PATH=/opt/xsched"],
            terminal=False,
        )
        spec["root"] = {"path": IMAGE}
        spec["annotations"] = annotations
        spec["linux"]["cgroupsPath"] = TREES[driver][1][-1].removeprefix("--cgroup=")
        for source, destination in ((f"{USR}/usr", "/usr"), ("/mnt/build", "/mnt/build")):
            mount = {"type": "bind", "source": source, "destination": destination, "options": ["rbind", "ro"]}
            spec["mounts"].insert(0, mount)
        return spec

    def start(self, driver, annotations=None, device="xsched.org/class=default"):
        """Starts a container of a pod. Returns its client."""
        with open("/run/spec.json", "w", encoding="utf-8") as f:
            json.dump(self.specification(driver, annotations or {}, device), f)
        command = ["ctr", "run", "--rm", "--config=/run/spec.json", *TREES[driver][1], IDS[driver]]
        p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append((IDS[driver], p))
        line = p.stdout.readline().strip()
        if line != "ready":
            p.send_signal(signal.SIGKILL)
            raise AssertionError(f"not ready: {line!r} {p.communicate()}\n{inside.log_tail()}")
        return self.client_there_is()

    def test_pods(self):
        """With either cgroup driver the client is known as the pod's. Its class comes from the names that containerd
        passes, or from the pod's quality of service."""
        for driver, expected in (("systemd", (0, "default")), ("cgroupfs", (-30, "30-besteffort"))):
            with self.subTest(driver):
                client = self.start(driver)
                self.check_pod(driver, client, IDS[driver])
                self.settle(client, expected)
                self.tearDown()
                self.setUp()

    def test_namespace(self):
        """The namespace that containerd reports counts, not the one that the pod's author writes as an annotation."""
        for driver in TREES:
            with self.subTest(driver):
                client = self.start(
                    driver,
                    {
                        "io.kubernetes.cri.sandbox-namespace": "research-7",
                        "io.kubernetes.pod.namespace": "kube-system",
                        "io.kubernetes.cri.sandbox-name": "train",
                    },
                )
                directory = self.check_pod(driver, client, IDS[driver])
                self.assertEqual(self.attributes(directory), {"label.namespace": "research-7", "label.pod": "train"})
                self.settle(client, (30, "20-research"))
                self.tearDown()
                self.setUp()

    def test_priority_class(self):
        """An annotation raises only where the administrator trusts those who write it."""
        online = {"xsched.org/priority-class": "online"}
        self.settle(self.start("systemd", online), (0, "default"))
        self.tearDown()
        self.setUp()
        write("/etc/xsched/containers.conf", "[Containers]\nRaisingAnnotations=priority-class\n")
        self.addCleanup(os.unlink, "/etc/xsched/containers.conf")
        self.settle(self.start("systemd", online), (40, "10-online"))

    def test_install(self):
        """Runs the DaemonSet's script twice, on a host where the packages are installed already."""
        script = ("sh", "/mnt/source/kubernetes/base/install.sh", "/run/no-packages", "/mnt/source/kubernetes/base")
        stale = "/etc/xsched/classes.d/kubernetes-gone.class"
        write(stale, "[Class]\n")
        run("systemctl", "disable", "xsched")
        os.unlink("/etc/cdi/xsched.yaml")
        for _ in range(2):
            run(*script, "/mnt/source/kubernetes/base/classes")
            self.assertFalse(os.path.exists(stale))
            self.assertEqual(run("systemctl", "is-enabled", "xsched").strip(), "enabled")
            self.assertEqual(run("systemctl", "is-active", "xsched").strip(), "active")
        self.bus.close()
        super().setUp()
        client = self.start("systemd", {"io.kubernetes.cri.sandbox-namespace": "kube-system"})
        self.settle(client, (100, "kubernetes-20-kube-system"))
        os.mkdir("/run/no-classes")
        run(*script, "/run/no-classes")
        self.settle(client, (0, "default"))
        os.unlink("/etc/xsched/containers.conf")

    def test_device(self):
        """The device's class has precedence over a class whose [Match] fits."""
        client = self.start(
            "systemd", {"io.kubernetes.cri.sandbox-namespace": "research-7"}, device="xsched.org/class=batch"
        )
        self.settle(client, (-50, "batch"))


class AsKubelet(KubeletCase):
    """Pods and containers over CRI, by both cgroup drivers."""

    def test_pods(self):
        """The class is the device's, the labels are containerd's own, and the author's annotations only lower."""
        for driver in TREES:
            with self.subTest(driver):
                self.runtime.channel.close()
                cri.configure(driver)
                self.runtime = cri.Runtime()
                forged = {
                    "io.kubernetes.cri.sandbox-namespace": "kube-system",
                    "xsched.org/class": "interactive",
                    "xsched.org/priority": "-60",
                    "xsched.org/priority-class": "online",
                    "xsched.org/pod-label.team": "a\u00e4\n[Class]=\u202e",
                    "xsched.org/pod-label.app": "web",
                    "cdi.k8s.io/forged": "xsched.org/class=interactive",
                }
                container = self.make(driver, "research-7", forged, devices=["xsched.org/class=batch"])
                client = self.client_there_is()
                directory = self.check_pod(driver, client, container)
                expected = {
                    "class": "batch",
                    "label.namespace": "research-7",
                    "label.pod": "train",
                    "label.container": "worker",
                    "lower.class": "interactive",
                    "lower.priority": "-60",
                    "claim.priority-class": "online",
                    "claim.pod-label.app": "web",
                }
                self.assertEqual(self.attributes(directory), expected)
                self.settle(client, (-60, "batch"))
                self.tearDown()
                self.setUp()


if __name__ == "__main__":
    inside.main()
