#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out whether another process's channels can be found and stopped on a stock NVIDIA driver, by root

nvrm-foreign.py --calls=FILE [--recorder=FILE --trace=FILE] [--only=PART,...]

The other processes are PyTorch programs without xsched. Root takes a copy of their /dev/nvidiactl by pidfd_getfd(2),
finds clients and channels by asking for numbers (hal/nvrm-find.h, built as tests/cuda/find-calls.c), stops them, and
looks at what the program has done. Each part prints "name: value"; if one fails, the next ones run.
"""

import argparse
import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
import traceback

from nvrm_foreign import (
    CHILD_DEVICE,
    CHILD_GROUP,
    CLIENT_FIRST,
    CLIENT_LAST,
    DEVICE,
    DISABLE,
    Driver,
    GET_ID,
    GROUP,
    mark,
    MEMORY_USED,
    newest_client,
    open_and_find,
    program,
    quantiles,
    ROOT_CLIENT,
    say,
    SUBDEVICE,
    SYS_PIDFD_OPEN,
    syscall,
    Tenant,
)

# --- parts ---


def part_find(calls, _):
    tenant = Tenant()
    say(
        "fds of the program",
        {
            n: os.readlink(f"/proc/{tenant.pid}/fd/{n}")
            for n in os.listdir(f"/proc/{tenant.pid}/fd")
            if "nvidia" in os.readlink(f"/proc/{tenant.pid}/fd/{n}")
        },
    )
    newest = newest_client(calls)
    say("the newest client", hex(newest))
    f, file = open_and_find(calls, tenant)
    say("clients", [tuple(map(hex, c)) for c in f.clients])
    for o in f.objects:
        say("object", *map(hex, o))
    for first, last, name in ((CLIENT_FIRST, CLIENT_LAST, "all numbers of clients"),):
        f.find(file, first, last)
        say(
            f"{name}: took",
            f"{f.took[0] * 1e3:.1f} ms, clients {len(f.clients)}; again objects {f.took[1] * 1e3:.2f} ms",
        )
    own = Driver(os.open("/dev/nvidiactl", os.O_RDWR), "own")
    client = f.channels()[0][0]
    say("the same question on a file of our own", hex(own.info(client, client, 2)[0]))
    before = {o[:2] for o in f.objects}
    for kind, what in (
        (1, "a stream"),
        (2, "a context"),
        (3, "500 tensors"),
        (4, "all of it gone"),
        (1, "a stream"),
        (2, "a context"),
    ):
        ok = tenant.order(kind)
        f.find(file, newest, newest_client(calls))
        now = {o[:2] for o in f.objects}
        say(
            f"{what}, done {ok}",
            "new",
            [tuple(map(hex, o)) for o in f.objects if o[:2] not in before][:8],
            "of",
            len(now - before),
            "gone",
            len(before - now),
            "clients",
            [tuple(map(hex, c)) for c in f.clients],
            f"took {f.took[1] * 1e3:.2f} ms",
        )
        before = now
    # Whether looking from the start finds the same.
    known = len(f.objects)
    f2, file2 = open_and_find(calls, tenant, quiet=True)
    say("found anew", len(f2.objects), "and step by step", known)
    say("ends", tenant.end(), "wrong", tenant.shared.wrong)


def part_stop(calls, _):
    tenant = Tenant()
    f, file = open_and_find(calls, tenant)
    say("channels", len(f.channels()), "one product takes", f"{tenant.shared.took / 1e6:.2f} ms")
    alone = tenant.done_in(0.5)
    stop, resume, bad, statuses, late = [], [], 0, set(), []
    for i in range(60):
        r, took = f.stop(file, True)
        statuses |= set(r)
        stop.append(took)
        time.sleep(0.004)
        bad += tenant.done_in(0.03 if i else 0.5) > 0
        count = tenant.shared.count
        r, took = f.stop(file, False)
        statuses |= set(r)
        resume.append(took)
        began = time.perf_counter()
        while tenant.shared.count == count and time.perf_counter() < began + 2:
            pass
        late.append(time.perf_counter() - began)
        time.sleep(0.005 + 0.001 * (i % 7))
    say("60 stops: went on while stopped", bad, "statuses", statuses, "wrong results", tenant.shared.wrong)
    say("stop", quantiles(stop))
    say("resume", quantiles(resume))
    say("from resume to the next product", quantiles(late))
    say("products in 0.5 s, before and after", alone, tenant.done_in(0.5))
    # The price of taking the file for each call.
    number = int(file.name.split(":")[1])
    took = []
    for _ in range(50):
        began = time.perf_counter()
        os.close(f.take(number).fd)
        took.append(time.perf_counter() - began)
    say("taking and closing a copy of the file", quantiles(took))
    say("ends", tenant.end(), "wrong", tenant.shared.wrong)


def part_own(calls, _):
    """Whether a client of our own may name the channels."""
    tenant = Tenant()
    f, file = open_and_find(calls, tenant, quiet=True)
    own = Driver(os.open("/dev/nvidiactl", os.O_RDWR), "own")
    gpu = os.open("/dev/nvidia0", os.O_RDWR)
    status, client = own.alloc(0, 0, 0, ROOT_CLIENT)
    status2, device = own.alloc(
        client, client, 0, DEVICE, struct.pack("=IIIIIIQQQII", 0, client, 0, 0, 0, 0, 0, 0, 0, 0, 0)[:56]
    )
    status3, subdevice = own.alloc(client, device, 0, SUBDEVICE, struct.pack("=I", 0))
    say("own objects", *map(hex, (status, status2, status3, client, device, subdevice)))
    channels = [(o[0], o[1]) for o in f.channels()][:64]
    r = own.disable((client, subdevice), channels, 1)
    ran = tenant.done_in(0.3)
    say("disabled through a client of our own", hex(r), "products meanwhile", ran)
    r = own.disable((client, subdevice), channels, 0)
    say("and enabled", hex(r), "products", tenant.done_in(0.3))
    f.stop(file, True)
    say("disabled through the program's file: products", tenant.done_in(0.1))
    r = own.disable((client, subdevice), channels, 0)
    say("enabled through a client of our own", hex(r), "products", tenant.done_in(0.3))
    r = file.disable((client, subdevice), channels, 0)
    say("own client on the program's file", hex(r))
    r = own.disable(f.via(channels[0][0]), channels, 0)
    say("the program's client on our own file", hex(r))
    f.stop(file, False)
    say("runs", tenant.done_in(0.2), "ends", tenant.end(), "wrong", tenant.shared.wrong)
    os.close(gpu)


def part_user(calls, _):
    """A program of another user; a copy of its file in a process without privileges."""
    tenant = Tenant(user=12345)
    f, file = open_and_find(calls, tenant)
    before = tenant.done_in(0.1)
    r = f.stop(file, True)[0]
    while_stopped = tenant.done_in(0.2)
    say("of another user", "statuses", r, "before", before, "while stopped", while_stopped)
    f.stop(file, False)
    say("runs", tenant.done_in(0.2), "ends", tenant.end(), "wrong", tenant.shared.wrong)


def kernel_lines():
    """The lines of the kernel's log since the last call."""
    r = subprocess.run(["dmesg", "--read-clear"], capture_output=True, text=True, check=False)
    return sum("NVRM" in line for line in r.stdout.splitlines())


