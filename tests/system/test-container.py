# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program in a container with user, pid, mount, network and cgroup namespaces of its own. Its image has no xsched,
and it sees only the shim and the service's or the bus's socket of the host. The program checks its results itself."""

import glob
import os
import subprocess

import inside
from image import make_image
from inside import CLIENT, QUEUE, Case, run, show, until

IMAGE, USR = "/run/image", "/run/image-usr"
NEIGHBOUR = "/mnt/build/tests/opencl/neighbour"
LIBDIR = os.path.dirname(glob.glob("/usr/lib/*/libxsched.so.0")[0])
UID = 131072  # of the container's root, as the host sees it
SOCKET = "/run/dbus/system_bus_socket"
CLIENTS = "/run/xschedd-client"


class Container:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [
                "systemd-nspawn",
                "--quiet",
                "--directory",
                IMAGE,
                "--machine=box",
                f"--private-users={UID}:65536",
                "--private-network",
                "--as-pid2",
                "--console=pipe",
                "--resolv-conf=off",
                "--timezone=off",
                "--link-journal=no",
                f"--bind-ro={USR}/usr:/usr",
                f"--bind-ro={NEIGHBOUR}:/opt/neighbour",
                f"--bind-ro={LIBDIR}/xsched:/opt/xsched",
                f"--bind-ro={LIBDIR}/libxsched.so.0:/opt/lib/libxsched.so.0",
                "--setenv=LD_LIBRARY_PATH=/opt/lib",
                "--setenv=OPENCL_LAYERS=/opt/xsched/libxsched-opencl.so",
                "--setenv=XSCHED_DEBUG=1",
                "--setenv=POCL_CACHE_DIR=/tmp",
                *options,
                "--",
                "/opt/neighbour",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            raise AssertionError(f"not ready: {line}{self.process.communicate()}")

    def kill(self):
        if self.process.poll() is None:
            run("machinectl", "terminate", "box", status=None)
            self.process.wait()

    def end(self):
        """Returns the program's exit status and its lines of standard error."""
        _, errors = self.process.communicate()
        return self.process.returncode, errors.splitlines()


class InContainer(Case):
    @classmethod
    def setUpClass(cls):
        make_image(IMAGE, USR, UID)
        os.makedirs("/etc/xsched/xsched.conf.d", exist_ok=True)
        with open("/etc/xsched/xsched.conf.d/test.conf", "w", encoding="utf-8") as f:
            f.write("[Scheduler]\nStarveAfter=1h\n")
        run("systemctl", "restart", "xsched")

    def setUp(self):
        super().setUp()
        self.boxes = []

    def tearDown(self):
        for box in self.boxes:
            box.kill()
        super().tearDown()

    def check_scheduled(self, path, high):
        """The service holds and releases the program, and no launch passes while it is held."""
        get = lambda name: self.get(name, path, CLIENT)
        waited = get("HeldUSec")

        def is_quiet():
            before = get("Submitted")
            return all((get("State"), get("Submitted")) == ("held", before) for _ in range(20))

        def it_waits():
            """Holds the program once. Returns whether it had a launch that waited at the gate meanwhile."""
            self.assertIn(high.ask("begin 0"), ("tracked", "untracked"))
            until(is_quiet, "the container to be held")
            before = get("Submitted")
            self.assertEqual(high.ask("complete 0"), "completed")
            until(lambda: get("Submitted") > before + 1, "the container to go on")
            return get("HeldUSec") > waited

        until(it_waits, "the container to have waited")

    def test_socket_and_shim(self):
        self.check_container(SOCKET, "connected to a bus")

    def test_without_the_bus(self):
        """The container has the directory of the service's own socket, and no socket of the bus."""
        self.assertEqual(oct(os.stat(CLIENTS).st_mode & 0o7777), "0o755")
        self.assertEqual(os.listdir(CLIENTS), ["socket"])
        self.check_container(CLIENTS, "connected to the service")

    def check_container(self, bound, connected):
        box = Container(f"--bind={bound}")
        self.boxes.append(box)
        until(lambda: self.get("NQueues") == 1, "the program to register")
        _, pid, uid, command, group, path = self.call("ListClients")[0][0]
        self.assertEqual((uid, command), (UID, "neighbour"))
        self.assertNotEqual(os.stat("/proc/self/ns/pid").st_ino, os.stat(f"/proc/{pid}/ns/pid").st_ino)
        self.assertNotEqual(os.stat("/proc/self/ns/user").st_ino, os.stat(f"/proc/{pid}/ns/user").st_ino)
        self.assertEqual(group, "/machine.slice/machine-box.scope/payload")
        self.assertEqual(
            [self.get(p, path, CLIENT) for p in ("Unit", "Slice", "Container")],
            ["machine-box.scope", "machine.slice", "machine:box"],
        )
        device = self.get("Device", self.call("ListQueues")[0][0][-1], QUEUE)
        high = self.client(device=device)
        run("xschedctl", "set", high.unit, "priority=20")
        self.check_scheduled(path, high)

        run("systemctl", "restart", "xsched")
        self.assertEqual(self.get("Container", path, CLIENT), "machine:box")
        self.check_scheduled(path, high)
        service = int(show("xsched", "MainPID"))
        run("systemctl", "kill", "--signal=KILL", "xsched")
        until(
            lambda: int(show("xsched", "MainPID")) not in (0, service) and show("xsched", "ActiveState") == "active",
            "another service",
        )
        self.check_scheduled(path, high)
        status, errors = box.end()
        self.assertEqual(status, 0, errors)
        self.assertFalse([e for e in errors if "unscheduled" in e], errors)
        self.assertEqual({e.split(": ", 1)[1] for e in errors if "connected to" in e}, {connected}, errors)
        until(lambda: self.get("NClients") == 1, "the container's client to be gone")

    def test_without_the_socket(self):
        """The program computes as without xsched, and reports that it runs unscheduled."""
        box = Container()
        self.boxes.append(box)
        self.assertEqual(self.get("NClients"), 0)
        status, errors = box.end()
        self.assertEqual(status, 0, errors)
        self.assertEqual(len([e for e in errors if "running unscheduled" in e]), 1, errors)


if __name__ == "__main__":
    inside.main()
