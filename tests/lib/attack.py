# SPDX-License-Identifier: LGPL-2.1-or-later
"""As a user without the right, calls every method and sets every writable property of the introspection, in every wrong
form. The calls would change something if they were accepted: right names, plausible values, others' objects."""

import json
import os
import sys
import xml.etree.ElementTree as ElementTree

import dbus

NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
LOG_CONTROL = "/org/freedesktop/LogControl1"
PROPERTIES = "org.freedesktop.DBus.Properties"
STANDARD = "org.freedesktop.DBus."
NO_REPLY_EXPECTED = 1

# Methods that everybody may call in the right form: they read, or make something of the caller's own that ends with the
# caller.
FOR_EVERYBODY = {
    "ListDevices",
    "ListClients",
    "ListQueues",
    "ListGroups",
    "ListPolicies",
    "ListClasses",
    "ListHolds",
    "ListSettings",
    "GetSettings",
    "ListStatistics",
    "ListShares",
    "GetClientByProcess",
    "GetClientByPID",
    "GetGroup",
    "Explain",
    "ExplainObject",
    "Preview",
    "Describe",
    "GetRecord",
    "Measure",
    "RegisterClient",
    "CreateJob",
    "HoldPriority",
}
REFUSALS = {
    f"org.freedesktop.DBus.Error.{e}"
    for e in (
        "AccessDenied",
        "InteractiveAuthorizationRequired",
        "InvalidArgs",
        "UnknownObject",
        "UnknownInterface",
        "UnknownMethod",
        "UnknownProperty",
        "PropertyReadOnly",
    )
}


def walk(c, path):
    """(path, interface, node) of every interface of every object, but for the interfaces that every object has."""
    node = ElementTree.fromstring(c.call(NAME, path, STANDARD + "Introspectable", "Introspect")[0])
    found = [(path, i.get("name"), i) for i in node.findall("interface") if not i.get("name").startswith(STANDARD)]
    for child in node.findall("node"):
        found += walk(c, path.rstrip("/") + "/" + child.get("name"))
    return found


def writable(node):
    return [(p.get("name"), p.get("type")) for p in node.findall("property") if p.get("access") == "readwrite"]


def objects(c):
    return walk(c, PATH) + walk(c, LOG_CONTROL)


def state(c, seen):
    """The state of the `seen` objects that calls can change, and the list of objects."""
    values = {}
    for path, interface, node in seen:
        got = c.call(NAME, path, PROPERTIES, "GetAll", "s", interface)[0]
        for name in [p for p, _ in writable(node)] + [
            "Suspended",
            "PolicySource",
            "NQueues",
            "NClients",
            "AllowMESPreemption",
            "LingerUSec",
            "StarveUSec",
        ]:
            if name in got:
                values[path, name] = got[name]
    for member in ("ListHolds", "ListClasses"):
        values[member] = c.call(NAME, PATH, NAME, member)[0]
    return values