def part_quiet(calls, _):
    """Which question about a client that does not exist, or is another file's, leaves nothing in the kernel's log."""
    tenant = Tenant()
    f, file = open_and_find(calls, tenant, quiet=True)
    own = Driver(os.open("/dev/nvidiactl", os.O_RDWR), "own")
    _, foreign = own.alloc(0, 0, 0, ROOT_CLIENT)
    ways = {
        "control": lambda c: file.info(c, c, 2)[0],
        "allocation of a child of nothing": lambda c: file.alloc(c, 0, 0, SUBDEVICE)[0],
    }
    for name, ask in ways.items():
        for what, client in (
            ("missing", CLIENT_LAST - 5),
            ("another file's", foreign),
            ("its own", f.channels()[0][0]),
        ):
            kernel_lines()
            began = time.perf_counter()
            answers = {hex(ask(client)) for _ in range(20)}
            took = (time.perf_counter() - began) / 20
            say(f"{name}, {what}", answers, f"{took * 1e6:.1f} us, lines in the kernel's log", kernel_lines())
    say("unknown object of its own", hex(file.info(f.channels()[0][0], 0x5CFFFFF0, 2)[0]))
    kernel_lines()
    for _ in range(20):
        file.info(f.channels()[0][0], 0x5CFFFFF0, 2)
    say("lines by questions about unknown objects", kernel_lines())
    open_and_find(calls, tenant)
    say("lines by finding everything", kernel_lines())
    say("ends", tenant.end(), "wrong", tenant.shared.wrong)


