# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tenants with kernels of all lengths in all patterns, and each tenant's part of the device, by its completed work.

A tenant's part of a window is what it did in it, divided by what it does alone in the same time: 1 for who has the
device for itself. That of two which always want the device add up to less than 1 by what taking turns costs; shares are
parts of that sum, so that a machine that was slower for all of them for a while makes no difference. Nothing here knows
where the service runs: see Session, and tests/system/test-mix.py."""

import collections
import json
import math
import os
import select
import statistics
import subprocess
import tempfile
import time

import dbus
import spans

NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
LENGTHS = (5, 100, 1200, 10000)  # of kernels, us
PATTERNS = ("deep", "burst", "sync")
UNUSUAL = ("failing", "unordered", "queues", "profiling", "callbacks", "forks")  # deep, see mix-tenant.c
BURST_USEC = 12000
GROUP_USEC = 1000  # work of a deep queue that is waited for together
WARM_UP = 0.2
DEFAULTS = {"Weight": 100, "Priority": 0, "Max": 0, "Min": 0}
TIMEOUT = 60
PACED = "paced device"  # paced-opencl.c
# One thread of PoCL's is the device: so two kernels at once take twice as long.
ENVIRONMENT = {"POCL_MAX_PTHREAD_COUNT": "1"}


class Kind(collections.namedtuple("Kind", "usec pattern")):
    def __str__(self):
        length = f"{self.usec} us" if self.usec < 100 else f"{self.usec / 1000:g} ms"
        return f"{length} {self.pattern}"

    def arguments(self, rounds):
        deep = self.pattern == "deep" or self.pattern in UNUSUAL
        together = BURST_USEC // self.usec if self.pattern == "burst" else GROUP_USEC // self.usec if deep else 1
        program = self.pattern if deep or self.pattern == "churn" else "finish"
        return [program, str(rounds), str(max(together, 1))]


KINDS = [Kind(usec, pattern) for usec in LENGTHS for pattern in PATTERNS]


def calibrate(program, lengths=LENGTHS):
    """{"device", "driver", "gpu", "cpu", "kernels": {usec: {"rounds", "ns"}}}; on a device of its own."""
    r = subprocess.run(
        [program, "calibrate", *map(str, lengths)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT,
        env={**os.environ, **ENVIRONMENT},
    )
    found = json.loads(r.stdout)
    found["kernels"] = {k.pop("usec"): k for k in found["kernels"]}
    return found


def go_first(*pids):
    """Gives these processes and their children CPU priority over the rest of the machine, as far as that is allowed,
    because its other work is not measured. They stay equals of each other. Sessions are scheduled as wholes
    (autogroup), so the session's priority counts."""
    for pid in (os.getpid(), *pids):
        try:
            os.setpriority(os.PRIO_PROCESS, pid, -15)
            with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as f:
                f.write("-15")
        except OSError:
            pass


def go_real_time(*pids):
    """Gives all threads of these processes, and below them ourselves and our children, real-time priorities, as far as
    that is allowed. A paced device needs no CPU, so nothing but other work would disturb what is measured."""
    for pid in pids:
        for tid in os.listdir(f"/proc/{pid}/task"):
            try:
                os.sched_setscheduler(int(tid), os.SCHED_FIFO, os.sched_param(10))
            except OSError:
                pass
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
    except OSError:
        pass


class Tenant:
    def __init__(self, kind, command, environment=None, **more):
        self.kind = kind
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **ENVIRONMENT, **(environment or {})},
            **more,
        )
        self.group, self.spans = None, (environment or {}).get("MIX_SPANS")

    def line(self):
        """Each line is an answer to one of ours, so that none is buffered."""
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            self.process.kill()
            raise AssertionError(f"{self.kind}: says nothing for {TIMEOUT} s")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.kind}: ended with status {self.process.wait(TIMEOUT)}")
        return line

    def wait_ready(self):
        assert self.line() == "ready\n"

    def tell(self, begin, end):
        self.process.stdin.write(f"{begin} {end}\n")

    def end(self):
        """Ends the tenant, and fails if its results were wrong."""
        self.process.stdin.close()
        status = self.process.wait(TIMEOUT)
        self.process.stdout.close()
        if status:
            raise AssertionError(f"{self.kind}: ended with status {status}")


def sleep_until(ns):
    while (left := ns - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)


class Service:
    """The service's properties, over one connection."""

    def __init__(self, address):
        self.bus = dbus.Connection(address)

    def call(self, member, signature="", *arguments):
        return self.bus.call(NAME, PATH, NAME, member, signature, *arguments)

    def pid(self):
        return self.bus.bus("GetConnectionUnixProcessID", "s", NAME)

    def describe(self):
        return json.loads(self.call("Describe")[0])

    def groups(self):
        return {g["name"]: g for g in self.describe()["groups"]}

    def group_of(self, pid):
        return next((c["group"] for c in self.describe()["clients"] if c["pid"] == pid), None)

    def set(self, group, **settings):
        codes = {"Priority": "i", "Weight": "u", "Max": "u", "Min": "u"}
        self.call("SetGroup", "sta{sv}", group, 0, {k: (codes[k], v) for k, v in settings.items()})


