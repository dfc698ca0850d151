# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base of the tests of the page for Cockpit: Cockpit, a browser in which an administrator and a user are logged in,
and functions for rows, menus and dialogs. All tests of a run have the same browser."""

import atexit
import glob
import json
import os
import subprocess

import inside
from browser import PAGE, Browser
from inside import GROUP, Case, run, until

PASSWORD = "correct horse 3"
SHOTS = os.environ.get("SHOTS", "")
TENANT = "/mnt/build/tests/opencl/tenant"
LAYER = glob.glob("/usr/lib/*/xsched/libxsched-opencl.so")[0]

# The driver's metrics of the device.
SENSORS = {
    "gpu_busy_percent": 37,
    "mem_info_vram_total": 64 << 30,
    "mem_info_vram_used": 5 << 30,
    "hwmon/hwmon0/temp1_input": 61400,
    "hwmon/hwmon0/power1_average": 212400000,
}


# Finds texts with too little contrast to their background: WCAG asks for 4.5 to 1, and for 3 to 1 if they are large.
FAINT = """
(() => {
    const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [[r, 0.2126], [g, 0.7152], [b, 0.0722]].reduce((sum, [c, part]) => {
        const v = c / 255;
        return sum + part * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    }, 0);
    const behind = e => {
        for (let up = e; up; up = up.parentElement) {
            const c = parse(getComputedStyle(up).backgroundColor);
            if (c.length === 3 || c[3] === 1)
                return c;
        }
        return [255, 255, 255];
    };
    const top = document.querySelector("dialog") || document.body, found = [];
    for (const e of top.querySelectorAll("*")) {
        const text = [...e.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).map(n => n.data.trim()).join("");
        if (!text || !e.checkVisibility({ checkVisibilityCSS: true }) || e.matches(":disabled, option"))
            continue;
        const style = getComputedStyle(e), svg = e instanceof SVGElement;
        const [a, b] = [light(parse(svg ? style.fill : style.color)), light(behind(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < (parseFloat(style.fontSize) >= 18 ? 3 : 4.5))
            found.push(`${text}: ${ratio.toFixed(2)}`);
    }
    return found;
})()
"""

# Finds elements that reach beyond the window, except in tables, which can be scrolled.
OUTSIDE = """
(() => {
    const width = document.documentElement.clientWidth, top = document.querySelector("dialog") || document.body;
    return [document.documentElement, ...top.querySelectorAll("*")]
        .filter(e => e.checkVisibility() && !e.closest("table, svg"))
        .filter(e => e.getBoundingClientRect().right > width + 1 || e.getBoundingClientRect().left < -1)
        .map(e => e.outerHTML.slice(0, 200));
})()
"""


def selector(unit):
    return f"tr[data-key^='group:'][data-key$='/{unit}']"


class PageCase(Case):
    browser = None
    tabs = {}

    @classmethod
    def setUpClass(cls):
        if PageCase.browser:
            return
        for user in ("boss", "carol"):
            run("useradd", "--create-home", "--shell=/bin/bash", user)
            subprocess.run(["chpasswd"], input=f"{user}:{PASSWORD}\n", text=True, check=True)
        run("usermod", "--append", "--groups", "sudo", "boss")
        for name, value in SENSORS.items():
            inside.write(f"/etc/gpus/{inside.DEVICE_ID.removeprefix('pci:')}/{name}", f"{value}\n")
        inside.drop_in("xsched.service", "gpu", "[Service]\nBindReadOnlyPaths=/etc/gpus:/sys/bus/pci/devices\n")
        run("systemctl", "start", "polkit", "xsched")
        run("systemctl", "unmask", "cockpit.socket")
        # Without TLS, since making its key takes seconds.
        tls = "/usr/lib/cockpit/cockpit-tls --no-tls"
        inside.drop_in("cockpit.service", "plain", f"[Service]\nExecStartPre=\nExecStart=\nExecStart={tls}\n")
        run("systemctl", "start", "cockpit.socket")
        PageCase.browser = Browser()
        atexit.register(PageCase.browser.close)

    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for unit, p in self.processes:
            run("systemctl", "stop", unit, status=None)  # a suspended unit would not end by itself
            p.communicate(timeout=inside.DEADLINE)
        super().tearDown()

    def opened(self, user="boss"):
        """Opens the page, and waits until it shows the objects. A user stays logged in from test to test."""
        tab = self.tabs.get(user)
        if not tab:
            self.tabs[user] = tab = self.browser.tab()
            tab.login(user, PASSWORD, user == "boss")
        # Directly from page to page: Cockpit drops a session that has no page open.
        tab.js("window.former = true")
        tab.events.clear()
        tab.go(PAGE)
        tab.until("!window.former && document.querySelector('#page[aria-busy=false]')", "the page")
        told = "document.documentElement.classList.contains('may-manage')"
        tab.until(told if user == "boss" else "document.querySelector('.read-only')?.checkVisibility()", "permissions")
        return tab

    def shot(self, tab, name):
        if SHOTS:
            tab.screenshot(f"{SHOTS}/{name}.png")

    def tenants(self, *units, user="root"):
        for unit in units:
            p = subprocess.Popen(
                [
                    "systemd-run",
                    "--quiet",
                    "--pipe",
                    "--wait",
                    "--collect",
                    f"--unit={unit}",
                    f"--uid={user}",
                    f"--setenv=OPENCL_LAYERS={LAYER}",
                    "--setenv=POCL_MAX_PTHREAD_COUNT=1",
                    TENANT,
                    "1000",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.processes.append((unit, p))
        until(lambda: self.get("NClients") >= len(units), "the tenants to be clients")

    def path(self, unit):
        return self.call("GetGroup", "s", unit)[0]

    def weight(self, unit):
        return self.get("Weight", self.path(unit), GROUP)

    def cell(self, unit, column):
        """Returns a JavaScript expression for the text of a cell."""
        names = ["name", "class", "priority", "weight", "max", "min", "asked", "got", "state", "menu"]
        return f"document.querySelector({json.dumps(selector(unit))})?.children[{names.index(column)}].innerText"

    def menu(self, tab, unit, item):
        """Opens the row's menu, and chooses the named item."""
        tab.click(f"{selector(unit)} .kebab")
        tab.until("document.activeElement?.getAttribute('role') === 'menuitem'", "the menu")
        items = tab.js("[...document.querySelectorAll('[role=menuitem]')].map(e => e.firstChild.textContent)")
        tab.click(f"[role=menuitem]:nth-child({items.index(item) + 1})")

    def agree(self, tab):
        """Clicks the first button of the dialog, and waits until the dialog is closed."""
        tab.click("dialog footer button")
        tab.until("!document.querySelector('dialog')", "the dialog to close")

    def check_clean(self, tab):
        """Checks that the content security policy refused nothing, and that there were no errors."""
        self.assertEqual(tab.said(), [])

    def check_looks(self, tab, name):
        """Checks, in light and in dark, that all texts are readable, that nothing is cut off, and that all elements
        have names. Keeps a picture of both."""
        for dark in (False, True):
            tab.dark(dark)
            tab.until(f"document.documentElement.classList.contains('dark') === {json.dumps(dark)}")
            self.assertEqual(tab.js(FAINT), [], f"{name}, {'dark' if dark else 'light'}: too little contrast")
            self.shot(tab, f"{name}-dark" if dark else name)
        tab.dark(False)
        self.assertEqual(tab.nameless(), [], f"{name}: without a name for screen readers")
        self.assertEqual(tab.js(OUTSIDE), [], f"{name}: outside of the window")