def part_half(calls, args):
    """What lets channels run again after a call that failed half applied."""
    tenant = Tenant()
    f, file = open_and_find(calls, tenant, quiet=True)
    everything = [o[:2] for o in f.channels()]
    client = everything[0][0]
    via = f.via(client)
    middle = len(everything) // 2
    which = everything[:middle] + [(client, 0x5CFFFFF1)] + everything[middle:]
    group = f.of_class(GROUP)[0][:2]
    goes = lambda: tenant.done_in(0.12) > 0
    singles = lambda on, of=everything: [file.disable(via, [c], on) for c in of]
    steps = {
        "disable half": lambda: file.disable(via, which, 1),
        "enable half": lambda: file.disable(via, which, 0),
        "enable each": lambda: singles(0),
        "enable all": lambda: file.disable(via, everything, 0),
        "disable all": lambda: file.disable(via, everything, 1),
        "enable first": lambda: singles(0, everything[:1]),
        "cycle first": lambda: (singles(1, everything[:1]), singles(0, everything[:1])),
        "cycle each": lambda: [(file.disable(via, [c], 1), file.disable(via, [c], 0)) for c in everything],
        "cycle all": lambda: (file.disable(via, everything, 1), file.disable(via, everything, 0)),
        "cycle group": lambda: (file.disable(via, [group], 1), file.disable(via, [group], 0)),
    }
    cures = [
        "enable first",
        "enable each",
        "enable all",
        "enable each",
        "cycle first",
        "cycle each",
        "cycle all",
        "cycle group",
    ]
    for case in (
        ["disable half", "enable each"],
        ["disable half", "enable each", "enable each"],
        ["disable half", "enable all"],
        ["disable half", "enable half", "enable all"],
        ["disable half", "enable half", "enable each"],
        ["disable half", "enable half", "enable half", "enable each"],
        ["disable half", "enable half", "cycle each"],
        ["disable all", "enable half", "enable each"],
        ["disable all", "enable each"],
        ["disable half", "disable half", "enable each", "enable each"],
        ["disable half", "disable each" if "disable each" in steps else "disable all", "enable each", "enable each"],
    ):
        for step in case:
            steps[step]()
        ok, cured = goes(), []
        while not ok and len(cured) < len(cures):
            cured.append(cures[len(cured)])
            steps[cured[-1]]()
            ok = goes()
        # Nothing is left: one disable stops it, and one enable lets it run.
        steps["disable all"]()
        stops = not goes()
        steps["enable all"]()
        say(
            " + ".join(case),
            "runs" if not cured else f"runs only after {cured}" if ok else "DOES NOT RUN",
            "then stops",
            stops,
            "and runs",
            goes(),
        )
    say("ends", tenant.end(), "wrong", tenant.shared.wrong)


