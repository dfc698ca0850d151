# SPDX-License-Identifier: LGPL-2.1-or-later
"""Nobody gets more than his cgroup has: a user who tries all that he may, in any order, and a model of what he has
without it.

The user is an agent, a process of his own that does what it is told, line by line (JSON). The model knows what the
administrator has said, and nothing of what the user does: whatever that is, nothing of his may be above it. It resolves
the administrator's words anew, without looking at how the service does it."""

import contextlib
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys

import dbus
import harness
from lowering_model import CLASSES, Model, excess

NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
CLIENT, QUEUE, GROUP = (f"{NAME}.{i}" for i in ("Client", "Queue", "Group"))
DEVICE = "pci:0000:01:00.0"
CGROUPS = "/sys/fs/cgroup"
TYPES = {
    "Priority": "i",
    "Weight": "u",
    "Threshold": "u",
    "Preemption": "s",
    "Gang": "b",
    "Deadline": "t",
    "Laxity": "t",
    "Critical": "i",
    "Utilization": "u",
    "Active": "b",
    "Max": "u",
    "Min": "u",
    "Period": "t",
    "Accounting": "s",
    "Class": "s",
}
VALUES = {
    "Priority": [-255, -200, -50, -1, 0, 1, 50, 200, 255],
    "Weight": [1, 50, 99, 100, 101, 5000, 10000],
    "Threshold": [0, 1, 2, 8, 65535],
    "Preemption": ["off", "1", "2", "3", "auto", "privileged"],
    "Gang": [False, True],
    "Deadline": [0, 1, 20000, 3600000000],
    "Laxity": [0, 1, 20000, 3600000000],
    "Critical": [-255, -1, 0, 50, 255],
    "Utilization": [1, 30, 100],
    "Active": [False, True],
    "Max": [0, 5, 50, 100, 10000],
    "Min": [0, 5, 50, 100],
    "Period": [1000, 100000, 10000000],
    "Accounting": ["auto", "off", "sampled", "exact"],
    "Class": ["idle", "slow", "fast", "heavy", "light", "bound"],
}
CROWD = 4  # clients and jobs that there may be before more of them end
OF_GROUPS = ("Max", "Min", "Period", "Accounting")


def write_classes(directory):
    os.makedirs(directory, exist_ok=True)
    for name, settings in CLASSES.items():
        with open(f"{directory}/{name}.class", "w", encoding="utf-8") as f:
            f.write("[Class]\n")
            f.writelines(f"{k}={v}\n" for k, v in text_of(settings))


def typed(settings):
    return {k: (TYPES[k], v) for k, v in settings.items()}


def text_of(settings):
    """As files, attributes and environments have it: (key, value) of each."""

    def text(k, v):
        return str(v).lower() if isinstance(v, bool) else f"{v}us" if TYPES[k] == "t" else str(v)

    return [(k, text(k, v)) for k, v in settings.items()]


# --- the user ---


