# SPDX-License-Identifier: LGPL-2.1-or-later
"""The policy awf follows the active sessions of logind's seats: when others become active, and on each of two seats.

Sessions are made as a display server's unit makes its own: by PAM, on a seat. The system has no consoles and no udev.
So logind itself switches sessions (loginctl activate), and what udev would say of a second seat is written by hand."""

import os

import inside
from inside import DEVICE_ID, QUEUE, Case, run, show, until

CONFIG = "/run/xsched/xsched.conf.d/50-test.conf"
STEPS = 20  # of who runs, while who is held makes none
DEVICE_OF_SEAT1 = "/sys/class/mem/null/dev"


def make_seat1():
    """Tells logind of a device that makes a seat. It looks at udev's database when it starts."""
    with open(DEVICE_OF_SEAT1, encoding="utf-8") as f:
        device = f"c{f.read().strip()}"
    tags = ("seat", "master-of-seat")
    for tag in tags:
        inside.write(f"/run/udev/tags/{tag}/{device}", "")
    tagged = "".join(f"G:{tag}\nQ:{tag}\n" for tag in tags)
    inside.write(f"/run/udev/data/{device}", f"I:1\nE:ID_SEAT=seat1\n{tagged}V:1\n")
    run("systemctl", "restart", "systemd-logind")
    until(lambda: "seat1" in run("loginctl", "list-seats"), "the second seat")


class Seats(Case):
    @classmethod
    def setUpClass(cls):
        inside.write("/etc/pam.d/seat", "account required pam_permit.so\nsession required pam_systemd.so\n")
        make_seat1()
        cls.uids = {}
        for name in ("dora", "eve"):
            run("useradd", "--create-home", name)
            cls.uids[name] = run("id", "-u", name).strip()
            run("loginctl", "enable-linger", name)
            until(lambda u=cls.uids[name]: show(f"user@{u}.service", "ActiveState") == "active", "the user's manager")

    def setUp(self):
        super().setUp()
        self.configure("")
        run("systemctl", "reload", "xsched")
        self.addCleanup(os.unlink, CONFIG)
        self.sessions = {}

    def tearDown(self):
        run("systemctl", "stop", "session-*.scope", status=None)  # what a failed test has left
        super().tearDown()

    def configure(self, text):
        inside.write(CONFIG, f"[Scheduler]\nStarveAfter=1h\nTimeSlice=1ms\n{text}")

    def works(self, client):
        self.assertEqual(client.ask("work 1"), "working")
        return client

    def session(self, user, seat):
        """A client that is a session, which becomes the seat's active one: logind does that where there are no
        consoles."""
        c = self.client("--property=PAMName=seat", f"--property=User={user}", f"--setenv=XDG_SEAT={seat}")
        with open(f"/proc/{show(c.unit, 'MainPID')}/cgroup", encoding="utf-8") as f:
            scope = f.read().strip().rsplit("/", 1)[1]
        self.assertRegex(scope, r"^session-\w+\.scope$")
        self.sessions[c] = scope.removeprefix("session-").removesuffix(".scope")
        until(lambda: self.active(seat) == self.sessions[c], "the new session is active")
        return self.works(c)

    def app(self, user):
        """A client below the user's service manager, where desktops start programs."""
        uid = self.uids[user]
        command = f"systemd-run --quiet --pipe --wait --collect --uid={uid} -E XDG_RUNTIME_DIR=/run/user/{uid} --"
        return self.works(
            self.client(command=[*command.split(), *"systemd-run --user --quiet --pipe --wait --collect".split()])
        )

    def service(self):
        return self.works(self.client())

    def active(self, seat="seat0"):
        return run("loginctl", "show-seat", seat, "-P", "ActiveSession").strip()

    def activate(self, client):
        run("loginctl", "activate", self.sessions[client])

    def policy(self, name):
        run("xschedctl", "policy", "--runtime", DEVICE_ID, name)
        self.addCleanup(run, "xschedctl", "reset", f"device:{DEVICE_ID}")

    @staticmethod
    def progress(clients):
        return [int(c.ask("progress")) for c in clients]

    def check_first(self, *first):
        """Of all clients these run, in turns, and none of the others does."""
        others = [c for c in self.clients if c not in first and not c.process.stdin.closed]
        states = lambda: [self.get("State", q[-1], QUEUE) for q in self.call("ListQueues")[0]]
        until(lambda: states().count("held") >= len(others), "the others are held")

        def runs_alone():
            ours, theirs = self.progress(first), self.progress(others)
            until(lambda: all(n >= o + STEPS for o, n in zip(ours, self.progress(first))), "the first ones run")
            return self.progress(others) == theirs

        until(runs_alone, "the others do not run")

    def test_active_session(self):
        """The active session goes first, and what its user has started besides, from the moment when it becomes the
        active one. All other policies take no notice."""
        service, app, dora = self.service(), self.app("dora"), self.session("dora", "seat0")
        self.policy("awf")
        self.check_first(app, dora)
        eve = self.session("eve", "seat0")
        self.check_first(eve)
        for _ in range(2):
            self.activate(dora)
            self.check_first(app, dora)
            self.activate(eve)
            self.check_first(eve)
        self.policy("tree")
        self.check_first(service, app, dora, eve)
        self.activate(dora)
        self.policy("awf")
        self.check_first(app, dora)
        run("xschedctl", "set", "--runtime", service.unit, "active=yes")
        self.addCleanup(run, "xschedctl", "reset", service.unit)
        self.check_first(service, app, dora)

    def test_end_of_sessions(self):
        """A session that has ended gives precedence to none, though its user's other programs run on."""
        service, app, dora = self.service(), self.app("dora"), self.session("dora", "seat0")
        self.policy("awf")
        self.check_first(app, dora)
        dora.end()
        until(lambda: self.active() == "", "the end of the session")
        self.check_first(service, app)

    def test_two_seats(self):
        """Each seat has an active session."""
        service, dora, eve = self.service(), self.session("dora", "seat0"), self.session("eve", "seat0")
        self.policy("awf")
        self.check_first(eve)
        other = self.session("dora", "seat1")
        self.check_first(eve, other)
        self.activate(dora)
        self.check_first(dora, other)
        other.end()
        until(lambda: self.active("seat1") == "", "the end of the session")
        self.check_first(dora)
        dora.end()
        until(lambda: self.active() == "", "the end of the session")
        self.check_first(service, eve)
        self.activate(eve)
        self.check_first(eve)

    def test_restarts(self):
        """By the configuration, and over restarts of the service and of logind."""
        self.configure("Policy=awf\n")
        run("systemctl", "reload", "xsched")
        self.service()
        dora, eve = self.session("dora", "seat0"), self.session("eve", "seat0")
        self.check_first(eve)
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 3, "the clients to be back")
        self.check_first(eve)
        self.activate(dora)
        self.check_first(dora)
        run("systemctl", "restart", "systemd-logind")
        self.check_first(dora)
        self.activate(eve)
        self.check_first(eve)


if __name__ == "__main__":
    inside.main()