def part_product(calls, _):
    """What the service does: hal/nvrm-privileged.h."""
    tenant = Tenant(user=12345)
    spans = {}

    def do(what):
        began = time.perf_counter()
        r = calls.xsched_nvrm_target(ord(what[0]), tenant.pid)
        spans.setdefault(what, []).append(time.perf_counter() - began)
        return r

    kernel_lines()
    began = time.perf_counter()
    say("open", do("open"), f"{(time.perf_counter() - began) * 1e3:.1f} ms, lines in the kernel's log", kernel_lines())
    bad = 0
    for i in range(30):
        bad += do("hold") != 0
        time.sleep(0.003)
        bad += tenant.done_in(0.02) > 0
        bad += do("hold again") != 0 or do("release") != 0
        bad += tenant.done_in(0.03) == 0
    say("30 holds: not as they should be", bad, "wrong results", tenant.shared.wrong)
    for what in ("hold", "hold again", "release"):
        say(f"a {what} takes", quantiles(spans[what]))
    say("a hold and a release take lately", *(f"{calls.xsched_nvrm_cost(r) / 1e6:.2f} ms" for r in (0, 1)))
    f, file = open_and_find(calls, tenant, quiet=True)
    everything = [o[:2] for o in f.channels()]
    middle = len(everything) // 2
    which = everything[:middle] + [(everything[0][0], 0x5CFFFFF1)] + everything[middle:]
    for name, steps in {
        "half disabled": lambda: file.disable(f.via(everything[0][0]), which, 1),
        "disabled": lambda: f.stop(file, True),
        "disabled twice": lambda: (f.stop(file, True), f.stop(file, True)),
        "nothing": lambda: None,
    }.items():
        steps()
        before = tenant.done_in(0.1)
        began = time.perf_counter()
        r = do("undo")
        took = time.perf_counter() - began
        say(f"{name}: products", before, "after an undo", r, f"of {took * 1e3:.0f} ms:", tenant.done_in(0.1))
    do("hold")
    tenant.order(2)
    stands = tenant.done_in(0.1)
    r = do("hold")
    say("a context made while held", stands, r, tenant.done_in(0.1), "release", do("release"), tenant.done_in(0.1))
    do("hold")
    used = memory_used()
    tenant.process.send_signal(signal.SIGKILL)
    tenant.process.wait(20)
    time.sleep(0.5)
    say("killed while held: MiB before and after", used, memory_used(), "release", do("release"))
    do("done")


def part_several(calls, _):
    tenants = [Tenant(size=1024) for _ in range(4)]
    found = [open_and_find(calls, t) for t in tenants]
    say("clients of each", [[hex(c[0]) for c in f.clients] for f, _ in found])
    for k, (f, file) in enumerate(found):
        f.stop(file, True)
        say(f"stopped {k}: products of each", [t.done_in(0.1) for t in tenants])
        f.stop(file, False)
    took = []
    for f, file in found:
        took.append(f.stop(file, True)[1])
    say("all stopped", [round(t * 1e3, 2) for t in took], "ms; products", [t.done_in(0.1) for t in tenants])
    for f, file in found:
        f.stop(file, False)
    say("all run", [t.done_in(0.1) for t in tenants], "wrong", [t.shared.wrong for t in tenants])
    say("end", [t.end() for t in tenants])


def part_late(calls, _):
    """Channels that are made during a hold."""
    tenant = Tenant()
    f, file = open_and_find(calls, tenant)
    newest = newest_client(calls)
    f.stop(file, True)
    known = {o[:2] for o in f.channels()}
    say("a context made while stopped: done", tenant.order(2))
    f.find(file, newest, newest_client(calls))
    new = [o for o in f.channels() if o[:2] not in known]
    say(
        "new channels",
        len(new),
        f"found in {f.took[0] * 1e3:.2f} + {f.took[1] * 1e3:.2f} ms",
        "stopping them",
        f.stop(file, True, new)[0],
    )
    say("products while stopped", tenant.done_in(0.2))
    f.stop(file, False)
    say("runs", tenant.done_in(0.2), "wrong", tenant.shared.wrong, "ends", tenant.end())


def memory_used():
    return int(subprocess.run(MEMORY_USED, capture_output=True, text=True, check=True).stdout.split()[0])