# In a window: `ran` is what the service accounts, in s; `device` is how long the device ran its launches, in s, and
# `turns` are its spans.Turns, both by the device's stamps, and None without them.
Work = collections.namedtuple("Work", "units busy seconds ran device turns")
Alone = collections.namedtuple("Alone", "rate busy")  # units/s; s/unit in which the device has its work


def measure(service, tenants, seconds, look=None):
    """Runs all tenants at once: {tenant: Work}. `look` is called when the window opens and when it closes."""
    begin = time.monotonic_ns() + int(WARM_UP * 1e9)
    end = begin + int(seconds * 1e9)
    for t in tenants:
        t.tell(begin, end)
    sleep_until(begin)
    if look:
        look()
    asked, before = time.monotonic_ns(), service.groups()
    # Made before the tenants end: otherwise their work meanwhile would be missing in one number and not in the other.
    sleep_until(end - 1000000)
    asked, after = time.monotonic_ns() - asked, service.groups()
    if look:
        look()
    done = {t: json.loads(t.line()) for t in tenants}

    def ran(t):
        """Of the time between the two questions, as a part of the window: we may lose our CPU before one of them."""
        if t.group not in after:
            return 0
        return (after[t.group]["run_usec"] - before[t.group]["run_usec"]) / 1e6 * seconds / (asked / 1e9)

    of_turns = turns_of(tenants)
    return {
        t: Work(
            d["units"],
            d["busy_ns"] / 1e9,
            seconds,
            ran(t),
            d["device_ns"] / 1e9 if d["device_ns"] >= 0 else None,
            of_turns.get(t),
        )
        for t, d in done.items()
    }


def turns_of(tenants):
    """Returns {tenant: spans.Turns} of their last window, if all of them have kept their spans."""
    found = [spans.read(f"{t.spans}/{t.process.pid}") if t.spans else None for t in tenants]
    if not all(found):
        return {}
    return dict(zip(tenants, spans.turns([of_one for _, of_one in found], found[0][0])))


def alone(service, tenant, seconds):
    w = measure(service, [tenant], seconds)[tenant]
    if not w.units:
        raise AssertionError(f"{tenant.kind}: did nothing in {seconds} s alone")
    return Alone(w.units / seconds, w.busy / w.units)


def shares(parts):
    whole = sum(parts)
    return [p / whole if whole else 0 for p in parts]


class Mixed:
    """A window in which all tenants worked, and each of them alone, before and after."""

    def __init__(self, tenants, works, alones, kernels):
        """`alones` has several of each tenant's kind."""
        self.kinds, self.works, self.kernels = [t.kind for t in tenants], [works[t] for t in tenants], kernels
        self.alones = alones

    def alone(self, kind):
        found = self.alones[kind]
        return Alone(statistics.mean(a.rate for a in found), statistics.mean(a.busy for a in found))

    def parts(self):
        """Each tenant's part of the work that it would have done alone."""
        return [w.units / (self.alone(k).rate * w.seconds) for k, w in zip(self.kinds, self.works)]

    def device(self):
        """The time of n kernels, without the gaps that a tenant alone has."""
        return [w.units * self.kernels[k.usec]["ns"] / 1e9 / w.seconds for k, w in zip(self.kinds, self.works)]

    def busy(self):
        """The time in which the device had a tenant's work, if it took as long as alone."""
        return [w.units * self.alone(k).busy / w.seconds for k, w in zip(self.kinds, self.works)]

    def accounted(self):
        return [w.ran / w.seconds for w in self.works]

    def drifts(self):
        """The spread of each tenant's measurements alone, as the uncertainty of its rate."""
        return [max(a.rate for a in self.alones[k]) / min(a.rate for a in self.alones[k]) - 1 for k in self.kinds]

    def unknown(self, asked):
        """The greatest uncertainty of a tenant's share, in parts of the device."""
        return max(share * u for share, u in zip(asked, unknowns(self, asked)))


def mix(session, tenants, settings, seconds, span=0.5):
    """Sets tenants' settings for as long as they work together."""
    alones = {}

    def each_alone(them):
        for t in them:
            alones.setdefault(t.kind, []).append(alone(session.service, t, span))

    each_alone(tenants)
    for t, values in zip(tenants, settings):
        session.service.set(t.group, **values)
    works = measure(session.service, tenants, seconds)
    for t in tenants:
        session.service.set(t.group, **DEFAULTS)
    each_alone(reversed(tenants))
    return Mixed(tenants, works, alones, session.kernels)


Verdict = collections.namedtuple(
    "Verdict", "excess unknown text"
)  # excess over the tolerance; uncertainty by the machine, in parts of the device


def unknowns(mixed, asked):
    """The relative uncertainty of shares. An error in a kind's rate alone changes the parts of all tenants of the kind,
    and so all shares: between equal tenants it cancels."""
    drift = dict(zip(mixed.kinds, mixed.drifts()))
    of_kind = {k: sum(p for p, other in zip(asked, mixed.kinds) if other == k) for k in drift}
    return [sum(d * abs((k == own) - of_kind[k]) for k, d in drift.items()) for own in mixed.kinds]


