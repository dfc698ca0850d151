# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples that load the shim: an unmodified copy, in the place that the example names, makes an OpenCL program a
client."""

import os
import shutil
import subprocess

import inside
from inside import CLIENT, Case, journal, run, show, until

EXAMPLES = "/usr/share/doc/xsched/examples"
PROGRAM = "/mnt/build/tests/opencl/neighbour"


class Loading(Case):
    def put(self, example, path, apply):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(f"{EXAMPLES}/{example}", path)
        apply()

        def take_back():
            os.unlink(path)
            apply()

        self.addCleanup(take_back)

    def check(self, *command, unit):
        """Runs the program as the host would start any program, with nothing of xsched in the command line or in the
        environment. `unit` is the unit of the client that it becomes, or None if it becomes none."""
        p = subprocess.Popen([*command, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(p.stdout.readline().strip(), "ready", inside.log_tail())
            if unit:
                until(lambda: self.get("NClients") == 1, "the program to be a client")
                client = self.call("ListClients")[0][0][-1]
                self.assertTrue(self.get("Unit", client, CLIENT).endswith(unit), self.get("Unit", client, CLIENT))
            else:
                self.assertEqual(self.get("NClients"), 0)
        finally:
            p.stdin.close()
            status = p.wait(60)
            p.stdout.close()
        self.assertEqual(status, 0)
        self.assertEqual([m["MESSAGE"] for m in journal() if "cannot be preloaded" in str(m["MESSAGE"])], [])

    def test_nothing_is_loaded_where_nobody_asked(self):
        self.check("systemd-run", "--quiet", "--pipe", "--wait", "--collect", unit=None)

    def test_one_unit(self):
        self.put(
            "unit.conf",
            "/run/systemd/system/gpu-job.service.d/50-xsched.conf",
            lambda: run("systemctl", "daemon-reload"),
        )
        self.check("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--unit=gpu-job", unit="gpu-job.service")

    def test_priority_of_a_unit(self):
        self.put(
            "priority.conf",
            "/run/systemd/system/gpu-job.service.d/60-gpu.conf",
            lambda: run("systemctl", "daemon-reload"),
        )
        c = self.client(unit="gpu-job.service")
        path = self.client_of(c)
        until(lambda: self.get("Priority", path, CLIENT) == 20, "its priority")
        self.assertEqual(show("gpu-job.service", "Slice"), "gpu-online.slice")

    def test_the_host(self):
        self.put("host.conf", "/etc/systemd/system.conf.d/50-xsched.conf", lambda: run("systemctl", "daemon-reexec"))
        self.check("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--unit=any", unit="any.service")

    def user_case(self, example, path, name):
        """The example counts for a user who logs in after it was put there."""
        run("useradd", "--create-home", name)
        self.put(
            example,
            path.format(uid=run("id", "-u", name).strip(), home=f"/home/{name}"),
            lambda: run("systemctl", "daemon-reload"),
        )
        uid = int(run("id", "-u", name))
        run("loginctl", "enable-linger", name)
        until(lambda: show(f"user@{uid}.service", "ActiveState") == "active", "the user's manager")
        self.addCleanup(run, "loginctl", "disable-linger", name)
        self.check(
            "setpriv",
            f"--reuid={name}",
            f"--regid={name}",
            "--init-groups",
            "env",
            f"HOME=/home/{name}",
            f"XDG_RUNTIME_DIR=/run/user/{uid}",
            "systemd-run",
            "--user",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            "--unit=mine",
            unit="mine.service",
        )

    def test_a_user_by_the_administrator(self):
        self.user_case("user.conf", "/run/systemd/system/user@{uid}.service.d/50-xsched.conf", "dora")

    def test_a_user_by_himself(self):
        self.user_case("environment.conf", "{home}/.config/environment.d/50-xsched.conf", "emil")


if __name__ == "__main__":
    inside.main()