def part_ends(calls, _):
    """The program is killed while it is stopped, with and without a copy of its file left here."""
    for keep in (True, False):
        nothing = memory_used()
        tenant = Tenant()
        f, file = open_and_find(calls, tenant, quiet=True)
        used = memory_used()
        f.stop(file, True)
        if not keep:
            os.close(file.fd)
        tenant.process.send_signal(signal.SIGKILL)
        began = time.perf_counter()
        tenant.process.wait(20)
        gone = time.perf_counter() - began
        time.sleep(1)
        say(
            f"killed while stopped, copy kept {keep}",
            f"gone after {gone * 1e3:.0f} ms; MiB without, with, after:",
            nothing,
            used,
            memory_used(),
        )
        if keep:
            say("calls on the copy", [hex(s) for s in f.stop(file, False)[0]])
            began = time.perf_counter()
            os.close(file.fd)
            say("closing the copy", f"{(time.perf_counter() - began) * 1e3:.0f} ms, MiB after", memory_used())
    tenant = Tenant()
    say("another program runs", tenant.done_in(0.3), "ends", tenant.end(), "wrong", tenant.shared.wrong)
    tenant = Tenant()
    f, file = open_and_find(calls, tenant, quiet=True)
    f.stop(file, True)
    os.close(file.fd)
    tenant.shared.put("command", -1)
    time.sleep(0.5)
    say("asked to exit while stopped: has ended", tenant.process.poll())
    tenant.process.terminate()
    time.sleep(1)
    say("after SIGTERM", tenant.process.poll())
    tenant.end()


def part_killed(calls, args):
    """The one that stops is killed: the channels stay as they are, and the next one lets them run."""
    tenant = Tenant()
    words = [sys.executable, os.path.realpath(__file__), f"--calls={args.calls}", f"--stop-and-wait={tenant.pid}"]
    p = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    say("the other says", p.stdout.readline().strip())
    p.kill()
    p.wait()
    say("killed; products", tenant.done_in(0.5))
    began = time.perf_counter()
    f, file = open_and_find(calls, tenant)
    r = [file.disable(f.via(o[0]), [(o[0], o[1])], 0) for o in f.channels()]
    say("found again and let run, one by one", f"{(time.perf_counter() - began) * 1e3:.1f} ms, statuses", set(r))
    say("products", tenant.done_in(0.3))
    r = [file.disable(f.via(o[0]), [(o[0], o[1])], 0) for o in f.channels()]
    f.stop(file, True)
    say("enabled once more, then stopped once: products", tenant.done_in(0.2))
    f.stop(file, False)
    say("runs", tenant.done_in(0.2), "wrong", tenant.shared.wrong, "ends", tenant.end())


def stop_and_wait(calls, pid):
    class Other:
        pass

    other = Other()
    other.pid, other.pidfd = pid, syscall(SYS_PIDFD_OPEN, pid, 0)
    f, file = open_and_find(calls, other, quiet=True)
    print("stopped", f.stop(file, True)[0], flush=True)
    signal.pause()


