# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the administrator has set, and what follows from it for each group, client and queue: none may have more."""

OF_NODES = ("Weight", "Max", "Min", "Period")  # never inherited
CLASSES = {
    "idle": {"Priority": -200, "Weight": 10},
    "fast": {"Priority": 60},
    "slow": {"Priority": -5},
    "heavy": {"Priority": -20, "Weight": 900},  # lowers one, raises the other
    "light": {"Priority": 20, "Weight": 5, "Threshold": 2, "Preemption": "3", "Accounting": "off"},
    "bound": {"Priority": -5, "Max": 20, "Min": 2, "Period": 20000, "Gang": True, "Accounting": "exact"},
}
BUILT_IN = {
    "Priority": 0,
    "Weight": 100,
    "Threshold": 0,
    "Preemption": "auto",
    "Gang": False,
    "Deadline": 0,
    "Laxity": 0,
    "Critical": 0,
    "Utilization": 100,
    "Active": False,
    "Max": 0,
    "Min": 0,
    "Period": 100000,
    "Accounting": "auto",
}


def rank(key, value):
    """The higher, the more one has of the device. 0 is no limit, or the device's threshold; or never."""
    if key == "Preemption":
        return -["off", "1", "2", "3", "auto", "privileged"].index(value)
    if key in ("Deadline", "Laxity"):
        return -(value or 1 << 40)
    if key in ("Max", "Threshold") and value == 0:
        return 1 << 32
    return value


class Model:
    """What the administrator has said of groups, clients and queues, by their objects' paths; of groups, by name."""

    def __init__(self):
        self.said = {}
        self.attributes = {}  # of cgroups that are the administrator's

    def say(self, what, settings):
        self.said.setdefault(what, {}).update(settings)

    def forget(self, what):
        self.said.pop(what, None)

    def unsay(self, what, keys):
        for k in keys:
            self.said.get(what, {}).pop(k, None)

    @staticmethod
    def above(group):
        while len(group) > 1:
            group = group.rpartition("/")[0] or "/"
            yield group

    def of_group(self, name, parent):
        """A job has what the cgroup has that it was made in."""
        layers = [(self.said.get(name, {}), False), (self.attributes.get(name, {}), False)]
        if not name.startswith("/"):
            layers += self.inherited(parent)
            name = parent
        return layers + [layer for g in self.above(name) for layer in self.inherited(g)]

    def inherited(self, name):
        return [(self.said.get(name, {}), True), (self.attributes.get(name, {}), True)]

    @staticmethod
    def resolve(layers):
        has, class_seen = {}, False
        for settings, inherited in layers:
            words = [settings]
            if "Class" in settings and not class_seen:
                class_seen = True
                words.append(CLASSES[settings["Class"]])
            for word in words:
                for k, v in word.items():
                    if k != "Class" and not (inherited and k in OF_NODES):
                        has.setdefault(k, v)
        return {**BUILT_IN, **has}


def excess(has, bound):
    """The keys of which there is more than the bound. The period is that of the administrator's quotas: who waives
    his Min= and has no Max= of his may choose one for a Max= of his own. Counted exactly one may always be."""
    more = [k for k in has if k in bound and k not in ("Period", "Accounting") and rank(k, has[k]) > rank(k, bound[k])]
    if has.get("Accounting", "exact") not in ("exact", bound["Accounting"]):
        more.append("Accounting")
    has_quota = bound["Max"] or (bound["Min"] and has.get("Min", bound["Min"]))
    if "Period" in has and has_quota and has["Period"] != bound["Period"]:
        more.append("Period")
    return more
