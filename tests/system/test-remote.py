# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl asks for a password on a terminal, and works on other hosts and in containers."""

import json
import os
import subprocess

import inside
from inside import CLIENT, Case, run, show, until
from terminal import Terminal


class Password(Case):
    @classmethod
    def setUpClass(cls):
        for user in ("alice", "boss"):
            run("useradd", "--create-home", user)
        run("usermod", "--append", "--groups", "sudo", "boss")
        subprocess.run(["chpasswd"], input="boss:open sesame\nroot:never asked\n", text=True, check=True)
        run("systemctl", "start", "polkit")

    def setUp(self):
        super().setUp()
        # A client of root's: only an administrator may change it.
        self.root = self.client()
        self.pid = show(self.root.unit, "MainPID")

    def priority(self):
        return self.get("Priority", self.client_of(self.root), CLIENT)

    def agents(self):
        return subprocess.run(["pgrep", "pkttyagent"], capture_output=True, text=True, check=False).stdout

    def test_is_asked_for(self):
        t = Terminal("set", self.pid, "priority=7", user="alice")
        t.expect("AUTHENTICATING FOR org.xsched.manage")
        t.expect("boss")
        t.expect("Password: ")
        self.assertEqual(self.priority(), 0)
        t.type_password("open sesame\r")
        t.expect("AUTHENTICATION COMPLETE")
        self.assertEqual(t.wait(), 0)
        self.assertEqual(self.priority(), 7)
        self.assertEqual(self.agents(), "")

    def test_wrong(self):
        t = Terminal("suspend", self.pid, user="alice")
        t.expect("AUTHENTICATING FOR org.xsched.suspend")
        t.expect("Password: ")
        t.type_password("please\r")
        t.expect("AUTHENTICATION FAILED")
        t.expect("access denied")
        self.assertEqual(t.wait(), 1)
        self.assertFalse(self.get("Suspended", self.client_of(self.root), CLIENT))
        self.assertEqual(self.agents(), "")

    def test_no_agent_beside_the_command(self):
        """A command has the terminal to itself: the agent has ended before."""
        t = Terminal(
            "hold", "interactive", "--", "sh", "-c", "echo agents=$(pgrep -c pkttyagent); exit 5", user="alice"
        )
        t.expect("AUTHENTICATING FOR org.xsched.manage")
        t.expect("Password: ")
        t.type_password("open sesame\r")
        t.expect("agents=0")
        self.assertEqual(t.wait(), 5)

    def test_is_not_asked_for(self):
        """No password is asked for with --no-ask-password, by root, without a terminal, and for what anybody may do."""
        t = Terminal("--no-ask-password", "set", self.pid, "priority=8", user="alice")
        self.assertEqual(t.wait(), 1)
        self.assertRegex(t.text, r"\Axschedctl: [0-9]+: access denied: [^\n]*\n\Z")
        self.assertNotIn("AUTHENTICATING", t.text)
        t = Terminal("--no-pager", "list-clients", user="alice")
        self.assertEqual(t.wait(), 0)
        self.assertNotIn("AUTHENTICATING", t.text)
        t = Terminal("set", self.pid, "priority=9")
        self.assertEqual((t.wait(), t.text), (0, ""))
        done = subprocess.run(
            ["setpriv", "--reuid=alice", "--regid=alice", "--clear-groups", "xschedctl", "set", self.pid, "priority=8"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("access denied", done.stderr)
        self.assertEqual(self.priority(), 9)

    def test_without_an_agent(self):
        """xschedctl does not wait for an agent that it cannot start."""
        agent = run("sh", "-c", "command -v pkttyagent").strip()
        os.rename(agent, agent + ".away")
        self.addCleanup(os.rename, agent + ".away", agent)
        t = Terminal("set", self.pid, "priority=8", user="alice")
        t.expect("access denied")
        self.assertEqual(t.wait(), 1)


class Elsewhere(Case):
    def ctl(self, *argv, status=0, **kwargs):
        done = subprocess.run(
            ["xschedctl", *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **kwargs
        )
        self.assertEqual(done.returncode, status, f"{argv}: {done.stdout}{done.stderr}")
        return done

    def check_is_that_service(self, *where, **kwargs):
        c = self.client()
        pid = show(c.unit, "MainPID")
        listed = json.loads(self.ctl(*where, "--json=short", "list-clients", **kwargs).stdout)
        self.assertEqual([(i["pid"], i["user"]) for i in listed], [(int(pid), "0")])
        self.ctl(*where, "set", pid, "priority=-6", **kwargs)
        self.assertEqual(self.get("Priority", self.client_of(c), CLIENT), -6)
        self.ctl(*where, "set", c.unit, "--runtime", "weight=7", **kwargs)
        self.assertIn("Priority", self.ctl(*where, "explain", pid, **kwargs).stdout)
        self.assertIn("no such client", self.ctl(*where, "set", "1", "priority=-6", status=1, **kwargs).stderr)
        c.end()
        until(lambda: self.get("NClients") == 0, "it to go")

    def test_host(self):
        """xschedctl calls ssh with the same arguments as systemctl does. Here a script leads back to this host."""
        write = "/tmp/ssh/ssh"
        inside.write(write, '#!/bin/sh\nprintf "%s\\n" "$@" >/tmp/ssh/arguments\nexec systemd-stdio-bridge\n')
        os.chmod(write, 0o755)
        env = {**os.environ, "PATH": f"/tmp/ssh:{os.environ['PATH']}"}
        for option in (["-H", "ann@gpu7"], ["--host=ann@gpu7"]):
            self.check_is_that_service(*option, env=env)
            with open("/tmp/ssh/arguments", encoding="utf-8") as f:
                ours = f.read()
            self.assertIn("ann@gpu7\nsystemd-stdio-bridge\n", ours)
            run("systemctl", *option, "is-system-running", status=None, env=env)
            with open("/tmp/ssh/arguments", encoding="utf-8") as f:
                self.assertEqual(f.read(), ours)
        inside.write(write, "#!/bin/sh\nexit 255\n")
        self.assertRegex(
            self.ctl("-H", "gone", "list-clients", status=1, env=env).stderr,
            r"\Axschedctl: cannot reach the system bus of gone: [^\n]*\n\Z",
        )
        # The state of that service is unknown, which is another exit status than for a stopped one.
        self.assertRegex(
            self.ctl("-H", "gone", "status", status=3, env=env).stdout,
            r"\AUnknown: the system bus of gone cannot be reached: [^\n]*\n\Z",
        )

    def test_machine(self):
        for where in (".host", "root@.host"):
            self.check_is_that_service("-M", where)
        self.assertRegex(
            self.ctl("-M", "nosuch", "status", status=3).stdout,
            r"\AUnknown: the system bus of nosuch cannot be reached: [^\n]*\n\Z",
        )
        for option in ("--host=", "--machine="):
            self.assertIn(f"{option} is empty", self.ctl(option, "status", status=1).stderr)
        self.assertRegex(
            self.ctl("-M", "nosuch", "list-clients", status=1).stderr,
            r"\Axschedctl: [^\n]*the system bus of nosuch[^\n]*\n\Z",
        )

    def test_verbs_for_this_host_only(self):
        for argv in (["run", "true"], ["hold", "batch", "true"], ["check"], ["dump"], ["list-queues", "--kernel"]):
            for where in ("--host=x", "--machine=x"):
                self.assertIn("works on this host only", self.ctl(where, *argv, status=1).stderr)
        for argv in (["-H", "x", "-M", "y"], ["-H", "x", "--user"], ["-M", "x", "--bus-address=unix:path=/x"]):
            self.ctl(*argv, "status", status=1)


if __name__ == "__main__":
    inside.main()
