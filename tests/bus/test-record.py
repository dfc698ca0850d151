#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The record of the last minutes: it agrees with the counters, and costs neither the service nor other callers much."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

DEVICE_ID = "pci:0000:01:00.0"
INTERVAL = 1.0  # RECORDER_INTERVAL_NS
COUNTERS = ("RunUSec", "KeptUSec", "WaitUSec", "DrainWaitUSec", "ServiceWaitUSec")
USES = ("BusyUSec", "KeptUSec", "IdleUSec")


class RecordCase(Case):
    config = "[Scheduler]\nStarveAfter=1h\nTimeSlice=50ms\n"

    def record(self, since=0):
        until_usec, frames, groups = self.call("GetRecord", "tt", since, 0)
        self.assertEqual(groups[0], "")
        self.assertEqual(len(set(groups)), len(groups))
        end = 0
        for begin, next_end, devices in frames:
            self.assertLessEqual(end, begin)
            self.assertLess(begin, next_end)
            end = next_end
            self.assertTrue(devices)
            self.assertEqual(len({d[0] for d in devices}), len(devices))
        self.assertLessEqual(end, until_usec)
        self.assertLessEqual(until_usec, now_ns() // 1000)
        return frames, groups

    def sums(self):
        """{(device, group): sums of its counters over the record}"""
        frames, groups = self.record()
        found = {}
        for _, _, devices in frames:
            for device, *_, there in devices:
                for place, *us in there:
                    key = (device, groups[place])
                    found[key] = [a + b for a, b in zip(found.get(key, [0] * 5), us)]
        return found

    def counters(self, group):
        """The groups' counters of the service."""
        path = self.call("GetGroup", "s", group)
        known = self.c.call(NAME, path, "org.freedesktop.DBus.Properties", "GetAll", "s", GROUP)[0]
        return [known[n] if n in known else 0 for n in COUNTERS]

    def recorded(self, *groups):
        """Waits until the record agrees with the groups' counters, which no longer change."""
        want = {g: self.counters(g) for g in groups}

        def agree():
            have = self.sums()
            return all(max(abs(a - b) for a, b in zip(have.get((DEVICE_ID, g), [0] * 5), want[g])) <= 2 for g in groups)

        until(agree, "the record says what the counters say")
        return want

    def work(self, enough):
        """Two groups contend until there are enough frames, which their events cause."""
        (high, high_slot), (low, low_slot) = self.tenant("high", Priority=10), self.tenant("low")
        low_slot.edge(1)
        while not enough():
            high_slot.edge(1)
            until(lambda: low_slot.held, "the low one waits")
            time.sleep(0.01)  # work
            high_slot.edge(0)
            until(lambda: not low_slot.held, "the low one runs")
            time.sleep(0.01)
        low_slot.edge(0)
        until(lambda: self.get("NReady", self.call("ListDevices")[0][5], DEVICE) == 0, "nobody has work")
        return high.get("Group"), low.get("Group")


class Record(RecordCase):
    def test_it_says_what_the_counters_say(self):
        self.assertEqual(self.record()[0], [])
        before = now_ns() // 1000
        end = time.monotonic() + 2.5 * INTERVAL  # no caller asks meanwhile
        high, low = self.work(lambda: time.monotonic() > end)
        said = self.recorded(high, low)
        self.assertGreater(said[high][0], 0)
        self.assertGreater(said[low][0], 0)
        self.assertGreater(said[low][2], 0)
        self.the_device_agrees()
        frames, _ = self.record()
        self.assertGreater(len(frames), 1)
        for begin, end, devices in frames:
            self.assertGreaterEqual(end - begin, INTERVAL * 1e6)
            for _, busy, kept, idle, groups in devices:
                # The record can be read in parts, one after the other.
                self.assertLess(sum(g[1] for g in groups), (end - begin) * 1.2)
        self.assertGreaterEqual(frames[0][1], before)

        # Only frames that end later are returned.
        for since in [f[1] for f in frames]:
            self.assertEqual(self.record(since)[0], [f for f in frames if f[1] > since])
        self.assertEqual(self.record((1 << 64) - 1)[0], [])
        self.assert_error(INVALID_ARGS, self.call, "GetRecord", "tt", 0, 1)

    def the_device_agrees(self):
        path = self.call("ListDevices")[0][5]
        known = self.c.call(NAME, path, "org.freedesktop.DBus.Properties", "GetAll", "s", DEVICE)[0]
        frames, _ = self.record()
        found = [sum(d[i] for _, _, devices in frames for d in devices) for i in (1, 2, 3)]
        self.assertLessEqual(abs(found[0] - known["BusyUSec"]), 2 + len(frames))
        self.assertLessEqual(abs(found[1] - known["KeptUSec"]), 2 + len(frames))


class Quick(RecordCase):
    build = "XSCHEDD_QUICK"

    def test_those_who_are_gone_are_in_it(self):
        c, slot = self.tenant("short", Priority=10)
        _, other = self.tenant("other")
        other.edge(1)
        slot.edge(1)
        until(lambda: other.held, "the other one waits")
        time.sleep(0.05)
        slot.edge(0)
        until(lambda: not other.held, "the other one runs")
        name = c.get("Group")
        ran = self.counters(name)[0]
        self.assertGreater(ran, 0)
        c.unregister()
        c.close()
        until(lambda: self.get("NClients") == 1)
        until(lambda: abs(self.sums().get((DEVICE_ID, name), [0])[0] - ran) <= 2, "what it ran is in the record")

    def test_hostile_users_do_not_fill_it(self):
        """A user with many groups and the longest names beside a user with one group."""
        _, steady = self.tenant("steady", Priority=10)
        steady.edge(1)
        raws = []
        for i in range(300):
            raw = self.raw(
                self.connect() if i % 50 == 0 else raws[-1].connection,
                Job=("s", self.job(f"crowd-{i}-".ljust(63, "x"))[0]),
            )
            raw.queue().edge(1)
            raws.append(raw)
        name = next(g[0] for g in self.call("ListGroups") if "steady" in g[0])

        def seen():
            frames, groups = self.record()
            return [f for f in frames if len(f[2][0][4]) > 1]

        until(
            lambda: any(g[0] == 0 for _, _, devices in seen() for g in devices[0][4]), "there is a frame of the crowd"
        )
        for _, _, devices in seen():
            self.assertLessEqual(len(devices[0][4]), 65)
        frames, groups = self.record()
        self.assertIn(name, groups)
        self.assertIn(0, [g[0] for _, _, devices in frames for d in devices for g in d[4]])
        waited = sum(g[3] for _, _, devices in frames for d in devices for g in d[4])
        told = sum(self.counters(g[0])[2] for g in self.call("ListGroups"))
        self.assertGreater(waited, 0)
        self.assertLessEqual(waited, told)


class Sleep(RecordCase):
    # A client alone is looked at for its own accounting, which this test leaves out.
    config = "[Scheduler]\nStarveAfter=1h\nAccounting=off\n"
    build = "XSCHEDD_QUICK"

    def test_an_idle_service_sleeps(self):
        """After the last event there is one reading and no more, however long nothing happens, also while one client
        has the device alone."""
        for ready in (0, 1):
            _, slot = self.tenant(f"t{ready}")
            slot.edge(1)
            slot.edge(ready)
        path = self.call("ListDevices")[0][5]
        until(lambda: self.get("NReady", path, DEVICE) == 1, "the last event to be heard")
        other = RecordCase("record")
        other.build = self.build
        other.setUp()
        self.addCleanup(other.doCleanups)
        frames = lambda: len(other.record()[0])

        def wakeups(wait):
            before = self.get("NWakeups")
            wait()
            return self.get("NWakeups") - before

        def five_readings():
            """Waits as long as another service takes for some frames, which is kept busy."""
            enough = frames() + 6  # the first frame may be due
            other.work(lambda: frames() >= enough)

        five_readings()
        asking = max(wakeups(lambda: None) for _ in range(5))
        # Events in the machine's cgroups wake the service now and then; a wake-up of its own would come each time.
        until(lambda: wakeups(five_readings) < asking + 4, "it to sleep")
        other.tearDown()


if __name__ == "__main__":
    main()
