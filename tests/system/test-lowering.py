# SPDX-License-Identifier: LGPL-2.1-or-later
"""A user with a delegated cgroup cannot raise any setting by attributes, own cgroups, environments and jobs, in any
order."""

import os
import subprocess

import inside
import lowering
from inside import CLIENT, GROUP, PATH, QUEUE, Case, run, until
from lowering import Refused, Trial
from processes import process_id

SEED = int(os.environ.get("LOWERING_SEED", 0)) or int.from_bytes(os.urandom(4), "little")
STEPS = 200


class LoweringCase(Case):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["useradd", "--create-home", "alice"], check=False)
        lowering.write_classes("/etc/xsched/classes.d")
        run("systemctl", "reload-or-restart", "xsched")

    def setUp(self):
        super().setUp()
        self.bus_connection = self.bus
        self.agents = []

    def tearDown(self):
        for process in self.agents:
            process.stdin.close()
            process.wait()
            process.stdout.close()
        super().tearDown()
        for name in [g[0] for g in self.call("ListGroups")[0]]:
            self.call("ResetGroup", "st", name, 0)

    def start(self, unit, *options, command=("systemd-run", "--uid=alice")):
        """Starts alice's agent in a cgroup that is delegated to her. Returns (agent, its cgroup)."""
        process = subprocess.Popen(
            [
                *command,
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                f"--unit={unit}",
                "-p",
                "Delegate=yes",
                *options,
                "--",
                "/usr/bin/python3",
                "-B",
                "/mnt/source/tests/lib/lowering.py",
                inside.SYSTEM_BUS,
                inside.TEST_CLIENT,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.agents.append(process)
        agent = lowering.Remote(process.stdin, process.stdout)
        return agent, agent.whereabouts()[2]

    def priority(self, path, interface=CLIENT):
        return self.get("Priority", path, interface)

    def set_group(self, name, **settings):
        self.call("SetGroup", "sta{sv}", name, 0, lowering.typed(settings))

    def assert_refused(self, function, *args):
        with self.assertRaises(Refused) as caught:
            function(*args)
        self.assertRegex(str(caught.exception), "AccessDenied|InteractiveAuthorizationRequired")


class Attacks(LoweringCase):
    def test_attribute(self):
        """An attribute that is removed again cannot be used to get a higher override allowed, here of 200."""
        agent, home = self.start("agent.service")
        path = agent.register({})
        id_, _ = agent.queue(path, 0)
        queue, group = f"{PATH}/queue/{id_}", self.call("GetGroup", "s", home)[0]
        agent.attribute(home, "Priority", "-200")
        until(lambda: self.priority(path) == -200, "the attribute to count")
        for what in ((path, CLIENT), (queue, QUEUE), (group, GROUP)):
            self.assert_refused(agent.set, *what, {"Priority": 200})
            self.assert_refused(agent.write, *what, "Priority", 200)
            agent.set(*what, {"Priority": 0})
        agent.attribute(home, "Priority", None)
        until(lambda: self.priority(path) == 0, "the attribute to be gone")
        self.assertEqual([self.priority(queue, QUEUE), self.priority(group, GROUP)], [0, 0])

    def test_environment(self):
        agent, _ = self.start("agent.service")
        high = self.call("GetClientByPID", "u", agent.start({"XSCHED_PRIORITY": "200"}))[0]
        low = self.call("GetClientByPID", "u", agent.start({"XSCHED_PRIORITY": "-200"}))[0]
        self.assertEqual([self.priority(high), self.priority(low)], [0, -200])
        self.assert_refused(agent.set, low, CLIENT, {"Priority": 200})

    def test_depth(self):
        """A slice's settings apply however many cgroups she makes between the slice and herself."""
        self.set_group("deep.slice", Priority=-30, Preemption="3")
        agent, home = self.start("agent.service", "--slice=deep.slice")
        path = agent.register({})
        self.assertEqual(self.priority(path), -30)
        place = home + "/down" * 12
        agent.move(place)
        until(lambda: self.get("Group", path, CLIENT) == place, "her to be there")
        self.assertEqual([self.priority(path), self.get("Preemption", path, CLIENT)], [-30, "3"])

    def test_below_what_it_was_started_with(self):
        """Settings that the administrator gave a program still apply in a cgroup of the user's own, and in a job."""
        agent, home = self.start("agent.service")
        started = process_id(agent.whereabouts()[0])
        self.call("CreateJob", "sa{sv}utt", "agent", lowering.typed({"Priority": -50, "Threshold": 1}), *started, 1)
        path = agent.register({})
        place = home + "/down"
        agent.move(place)
        until(lambda: self.get("Group", path, CLIENT) == place, "her to be there")
        for client in (path, agent.register({}), agent.register({}, agent.job({}, 0)[0])):
            self.assertEqual([self.priority(client), self.get("Threshold", client, CLIENT)], [-50, 1])

    def test_up_again(self):
        """A process can move up to a cgroup that the service had a group of only because of another one below it."""
        service = self.bus.bus("GetConnectionUnixProcessID", "s", inside.NAME)
        agent, home = self.start("agent.service")
        path = agent.register({})
        agent.queue(path, 0)
        for place in 3 * [home + "/a/b", home + "/a", home]:
            agent.move(place)
            until(lambda: self.get("Group", path, CLIENT) == place, "her to be there")
            group = self.call("GetGroup", "s", place)[0]
            self.assertEqual([self.get(p, group, GROUP) for p in ("Name", "NClients")], [place, 1])
        token = agent.job({}, 0)[0]
        inner = agent.register({}, token)
        agent.hang_up(path)
        agent.end_job(0)
        agent.move(home + "/a")
        until(lambda: self.get("Group", inner, CLIENT) == home + "/a", "her to leave the job")
        agent.move(home)
        until(lambda: self.get("Group", inner, CLIENT) == home, "her to be there")
        self.assertEqual(self.bus.bus("GetConnectionUnixProcessID", "s", inside.NAME), service)

    def test_job_of_a_better_cgroup(self):
        """A process that knows the token of a job in a better cgroup does not get that cgroup's settings, and a member
        that leaves the cgroup does not keep them."""
        rich, home = self.start("rich.service")
        poor, poor_home = self.start("poor.service")
        self.set_group(home, Priority=50)
        self.set_group(poor_home, Priority=-50, Max=20)
        token, group = rich.job({"Weight": 30}, 0)
        member = rich.register({}, token)
        self.assertEqual([self.priority(member), self.get("Weight", member, CLIENT)], [50, 30])
        path = poor.register({}, token)
        self.assertEqual([self.get(p, path, CLIENT) for p in ("Group", "Priority", "Weight")], [poor_home, -50, 30])
        self.assertEqual(self.get("NClients", group, GROUP), 1)
        self.set_group(home + "/out", Priority=-20)
        rich.move(home + "/out")
        until(lambda: self.get("Group", member, CLIENT) == home + "/out", "her to leave the job")
        self.assertEqual([self.priority(member), self.get("Weight", member, CLIENT)], [-20, 30])

    def test_jobs_do_not_evade_a_class(self):
        """A class that matches a service applies to the service as a whole, also if all of its clients are in jobs."""
        inside.write(
            "/etc/xsched/classes.d/row.class", "[Class]\nMax=20\nMin=10\nWeight=30\n[Match]\nUnit=agent.service\n"
        )
        self.addCleanup(self.call, "Reload")
        self.addCleanup(os.unlink, "/etc/xsched/classes.d/row.class")
        self.call("Reload")
        agent, home = self.start("agent.service")
        path = agent.register({})
        group = self.call("GetGroup", "s", home)[0]

        def limits(of):
            return [self.get(p, of, GROUP) for p in ("Max", "Min", "Weight")]

        self.assertEqual(limits(group), [20, 10, 30])
        jobs = [agent.job({}, 0) for _ in range(3)]
        members = [agent.register({}, token) for token, _ in jobs]
        agent.hang_up(path)
        until(lambda: self.get("NClients", group, GROUP) == 0, "only jobs to be left")
        self.assertEqual(limits(group), [20, 10, 30])
        self.assertEqual([limits(g)[1] for _, g in jobs], [0, 0, 0])
        for m in members:
            agent.hang_up(m)

    def test_which_settings_are_kept(self):
        """Settings of the administrator's units are kept until the next boot, those of cgroups that she makes only as
        long as they have clients."""
        agent, home = self.start("agent.service")
        unit = agent.register({})
        agent.set_group(home, 0, {"Weight": 60})
        agent.move(home + "/mine")
        until(lambda: self.get("Group", unit, CLIENT) == home + "/mine", "her to be there")
        agent.set_group(home + "/mine", 0, {"Priority": -9})
        self.assertEqual(self.priority(unit), -9)
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1 and self.priority(unit) == -9, "it to be kept over a restart")
        agent.hang_up(unit)
        until(lambda: self.get("NClients") == 0, "her to go")
        unit = agent.register({})
        self.assertEqual(self.priority(unit), 0)
        self.assertEqual(self.get("Weight", self.call("GetGroup", "s", home)[0], GROUP), 60)


class Random(LoweringCase):
    """Random steps, with attributes set by root: on slices above, and on a cgroup below hers, which she may enter."""

    def trial(self, seed, agent, home, roots, **kwargs):
        print(f"LOWERING_SEED={seed}", flush=True)
        given = home + "/given"
        os.mkdir(lowering.CGROUPS + given)
        os.chown(f"{lowering.CGROUPS}{given}/cgroup.procs", int(run("id", "-u", "alice")), -1)
        places = [home, home + "/a", home + "/a/b", given]
        trial = Trial(self, agent, seed, places, [*roots, given], programs=True, until=until, **kwargs)
        for name in trial.roots:
            trial.attributes(name)
        trial.run(STEPS)

    def test_alone(self):
        agent, home = self.start("agent.service", "--slice=some-slice.slice")
        self.trial(SEED, agent, home, ["/some.slice", "/some.slice/some-slice.slice"])

    def test_in_a_user_manager(self):
        """With files of her own units, and random settings of units."""
        uid = run("id", "-u", "alice").strip()
        run("loginctl", "enable-linger", "alice")
        self.addCleanup(run, "loginctl", "disable-linger", "alice")
        until(lambda: inside.show(f"user@{uid}.service", "ActiveState") == "active", "her manager")
        as_alice = (
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            "--uid=alice",
            f"--setenv=XDG_RUNTIME_DIR=/run/user/{uid}",
            "--",
            "systemd-run",
            "--user",
        )
        agent, home = self.start("agent.service", command=as_alice)
        top = f"/user.slice/user-{uid}.slice"
        units = ["agent.service", "app.slice", f"user@{uid}.service", f"user-{uid}.slice", "user.slice"]
        self.trial(SEED + 1, agent, home, ["/user.slice", top], units=units)


if __name__ == "__main__":
    inside.main()
