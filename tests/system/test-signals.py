# SPDX-License-Identifier: LGPL-2.1-or-later
"""The signals on the bus, as busctl sees them: each documented signal is sent, properties change exactly as documented,
and polkit's two kinds of refusal are told apart."""

import json
import os
import subprocess
import threading
import xml.etree.ElementTree as ElementTree

import inside
from inside import CLIENT, DEVICE, GROUP, NAME, PATH, QUEUE, Case, run, until

XML = "/usr/share/dbus-1/interfaces/org.xsched.Scheduler.xml"
PROPERTIES = "org.freedesktop.DBus.Properties"
EMITS = "org.freedesktop.DBus.Property.EmitsChangedSignal"


class Monitor:
    """busctl monitor, and the messages that it has seen so far."""

    def __init__(self):
        self.seen, self.changed = [], []
        # The monitor is ready once it has printed a message; is_awake() makes one.
        self.process = subprocess.Popen(
            ["busctl", "monitor", "--json=short", NAME], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        until(self.is_awake, "the monitor to see something")

    def is_awake(self):
        run("busctl", "call", NAME, PATH, NAME, "ListPolicies")
        return self.seen

    def read(self):
        for line in self.process.stdout:
            self.seen.append(json.loads(line))

    def catch_up(self):
        """Waits until the monitor has seen all signals that the service has sent until now: they come before its answer
        to a call."""
        first = len(self.seen)
        run("busctl", "call", NAME, PATH, NAME, "ListPolicies")

        def answered():
            calls = {(m["sender"], m["cookie"]) for m in self.seen[first:] if m.get("member") == "ListPolicies"}
            return any((m.get("destination"), m.get("reply_cookie")) in calls for m in self.seen[first:])

        until(answered, "the monitor to see the answer")

    def signals(self, interface, member):
        return [
            m
            for m in self.seen
            if m.get("type") == "signal" and m.get("interface") == interface and m.get("member") == member
        ]

    def changes(self):
        """Returns {(interface, property): {path of an object}} of the changes that were signalled."""
        found = {}
        for m in self.signals(PROPERTIES, "PropertiesChanged"):
            interface, values, invalidated = m["payload"]["data"]
            for name in [*values, *invalidated]:
                found.setdefault((interface, name), set()).add(m["path"])
        return found

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Signals(Case):
    @classmethod
    def setUpClass(cls):
        cls.interfaces = {i.get("name"): i for i in ElementTree.parse(XML).getroot().findall("interface")}

    def setUp(self):
        super().setUp()
        self.monitor = Monitor()
        self.addCleanup(self.monitor.end)

    def group(self, unit):
        return next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith("/" + unit))

    def set_property(self, path, interface, name, signature, value):
        run("busctl", "set-property", NAME, path, interface, name, signature, "--", str(value))

    def until_signal(self, member, *wanted):
        def found():
            return [
                m
                for m in self.monitor.signals(NAME, member)
                if all(m["payload"]["data"][i] == w for i, w in enumerate(wanted) if w is not None)
            ]

        return until(found, f"{member}{wanted}")[0]

    def test_every_signal(self):
        low, high = self.client(unit="low.service"), self.client(unit="high.service")
        path, queue = self.client_of(high), self.call("ListQueues")[0][-1]
        group = self.group("high.service")
        name = self.get("Name", group, GROUP)
        self.until_signal("ClientAdded", self.get("Id", path, CLIENT), path)
        self.until_signal("QueueAdded", queue[0], queue[-1])
        self.until_signal("GroupAdded", name, group)

        self.set_property(group, GROUP, "Priority", "i", 10)
        self.assertIn(low.ask("begin 0"), ("tracked", "untracked"))
        high.tell("begin 0")
        self.until_signal(
            "Preempted", self.call("ListDevices")[0][0][-1], self.get("Name", self.group("low.service"), GROUP), name
        )
        self.assertIn(high.line(), ("tracked", "untracked"))
        for c in (low, high):
            self.assertEqual(c.ask("complete 0"), "completed")

        run("busctl", "call", NAME, group, GROUP, "Reset", "t", "0")
        high.end()
        self.until_signal("QueueRemoved", None)
        self.until_signal("ClientRemoved", None, path)
        self.until_signal("GroupRemoved", name, group)

        declared = {
            s.get("name"): "".join(a.get("type") for a in s.findall("arg"))
            for s in self.interfaces[NAME].findall("signal")
        }
        self.assertLessEqual(
            {"ClientAdded", "ClientRemoved", "QueueAdded", "QueueRemoved", "GroupAdded", "GroupRemoved", "Preempted"},
            set(declared),
        )
        for member, signature in declared.items():
            for m in self.monitor.signals(NAME, member):
                self.assertEqual((m["payload"]["type"], m["path"]), (signature, PATH), m)
        undeclared = {
            m["member"] for m in self.monitor.seen if m.get("type") == "signal" and m.get("interface") == NAME
        } - set(declared)
        self.assertEqual(undeclared, set())

    def test_properties_changed(self):
        """Properties that are documented to emit changes do so for the changed object; others never do."""
        c = self.client(unit="one.service")
        other = self.client(unit="two.service")
        group, path = self.group("one.service"), self.client_of(c)
        client_id = self.get("Id", path, CLIENT)
        queue = next(q[-1] for q in self.call("ListQueues")[0] if q[1] == client_id)
        device = self.call("ListDevices")[0][0][-1]
        for n, (object_, interface) in enumerate(((group, GROUP), (path, CLIENT), (queue, QUEUE))):
            for name, signature, value in (
                ("Priority", "i", -3 - n),
                ("Weight", "u", 77 - n),
                ("Threshold", "u", 3 + n),
            ):
                self.set_property(object_, interface, name, signature, value)
                until(
                    lambda: object_ in self.monitor.changes().get((interface, name), ()),
                    f"{interface}.{name} to change",
                )
                self.assertEqual(self.get(name, object_, interface), value)
            until(
                lambda: object_ in self.monitor.changes().get((interface, "PolicySource"), ()), "the source to change"
            )
            for member, value in (("Suspend", True), ("Resume", False)):
                seen = len(self.monitor.seen)
                run("busctl", "call", NAME, object_, interface, member)
                until(
                    lambda: any(
                        m.get("path") == object_
                        and m.get("member") == "PropertiesChanged"
                        and m["payload"]["data"][1].get("Suspended", {}).get("data") is value
                        for m in self.monitor.seen[seen:]
                    ),
                    member,
                )
        for name, signature, value in (("Concurrency", "u", 2), ("TimeSliceUSec", "t", 7000), ("Threshold", "u", 4)):
            self.set_property(device, DEVICE, name, signature, value)
            until(lambda: device in self.monitor.changes().get((DEVICE, name), ()), f"{name} of the device to change")
        self.assertEqual(other.ask("run 5"), "ran")  # changes counters, which do not emit
        self.assertEqual(c.ask("run 5"), "ran")
        self.monitor.catch_up()

        silent = {
            (i, p.get("name"))
            for i, x in self.interfaces.items()
            for p in x.findall("property")
            for a in p.findall("annotation")
            if a.get("name") == EMITS and a.get("value") in ("const", "false")
        }
        self.assertGreater(len(silent), 20)
        self.assertEqual(set(self.monitor.changes()) & silent, set())
        known = {(i, p.get("name")) for i, x in self.interfaces.items() for p in x.findall("property")}
        self.assertEqual({k for k in self.monitor.changes() if k[0].startswith(NAME)} - known, set())
        run("busctl", "call", NAME, PATH, NAME, "SetPolicy", "ssta{sv}", "", "", "0", "1", "Concurrency", "u", "1")

    def test_objects_come_and_go(self):
        """InterfacesAdded and InterfacesRemoved are sent, for programs that mirror all objects."""
        c = self.client(unit="come.service")
        path = self.client_of(c)
        manager = "org.freedesktop.DBus.ObjectManager"
        until(
            lambda: any(m["payload"]["data"][0] == path for m in self.monitor.signals(manager, "InterfacesAdded")),
            "it to be added",
        )
        c.end()
        until(
            lambda: any(m["payload"]["data"][0] == path for m in self.monitor.signals(manager, "InterfacesRemoved")),
            "it to be removed",
        )


class Interactive(Case):
    """The caller's message says whether polkit may ask a person. Without an agent, polkit refuses both kinds of calls,
    with different errors."""

    def test_flag_is_honoured(self):
        run("useradd", "--create-home", "eve")
        run("systemctl", "start", "polkit")
        self.client("--uid=eve", unit="eve.service")
        path = self.call("ListClients")[0][0][-1]
        for flag, words in (("no", "Interactive authorisation required"), ("yes", "Access denied")):
            done = subprocess.run(
                [
                    "systemd-run",
                    "--quiet",
                    "--pipe",
                    "--wait",
                    "--collect",
                    "--uid=eve",
                    "--",
                    "busctl",
                    f"--allow-interactive-authorization={flag}",
                    "call",
                    NAME,
                    path,
                    CLIENT,
                    "Set",
                    "ta{sv}",
                    "0",
                    "1",
                    "Priority",
                    "i",
                    "5",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.get("Priority", path, CLIENT), 0)


if __name__ == "__main__":
    inside.main()
