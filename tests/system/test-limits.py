# SPDX-License-Identifier: LGPL-2.1-or-later
"""Max=, Min= and Concurrency= over slices on three levels, for clients that always have another launch. Their work is a
sleep, whose length does not depend on the load, and they report their run time themselves."""

from inside import GROUP, NAME, run, until
from shares import PERCENT, SharesCase, main

CLIENTS = (
    ("one.service", "b.slice"),
    ("two.service", "a-x.slice"),
    ("three.service", "a-y.slice"),
    ("four.service", "a-y.slice"),
)
SLICES = {
    "a.slice": ("a-x.slice", "a-y.slice"),
    "a-x.slice": ("two.service",),
    "a-y.slice": ("three.service", "four.service"),
}

LATE = 0.2  # seconds, for a service that waits for a CPU


class StreamCase(SharesCase):
    def start(self, *names):
        """Starts the clients whose units' first words are given. All have registered before the first launches."""
        self.streams = {
            unit: self.client(f"--slice={slice_unit}", unit=unit)
            for unit, slice_unit in CLIENTS
            if unit.split(".")[0] in names
        }
        for c in self.streams.values():
            self.assertEqual(c.ask("stream"), "streaming")
        until(lambda: min(self.runs(unit) for unit in self.streams) > 0, "each to have had its turn")

    def worked(self):
        return {unit: int(c.ask("worked")) / 1e6 for unit, c in self.streams.items()}

    def measure(self, seconds):
        """Returns the span, and the run time in it that each client reports."""
        before = self.worked()
        span = self.span(seconds)
        return span, {unit: t - before[unit] for unit, t in self.worked().items()}

    def check_results(self):
        """Every launch ran once, in its order."""
        for unit, c in self.streams.items():
            steps, total = map(int, c.ask("rest").split())
            expected = 0
            for i in range(1, steps + 1):
                expected = (expected * 3 + i) % 2**64
            self.assertEqual(total, expected, unit)

    def check_worked(self, worked, span):
        """The accounted time equals the clients' run time, as a share of all and in total. They differ by what the last
        launch of a turn runs beyond the turn's end."""
        everything, accounted = sum(worked.values()), span.of(*worked)
        for unit, t in worked.items():
            self.check_share(t, everything, span.ran[unit] / accounted, f"launches of {unit}", 10 * PERCENT)
        self.assertAlmostEqual(everything / accounted, 1, delta=20 * PERCENT, msg=(worked, span.ran))

    def check_limit(self, span, name, share, period):
        """The group gets its share at most, and not much less, as it always has work. The span may cut the first and
        the last period, and what runs over at the end of a period is subtracted from the next."""
        self.assertLessEqual(span.ran[name], share * (span.most + period) + LATE, name)
        self.assertGreaterEqual(span.ran[name], 0.8 * share * (span.least - period), name)


class Limits(StreamCase):
    CONFIG = "StarveAfter=1h\nTimeSlice=20ms\n"

    def test_max_of_a_slice_binds_all_below(self):
        """No other group wants the device; members may have higher or lower limits of their own."""
        self.set("a.slice", Max=("u", 40))
        self.set("a-y.slice", Max=("u", 90))
        self.set("three.service", Max=("u", 5))
        self.set("four.service", Max=("u", 80))
        self.start("two", "three", "four")
        span, _ = self.measure(1.2)
        self.check_limit(span, "a.slice", 0.40, 0.1)
        self.assertLess(span.ran["three.service"], span.ran["four.service"])
        self.check_share(span.of("a-x.slice"), span.ran["a.slice"], 0.5, "a-x")
        self.check_sums(span, SLICES)

        # One line lifts it, by busctl alone.
        path = self.path("a.slice")
        run("busctl", "set-property", NAME, path, GROUP, "Max", "u", "0")
        until(lambda: self.get("Max", path, GROUP) == 0, "the limit to go")
        span, _ = self.measure(1)
        self.assertGreater(span.ran["a.slice"], 0.8 * span.least)
        self.assertLess(span.ran["three.service"], span.ran["four.service"])
        self.check_results()

    def test_max_leaves_the_rest_to_others(self):
        """The limit counts for any priority."""
        self.set("a.slice", Max=("u", 20), Period=("t", 50000), Priority=("i", 50))
        self.start("one", "two")
        span, worked = self.measure(2)
        self.check_limit(span, "a.slice", 0.2, 0.05)
        self.check_share(span.ran["b.slice"], span.of("a.slice", "b.slice"), 0.8, "b", 10 * PERCENT)
        self.check_worked(worked, span)
        self.check_results()

    def test_min_against_priority(self):
        """A slice's guarantee holds for a member two levels below, even with the lowest priority. A limit is stronger
        than the guarantee."""
        self.set("a.slice", Min=("u", 30))
        self.set("four.service", Priority=("i", -50))
        self.set("b.slice", Priority=("i", 50))
        self.start("one", "four")
        self.assertEqual(
            [self.get("Priority", self.path(u), GROUP) for u in ("one.service", "a-y.slice", "four.service")],
            [50, 0, -50],
        )
        span, worked = self.measure(5)
        self.check_guaranteed(span.ran["a.slice"], span.of("a.slice", "b.slice"), 0.3, "a")
        self.check_worked(worked, span)

        self.set("a.slice", Max=("u", 10))
        span, worked = self.measure(2)
        self.check_limit(span, "a.slice", 0.1, 0.1)
        self.check_results()

    def test_min_is_part_of_the_share(self):
        """A group that gets more than its minimum by weight gets nothing in addition."""
        self.set("a.slice", Min=("u", 30), Weight=("u", 300))
        self.start("one", "two")
        span, _ = self.measure(2)
        self.check_share(span.ran["a.slice"], span.of("a.slice", "b.slice"), 0.75, "a")
        self.check_results()


class Concurrency(StreamCase):
    CONFIG = "StarveAfter=1h\nConcurrency=2\nTimeSlice=20ms\n"

    def test_weights_on_two_places(self):
        """Slices share the two places by weight. A client uses one place at most."""
        for unit, weight in (("a.slice", 300), ("a-y.slice", 200)):
            self.set(unit, Weight=("u", weight))
        self.start("one", "two", "three", "four")
        span, worked = self.measure(6)
        self.check_share(span.ran["four.service"], span.ran["a-y.slice"], 0.5, "four")
        everything = span.of(*self.streams)
        self.assertGreater(everything, 2 * 0.9 * span.least)
        self.assertLessEqual(everything, 2 * span.most + 0.1)
        self.check_share(span.ran["b.slice"], everything, 0.25, "b")
        self.check_share(span.ran["a-x.slice"], everything, 0.25, "a-x")
        self.check_share(span.ran["a-y.slice"], everything, 0.5, "a-y")
        self.check_sums(span, SLICES)
        self.check_worked(worked, span)
        self.check_results()

    def test_more_weight_than_a_place(self):
        """A slice with one client gets one of the two places, though its weight would give it three quarters."""
        self.set("b.slice", Weight=("u", 900))
        self.start("one", "two", "three")
        span, _ = self.measure(3)
        self.check_share(span.ran["b.slice"], span.of(*self.streams), 0.5, "b")
        self.check_share(span.ran["a-x.slice"], span.ran["a.slice"], 0.5, "a-x")
        self.check_results()

    def test_max_is_of_one_place(self):
        """150 % is one and a half places."""
        self.set("a.slice", Max=("u", 150))
        self.start("two", "three", "four")
        span, _ = self.measure(3)
        self.check_limit(span, "a.slice", 1.5, 0.1)
        self.check_results()


if __name__ == "__main__":
    main()
