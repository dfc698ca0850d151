# SPDX-License-Identifier: LGPL-2.1-or-later
"""Containers of podman, with runc, that name one of our CDI devices.

XSCHED_TEST_RUNTIME can name another runtime. It is not crun by default, because that needs CAP_SYS_RESOURCE, which not
every test machine has."""

import glob
import json
import os
import shutil
import stat
import subprocess

import inside
from image import make_image
from inside import CLIENT, QUEUE, Case, run, until, write

IMAGE, USR, MUSL = "/run/image", "/run/image-usr", "/run/musl"
NEIGHBOUR = "/mnt/build/tests/opencl/neighbour"
SHIM = "/opt/xsched/libxsched-opencl.so"
CUDA_SHIM = "/opt/xsched/libxsched-cuda.so"
SPEC = "/etc/cdi/xsched.yaml"
# Written by NVIDIA's nvidia-ctk 1.20.0 (`cdi generate --mode=management`) for a driver below NVIDIA_ROOT: a library,
# which is our stand-in here, and two device files. Its hooks are done by a stand-in, or by NVIDIA's own program, which
# XSCHED_TEST_NVIDIA_CDI_HOOK names.
NVIDIA_SPEC = "/mnt/source/tests/system/nvidia-cdi.json"
NVIDIA_HOOK = os.environ.get("XSCHED_TEST_NVIDIA_CDI_HOOK", "/mnt/source/tests/system/nvidia-cdi-hook")
NVIDIA_ROOT, NVIDIA_LIBRARY = "/opt/nvidia", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"
CUDA_PROGRAM = "/mnt/build/tests/cuda/cuda-app"
CUDA_LIBRARY = "/mnt/build/tests/cuda/libcuda.so.1"
HOOK = "/usr/libexec/xsched-oci-hook"
MISSING = "/opt/other/libother.so"
USER, UID = "alice", 4711
AS_USER = (
    "systemd-run",
    "--quiet",
    "--pipe",
    "--wait",
    "--collect",
    f"--uid={USER}",
    "-p",
    "Delegate=yes",
    "--unit=rootless",
    "-E",
    f"XDG_RUNTIME_DIR=/run/user/{UID}",
    "-E",
    f"HOME=/home/{USER}",
    "--",
)
STORAGE = '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/run/graph"\n'
# Another vendor's CDI device, which preloads a library, too.
OTHER = {
    "cdiVersion": "0.5.0",
    "kind": "example.com/gpu",
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "env": ["OTHER_VENDOR=yes"],
                "deviceNodes": [{"path": "/dev/other", "hostPath": "/dev/zero"}],
            },
        }
    ],
    "containerEdits": {
        "mounts": [{"hostPath": "/run/other.preload", "containerPath": "/etc/ld.so.preload", "options": ["ro", "bind"]}]
    },
}
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
int main(void) {
        char line[4096];
        int n = 0;
        FILE *f = fopen("/proc/self/maps", "r");
        while (f && fgets(line, sizeof(line), f))
                n += !!strstr(line, "xsched");
        printf("computed %d\n", n);
        return f ? 0 : 1;
}
"""
DEVICE = "--device=xsched.org/class=batch"
ENGINE = ("podman", "--runtime", os.environ.get("XSCHED_TEST_RUNTIME", "runc"))
OPTIONS = (
    "--rm",
    "--network=none",
    "--pids-limit=0",
    "--log-driver=none",
    f"--volume={USR}/usr:/usr:ro",
    f"--volume={NEIGHBOUR}:/opt/neighbour:ro",
    "--env=POCL_CACHE_DIR=/tmp",
    "--env=XSCHED_DEBUG=1",
)


# NVIDIA's hooks write links of libraries into /usr.
WRITABLE = tuple(o.replace("/usr:/usr:ro", "/usr:/usr") for o in OPTIONS)


def container_of(group):
    """Returns the container's cgroup: crun puts the processes into one below it."""
    return group.removesuffix("/container")


def directory_of(group):
    return f"/sys/fs/cgroup{container_of(group)}"


