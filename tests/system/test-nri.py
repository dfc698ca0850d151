# SPDX-License-Identifier: LGPL-2.1-or-later
"""Containers of containerd 2 get our CDI device: those of pods through NRI, by an annotation, and ctr's by an option.

Debian has no package of NRI's own device injector, so nri-injector stands in for it. To test another one,
XSCHED_TEST_INJECTOR names it, and XSCHED_TEST_INJECTOR_KEY the annotation that it reads."""

import os
import subprocess

import cri
import grpc
import inside
from inside import run, until, write
from pods import IDS, IMAGE, TREES, USR, KubeletCase, PodCase

INJECTOR = os.environ.get("XSCHED_TEST_INJECTOR", "/mnt/source/tests/system/nri-injector")
KEY = os.environ.get("XSCHED_TEST_INJECTOR_KEY", "cdi-devices.noderesource.dev")
OLD_KEY = "cdi-devices.nri.io"
BATCH = "- xsched.org/class=batch\n"


def containerd_says(text):
    run("journalctl", "--sync")
    return run("journalctl", "-u", "containerd", "-o", "cat", "--no-pager").count(text)


def start_injector():
    """Starts the injector, and waits until containerd logs that it has registered."""
    before = containerd_says("connected and synchronized")
    run("systemctl", "start", "injector")
    until(lambda: containerd_says("connected and synchronized") > before, "the injector to register")


def stop_injector():
    before = containerd_says("connection to plugin")
    run("systemctl", "stop", "injector")
    until(lambda: containerd_says("connection to plugin") > before, "the injector to go")


class ByAnnotation(KubeletCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        version = run("containerd", "--version").split()[2]
        print(f"containerd {version}, {INJECTOR}", flush=True)
        write("/etc/systemd/system/injector.service", f"[Service]\nExecStart={INJECTOR} -idx 10\n")
        run("systemctl", "daemon-reload")
        start_injector()

    @classmethod
    def tearDownClass(cls):
        run("systemctl", "stop", "injector")

    def has_shim(self, container):
        """Returns whether the container has CDI's mount."""
        lines = [line.split() for line in run("ctr", "-n", "k8s.io", "tasks", "list").splitlines()]
        (pid,) = [line[1] for line in lines if line[0] == container]
        return bool(os.listdir(f"/proc/{pid}/root/opt"))

    def test_pods(self):
        """With both cgroup drivers, pods are registered in the class of their device, which overrides matching
        classes."""
        for driver in TREES:
            with self.subTest(driver):
                self.runtime.channel.close()
                run("systemctl", "stop", "injector")
                cri.configure(driver)
                start_injector()
                self.runtime = cri.Runtime()
                said = {f"{KEY}/container.worker": BATCH, "xsched.org/class": "interactive"}
                container = self.make(driver, "research-7", said)
                client = self.client_there_is()
                directory = self.check_pod(driver, client, container)
                expected = {
                    "class": "batch",
                    "lower.class": "interactive",
                    "label.namespace": "research-7",
                    "label.pod": "train",
                    "label.container": "worker",
                }
                self.assertEqual(self.attributes(directory), expected)
                self.settle(client, (-50, "batch"))
                self.tearDown()
                self.setUp()

    def test_all_containers_of_a_pod(self):
        """The annotation that older injectors read works, too. Here the class is the namespace's."""
        self.make("systemd", "research-7", {f"{OLD_KEY}/pod": "- xsched.org/class=default\n"})
        self.settle(self.client_there_is(), (30, "20-research"))

    def test_not_asked_for(self):
        """An annotation about another container of the pod does not apply."""
        container = self.make("systemd", "research-7", {f"{KEY}/container.web": BATCH}, command=("sleep", "infinity"))
        self.assertFalse(self.has_shim(container))

    def test_no_such_device(self):
        """A container with an unknown device is not made, and containerd names the device."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.make("systemd", "research-7", {f"{KEY}/pod": "- xsched.org/class=nowhere\n"})
        self.assertIn("unresolvable CDI devices xsched.org/class=nowhere", caught.exception.details())

    def test_without_injector(self):
        """Without the injector, containers start without being scheduled; those that are scheduled stay so."""
        said, sleep = {f"{KEY}/pod": BATCH}, ("sleep", "infinity")
        self.make("systemd", "research-1", said)
        client = self.client_there_is()
        stop_injector()
        self.assertFalse(self.has_shim(self.make("systemd", "research-2", said, command=sleep)))
        self.settle(client, (-50, "batch"))
        start_injector()
        self.assertTrue(self.has_shim(self.make("systemd", "research-3", said, command=sleep)))


class ByCtr(PodCase):
    """ctr --device= takes CDI devices, too."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cri.configure("systemd")

    def test_device(self):
        for driver in TREES:
            with self.subTest(driver):
                command = [
                    *("ctr", "run", "--rm", "--device=xsched.org/class=batch", "--env=LD_LIBRARY_PATH=/opt/xsched"),
                    f"--runc-binary={cri.RUNC}",
                    *(
                        f"--mount=type=bind,src={source},dst={destination},options=rbind:ro"
                        for source, destination in KubeletCase.MOUNTS
                    ),
                    *(*TREES[driver][1], "--rootfs", IMAGE, IDS[driver]),
                    *(inside.TEST_CLIENT, inside.DEVICE_ID, "1"),
                ]
                with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
                    self.assertEqual(p.stdout.readline().strip(), "ready", inside.log_tail())
                    client = self.client_there_is()
                    directory = self.check_pod(driver, client, IDS[driver])
                    self.assertEqual(self.attributes(directory), {"class": "batch"})
                    self.settle(client, (-50, "batch"))
                self.assertEqual(p.returncode, 0)


if __name__ == "__main__":
    inside.main()