def part_record(calls, args):
    """A program whose calls are recorded, stopped from outside with the calls recorded, too."""
    if not args.recorder:
        return
    Driver.trace = open(args.trace, "a", encoding="utf-8")
    tenant = Tenant(recorder=args.recorder, trace=args.trace)
    f, file = open_and_find(calls, tenant)
    channels = f.channels()
    client = channels[0][0]
    seen = lambda: mark(tenant, tenant.done_in(0.15) > 0)
    # Questions, with answers of every kind.
    for o in f.objects:
        file.info(o[0], o[1], 1)
        file.info(o[0], o[1], 2)
    for object_, what in ((client, 2), (client, 1), (0, 2), (0x5CFFFFF0, 2), (channels[0][1], 0), (channels[0][1], 3)):
        file.info(client, object_, what)
    file.info(0xC1D00000 + 0xFFFFF, 1, 2)
    for class_ in (DEVICE, CHILD_DEVICE, CHILD_GROUP):
        file.child(client, client, class_)
    file.child(client, 0x5CFFFFF0, CHILD_DEVICE)
    for o in f.of_class(DEVICE):
        for class_ in (SUBDEVICE, CHILD_GROUP, CHILD_DEVICE):
            file.child(o[0], o[1], class_)
    file.control(*f.via(client), GET_ID, bytes(4))
    # A file of our own: the driver knows who asks.
    own = Driver(os.open("/dev/nvidiactl", os.O_RDWR), f"{os.getpid()}:own")
    own.info(client, client, 2)
    status, mine = own.alloc(0, 0, 0, ROOT_CLIENT)
    own.info(mine, mine, 2)
    own.child(mine, mine, CHILD_DEVICE)
    own.disable(f.via(client), [channels[0][:2]], 0)
    file.info(mine, mine, 2)
    # Counts.
    stop = lambda on, which=None: f.stop(file, on, which)
    for steps in ((0, 0), (1,), (0,), (1, 1, 0), (0,), (1,), (0, 0, 0), (1,), (0,)):
        for on in steps:
            stop(bool(on))
        seen()
    via = f.via(client)
    everything = [o[:2] for o in channels if o[0] == client][:60]
    unknown = (client, 0x5CFFFFF1)
    for place in (0, len(everything) // 2, len(everything)):
        which = everything[:place] + [unknown] + everything[place:]
        file.disable(via, which, 1)
        seen()
        file.disable(via, which, 0)
        file.disable(via, which, 0)
        for c in everything:
            file.disable(via, [c], 0)
        seen()
    # Lists of nothing, with what is no channel, by what is no subdevice.
    file.disable(via, [], 1)
    seen()
    file.disable(via, [f.of_class(GROUP)[0][:2]], 1)
    file.disable(via, [f.of_class(GROUP)[0][:2]], 0)
    file.disable(via, [f.of_class(SUBDEVICE)[0][:2]], 1)
    file.disable(via, [(0xC1DFFFFF, everything[0][1])], 1)
    file.disable((client, f.of_class(DEVICE)[0][1]), everything[:1], 0)
    file.disable((client, 0x5CFFFFF0), everything[:1], 0)
    file.control(*via, DISABLE, bytes(535))
    # An event is for the kernel's clients only.
    data = struct.pack("=B3xIBB6xQ64I64I", 1, 1, 0, 0, 8, *([client] + [0] * 63), *([everything[0][1]] + [0] * 63))
    file.control(*via, DISABLE, data)
    file.disable(via, everything[:1], 0)
    seen()
    # The first channel of the first group alone: the others of the group run on.
    group = f.of_class(GROUP)[0]
    file.disable(via, [o[:2] for o in channels if o[2] == group[1]][:1], 1)
    seen()
    file.disable(via, [o[:2] for o in channels if o[2] == group[1]][:1], 0)
    # A list that names a channel twice.
    for on in (1, 0):
        file.disable(via, everything[:1] * 2, on)
    seen()
    # New channels of a hold.
    newest = newest_client(calls)
    stop(True)
    tenant.order(2)
    f.find(file, newest, newest_client(calls))
    stop(False, channels)
    seen()
    Driver.trace.flush()
    say("ends", tenant.end(), "wrong", tenant.shared.wrong)
    Driver.trace.close()
    Driver.trace = None


PARTS = [
    part_find,
    part_record,
    part_stop,
    part_quiet,
    part_half,
    part_product,
    part_own,
    part_user,
    part_late,
    part_ends,
    part_killed,
    part_several,
]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--calls")
    p.add_argument("--recorder")
    p.add_argument("--trace")
    p.add_argument("--only", default="")
    p.add_argument("--program")
    p.add_argument("--size", type=int, default=2048)
    p.add_argument("--stop-and-wait", type=int)
    args = p.parse_args()
    if args.program:
        return program(args.program, args.size)
    calls = ctypes.CDLL(os.path.realpath(args.calls))
    calls.xsched_nvrm_newest.restype = calls.xsched_nvrm_find.restype = ctypes.c_int64
    calls.xsched_nvrm_cost.restype = ctypes.c_int64
    calls.xsched_nvrm_find.argtypes = [ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
    if args.stop_and_wait:
        return stop_and_wait(calls, args.stop_and_wait)
    for part in PARTS:
        name = part.__name__.removeprefix("part_")
        if args.only and name not in args.only.split(","):
            continue
        print(f"--- {name}", flush=True)
        began = time.perf_counter()
        try:
            part(calls, args)
        except Exception:
            traceback.print_exc(file=sys.stdout)
        say("time", name, f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
