# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes made on the page for Cockpit: the service previews and makes or refuses them; the page shows and undoes
them."""

import json
import os

import inside
from inside import DEVICE, GROUP, NAME, run, until
from page import PageCase, selector

ROWS = "[...document.querySelectorAll('.preview tbody tr')].map(r => r.innerText.split('\\t'))"


class Changes(PageCase):
    def settings(self):
        """Returns all settings of both lifetimes, sorted."""
        return sorted(map(str, self.call("ListSettings")[0]))

    def dialog(self, tab, unit):
        self.menu(tab, unit, "Change…")
        tab.until("document.querySelector('dialog[open] .preview h3')", "the dialog")

    def keep(self, tab, how):
        tab.click(f"input[name=keep][value={how}]")

    def fill(self, tab, key, value):
        (tab.choose if isinstance(value, str) else tab.type)(f"#change-{key}", str(value))

    def said(self, tab, *rows):
        """Checks the first rows of the preview."""
        wanted = json.dumps([[str(cell) for cell in row] for row in rows])
        tab.until(f"JSON.stringify({ROWS}.slice(0, {len(rows)})) === JSON.stringify({wanted})", f"it to say {wanted}")

    def undone(self, tab, before):
        tab.click(".undo")
        until(lambda: self.settings() == before, "the settings to be as before")
        tab.until("!document.querySelector('.undo')", "the undo button to go")

    def test_1_change_and_see(self):
        """With two tenants with real kernels: their shares follow a weight that the administrator sets and undoes; one
        is suspended and resumed."""
        self.tenants("one.service", "two.service")
        tab = self.opened()
        # A group without recent use has no number.
        part = lambda unit: f"(parseFloat({self.cell(unit, 'got')}) || 0)"
        tab.until(f"Math.abs({part('one.service')} - 50) < 8 && Math.abs({part('two.service')} - 50) < 8", "halves")
        self.dialog(tab, "one.service")
        self.assertTrue(tab.js("document.querySelector('dialog footer button').disabled"))
        tab.type("#change-Weight", "300")
        self.said(tab, ["Weight", 100, 300])
        self.assertEqual(tab.js(ROWS)[1][1:], ["50 %", "75 %"])
        self.check_looks(tab, "change")
        self.assertEqual(self.weight("one.service"), 100)  # nothing is changed before the preview
        self.agree(tab)
        self.assertEqual(self.weight("one.service"), 300)
        tab.until("document.querySelector('.alert')?.innerText.includes('Weight is now 300, and was 100')", "the alert")
        tab.until(f"{self.cell('one.service', 'asked')} === '75 %'", "the requested share")
        tab.until(f"Math.abs({part('one.service')} - 75) < 8 && Math.abs({part('two.service')} - 25) < 8", "quarters")
        for place in (".device", ".service"):
            said = f"[...document.querySelectorAll('{place} figcaption')].map(e => e.innerText)"
            tab.until(f"{said}.some(text => text.startsWith('half within'))", place)
        self.check_histogram(tab)
        self.assertEqual(tab.js("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.table'))"), 0)
        self.check_looks(tab, "overview")
        tab.click(".undo")
        until(lambda: self.weight("one.service") == 100, "the undoing")
        self.assertEqual([s for s in self.call("ListSettings")[0] if "one.service" in s[0]], [])

        suspended = lambda: self.get("Suspended", self.path("two.service"), GROUP)
        self.menu(tab, "two.service", "Suspend…")
        tab.until(
            "document.querySelector('dialog')?.innerText.includes('Its processes (1) get no time')", "the question"
        )
        self.assertFalse(suspended())
        self.agree(tab)
        self.assertTrue(suspended())
        tab.until(f"{self.cell('two.service', 'state')}.includes('suspended')", "the state")
        tab.until(f"{part('one.service')} > 90 && {part('two.service')} < 5", "the other unit to get the whole device")
        self.menu(tab, "two.service", "Explain")
        tab.until("document.querySelector('dialog .now')?.innerText.includes('suspended')", "the explanation")
        tab.key("Escape")
        tab.until("!document.querySelector('dialog')")
        self.menu(tab, "two.service", "Resume…")
        tab.until("document.querySelector('dialog')?.innerText.includes('get their share')", "the question")
        self.agree(tab)
        self.assertFalse(suspended())
        tab.until(f"{part('two.service')} > 30", "it to run again")
        tab.click(".undo")
        until(suspended, "the resumption to be undone")
        tab.click(".undo")
        until(lambda: not suspended(), "the suspension to be undone")
        self.check_while_programs_come_and_go(tab)
        self.check_clean(tab)

    def check_while_programs_come_and_go(self, tab):
        """While programs start and end all the time, the page reloads all objects, and reads the counters as well."""
        counted = lambda: sum(c[2] == "ListStatistics" for _, c in tab.bus_calls())
        before, described = counted(), lambda: sum(c[2] == "Describe" for _, c in tab.bus_calls())
        looks = described()

        def once():
            inside.Client(unit="brief.service").end()
            return counted() > before and described() > looks + 1

        until(once, "the counters")

    def check_histogram(self, tab):
        """A histogram shows the samples between two readings, and after the first reading all samples."""
        said = tab.js(
            """import("./histogram.js").then(({ Histogram }) => {
                const h = new Histogram("T"), bounds = (...n) => n.map((upto, i) => [1 << i, upto]);
                const tell = () => [h.heading, h.words].map(e => e.innerText);
                const bars = () => [...h.bars.querySelectorAll("rect")].filter(r => r.getAttribute("height") > 0);
                document.body.append(h.element);
                h.update([bounds(0, 2, 2, 4), 0, 4], 1000);
                const all = tell();
                h.update([bounds(10, 12, 12, 15), 0, 15], 21000);
                const some = [...tell(), bars().length];
                h.element.remove();
                return [all, some];
            })"""
        )
        self.assertEqual(said[0], ["T, since the service began", "half within 2 µs, 99 % within 8 µs"])
        self.assertEqual(said[1], ["T, in the last 20 s", "half within 1 µs, 99 % within 8 µs", 2])

    def check_unread(self, tab):
        """A change can be undone although reading the settings after it has failed; what others have changed stays."""
        said = tab.js(
            """import("./change.js").then(async ({ ChangeDialog }) => {
                const u = v => ({ t: "u", v });
                let layers = { runtime: { Weight: u(50) }, owner: { Max: u(30) } }, reads = 0, restored, told;
                const dialog = new ChangeDialog({
                    name: "n", title: "t", fields: [{ key: "Weight", label: "Weight", type: "u", min: 1, max: 999 }],
                    state: { now: { Weight: 50 }, layers }, mayStore: true, show: (key, value) => String(value),
                    read: async () => {
                        if (reads++ === 1)
                            throw new Error("gone");
                        return { now: { Weight: layers.runtime.Weight.v }, layers };
                    },
                    preview: async () => ({ Weight: 70 }),
                    set: async () => (layers = { runtime: { Weight: u(70) }, owner: {} }),
                    restore: async (...layers) => (restored = layers),
                }, (...args) => (told ||= args));
                const input = document.querySelector("#change-Weight");
                input.value = "70";
                input.dispatchEvent(new Event("input"));
                await dialog.apply();
                dialog.dialog.close();
                layers.runtime.Priority = { t: "i", v: 3 };
                return [told[0], await told[1](), restored];
            })"""
        )
        values = [{k: {n: x["v"] for n, x in v.items()} for k, v in layers.items()} for layers in said[2]]
        self.assertEqual(said[:2], ["n: Weight was 50.", True])
        self.assertEqual(
            values,
            [
                {"runtime": {"Weight": 70, "Priority": 3}, "owner": {}},
                {"runtime": {"Weight": 50, "Priority": 3}, "owner": {"Max": 30}},
            ],
        )

    def test_2_each_setting(self):
        """For each setting, of either lifetime, the preview equals the change, and an undo removes it."""
        c = self.client(unit="each.service")
        path, before = self.path("each.service"), self.settings()
        tab = self.opened()
        for key, value, now, then, how in (
            ("Class", "batch", "default", "batch", "runtime"),
            ("Priority", -7, 0, -7, "stored"),
            ("Weight", 70, 100, 70, "runtime"),
            ("Max", 40, "none", "40 %", "stored"),
            ("Min", 20, "none", "20 %", "runtime"),
        ):
            with self.subTest(key):
                was = self.get(key, path, GROUP)
                self.dialog(tab, "each.service")
                self.fill(tab, key, value)
                self.keep(tab, how)
                self.said(tab, [key, now, then])
                self.assertEqual(self.get(key, path, GROUP), was)
                self.agree(tab)
                self.assertEqual(self.get(key, path, GROUP), value)
                lifetimes = {s[1]: s[2] for s in self.call("ListSettings")[0] if "each.service" in s[0]}
                self.assertEqual(lifetimes, {how: {key: value}})
                tab.until(f"{self.cell('each.service', key.lower())} === {json.dumps(str(then))}", "the row to change")
                self.undone(tab, before)
                self.assertEqual(self.get(key, path, GROUP), was)

        self.check_unread(tab)
        # Groups that have gone, and calls that an older service does not know, are reported as such.
        for text, what in (
            ("The device pci:gone is no longer there.", "d.changeDevice({}, { devices: new Map() }, 'pci:gone')"),
            ("The running service is older than this page: restart xsched.service, or update xsched.", "lacks()"),
            ("It is no longer there.", "gone()"),
        ):
            error = lambda name: f"() => Promise.reject({{ name: 'org.freedesktop.DBus.Error.{name}' }})"
            said = tab.js(
                f"""(lacks => gone => Promise.all([import("./device.js"), import("./words.js")]).then(([d, w]) =>
                    {what}.then(() => "done", w.problem)))({error("UnknownMethod")})({error("UnknownObject")})"""
            )
            self.assertEqual(said, text)

        # Values out of range, and empty changes, cannot be sent.
        self.dialog(tab, "each.service")
        for value in ("10001", "0", "-5", "1.5", "1e9", ""):
            tab.type("#change-Weight", value)
            tab.until("document.querySelector('.preview .error')?.innerText.includes('range')", value)
            self.assertTrue(tab.js("document.querySelector('dialog footer button').disabled"))
        tab.type("#change-Weight", "100")
        tab.until("document.querySelector('.preview').innerText.includes('Nothing is changed')", "nothing")
        tab.key("Escape")

        # With "for good" and no other change, only a setting that holds until the next boot can be made permanent.
        before = self.settings()
        run("xschedctl", "set", "--runtime", "each.service", "weight=60")
        self.dialog(tab, "each.service")
        self.assertTrue(tab.js("document.querySelector('dialog footer button').disabled"))
        self.keep(tab, "stored")
        self.said(tab, ["Weight", 60, 60])
        self.agree(tab)
        kept = {s[1]: s[2] for s in self.call("ListSettings")[0] if "each.service" in s[0]}
        self.assertEqual(kept["stored"]["Weight"], 60)
        run("xschedctl", "reset", "each.service")
        self.assertEqual(self.settings(), before)
        self.check_clean(tab)
        c.end()

    def test_3_for_good(self):
        """A change for good is stored; an undo restores the settings of both lifetimes, also after "forget"."""
        c = self.client(unit="kept.service")
        path = self.path("kept.service")
        self.call("SetGroup", "sta{sv}", "kept.service", 1, {"Weight": ("u", 50), "Threshold": ("u", 4)})
        self.call("SetGroup", "sta{sv}", "kept.service", 0, {"Weight": ("u", 60), "Priority": ("i", 2)})
        before = self.settings()
        for flags, weight in ((0, 50), (1, 100)):  # without the runtime setting, and without both
            unset = {"Unset": ("as", ["Weight"])}
            then = self.bus.call(NAME, path, GROUP, "Preview", "ta{sv}", flags, unset)[0]
            self.assertEqual((then["Weight"], then["Priority"]), (weight, 2))
        self.assertEqual(self.settings(), before)
        tab = self.opened()
        self.dialog(tab, "kept.service")
        tab.type("#change-Weight", "70")
        self.keep(tab, "stored")
        self.said(tab, ["Weight", 60, 70])
        self.agree(tab)
        kept = {s[1]: s[2] for s in self.call("ListSettings")[0] if "kept.service" in s[0]}
        self.assertEqual(kept["stored"]["Weight"], 70)
        self.undone(tab, before)
        self.assertEqual((self.get("Weight", path, GROUP), self.get("Priority", path, GROUP)), (60, 2))

        self.dialog(tab, "kept.service")
        self.keep(tab, "forget")
        self.said(tab, ["Priority", 2, 0], ["Weight", 60, 100])
        self.agree(tab)
        self.assertEqual(self.settings(), [])
        self.undone(tab, before)
        self.call("ResetGroup", "st", "kept.service", 0)
        self.check_clean(tab)
        c.end()

        # Settings of a scope cannot be stored, since its name does not come again. They can be forgotten.
        c = self.client(command=["systemd-run", "--quiet", "--scope", "--unit=brief.scope"], unit="brief.scope")
        path = self.path("brief.scope")
        self.bus.call(NAME, path, GROUP, "Set", "ta{sv}", 0, {"Weight": ("u", 300)})
        self.dialog(tab, "brief.scope")
        self.assertTrue(tab.js("document.querySelector('input[value=stored]').disabled"))
        self.keep(tab, "forget")
        self.said(tab, ["Weight", 300, 100])
        self.agree(tab)
        self.assertEqual(self.get("Weight", path, GROUP), 100)

    def test_4_policy_of_a_device(self):
        """The policy and its parameters are changed, until the next boot and for good."""
        c = self.client()
        device = next(d[-1] for d in self.call("ListDevices")[0] if d[0] == inside.DEVICE_ID)
        card = f"[data-device='{inside.DEVICE_ID}']"
        now = lambda: {k: self.get(k, device, DEVICE) for k in ("Policy", "TimeSliceUSec", "Concurrency", "Preemption")}
        was, before = now(), self.settings()
        tab = self.opened()

        def dialog():
            tab.click(f"{card} .admin")
            tab.until("document.querySelector('dialog[open] .preview h3')", "the dialog")

        dialog()
        self.fill(tab, "Policy", "hpf")
        self.said(tab, ["Policy", "tree", "hpf"])
        self.assertEqual(now(), was)
        self.agree(tab)
        self.assertEqual(now(), dict(was, Policy="hpf"))
        tab.until(f"document.querySelector({json.dumps(card + ' .beside')}).innerText.includes('hpf')", "the policy")
        self.undone(tab, before)
        self.assertEqual(now(), was)

        # A change for good replaces a setting of each lifetime: an undo restores both.
        self.call("SetPolicy", "ssta{sv}", inside.DEVICE_ID, "", 0, {"TimeSliceUSec": ("t", 9000)})
        self.call("SetPolicy", "ssta{sv}", inside.DEVICE_ID, "", 1, {"Concurrency": ("u", 3)})
        before = self.settings()
        dialog()
        tab.click("dialog summary")
        tab.type("#change-TimeSliceUSec", "2.5")
        self.fill(tab, "Preemption", "1")
        self.fill(tab, "Concurrency", 2)
        self.keep(tab, "stored")
        more = ["How far holds reach", "whichever is quicker", "new launches wait"]
        rows = (["Length of a turn", "9 ms", "2.5 ms"], ["Groups that run at once", 3, 2], more)
        self.said(tab, *rows)
        self.check_looks(tab, "policy")
        self.agree(tab)
        self.assertEqual(now(), dict(was, TimeSliceUSec=2500, Concurrency=2, Preemption="1"))
        stored = {"TimeSliceUSec": 2500, "Concurrency": 2, "Preemption": "1"}
        self.assertEqual(self.call("ListSettings")[0], [(f"device:{inside.DEVICE_ID}", "stored", stored)])
        self.undone(tab, before)
        self.assertEqual(now(), dict(was, TimeSliceUSec=9000, Concurrency=3))

        # The preview shows what the service would refuse. "Forget" removes the settings of both lifetimes.
        dialog()
        tab.click("dialog summary")
        tab.type("#change-StarveUSec", "20")
        tab.type("#change-StarveRunUSec", "30")
        tab.until(
            "document.querySelector('.preview .error')?.innerText.includes('contradict each other')", "the refusal"
        )
        self.assertTrue(tab.js("document.querySelector('dialog footer button').disabled"))
        self.keep(tab, "forget")
        self.said(tab, ["Length of a turn", "9 ms", "20 ms"], ["Groups that run at once", 3, 1])
        self.agree(tab)
        self.assertEqual((now(), self.settings()), (was, []))
        self.undone(tab, before)
        self.call("SetPolicy", "ssta{sv}", inside.DEVICE_ID, "", 1, {"Unset": ("as", ["TimeSliceUSec", "Concurrency"])})
        self.check_clean(tab)
        c.end()

    def test_4_undo_restores_layers(self):
        """An undo restores the owner's own setting, and leaves unset what was not set for the device itself."""
        mine = self.client("--uid=carol", unit="mine.service")
        path = self.path("mine.service")
        run("setpriv", "--reuid=carol", "--clear-groups", "xschedctl", "set", "--runtime", "mine.service", "weight=40")
        owner = [("/system.slice/mine.service", "owner", {"Weight": 40})]
        self.assertEqual(self.call("ListSettings")[0], owner)
        tab = self.opened()
        self.dialog(tab, "mine.service")
        tab.type("#change-Weight", "300")
        self.said(tab, ["Weight", 40, 300])
        self.agree(tab)
        self.assertEqual((self.weight("mine.service"), len(self.call("ListSettings")[0])), (300, 1))
        self.undone(tab, [str(owner[0])])
        self.assertEqual(self.weight("mine.service"), 40)

        # A runtime setting for every device hides the stored one of the device.
        concurrency = lambda device, flags, n: self.call(
            "SetPolicy", "ssta{sv}", device, "", flags, {"Concurrency": ("u", n)}
        )
        concurrency(inside.DEVICE_ID, 1, 3)
        concurrency("", 0, 5)
        before = self.settings()
        tab.click(f"[data-device='{inside.DEVICE_ID}'] .admin")
        self.fill(tab, "Concurrency", 2)
        self.keep(tab, "stored")
        self.said(tab, ["Groups that run at once", 5, 2])
        self.agree(tab)
        self.assertEqual(len(self.settings()), len(before) + 1)
        self.undone(tab, before)
        for device in ("", inside.DEVICE_ID):
            self.call("SetPolicy", "ssta{sv}", device, "", 1, {"Unset": ("as", ["Concurrency"])})

        # An undo to a class that a reload has removed is refused; nothing changes, and the undo button stays.
        name = "/etc/xsched/classes.d/passing.class"
        inside.write(name, "[Class]\nWeight=70\n")
        run("systemctl", "reload", "xsched")
        self.call("SetGroup", "sta{sv}", "mine.service", 0, {"Class": ("s", "passing")})
        before = self.settings()
        self.dialog(tab, "mine.service")
        self.fill(tab, "Class", "batch")
        self.said(tab, ["Class", "passing", "batch"])
        self.agree(tab)
        os.unlink(name)
        run("systemctl", "reload", "xsched")
        tab.click(".undo")
        said = "document.querySelector('.alert .error')?.innerText"
        tab.until(f"{said} === \"It was not undone: There is no class 'passing'\"", "the reason")
        self.assertEqual(self.get("Class", path, GROUP), "batch")
        inside.write(name, "[Class]\nWeight=70\n")
        run("systemctl", "reload", "xsched")
        self.undone(tab, before)
        os.unlink(name)
        run("systemctl", "reload", "xsched")
        self.call("ResetGroup", "st", "mine.service", 0)
        self.check_clean(tab)
        mine.end()

    def test_4_two_administrators(self):
        """Another administrator's change is not overwritten without a question, also not by an undo."""
        c = self.client(unit="both.service")
        path = self.path("both.service")
        other = lambda flags, **settings: self.call(
            "SetGroup",
            "sta{sv}",
            "both.service",
            flags,
            {k: ("i" if k == "Priority" else "u", v) for k, v in settings.items()},
        )
        tab = self.opened()
        self.dialog(tab, "both.service")
        tab.type("#change-Weight", "70")
        self.said(tab, ["Weight", 100, 70])
        other(0, Weight=200, Priority=3)
        before = self.settings()
        tab.click("dialog footer button")
        said = "document.querySelector('dialog > .error')?.innerText"
        tab.until(f"{said}?.includes('Priority was 0 and is 3 now; Weight was 100 and is 200 now')", "the question")
        self.assertEqual(self.settings(), before)
        self.assertEqual(tab.js("document.querySelector('#change-Priority').value"), "3")
        self.said(tab, ["Weight", 200, 70])
        self.agree(tab)
        self.assertEqual((self.weight("both.service"), self.get("Priority", path, GROUP)), (70, 3))

        # Others' changes of other settings stay.
        other(0, Priority=9)
        tab.click(".undo")
        tab.until("!document.querySelector('.undo')", "the undo")
        self.assertEqual((self.weight("both.service"), self.get("Priority", path, GROUP)), (200, 9))

        # If others have changed the same setting, of either lifetime, the page asks; an undo can be cancelled and
        # repeated.
        self.dialog(tab, "both.service")
        tab.type("#change-Weight", "60")
        self.said(tab, ["Weight", 200, 60])
        self.agree(tab)
        other(1, Weight=500)
        before = self.settings()
        tab.click(".undo")
        asked = "document.querySelector('dialog')?.innerText"
        tab.until(f"{asked}?.includes('Weight was 60 and is 500 now')", "the question")
        self.assertIn("Weight as it was at 200", tab.js(asked))
        tab.key("Escape")
        tab.until("!document.querySelector('dialog') && !document.querySelector('.undo').disabled", "the undo button")
        self.assertEqual(self.settings(), before)
        tab.click(".undo")
        tab.until(asked, "the question")
        other(1, Weight=400)  # once more, before the answer
        tab.click("dialog .danger")
        tab.until("document.querySelectorAll('dialog').length === 2", "another question")
        tab.click("dialog:last-of-type .danger")
        tab.until("!document.querySelector('dialog') && !document.querySelector('.undo')", "the undo")
        lifetimes = dict(self.call("GetSettings", "st", "both.service", 0)[0])
        self.assertEqual(lifetimes, {"runtime": {"Weight": 200, "Priority": 9}})

        # An undo does not resume a unit that another has suspended meanwhile.
        self.menu(tab, "both.service", "Suspend…")
        tab.until("document.querySelector('dialog')")
        self.call("SuspendGroup", "st", "both.service", 0)
        self.agree(tab)
        tab.until("document.querySelector('.alert')?.innerText.includes('suspended')", "the alert")
        self.assertFalse(tab.js("!!document.querySelector('.undo')"))
        self.call("ResumeGroup", "st", "both.service", 0)
        self.call("ResetGroup", "st", "both.service", 0)
        self.check_clean(tab)
        c.end()

    def test_5_as_a_user(self):
        """Without administrative access, a user can only lower settings of her own units."""
        mine = self.client("--uid=carol", unit="mine.service")
        other = self.client(unit="other.service")
        tab = self.opened("carol")
        tab.until("document.querySelector('.read-only')?.checkVisibility()", "the note")
        tab.until("document.querySelector('.device .admin')")
        self.assertFalse(tab.js("document.querySelector('.device .admin').checkVisibility()"))
        tab.until(self.cell("other.service", "name"))
        tab.click(f"{selector('other.service')} .kebab")
        tab.until("document.querySelector('[role=menu]')")
        items = tab.js(
            "[...document.querySelectorAll('[role=menuitem]')].map(e => [e.firstChild.textContent, e.ariaDisabled])"
        )
        self.assertEqual(items[:3], [["Change…", "true"], ["Suspend…", "true"], ["Explain", None]])
        self.shot(tab, "user")
        tab.key("Escape")

        # The service refuses as well: to raise any setting, to lower those of other units, and those of the device.
        device = self.call("ListDevices")[0][0][-1]
        watched = [(self.path("other.service"), GROUP), (self.path("mine.service"), GROUP), (device, DEVICE)]
        counted = ("RunUSec", "WaitUSec", "IdleUSec", "GPUTimeUSec", "BusyUSec", "KeptUSec", "Metrics")
        read = lambda p, i: self.bus.call(NAME, p, "org.freedesktop.DBus.Properties", "GetAll", "s", i)[0].items()
        state = lambda: [{k: v for k, v in read(p, i) if k not in counted} for p, i in watched]
        before = state()
        sets = [("Class", "s", "interactive"), ("Priority", "i", 5), ("Weight", "u", 500), ("Min", "u", 50)]
        sets = [[flags, {k: {"t": t, "v": v}}] for k, t, v in sets for flags in (0, 1)]
        lower = [
            [flags, {k: {"t": t, "v": v}}] for k, t, v in [("Priority", "i", -5), ("Max", "u", 9)] for flags in (0, 1)
        ]
        calls = [
            *[[self.path("mine.service"), GROUP, "Set", args] for args in [*sets, *lower[1::2]]],
            *[[self.path("other.service"), GROUP, "Set", args] for args in [*sets, *lower]],
            *[[self.path(u), GROUP, m, []] for u in ("mine.service", "other.service") for m in ("Suspend", "Resume")],
            *[
                [inside.PATH, NAME, "SetPolicy", [i, p, f, {}]]
                for i, p in ((inside.DEVICE_ID, "hpf"), ("", "hpf"))
                for f in (0, 1)
            ],
        ]
        refused = tab.js(
            f"""(bus => Promise.all({json.dumps(calls)}.map(([path, iface, method, args]) =>
                bus.call(path, iface, method, args).then(() => `${{method}} ${{args}}: done`, e => e.name))))
                (cockpit.dbus("{NAME}", {{ superuser: "try" }}))"""
        )
        self.assertEqual(len(refused), len(calls))
        for answer in refused:
            self.assertRegex(answer, "AccessDenied|InteractiveAuthorizationRequired")
        self.assertEqual(state(), before)

        self.dialog(tab, "mine.service")
        self.assertTrue(tab.js("document.querySelector('input[value=stored]').disabled"))
        tab.type("#change-Weight", "500")
        tab.click("dialog footer button")
        tab.until("document.querySelector('dialog > .error')?.innerText", "the refusal")
        self.assertEqual(self.weight("mine.service"), 100)
        tab.type("#change-Weight", "40")
        self.said(tab, ["Weight", 100, 40])
        self.agree(tab)
        self.assertEqual(self.weight("mine.service"), 40)

        # The explanation says who has lowered it, and what it would be otherwise.
        self.menu(tab, "mine.service", "Explain")
        tab.until("document.querySelector('dialog h3')", "the chain")
        weight = tab.js(
            "[...document.querySelectorAll('.setting')].find(e => e.innerText.startsWith('Weight')).innerText"
        )
        self.assertIn("lowered by its owner for", weight)
        self.assertIn("Without that it would be 100", weight)
        self.check_looks(tab, "explain")
        tab.key("Escape")
        tab.until("!document.querySelector('dialog')")

        # The same for the process, in sentences instead of the service's terms.
        pid = inside.show("mine.service", "MainPID")
        tab.click(f"{selector('mine.service')} .caret")
        process = "tr[data-key^='client:']"
        tab.until(f"document.querySelector({json.dumps(process)})", "the process")
        self.assertIn(f"process {pid}", tab.text(f"{process} .label"))
        tab.click(f"{process} .kebab")
        tab.click("[role=menuitem]")
        tab.until(f"document.querySelector('dialog h2')?.innerText.includes('process {pid}')", "the explanation")
        self.assertEqual(tab.text("dialog .now"), "It does not wait now.")
        weight = tab.js(
            "[...document.querySelectorAll('.setting')].find(e => e.innerText.startsWith('Weight')).innerText"
        )
        self.assertIn("Weight 40", weight)
        self.assertIn("Why: lowered by its owner for /system.slice/mine.service", weight)
        self.assertIn("Among equals beside each other, the one with twice the weight", weight)
        whys = tab.js("[...document.querySelectorAll('.dialog-body > .setting p:nth-child(2)')].map(e => e.innerText)")
        self.assertGreaterEqual(len(whys), 5)
        for why in whys:
            self.assertRegex(
                why,
                "^Why: (lowered by its owner for|built in, because it is not set|by class default, because no other) ?",
            )
        tab.key("Escape")
        tab.until("!document.querySelector('dialog')")
        tab.click(".undo")
        until(lambda: self.weight("mine.service") == 100, "the undo")
        self.check_clean(tab)
        mine.end()
        other.end()