class Agent:
    """Does what it is told, as the user that it runs as. A refusal is an answer, too."""

    def __init__(self, address, program=None):
        self.c = dbus.Connection(address)
        self.address, self.program = address, program
        self.clients, self.holds, self.sleepers, self.programs = {}, [], [], []
        self.home = None
        with contextlib.suppress(OSError, IndexError), open("/proc/self/cgroup", encoding="utf-8") as f:
            self.home = [line[3:].strip() for line in f if line.startswith("0::")][0]

    def call(self, member, signature="", *args):
        return self.c.call(NAME, PATH, NAME, member, signature, *args)

    def register(self, wishes, job=None, told=None):
        """`told`: what the user's manager is said to say of units."""
        properties = typed(wishes)
        if job:
            properties["Job"] = ("s", job)
        if told:
            properties["UserUnits"] = ("a(ss)", [tuple(t) for t in told])
        path, page, lifeline, wake = self.call("RegisterClient", "ta{sv}", 0, properties)
        self.clients[path] = (mmap.mmap(page, harness.PAGE_SIZE, mmap.MAP_SHARED, mmap.PROT_READ), lifeline, wake)
        os.close(page)
        return path

    def hang_up(self, path):
        page, lifeline, wake = self.clients.pop(path)
        page.close()
        os.close(lifeline)
        os.close(wake)

    def queue(self, path, hint):
        properties = {"Device": ("s", DEVICE), "Backend": ("s", "test")}
        if hint:
            properties["PriorityHint"] = ("i", hint)
        return self.call("RegisterQueue", "oa{sv}", path, properties)

    def threshold(self, path, slot):
        return struct.unpack_from("I", self.clients[path][0], 4096 + harness.SLOT_SIZE * slot + 4)[0]

    def in_force(self, path, slot):
        """0 for a queue that is held: it is told anew when it may run."""
        verdict, threshold = struct.unpack_from("II", self.clients[path][0], 4096 + harness.SLOT_SIZE * slot)
        return 0 if verdict & 1 else threshold

    def hint(self, queue, settings):
        self.call("Hint", "ta{sv}", queue, typed(settings))

    def set(self, path, interface, settings):
        self.c.call(NAME, path, interface, "Set", "ta{sv}", 0, typed(settings))

    def unset(self, path, interface, keys, settings):
        self.c.call(NAME, path, interface, "Set", "ta{sv}", 0, {**typed(settings), "Unset": ("as", keys)})

    def preview(self, path, settings, keys):
        changes = {**typed(settings), "Unset": ("as", keys)}
        return self.c.call(NAME, path, GROUP, "Preview", "ta{sv}", 0, changes)[0]

    def set_group(self, name, flags, settings):
        self.call("SetGroup", "sta{sv}", name, flags, typed(settings))

    def restore(self, name, expected, then):
        """Both: lifetime -> settings."""
        pairs = lambda lifetimes: [(k, typed(v)) for k, v in lifetimes.items()]
        self.call("RestoreSettings", "sta(sa{sv})a(sa{sv})", name, 0, pairs(expected), pairs(then))

    def write(self, path, interface, key, value):
        self.c.set(NAME, path, interface, key, TYPES[key], value)

    def reset(self, path, interface):
        self.c.call(NAME, path, interface, "Reset", "t", 0)

    def hold(self, class_, flags):
        self.holds.append(self.call("HoldPriority", "sst", class_, "why not", flags)[0])

    def end_hold(self, index):
        if self.holds:
            os.close(self.holds.pop(index % len(self.holds)))

    def job(self, settings, flags):
        """For a process that can be ended: (token, group)."""
        sleeper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.sleepers.append(sleeper)
        return self.call("CreateJob", "sa{sv}utt", "j", typed(settings), *harness.process_id(sleeper.pid), flags)

    def end_job(self, index):
        if self.sleepers:
            sleeper = self.sleepers.pop(index % len(self.sleepers))
            sleeper.kill()
            sleeper.communicate()

    def start(self, environment):
        """A process of its own, which has its wishes from its environment."""
        p = subprocess.Popen(
            [self.program, DEVICE, "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XSCHED_BUS_ADDRESS": self.address, **environment},
        )
        self.programs.append(p)
        return p.pid if p.stdout.readline() == "ready\n" else 0

    def stop(self, index):
        if self.programs:
            self.programs.pop(index % len(self.programs)).communicate()

    def attribute(self, cgroup, key, value):
        name = f"user.xsched.{key.lower()}"
        if value is None:
            with contextlib.suppress(OSError):
                os.removexattr(CGROUPS + cgroup, name)
        else:
            os.setxattr(CGROUPS + cgroup, name, value.encode())

    def replace(self, cgroup):
        """An empty cgroup by one of his own, whosever it was."""
        os.rmdir(CGROUPS + cgroup)
        os.mkdir(CGROUPS + cgroup)

    def unit_file(self, unit, settings):
        """Of the user's manager."""
        path = os.path.expanduser(f"~/.config/systemd/user/{unit}.d")
        os.makedirs(path, exist_ok=True)
        with open(f"{path}/50.conf", "w", encoding="utf-8") as f:
            f.write("[X-XSched]\n")
            f.writelines(f"{k}={v}\n" for k, v in text_of(settings))
        subprocess.run(["systemctl", "--user", "daemon-reload"], check=True)

    def move(self, cgroup):
        """Itself, and nothing else."""
        os.makedirs(CGROUPS + cgroup, exist_ok=True)
        with open(f"{CGROUPS}{cgroup}/cgroup.procs", "w", encoding="ascii") as f:
            f.write("0")

    def whereabouts(self):
        return [os.getpid(), os.getuid(), self.home]

    def end(self):
        for p in self.sleepers:
            p.kill()
            p.communicate()
        for p in self.programs:
            p.communicate()
        self.c.close()

    def serve(self, lines, answers):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for line in lines:
            member, args = json.loads(line)
            try:
                answer = {"value": getattr(self, member)(*args)}
            except dbus.DBusError as e:
                answer = {"error": e.name, "text": e.text}
            except OSError as e:
                answer = {"error": "os", "text": str(e)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        self.end()


class Refused(Exception):
    pass


class Remote:
    """The agent, from the other end of its pipes: agent.register({...})."""

    def __init__(self, into, out):
        self.into, self.out = into, out

    def __getattr__(self, member):
        def call(*args):
            self.into.write(json.dumps([member, args]) + "\n")
            self.into.flush()
            line = self.out.readline()
            if not line:
                raise AssertionError("the agent has ended")
            answer = json.loads(line)
            if "error" in answer:
                raise Refused(f"{answer['error']}: {answer['text']}")
            return answer["value"]

        return call


def fork_agent(case, address, prepare):
    """An agent in a child of this process, which prepare() makes another user's."""
    ours_r, theirs_w = os.pipe()
    theirs_r, ours_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(ours_r)
            os.close(ours_w)
            prepare()
            with open(theirs_r, encoding="utf-8") as lines, open(theirs_w, "w", encoding="utf-8") as answers:
                Agent(address).serve(lines, answers)
            status = 0
        finally:
            os._exit(status)
    os.close(theirs_r)
    os.close(theirs_w)
    agent = Remote(open(ours_w, "w", encoding="utf-8"), open(ours_r, encoding="utf-8"))

    def end():
        agent.into.close()
        agent.out.close()
        os.waitpid(pid, 0)

    case.addCleanup(end)
    return agent


# --- the two together ---


class Trial:
    """`case` has get(), call() and a connection c, all of the administrator's; `places` are cgroups that the user may
    go to, `roots` those that are root's; `units` are the user's own; restart() restarts the service."""

    def __init__(
        self, case, agent, seed, places=(), roots=(), units=(), programs=False, others=(), until=None, restart=None
    ):
        self.case, self.agent, self.model = case, agent, Model()
        self.random = random.Random(seed)
        self.pid, self.uid, _ = agent.whereabouts()
        self.until, self.restart = until, restart
        self.places, self.programs, self.others = list(places), programs, others
        self.roots, self.units = list(roots), list(units)
        self.tokens, self.slots, self.done, self.n_refused = [], {}, [], 0
        self.unsettled = False

    # What there is, as the service tells it.

    def all(self, path, interface):
        return self.case.bus_connection.call(NAME, path, "org.freedesktop.DBus.Properties", "GetAll", "s", interface)[0]

    def look(self):
        clients, queues, groups = {}, {}, {}
        for _, _, uid, _, _, path in self.case.bus_connection.call(NAME, PATH, NAME, "ListClients")[0]:
            if uid == self.uid:
                clients[path] = self.all(path, CLIENT)
        for *_, path in self.case.bus_connection.call(NAME, PATH, NAME, "ListQueues")[0]:
            queue = self.all(path, QUEUE)
            if queue["Client"] in clients:
                queues[path] = queue
        for *_, path in self.case.bus_connection.call(NAME, PATH, NAME, "ListGroups")[0]:
            group = self.all(path, GROUP)
            if group["Name"] not in self.others:
                groups[path] = group
        return clients, queues, groups

    def check(self):
        clients, queues, groups = self.look()
        parents = {g["Name"]: g["Parent"] for g in groups.values()}

        def compare(what, has, layers):
            bound = Model.resolve(layers)
            more = [(k, has[k], bound[k]) for k in excess(has, bound)]
            if more:
                self.case.fail(f"{what} has more than it may: {more}; so far:\n" + "\n".join(map(str, self.done)))
            return bound

        for path, group in groups.items():
            if group["Name"].startswith("/") or group["Parent"]:
                compare(path, group, self.model.of_group(group["Name"], group["Parent"]))
        for path, client in clients.items():
            of_group = self.model.of_group(client["Group"], parents[client["Group"]])
            compare(path, client, [(self.model.said.get(path, {}), False)] + of_group)
        for path, queue in queues.items():
            client = clients[queue["Client"]]
            of_group = self.model.of_group(client["Group"], parents[client["Group"]])
            said = [(self.model.said.get(p, {}), False) for p in (path, queue["Client"])]
            bound = compare(path, queue, said + of_group)
            if path in self.slots:  # and what the gate goes by
                in_flight = self.agent.in_force(*self.slots[path])
                if in_flight > (bound["Threshold"] or 1):
                    self.case.fail(
                        f"{path}: {in_flight} launches in flight, of {bound['Threshold']}; so far:\n"
                        + "\n".join(map(str, self.done))
                    )
        return clients, queues, groups

    # What a change is said to do first, and does.

    def settle(self):
        """The service hears of attributes some time after they were written; at a Reload it looks at them all."""
        if self.unsettled:
            self.case.bus_connection.call(NAME, PATH, NAME, "Reload")
            self.unsettled = False

    def said_first(self, way, groups):
        """(group, what Preview says) of a way in which the user changes a group; or None."""
        if way[0] == "set_group":
            path, settings, keys = next(p for p, g in groups.items() if g["Name"] == way[1]), way[3], []
        elif way[0] in ("set", "unset", "write") and way[2] == GROUP:
            path, settings = way[1], {way[3]: way[4]} if way[0] == "write" else way[-1]
            keys = way[3] if way[0] == "unset" else []
        else:
            return None
        self.settle()
        try:
            return path, self.agent.preview(path, settings, keys)
        except Refused as e:  # as the change itself
            return path, str(e)

    def check_said(self, said):
        """`said`: of said_first(). The change was made."""
        path, then = said
        try:
            group = self.all(path, GROUP)
        except dbus.DBusError as e:  # there was nothing but settings to it
            self.case.assertIn("UnknownObject", e.name)
            return
        if then != {k: group[k] for k in TYPES}:
            self.case.fail(f"{then} was said of {path}, {group}; so far:\n" + "\n".join(map(str, self.done)))

    # What is done.

    def settings(self, group=False):
        keys = [k for k in TYPES if group or k not in OF_GROUPS]
        return {k: self.random.choice(VALUES[k]) for k in self.random.sample(keys, self.random.choice((1, 1, 2, 3)))}

    def pick(self, *tables):
        """(path, interface) of something that there is; mostly the user's own."""
        found = [(p, i) for table, i in tables for p in table]
        return self.random.choice(found) if found else None

    def lifetimes(self, name):
        """What was set for a group."""
        listed = self.case.bus_connection.call(NAME, PATH, NAME, "ListSettings")[0]
        return {lifetime: settings for target, lifetime, settings in listed if target == name}

    def user(self, clients, queues, groups):
        r, agent = self.random, self.agent
        own = self.pick((clients, CLIENT), (queues, QUEUE), (groups, GROUP))
        settings = self.settings(own is not None and own[1] == GROUP)
        key = r.choice(list(settings))
        mine = [p for p in clients if p in self.known]
        ways = [
            ("register", self.settings()),
            ("hint", 0, self.settings()),
            ("hold", r.choice(VALUES["Class"]), r.choice((0, 1))),
            ("end_hold", r.randrange(9)),
            ("job", self.settings(True), r.choice((0, 0, 0, 1))),
        ]
        n_jobs = sum(g["Name"].startswith("job:") for g in groups.values())
        ways += max(1, n_jobs - CROWD) * [("end_job", r.randrange(9))]
        if own:
            ways += 3 * [("set", *own, settings)] + 2 * [("write", *own, key, settings[key])] + [("reset", *own)]
            keys = r.sample(list(TYPES), r.choice((1, 1, 3)))
            ways += 2 * [("unset", *own, keys, {k: v for k, v in settings.items() if r.random() < 0.5})]
            if own[1] == GROUP:
                name = groups[own[0]]["Name"]
                ways += [("set_group", name, r.choice((0, 0, 1)), settings)]
                now = self.lifetimes(name)
                then = {k: v for k, v in now.items() if k == "runtime" or r.random() < 0.1}
                ways += 2 * [("restore", name, now, {**then, r.choice(("owner",) * 7 + ("runtime",)): settings})]
        told = [(unit, f"{k}={v}") for unit in ("-.slice", *self.units) for k, v in text_of(self.settings(True))]
        ways.append(("register", {}, None, told))
        if self.tokens:
            ways.append(("register", self.settings(), r.choice(self.tokens)))
        if queues:
            ways += 2 * [("hint", queues[r.choice(list(queues))]["Id"], self.settings())]
        if mine:
            # Each step looks at all that there is. So the more there is, the more ends.
            ways += max(1, len(mine) - CROWD) * [("hang_up", r.choice(mine))]
            ways += [("queue", r.choice(mine), r.choice((0, -1, -200, -(1 << 31))))]
        if self.places:
            ways += 2 * [("move", r.choice(self.places))]
            place = r.choice(self.places)
            ways += 3 * [("attribute", place, k, None if r.random() < 0.3 else v) for k, v in text_of(settings)]
            if not self.model.said.get(place):  # which is forgotten with the cgroup
                ways.append(("replace", place))
        if self.programs:
            environment = {f"XSCHED_{k.upper()}": v for k, v in text_of(self.settings(r.random() < 0.2))}
            ways += [("start", environment), ("stop", r.randrange(9))]
        if self.units:
            ways += 2 * [("unit_file", r.choice(self.units), self.settings(True))]
        return r.choice(ways)

    def attributes(self, name):
        """By root, who has the directory. When he is answered they count."""
        value = self.settings(True)
        self.done.append(("administrator", "attributes", name, value))
        for k in self.model.attributes.get(name, {}):
            os.removexattr(CGROUPS + name, f"user.xsched.{k.lower()}")
        for k, v in text_of(value):
            os.setxattr(CGROUPS + name, f"user.xsched.{k.lower()}", v.encode())
        self.model.attributes[name] = value
        self.case.bus_connection.call(NAME, PATH, NAME, "Reload")

    def own_roots(self):
        """Some may have been replaced by a user's."""
        self.roots = [p for p in self.roots if os.stat(CGROUPS + p).st_uid == 0]
        for name in set(self.model.attributes) - set(self.roots):
            del self.model.attributes[name]

    def administrator(self, clients, queues, groups):
        if self.roots and self.random.random() < 0.3:
            self.attributes(self.random.choice(self.roots))
            return
        what = self.pick((clients, CLIENT), (queues, QUEUE), (groups, GROUP))
        if not what:
            return
        path, interface = what
        name = groups[path]["Name"] if interface == GROUP else path
        if self.random.random() < 0.4:
            self.done.append(("administrator", "reset", name))
            self.case.bus_connection.call(NAME, path, interface, "Reset", "t", 0)
            self.model.forget(name)
            return
        settings = self.settings(interface == GROUP)
        if interface == QUEUE:
            settings.pop("Class", None)  # it may be named, and is of its client
        unset = self.random.sample(list(TYPES), 2) if self.random.random() < 0.2 else []
        self.done.append(("administrator", "set", name, settings, "unset", unset))
        changes = {**typed(settings), "Unset": ("as", unset)}
        call = lambda member: self.case.bus_connection.call(NAME, path, interface, member, "ta{sv}", 0, changes)
        said = None
        if interface == GROUP:
            self.settle()
            said = (path, call("Preview")[0])
        call("Set")
        if said:
            self.check_said(said)
        self.model.unsay(name, unset)
        self.model.say(name, settings)

    def step(self, seen):
        """`seen`: what there is before it."""
        if self.random.random() < 0.15:
            self.administrator(*seen)
            return
        if self.restart and self.random.random() < 0.02:
            self.done.append(("restart",))
            self.restart()
            return
        way = self.user(*seen)
        self.done.append(way)
        said = self.said_first(way, seen[2])
        self.unsettled |= way[0] in ("attribute", "replace", "move")
        try:
            value = getattr(self.agent, way[0])(*way[1:])
        except Refused as e:
            self.n_refused += 1
            self.done[-1] = (*way, str(e))
            return
        if said:
            self.check_said(said)
        if way[0] == "replace":
            self.own_roots()
        if way[0] == "register":
            self.known.add(value)
        if way[0] == "move":
            self.until(lambda: self.followed(way[1]), f"the service to see it in {way[1]}")
        if way[0] == "queue":
            self.slots[f"{PATH}/queue/{value[0]}"] = (way[1], value[1])
        if way[0] == "hang_up":
            self.known.discard(way[1])
            self.slots = {q: s for q, s in self.slots.items() if s[0] != way[1]}
        if way[0] == "job" and value[0]:
            self.tokens.append(value[0])

    def followed(self, place):
        """A job that was made there is there. What the process has left may go while we look."""
        try:
            clients, _, groups = self.look()
        except dbus.DBusError as e:
            if not e.name.endswith(".UnknownObject"):
                raise
            return False
        parents = {g["Name"]: g["Parent"] for g in groups.values()}
        return all(
            place in (c["Group"], parents.get(c["Group"]) if c["Group"].startswith("job:") else None)
            for c in clients.values()
            if c["PID"] == self.pid
        )

    def run(self, n):
        self.known = set()
        path = self.agent.register({})
        self.known.add(path)
        id_, slot = self.agent.queue(path, 0)
        self.slots[f"{PATH}/queue/{id_}"] = (path, slot)
        seen = self.look()
        for _ in range(n):
            self.step(seen)
            seen = self.check()
        # Neither all of it refused, nor all of it allowed.
        self.case.assertGreater(self.n_refused, n // 100)
        self.case.assertLess(self.n_refused, n * 9 // 10)


if __name__ == "__main__":
    Agent(*sys.argv[1:]).serve(sys.stdin, sys.stdout)