def judge_shares(mixed, asked, within):
    """The deviation of the tenant that is farthest from its requested share."""
    got = shares(mixed.parts())
    unknown = [s * u for s, u in zip(asked, unknowns(mixed, asked))]
    texts = [":".join(f"{100 * v:.1f}" for v in values) for values in (got, asked, unknown, mixed.accounted())]
    excess = max(abs(g - s) - u for g, s, u in zip(got, asked, unknown)) - within
    return Verdict(excess, max(unknown), "got {}, asked {}, unknown {}, accounted {}".format(*texts))


def judge_accounted(mixed, within):
    """Of the tenant whose accounted time is the farthest from the time that the device had its work: relative, as parts
    of what all had, so that a machine that was slower for all of them makes no difference. Where it is not steady,
    hand-overs take as long as it likes, and they are somebody's time."""
    real, accounted, drift = shares(mixed.busy()), shares(mixed.accounted()), max(mixed.drifts())
    unknown = [max(u, drift) for u in unknowns(mixed, real)]
    off = [a / r - 1 if r else math.inf for a, r in zip(accounted, real)]
    texts = [":".join(f"{100 * v:.1f}" for v in values) for values in (accounted, real, off, unknown)]
    excess = max(abs(o) - u for o, u in zip(off, unknown)) - within
    return Verdict(excess, max(unknown), "accounted {}, real {}, off {} %, unknown {} %".format(*texts))


def judge(measure, within, tries=5, least=1):
    """measure() returns a Verdict. Good at once is good; else the median of three counts. One that leaves more unknown
    than it allows tells nothing: such are made again, until there have been `tries`. Fewer than `least` convict
    nobody. Returns (excess, text); excess is None where the machine was not steady enough to tell."""
    verdicts = []
    for _ in range(tries):
        verdicts.append(measure())
        steady = sorted(v for v in verdicts if v.unknown <= within)
        if len(steady) == 3 or (len(steady) == 1 and steady[0].excess <= 0):
            break
    known = len(steady) >= least or (len(steady) == 1 and steady[0].excess <= 0)
    return steady[len(steady) // 2].excess if known else None, "; ".join(v.text for v in verdicts)


class Cgroups:
    """Cgroups below our own, where that is allowed; elsewhere `directory` is None."""

    def __init__(self, *names):
        self.names, self.directory = names, None
        with open("/proc/self/mounts", encoding="utf-8") as f:
            mounts = [line.split()[1] for line in f if line.split()[2] == "cgroup2"]
        with open("/proc/self/cgroup", encoding="utf-8") as f:
            own = next((line.strip()[3:] for line in f if line.startswith("0::")), None)
        if not mounts or own is None:
            return
        self.path = f"{own.rstrip('/')}/xsched-mix-{os.getpid()}"
        try:
            for name in names:
                os.makedirs(f"{mounts[0]}{self.path}/{name}")
            self.directory = mounts[0] + self.path
        except OSError:
            pass

    def entering(self, name):
        def enter():
            with open(f"{self.directory}/{name}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(os.getpid()))

        return enter

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for name in self.names if self.directory else ():
            os.removedirs(f"{self.directory}/{name}")


class Session:
    """Tenants as jobs of a running private bus and service (xsched-session)."""

    def __init__(self, tenant_program, kernels):
        self.program, self.kernels, self.tenants = tenant_program, kernels, []
        self.service = Service(os.environ["XSCHED_BUS_ADDRESS"])
        self.directory = tempfile.TemporaryDirectory(prefix="xsched-mix-")
        self.environment = {"MIX_SPANS": self.directory.name}

    def start(self, kind, name, enter=None):
        """Starts a tenant in its own job, or in the cgroup to which `enter` moves the new process."""
        command = [self.program, *kind.arguments(self.kernels[kind.usec]["rounds"])]
        t = (
            Tenant(kind, command, self.environment, preexec_fn=enter)
            if enter
            else Tenant(kind, ["xschedctl", "run", f"--name={name}", "--", *command], self.environment)
        )
        self.tenants.append(t)
        t.wait_ready()
        deadline = time.monotonic() + TIMEOUT
        while not t.group:
            t.group = self.service.group_of(t.process.pid)
            if time.monotonic() > deadline:
                raise AssertionError(f"{kind}: is no client after {TIMEOUT} s")
        return t

    def start_unwatched(self, kind):
        """Starts a tenant without the layer: what it does alone is a yardstick that no watch changes."""
        command = [self.program, *kind.arguments(self.kernels[kind.usec]["rounds"])]
        t = Tenant(kind, ["env", "-u", "OPENCL_LAYERS", "-u", "LD_PRELOAD", *command], self.environment)
        self.tenants.append(t)
        t.wait_ready()
        return t

    def end(self, *tenants):
        """Ends these tenants, or all."""
        for t in tenants or self.tenants[:]:
            self.tenants.remove(t)
            t.end()

    def abandon(self):
        """Ends tenants after a failure, and raises no other error."""
        for t in self.tenants:
            t.process.kill()
            t.process.wait()
        self.tenants = []
