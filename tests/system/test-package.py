# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Debian packages: the service runs after installation, keeps its clients over an upgrade, and a purge leaves
nothing behind."""

import glob
import os
import re
import shutil
import subprocess

import inside
from inside import GROUP, Case, journal, run, show, until

PACKAGES = [p for p in sorted(glob.glob("/mnt/build/debian-package/*.deb")) if "-dbgsym_" not in p]
NAMES = [os.path.basename(p).split("_")[0] for p in PACKAGES]
ENVIRONMENT = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}


PLACES = ("/boot", "/etc", "/home", "/opt", "/run", "/srv", "/usr", "/var")
# Directories that a running system, or the package manager, changes by itself.
NOT_OURS = (
    "/run/credentials",
    "/run/dbus",
    "/run/log",
    "/run/systemd",
    "/run/udev",
    "/run/user",
    "/var/cache",
    "/var/lib/PackageKit",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/log",
    "/var/tmp",
)


def all_files():
    found = set()
    for place in PLACES:
        for directory, below, files in os.walk(place):
            below[:] = [d for d in below if os.path.join(directory, d) not in NOT_OURS]
            found.update(os.path.join(directory, f) for f in [*below, *files])
    return found


def dpkg(*args):
    return run("dpkg", *args, env=ENVIRONMENT)


class Package(Case):
    """The tests run in this order: each goes on from where the one before it ended."""

    @classmethod
    def setUpClass(cls):
        # policy-rc.d in container images keeps services from being started. auto-update makes man-db read all manuals
        # of the system after each installation.
        for path in ("/usr/sbin/policy-rc.d", "/var/lib/man-db/auto-update"):
            if os.path.exists(path):
                os.unlink(path)
        cls.files_before = all_files()

    def setUp(self):
        if run("dpkg-query", "--show", "--showformat=${Status}", "xsched", status=None).endswith("ok installed"):
            super().setUp()

    def tearDown(self):
        if hasattr(self, "clients"):
            super().tearDown()

    def test_1_installed_it_runs(self):
        self.assertEqual(
            sorted(NAMES),
            [
                "cockpit-xsched",
                "libxsched-compat0",
                "libxsched-dev",
                "libxsched0",
                "python3-xsched",
                "xsched",
                "xsched-demo",
                "xsched-exporter",
                "xsched-shim",
                "xsched-slurm",
            ],
        )
        done = subprocess.run(
            ["apt-get", "install", "-q", "-y", "--no-install-recommends", *PACKAGES],
            env={**ENVIRONMENT, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(
            [s for s in done.stdout.splitlines() if re.search(r"(?i)could not|cannot|error|fail|warning|^W:|^E:", s)],
            [],
            done.stdout,
        )
        # No restart was needed: the bus has already read which user may own the name.
        self.assertEqual(
            (show("xsched", "ActiveState"), show("xsched", "NRestarts")), ("active", "0"), inside.log_tail()
        )
        self.assertEqual([m["MESSAGE"] for m in journal("-p", "err", "_SYSTEMD_UNIT=xsched.service")], [])
        self.assertEqual(
            [m["MESSAGE"] for m in journal() if "Failed to" in str(m["MESSAGE"]) and "xsched" in str(m)], []
        )
        self.assertEqual(run("systemctl", "is-enabled", "xsched").strip(), "enabled")
        self.assertEqual(run("xschedctl", "--no-legend", "list-clients"), "")
        self.assertEqual(
            (show("xsched-exporter.socket", "UnitFileState"), show("xsched-exporter.socket", "ActiveState")),
            ("enabled", "active"),
        )
        self.assertIn("\nxsched_up 1\n", run("curl", "--silent", "http://localhost:10371/metrics"))
        self.assertEqual(run("stat", "-c", "%U %a", "/var/lib/xsched").strip(), "xsched 700")
        self.assertEqual(dpkg("--verify", *NAMES), "")
        for example in glob.glob("/usr/share/doc/xsched/examples/*"):
            with open(example, encoding="utf-8") as f:
                for word in f.read().replace("=", " ").replace(",", " ").split():
                    if word.endswith(".so"):
                        self.assertTrue(os.path.exists(word), f"{example}: {word}")

    def test_2_the_slices_are_classes(self):
        for name, priority in (("online", 50), ("batch", -50)):
            c = self.client("-p", f"Slice=gpu-{name}.slice")
            group = next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith("/" + c.unit))
            until(lambda path=group, p=priority: self.get("Priority", path, GROUP) == p, f"priority {priority}")

    def test_3_an_upgrade_keeps_clients(self):
        c = self.client()
        before = show("xsched", "MainPID"), self.call("ListClients")[0]
        dpkg("--install", *PACKAGES)
        until(lambda: show("xsched", "ActiveState") == "active", "the service to be back")
        self.assertNotEqual(show("xsched", "MainPID"), before[0])
        self.assertEqual(self.call("ListClients")[0], before[1])
        self.assertEqual(c.ask("run 1"), "ran")

    def test_4_as_a_distribution_tests_it(self):
        """Runs each test of debian/tests/control, with its dependencies, as autopkgtest does, which needs a mirror."""
        with open("/mnt/source/debian/tests/control", encoding="utf-8") as f:
            stanzas = [dict(i.split(": ", 1) for i in stanza.splitlines()) for stanza in f.read().strip().split("\n\n")]
        self.assertEqual([s["Tests"] for s in stanzas], ["service", "library"])
        for s in stanzas:
            for package in s["Depends"].split(", "):
                status = run("dpkg-query", "--show", "--showformat=${db:Status-Status}", package)
                self.assertEqual(status, "installed", package)
            test = f"/mnt/source/debian/tests/{s['Tests']}"
            self.assertTrue(os.access(test, os.X_OK), test)
            self.assertEqual(run(test, env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"}), f"{s['Tests']}: passed\n")

    def test_5_a_purge_leaves_only_the_administrators_files(self):
        with open("/etc/xsched/classes.d/mine.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=1\n")
        self.check_devices_of_containers()
        files = [f for f in run("dpkg", "-L", *NAMES).splitlines() if not os.path.isdir(f)]
        self.assertIn("/usr/libexec/xschedd", files)
        super().tearDown()
        del self.clients
        self.assertTrue(os.path.exists("/run/xschedd"))
        dpkg("--purge", *NAMES)
        self.assertEqual([f for f in files if os.path.lexists(f)], [])
        left = {f for f in all_files() - self.files_before if not f.endswith(".pyc")}
        self.assertEqual(left, {"/etc/xsched", "/etc/xsched/classes.d", "/etc/xsched/classes.d/mine.class"})
        self.assertEqual(
            run("find", "/run", "/var/lib/systemd", "-name", "*xsched*", "-not", "-path", "*/transient/*"), ""
        )
        self.assertEqual(run("systemctl", "list-units", "--all", "--no-legend", "*xsched*").strip(), "")
        self.assertEqual(run("find", "/etc", "/var/lib", "-name", "*xsched*").splitlines(), ["/etc/xsched"])
        self.assertEqual(os.listdir("/etc/xsched"), ["classes.d"])
        self.assertEqual(run("systemctl", "is-active", "xsched", status=3).strip(), "inactive")
        if shutil.which("podman"):
            podman = ("podman", "--root=/run/graph", "--runroot=/run/graph-run", "--storage-driver=vfs", "run", "--rm")
            done = subprocess.run(
                [*podman, "--network=none", "--device=xsched.org/class=batch", "--rootfs", "/", "true"],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("xsched.org/class=batch", done.stderr)

    def check_devices_of_containers(self):
        """Our CDI devices go with the package, so that an engine says that they are missing; others' devices stay.
        Those of --stand-in stay until the purge."""

        def generate(*options):
            run("xschedctl", "cdi", "generate", *options)

        script = ("sh", "/var/lib/dpkg/info/xsched.postrm")
        spec, other = "/etc/cdi/xsched.yaml", "/etc/cdi/other.yaml"
        generate()
        inside.write(other, "")
        for action in (("upgrade", "2"), ("abort-install",)):
            run(*script, *action)
            self.assertTrue(os.path.exists(spec), action)
        run(*script, "remove")
        self.assertEqual(os.listdir("/etc/cdi"), ["other.yaml"])
        os.unlink(other)
        generate("--stand-in")
        run(*script, "remove")
        self.assertTrue(os.path.exists(spec))


if __name__ == "__main__":
    inside.main()