class Attack:
    """Attacks by one connection. `victim` has the targets: group, client (path), queue (id), device (id), policy (a
    name)."""

    def __init__(self, connection, seen, victim):
        self.c, self.seen, self.victim = connection, seen, victim
        self.passed, self.n_refused = [], 0

    def value(self, t, member):
        v = self.victim
        if t == "s":
            return {
                "Policy": v["policy"],
                "Class": "batch",
                "Preemption": "off",
                "LogLevel": "debug",
                "LogTarget": "journal",
                "SetPolicy": v["device"],
                "HoldPriority": "batch",
                "CreateJob": "attack",
            }.get(member, v["group"])
        if t == "t":
            return (
                v["queue"]
                if member in ("UnregisterQueue", "Hint")
                else 0
                if member not in ("Period", "TimeSliceUSec")
                else 20000
            )
        settings = {"Priority": ("i", 200)} if member != "SetPolicy" else {"Concurrency": ("u", 3)}
        return {
            "i": 200,
            "u": 3,
            "b": True,
            "o": v["client"],
            "a{sv}": settings,
            "v": ("i", 200),
            "x": 1,
            "as": ["x"],
            "a(sas)": [(v["device"], [v["group"]])],
            "a(sa{sv})": [("runtime", {"Priority": ("i", 200)})],
            "ay": b"x",
            "(i)": (200,),
        }[t]

    def try_call(self, path, interface, member, signature, *args, flags=0):
        what = f"{interface}.{member}({signature}) on {path}: {args}"
        try:
            serial = self.c.send(NAME, path, interface, member, signature, *args, flags=flags)
            if flags & NO_REPLY_EXPECTED:
                self.n_refused += 1  # the state tells whether it was refused
                return
            self.c.reply(serial)
        except dbus.DBusError as e:
            if e.name in REFUSALS or e.name.startswith(NAME + ".Error."):
                self.n_refused += 1
            else:
                self.passed.append(f"{what}: {e.name}")
        else:
            self.passed.append(what)

    def sets(self, path, interface, name, t):
        v = (t, self.value(t, name))
        for signature, args in (
            ("ssv", (interface, name, v)),
            ("ssvs", (interface, name, v, "x")),
            ("ssvv", (interface, name, v, v)),
            ("ssvssv", (interface, name, v, interface, name, v)),
            ("ssvas", (interface, name, v, [])),
            ("ssv", (interface, name, ("v", v))),
            ("ssv", (interface, name, ("v", ("v", v)))),
            ("ssv", (interface, name, (f"({t})", (v[1],)))),
            ("ssv", (interface, name, (f"a{t}", [v[1]]))),
            ("ssv", ("", name, v)),
            ("ssv", (NAME, name, v)),
            (f"ss{t}", (interface, name, v[1])),
            ("ss(v)", (interface, name, (v,))),
            ("sv", (name, v)),
            ("", ()),
        ):
            self.try_call(path, PROPERTIES, "Set", signature, *args)
            self.try_call(path, PROPERTIES, "Set", signature, *args, flags=NO_REPLY_EXPECTED)
        for elsewhere in (path + "/x", path.rsplit("/", 1)[0], PATH, "/"):
            if elsewhere:
                self.try_call(elsewhere, PROPERTIES, "Set", "ssvs", interface, name, v, "x")
        self.try_call(path, None, "Set", "ssv", interface, name, v)
        self.try_call(path, interface, "Set" + name, t, v[1])

    def calls(self, path, interface, member, signature):
        types = dbus.split(signature)
        args = [self.value(t, member) for t in types]
        if member not in FOR_EVERYBODY:
            self.try_call(path, interface, member, signature, *args)
            self.try_call(path, interface, member, signature, *args, flags=NO_REPLY_EXPECTED)
        self.try_call(path, None, member, signature, *args)
        self.try_call(path + "/x", interface, member, signature, *args)
        for extra in ("s", "v", "x", "as", "(i)", "a{sv}"):
            self.try_call(path, interface, member, signature + extra, *args, self.value(extra, ""))
            self.try_call(
                path, interface, member, signature + extra, *args, self.value(extra, ""), flags=NO_REPLY_EXPECTED
            )
        if types:
            self.try_call(path, interface, member, "".join(types[:-1]), *args[:-1])
            self.try_call(path, interface, member, "v" * len(types), *zip(types, args))
            self.try_call(path, interface, member, "")

    def run(self, n_members=60):
        """Returns the calls that were accepted; the caller compares the state."""
        n = 0
        for path, interface, node in self.seen:
            for name, t in writable(node):
                self.sets(path, interface, name, t)
                n += 1
            for m in node.findall("method"):
                signature = "".join(a.get("type") for a in m.findall("arg") if a.get("direction", "in") == "in")
                self.calls(path, interface, m.get("name"), signature)
                n += 1
        self.c.call(NAME, PATH, STANDARD + "Peer", "Ping")  # the calls without a reply have been handled
        if n < n_members or self.n_refused < 10 * n:
            raise AssertionError(f"only {self.n_refused} refusals of {n} members")
        return self.passed


class OwnersAttack(Attack):
    """Attacks by the owner of the objects: values that an owner may set, in every form but the right one."""

    def value(self, t, member):
        lower = {"i": -7, "u": 3, "a{sv}": {"Priority": ("i", -7)}}
        return lower[t] if t in lower else super().value(t, member)

    def sets(self, path, interface, name, t):
        self.right = (PROPERTIES, "Set", "ssv", (interface, name, (t, self.value(t, name))))
        super().sets(path, interface, name, t)

    def calls(self, path, interface, member, signature):
        self.right = (interface, member, signature, None)
        super().calls(path, interface, member, signature)

    def try_call(self, path, interface, member, signature, *args, flags=0):
        right = self.right[:3] == (interface, member, signature) and self.right[3] in (None, args)
        if not right or path.endswith("/x"):
            super().try_call(path, interface, member, signature, *args, flags=flags)


def main():
    """attack.py ADDRESS VICTIM (JSON): attacks as the calling user. Prints the accepted calls, and fails if there are
    any."""
    with dbus.Connection(sys.argv[1]) as c:
        passed = Attack(c, objects(c), json.loads(sys.argv[2])).run()
    print("\n".join(passed))
    sys.exit(bool(passed))


if __name__ == "__main__":
    main()