def attributes_of(group):
    """Returns the attributes that the hook has set on the container's cgroup."""
    directory, prefix = directory_of(group), "user.xsched."
    names = [n for n in os.listxattr(directory) if n.startswith(prefix)]
    return {n.removeprefix(prefix): os.getxattr(directory, n).decode() for n in names}


def podman(*more, image=IMAGE, command=(), options=OPTIONS):
    done = subprocess.run(
        [*ENGINE, "run", *options, *more, "--rootfs", image, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class Box:
    """A container that runs the neighbour until its standard input ends."""

    n_made = 0

    def __init__(self, *options, engine=ENGINE, image=IMAGE, given=OPTIONS, program=("/opt/neighbour",)):
        Box.n_made += 1
        self.name = f"box{Box.n_made}"
        self.process = subprocess.Popen(
            [*engine, "run", "-i", f"--name={self.name}", *given, *options, "--rootfs", image, *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            raise AssertionError(f"not ready: {line}{self.process.communicate()}\n{inside.log_tail()}")

    def end(self):
        """Ends the container. Returns its exit status, and the lines of its standard error."""
        _, errors = self.process.communicate()
        return self.process.returncode, errors.splitlines()


class WithPodman(Case):
    @classmethod
    def setUpClass(cls):
        make_image(IMAGE, USR)
        write("/etc/containers/storage.conf", STORAGE)
        write("/run/other.preload", MISSING + "\n")
        write("/etc/xsched/xsched.conf.d/test.conf", "[Scheduler]\nStarveAfter=1h\n")
        run("systemctl", "restart", "xsched")
        run("xschedctl", "cdi", "generate")
        # A hook whose runtime never tells it the container.
        cls.waiting = subprocess.Popen(
            [HOOK, "createRuntime"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    @classmethod
    def tearDownClass(cls):
        """Checks that this hook has ended by itself."""
        output = cls.waiting.stdout.read()
        if (cls.waiting.wait(inside.DEADLINE), output) != (0, b""):
            raise AssertionError(f"status {cls.waiting.returncode}: {output}")
        cls.waiting.stdin.close()

    def setUp(self):
        super().setUp()
        self.boxes = []

    def tearDown(self):
        for box in self.boxes:
            if box.process.poll() is None:
                box.end()
        super().tearDown()

    def box(self, *options, **kwargs):
        box = Box(*options, **kwargs)
        self.boxes.append(box)
        return box

    def registered(self):
        """Waits for the only client. Returns its (uid, command, group, path)."""
        until(lambda: self.get("NClients") == 1, "it to register")
        _, _, uid, command, group, path = self.call("ListClients")[0][0]
        return uid, command, group, path

    def settings(self, path):
        return tuple(self.get(p, path, CLIENT) for p in ("Priority", "Class"))

    def settle(self, path, expected):
        """Waits for the expected settings: the service gets systemd's answers a moment after the client registers."""
        until(lambda: self.settings(path) == expected, f"{expected}, not {self.settings(path)}")

    def test_class(self):
        box = self.box(DEVICE, "--annotation=io.kubernetes.pod.name=web-1", "--annotation=xsched.org/weight=7")
        uid, command, group, path = self.registered()
        at_once = self.settings(path)
        self.assertEqual((uid, command), (0, "neighbour"))
        full = json.loads(run("podman", "inspect", box.name))[0]["Id"]
        self.assertEqual(self.get("Container", path, CLIENT), f"podman:{full}")
        # The class applies at once, without systemd's answers: the hook runs before the container does.
        self.assertEqual(at_once, (-50, "batch"))
        weights = {g[0]: self.get("Weight", g[-1], inside.GROUP) for g in self.call("ListGroups")[0]}
        self.assertEqual(weights[container_of(group)], 7)
        self.assertEqual(attributes_of(group), {"class": "batch", "label.pod": "web-1", "lower.weight": "7"})
        self.check_held(path)
        self.check_paused(box, path)
        status, errors = box.end()
        self.assertEqual(status, 0, errors)
        self.assertEqual({e.split(": ", 1)[1] for e in errors if "connected to" in e}, {"connected to the service"})
        self.assertFalse([e for e in errors if "unscheduled" in e], errors)
        self.assertFalse(glob.glob(f"{USR}/usr/lib/*/libsystemd.so*"), "the image has no libsystemd")
        until(lambda: not os.path.exists(directory_of(group)), "its cgroup to go, with the attributes")

    def rival(self):
        device = self.get("Device", self.call("ListQueues")[0][0][-1], QUEUE)
        high = self.client(device=device)
        run("xschedctl", "set", high.unit, "priority=20")
        return high

    def check_held(self, path):
        """Checks that the container launches nothing while a client with precedence runs."""
        high = self.rival()
        get = lambda name: self.get(name, path, CLIENT)

        def is_quiet():
            before = get("Submitted")
            return all((get("State"), get("Submitted")) == ("held", before) for _ in range(20))

        self.assertIn(high.ask("begin 0"), ("tracked", "untracked"))
        until(is_quiet, "the container to be held")
        before = get("Submitted")
        self.assertEqual(high.ask("complete 0"), "completed")
        until(lambda: get("Submitted") > before + 1, "the container to go on")
        high.end()

    def check_paused(self, box, path):
        """Checks that a client of lower priority gets the device while the container is paused."""
        device = self.get("Device", self.call("ListQueues")[0][0][-1], QUEUE)
        run("podman", "pause", box.name)
        low = self.client(device=device)
        run("xschedctl", "set", low.unit, "priority=-100")
        self.assertIn(low.ask("begin 0"), ("tracked", "untracked"))
        self.assertEqual(low.ask("complete 0"), "completed")
        before = self.get("Submitted", path, CLIENT)
        low.end()
        run("podman", "unpause", box.name)
        until(lambda: self.get("Submitted", path, CLIENT) > before, "it to go on")

    def test_annotations_only_lower(self):
        self.box(
            DEVICE,
            "--annotation=xsched.org/class=interactive",
            "--annotation=xsched.org/priority=-60",
            "--annotation=xsched.org/nonsense=1",
            "--annotation=xsched.org/weight=" + "1" * 5000,
        )
        _, _, group, path = self.registered()
        self.assertEqual(
            attributes_of(group), {"class": "batch", "lower.class": "interactive", "lower.priority": "-60"}
        )
        self.settle(path, (-60, "batch"))

    def test_annotations_of_the_list_raise(self):
        write("/etc/xsched/containers.conf", "[Containers]\nRaisingAnnotations=class\n")
        self.addCleanup(os.unlink, "/etc/xsched/containers.conf")
        self.box(
            "--device=xsched.org/class=default",
            "--annotation=xsched.org/class=interactive",
            "--annotation=xsched.org/priority=200",
        )
        _, _, group, path = self.registered()
        self.assertEqual(attributes_of(group), {"class": "interactive", "lower.priority": "200"})
        self.settle(path, (50, "interactive"))

    def test_attributes_from_within(self):
        """Root in a container can only set attributes if the engine lets it write to the host's cgroupfs."""
        script = "import os; os.setxattr('/sys/fs/cgroup', 'user.xsched.priority', b'77')"
        for options, written in (((), False), (("--systemd=always",), True), (("--privileged",), True)):
            with self.subTest(options):
                status, _, errors = podman(DEVICE, *options, command=("python3", "-c", script))
                self.assertEqual(status == 0, written, errors)
                self.assertEqual("Read-only file system" in errors, not written, errors)

    def test_what_was_there_stays(self):
        """The user's variables stay, and so do another vendor's device, whose library is missing, and its preload."""
        with open("/etc/cdi/other.json", "w", encoding="ascii") as f:
            json.dump(OTHER, f)
        show_all = (
            "sh",
            "-c",
            "cat /etc/ld.so.preload; echo $LD_PRELOAD $OPENCL_LAYERS $OTHER_VENDOR; ls /dev/other;"
            "grep -c libmemusage /proc/self/maps; cat /proc/self/maps",
        )
        status, out, errors = podman(
            "--device=example.com/gpu=0",
            DEVICE,
            "--env=LD_PRELOAD=libmemusage.so",
            "--env=OPENCL_LAYERS=/mine.so",
            "--env=MEMUSAGE_NO_TIMER=1",
            command=show_all,
        )
        lines = out.splitlines()
        self.assertEqual((status, lines[:4]), (0, [SHIM, MISSING, "libmemusage.so /mine.so yes", "/dev/other"]), errors)
        self.assertGreater(int(lines[4]), 0)
        self.assertIn(SHIM, out.split("/dev/other")[1])
        # The engine leaves an empty file in the image, on which it mounts.
        self.assertEqual(os.path.getsize(f"{IMAGE}/etc/ld.so.preload"), 0)

    def nvidia_driver(self):
        """Puts what the specification of NVIDIA's devices names to where it says."""
        if not os.path.exists(CUDA_LIBRARY):
            self.skipTest("built without CUDA")
        for name in ("dev", os.path.dirname(NVIDIA_LIBRARY)):
            os.makedirs(f"{NVIDIA_ROOT}/{name}")
        for name, minor in (("nvidiactl", 255), ("nvidia0", 0)):
            os.mknod(f"{NVIDIA_ROOT}/dev/{name}", 0o666 | stat.S_IFCHR, os.makedev(195, minor))
        shutil.copy(CUDA_LIBRARY, NVIDIA_ROOT + NVIDIA_LIBRARY)
        shutil.copy(NVIDIA_HOOK, "/usr/bin/nvidia-cdi-hook")
        shutil.copy(NVIDIA_SPEC, "/etc/cdi/nvidia.json")
        self.addCleanup(os.unlink, "/etc/cdi/nvidia.json")

    def test_beside_nvidia(self):
        """With NVIDIA's device and ours, in either order, a CUDA program has its driver, and is scheduled."""
        self.nvidia_driver()
        nvidia = "--device=nvidia.com/gpu=all"
        show_all = "ls /dev/nvidiactl; cat /etc/ld.so.preload; ldconfig -p | grep -c libcuda.so.1"
        for order in ((nvidia, DEVICE), (DEVICE, nvidia)):
            with self.subTest(order):
                status, out, errors = podman(*order, command=("sh", "-c", show_all), options=WRITABLE)
                self.assertEqual((status, out.split()), (0, ["/dev/nvidiactl", SHIM, CUDA_SHIM, "1"]), errors)
                program = ("/opt/cuda-app", "time", "500")
                box = self.box(*order, f"--volume={CUDA_PROGRAM}:/opt/cuda-app:ro", program=program, given=WRITABLE)
                _, command, _, path = self.registered()
                self.settle(path, (-50, "batch"))
                self.assertEqual(command, "cuda-app")
                self.assertEqual(self.get("Backend", self.call("ListQueues")[0][0][-1], QUEUE), "cuda")
                self.check_held(path)
                pid = json.loads(run("podman", "inspect", box.name))[0]["State"]["Pid"]
                with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
                    loaded = f.read()
                self.assertIn(NVIDIA_LIBRARY, loaded)
                self.assertIn(CUDA_SHIM, loaded)
                status, errors = box.end()
                self.assertEqual(status, 0, errors)
                until(lambda: self.get("NClients") == 0, "it to be gone")
        # NVIDIA's alone is as if there were no xsched.
        status, out, errors = podman(nvidia, command=("sh", "-c", show_all), options=WRITABLE)
        self.assertEqual((status, out.split()), (0, ["/dev/nvidiactl", "1"]), errors)

    def test_image_of_musl(self):
        for name in ("lib", "opt", "etc"):
            os.makedirs(f"{MUSL}/{name}")
        run("sh", "-c", f"cp -L /lib/ld-musl-x86_64.so.1 {MUSL}/lib/")
        write("/run/program.c", PROGRAM)
        run("musl-gcc", "/run/program.c", "-o", f"{MUSL}/opt/program")
        for option in (DEVICE, "--env=NOTHING=1"):
            with self.subTest(option):
                self.assertEqual(podman(option, image=MUSL, command=("/opt/program",)), (0, "computed 0\n", ""))

    def test_read_only(self):
        """The shim is preloaded in a read-only container, too."""
        status, out, errors = podman(DEVICE, "--read-only", command=("cat", "/etc/ld.so.preload"))
        self.assertEqual((status, out), (0, SHIM + "\n"), errors)

    def test_hostile_image(self):
        """An image whose ld.so.preload leads out of the image, or is no file, does no harm."""
        evil = "/run/evil"
        run("cp", "-a", IMAGE, evil)
        for what in ("ln -sfn ../../../../run/outside", "mkfifo", "mkdir"):
            with self.subTest(what):
                run("sh", "-c", f"cd {evil} && rm -f etc/ld.so.preload && {what} etc/ld.so.preload")
                status, out, errors = podman(DEVICE, image=evil, command=("busybox", "echo", "computed"))
                self.assertEqual((status, out), (0, "computed\n"), errors)
        self.assertFalse(os.path.exists("/run/outside"))

    def test_service_stopped(self):
        command = ("sh", "-c", "echo computed; exit 7")
        run("systemctl", "stop", "xsched")
        self.assertEqual(podman(DEVICE, command=command), (7, "computed\n", ""))
        box = self.box(DEVICE)
        status, errors = box.end()
        self.assertEqual(status, 0, errors)

    def test_restart_of_the_bus(self):
        """After a restart of the bus, and of the service with it, the container is the same client with its class, and
        is scheduled."""
        box = self.box(DEVICE)
        before = self.registered()
        pid = inside.show("xsched", "MainPID")
        self.bus.close()
        run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "dbus")
        until(lambda: inside.show("xsched", "MainPID") not in ("0", pid), "another service")
        until(lambda: inside.show("xsched", "ActiveState") == "active", "it to be up")
        self.bus = inside.dbus.Connection(inside.SYSTEM_BUS)
        self.addCleanup(self.bus.close)
        self.assertEqual(self.registered(), before)
        self.settle(before[-1], (-50, "batch"))
        self.check_held(before[-1])
        status, errors = box.end()
        self.assertEqual(status, 0, errors)

    def test_devices_of_some_classes(self):
        """`xschedctl cdi generate CLASS` makes a device for this class and the default; with an impossible name it
        changes no file."""
        with open(SPEC, encoding="utf-8") as f:
            before = f.read()
        self.addCleanup(write, SPEC, before)
        for wrong in ("a b", "-batch", "b\u00e4tch", ""):
            run("xschedctl", "cdi", "generate", "batch", wrong, status=1)
        with open(SPEC, encoding="utf-8") as f:
            self.assertEqual(f.read(), before)
        run("xschedctl", "cdi", "generate", "batch")
        with open(SPEC, encoding="utf-8") as f:
            self.assertEqual([d["name"] for d in json.load(f)["devices"]], ["default", "batch"])
        for name, status in (("batch", 0), ("default", 0), ("interactive", 126)):
            done = podman(f"--device=xsched.org/class={name}", command=("true",))
            self.assertEqual((done[0], "xsched.org/class=interactive" in done[2]), (status, status != 0), done)
        done = subprocess.run(["xschedctl", "cdi", "generate", "btach"], capture_output=True, text=True, check=True)
        self.assertIn("btach: there is no such class here", done.stderr)

    @staticmethod
    def make_package(version, setting, directory):
        """Makes a small package with a file below /etc."""
        tree = f"/run/package-{version}"
        control = f"Package: example\nVersion: {version}\nArchitecture: all\nMaintainer: nobody\nDescription: none\n"
        write(f"{tree}/DEBIAN/control", control)
        write(f"{tree}/DEBIAN/conffiles", "/etc/example.conf\n")
        write(f"{tree}/etc/example.conf", setting)
        os.makedirs(directory, exist_ok=True)
        run("dpkg-deb", "--build", tree, directory)

    def test_image_of_packages(self):
        """The image of our Containerfile installs its packages on the host, as the DaemonSet does."""
        source, context = "/mnt/source/kubernetes", "/run/packages"
        shutil.copytree(source, context)
        self.make_package(2, "new", context)
        self.make_package(1, "old", "/run/older")
        base = ("podman", "--root=/run/build", "--runroot=/run/build-run", "--storage-driver=vfs")
        run("sh", "-c", f"tar -C {IMAGE} -c . | {' '.join(base)} import - docker.io/library/debian:13-slim")
        run(*base, "build", "--network=none", "-t", "xsched-packages", context)
        run("systemctl", "disable", "--quiet", "xsched")
        os.unlink(SPEC)
        self.addCleanup(self.clean_up_after_installation)
        options = ("--rm", "--network=none", "--pids-limit=0", "--log-driver=none", "--privileged", "--pid=host")
        mounts = (f"{USR}/usr:/usr:ro", f"{source}/base:/install:ro", f"{source}/base/classes:/classes:ro")
        # The second run downgrades, on a host where the file was changed.
        for version, more in (("2", ()), ("1", ("/run/older:/packages:ro",))):
            run(
                *base,
                *("--runtime", ENGINE[-1], "run", *options),
                *(f"--volume={m}" for m in (*mounts, *more)),
                *("xsched-packages", "/bin/sh", "/install/install.sh"),
            )
            self.assertEqual(run("dpkg-query", "--show", "--showformat=${Version}", "example"), version)
            self.assertEqual(run("systemctl", "is-enabled", "xsched").strip(), "enabled")
            self.assertTrue(os.path.exists(SPEC))
            self.assertIn("kubernetes-50-best-effort", run("xschedctl", "list-classes"))
            write("/etc/example.conf", "changed")
        self.assertEqual(run("cat", "/etc/example.conf"), "changed")

    @staticmethod
    def clean_up_after_installation():
        run("sh", "-c", "rm -f /etc/xsched/classes.d/kubernetes-*.class /etc/xsched/containers.conf")
        run("systemctl", "reload", "xsched")
        run("xschedctl", "cdi", "generate")

    def test_removed(self):
        """Without our CDI file the engine names the missing device; with that of --stand-in, the container starts."""
        run("mv", SPEC, "/run/spec")
        self.addCleanup(run, "mv", "/run/spec", SPEC)
        status, _, errors = podman(DEVICE, command=("true",))
        self.assertNotEqual(status, 0)
        self.assertIn("xsched.org/class=batch", errors)
        run("xschedctl", "cdi", "generate", "--stand-in")
        os.rename(HOOK, HOOK + ".gone")
        self.addCleanup(os.rename, HOOK + ".gone", HOOK)
        self.assertEqual(podman(DEVICE, command=("echo", "computed")), (0, "computed\n", ""))

    def test_rootless(self):
        run("useradd", "--create-home", f"--uid={UID}", USER)
        make_image(f"/home/{USER}/image", "/run/user-usr", UID)
        write(f"/home/{USER}/.config/containers/storage.conf", '[storage]\ndriver = "vfs"\n')
        run("mkdir", "-p", f"/run/user/{UID}")
        run("chown", "-R", USER, f"/home/{USER}", f"/run/user/{UID}")
        self.check_rootless({}, 0)
        self.check_rootless({"priority": "-5"}, -5)

    def check_rootless(self, annotations, priority):
        """Checks that the device's class, which would raise the priority, does not apply to a user's container."""
        box = self.box(
            "--device=xsched.org/class=interactive",
            *(f"--annotation=xsched.org/{k}={v}" for k, v in annotations.items()),
            "--cgroups=split",
            engine=(*AS_USER, *ENGINE, "--cgroup-manager=cgroupfs"),
            image=f"/home/{USER}/image",
        )
        uid, command, group, path = self.registered()
        self.assertEqual(self.get("Priority", path, CLIENT), priority)
        self.assertEqual((uid, command), (UID, "neighbour"))
        lowered = {f"lower.{k}": v for k, v in annotations.items()}
        self.assertEqual(attributes_of(group), {"class": "interactive", **lowered})
        status, errors = box.end()
        self.assertEqual(status, 0, errors)
        until(lambda: self.get("NClients") == 0, "it to be gone")


if __name__ == "__main__":
    inside.main()
