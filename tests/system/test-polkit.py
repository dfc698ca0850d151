# SPDX-License-Identifier: LGPL-2.1-or-later
"""Permissions of users, with the real polkitd and real users."""

import json
import os

import inside
from inside import CLIENT, DEVICE_ID, GROUP, NAME, SYSTEM_BUS, Case, run, show, until

import attack  # inside.py has added its directory to the path

RULE = "/etc/polkit-1/rules.d/10-xsched-test.rules"
BEYOND = ("/usr/bin/python3", "-B", "/mnt/source/tests/lib/beyond.py")
MARK = "org.xsched.test.Mark"
ALLOW = """  if (action.id == "org.xsched.manage" && subject.user == "oscar") return polkit.Result.YES;
  if (action.id == "org.xsched.manage-own" && subject.user == "bob") return polkit.Result.NO;
"""
REFUSE = """  if (action.id == "org.xsched.register" && subject.isInGroup("nogpu")) return polkit.Result.NO;
"""
DENIED = "[Aa]ccess denied|Not authorised|Interactive authorisation required"


class Polkit(Case):
    @classmethod
    def setUpClass(cls):
        for user in ("alice", "ben", "bob", "oscar"):
            run("useradd", "--create-home", user)
        run("systemctl", "start", "polkit")

    def setUp(self):
        super().setUp()
        self.alice = self.client("--uid=alice")
        self.object = self.client_of(self.alice)
        self.pid = show(self.alice.unit, "MainPID")

    def as_user(self, user, *argv, allowed):
        """Runs a command as the user, and checks that it is allowed, or refused with a message that says so."""
        argv = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--uid={user}", "--", *argv]
        if allowed:
            return run(*argv)
        done = inside.subprocess.run(argv, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout + done.stderr, DENIED)
        return done.stderr

    def set_priority(self, user, value, allowed, path=None, interface=CLIENT):
        before = self.get("Priority", path or self.object, interface)
        self.as_user(
            user,
            "busctl",
            "set-property",
            NAME,
            path or self.object,
            interface,
            "Priority",
            "i",
            "--",
            str(value),
            allowed=allowed,
        )
        self.assertEqual(self.get("Priority", path or self.object, interface), value if allowed else before)

    def test_polkitd_is_the_real_one(self):
        self.assertEqual(show("polkit", "ActiveState"), "active")
        actions = run("pkaction").split()
        for action in ("register", "manage-own", "manage", "suspend"):
            self.assertIn(f"org.xsched.{action}", actions)

    def test_client_of_its_own(self):
        uid = int(run("id", "-u", "alice"))
        self.assertEqual(self.get("UID", self.object, CLIENT), uid)
        self.set_priority("alice", -5, True)
        self.set_priority("alice", -9, True)
        self.set_priority("alice", -8, True)  # she may raise it up to what it was before she lowered it
        self.set_priority("alice", 5, False)

    def test_reset_of_its_own(self):
        self.set_priority("alice", -5, True)
        self.as_user("bob", "xschedctl", "reset", self.pid, allowed=False)
        self.as_user("alice", "xschedctl", "reset", self.pid, allowed=True)
        self.assertEqual(self.get("Priority", self.object, CLIENT), 0)
        run("xschedctl", "set", self.pid, "priority=-7")
        self.as_user("alice", "xschedctl", "reset", self.pid, allowed=False)
        self.set_priority("alice", -6, False)

    def test_client_of_another(self):
        self.set_priority("bob", -5, False)
        self.set_priority("bob", 5, False)

    def test_xschedctl_says_what_is_missing(self):
        self.as_user("alice", "xschedctl", "set", self.pid, "priority=-3", allowed=True)
        said = self.as_user("alice", "xschedctl", "set", self.pid, "priority=3", allowed=False)
        self.assertIn("access denied", said)
        self.as_user("bob", "xschedctl", "set", self.pid, "weight=50", allowed=False)
        self.assertEqual(self.get("Priority", self.object, CLIENT), -3)

    def test_suspend_is_for_administrators(self):
        for user in ("alice", "bob"):
            self.as_user(user, "xschedctl", "suspend", self.pid, allowed=False)
        self.assertFalse(self.get("Suspended", self.object, CLIENT))
        run("xschedctl", "suspend", self.pid)
        self.assertTrue(self.get("Suspended", self.object, CLIENT))
        self.as_user("alice", "xschedctl", "resume", self.pid, allowed=False)
        run("xschedctl", "resume", self.pid)

    def test_groups_and_devices(self):
        device = self.call("ListDevices")[0][0][-1]
        self.as_user(
            "alice", "busctl", "set-property", NAME, device, f"{NAME}.Device", "Concurrency", "u", "2", allowed=False
        )
        group = next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith(self.alice.unit))
        self.set_priority("bob", -5, False, group, GROUP)
        self.set_priority("alice", 5, False, group, GROUP)
        self.as_user("alice", "xschedctl", "reload", allowed=False)

    def test_rule_of_the_administrator(self):
        self.set_priority("oscar", 7, False)
        self.write_rule(ALLOW)
        self.set_priority("oscar", 7, True)
        self.set_priority("alice", 8, False)
        bob = self.client("--uid=bob")
        self.set_priority("bob", -1, False, self.client_of(bob))

    def attack(self, user):
        """Calls each member of each object, in each wrong form and in the right one, and checks that nothing changes.
        The objects are alice's, root's, and the devices."""
        root = self.client_of(self.client())
        client = self.client_of(self.alice)
        victim = {
            "group": self.get("Group", client, CLIENT),
            "client": client,
            "queue": self.call("ListQueues")[0][0][0],
            "device": DEVICE_ID,
            "policy": self.get("Policies")[-1],
        }
        seen = attack.objects(self.bus)
        self.assertTrue({client, root} <= {path for path, _, _ in seen})
        before = attack.state(self.bus, seen)
        argv = [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            f"--uid={user}",
            "--",
            "/usr/bin/python3",
            "-B",
            "/mnt/source/tests/lib/attack.py",
            SYSTEM_BUS,
            json.dumps(victim),
        ]
        done = inside.subprocess.run(argv, capture_output=True, text=True, check=False)
        after = attack.state(self.bus, seen)
        self.assertEqual({k: (before[k], v) for k, v in after.items() if before[k] != v}, {})
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, "", ""))

    def test_another_user_attacks(self):
        self.attack("bob")

    def test_another_user_attacks_without_polkit(self):
        run("systemctl", "mask", "--runtime", "--now", "polkit")
        self.addCleanup(self.restart_polkit)
        self.addCleanup(run, "systemctl", "unmask", "--runtime", "polkit")
        self.attack("bob")

    def test_extra_argument(self):
        """Set() with an extra argument is refused. It once got past the check of permissions."""
        for path, interface in (
            (self.object, CLIENT),
            (next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith(self.alice.unit)), GROUP),
        ):
            before = self.get("Priority", path, interface)
            for user in ("alice", "bob"):
                said = inside.subprocess.run(
                    [
                        "systemd-run",
                        "--quiet",
                        "--pipe",
                        "--wait",
                        "--collect",
                        f"--uid={user}",
                        "--",
                        "busctl",
                        "call",
                        NAME,
                        path,
                        "org.freedesktop.DBus.Properties",
                        "Set",
                        "ssvs",
                        interface,
                        "Priority",
                        "i",
                        "200",
                        "x",
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertNotEqual(said.returncode, 0)
                self.assertIn("Set takes", said.stderr)
            self.assertEqual(self.get("Priority", path, interface), before)

    def test_without_polkit(self):
        """Without polkit, root may do everything, and others can only lower settings of their own."""
        run("systemctl", "mask", "--runtime", "--now", "polkit")
        self.addCleanup(self.restart_polkit)
        self.addCleanup(run, "systemctl", "unmask", "--runtime", "polkit")
        self.set_priority("alice", -4, True)
        self.set_priority("alice", 4, False)
        self.set_priority("bob", -9, False)
        run("xschedctl", "set", self.pid, "priority=9")

    @staticmethod
    def questions(monitor, users):
        """Returns (user, [users of the questions open then]) for each question to polkit about these names, up to the
        mark."""
        open_, asked = {}, []
        while (m := monitor.next_message()).interface != MARK:
            if m.member == "CheckAuthorization":
                user = users.get(m.body[0][1]["name"])
                asked += [(user, list(open_.values()))] if user else []
                open_[m.sender, m.serial] = user
            elif m.reply_to is not None:
                open_.pop((m.destination, m.reply_to), None)
        return asked

    def test_one_question_of_a_user_at_a_time(self):
        """While two processes of a user make as many forbidden calls as may wait, polkit gets one question about that
        user at a time. So another user's question waits for only one."""
        monitor = inside.dbus.Connection(SYSTEM_BUS)
        self.addCleanup(monitor.close)
        answers = (f"type='{t}',sender='org.freedesktop.PolicyKit1'" for t in ("method_return", "error"))
        monitor.monitor("member='CheckAuthorization'", *answers, f"interface='{MARK}'")
        users = {self.client("--uid=bob", program=(*BEYOND, SYSTEM_BUS)).line(): "bob" for _ in range(2)}
        other = self.client("--uid=oscar", program=(*BEYOND, SYSTEM_BUS, "register"))
        users[other.line()] = "oscar"
        for _ in range(20):
            self.assertEqual(other.ask("register"), "registered")
        mark = {1: ("o", "/"), 2: ("s", MARK), 3: ("s", "Mark")}
        self.bus.send_raw(inside.dbus.encode(inside.dbus.SIGNAL, self.bus.next_serial(), mark)[0])
        asked = self.questions(monitor, users)
        whose = [user for user, _ in asked]
        self.assertEqual(whose.count("oscar"), 20)
        self.assertGreater(whose.count("bob"), 5, "too few questions for an attack")
        for user in "bob", "oscar":
            at_once = [others.count(user) for who, others in asked if who == user]
            self.assertEqual(max(at_once), 0, "two questions about one user were open at a time")

    def test_refused_registration_on_the_socket(self):
        """The bus's own policy does not apply to the socket, but a rule of polkit does, by user or by group."""
        run("groupadd", "--force", "nogpu")
        # Not bob: the service may still have calls of his, which the test before made.
        run("usermod", "--append", "--groups=nogpu", "ben")
        self.write_rule(REFUSE)
        for address, hello in ((SYSTEM_BUS, True), ("unix:path=/run/xschedd-client/socket", False)):
            code = f"import beyond, dbus; print(beyond.register(dbus.Connection('{address}', hello={hello})))"
            program = ("env", "PYTHONPATH=/mnt/source/tests/lib", "/usr/bin/python3", "-B", "-c", code)
            with self.subTest(address=address):
                self.as_user("ben", *program, allowed=False)
                self.assertIn("/client/", self.as_user("oscar", *program, allowed=True))

    def write_rule(self, lines):
        with open(RULE, "w", encoding="utf-8") as f:
            f.write(f"polkit.addRule(function(action, subject) {{\n{lines}}});\n")
        self.addCleanup(self.restart_polkit)
        self.addCleanup(os.unlink, RULE)
        os.chmod(RULE, 0o644)
        self.restart_polkit()

    def restart_polkit(self):
        run("systemctl", "restart", "polkit")
        until(lambda: show("polkit", "ActiveState") == "active", "polkitd")


if __name__ == "__main__":
    inside.main()
