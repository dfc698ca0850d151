# SPDX-License-Identifier: LGPL-2.1-or-later
"""A headless Chromium, controlled by its DevTools protocol over a pipe, and Cockpit's login in it.

Nothing waits for a fixed time: conditions are polled in the page itself until they are true or the deadline is over. A
click counts only once the page confirms that the intended element got it."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from inside import until

DEADLINE = 60.0
ORIGIN = "http://127.0.0.1:9090"
PAGE = f"{ORIGIN}/cockpit/@localhost/xsched/index.html"
KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    " ": ("Space", 32, " "),
}
# Returns where to click, if the element did not move between two frames. Until window.aim.end() is called, the page
# ignores clicks on anything else.
AIM = """
async selector => {
    const frame = () => new Promise(requestAnimationFrame);
    const e = document.querySelector(selector);

    if (!e || e.matches(":disabled") || !e.checkVisibility())
        return null;
    e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    await frame();
    const before = e.getBoundingClientRect();

    await frame();
    const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;

    if (r.x !== before.x || r.y !== before.y || !e.contains(document.elementFromPoint(x, y)))
        return null;
    const types = ["pointerdown", "mousedown", "pointerup", "mouseup", "click"];
    let got = false;
    const guard = event => {
        if (!e.contains(event.target)) {
            event.preventDefault();
            event.stopImmediatePropagation();
        } else if (event.type === "click") {
            got = true;
        }
    };

    types.forEach(type => window.addEventListener(type, guard, true));
    window.aim = {
        end: () => {
            types.forEach(type => window.removeEventListener(type, guard, true));
            return got;
        },
    };
    return [x, y];
}
"""


# Collects the page's web sockets, which scripts cannot list.
SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
    constructor(...args) {
        super(...args);
        window.sockets.push(this);
    }
};
"""

# Roles of elements that need a name for screen readers.
NAMED = {
    *("button", "textbox", "searchbox", "spinbutton", "combobox", "radio", "dialog", "menu", "menuitem", "treegrid"),
    *("img", "image", "figure", "article", "region", "heading", "columnheader"),
}


class Browser:
    """Sessions (contexts) do not share cookies."""

    def __init__(self):
        self.home = tempfile.mkdtemp()
        here_in, there_out = os.pipe()
        there_in, here_out = os.pipe()
        # --remote-debugging-pipe reads descriptor 3 and writes 4. --no-sandbox, because Chromium's sandbox does not
        # work as root, in a container without user namespaces; it sees nothing but our page.
        self.process = subprocess.Popen(
            [
                "sh",
                "-c",
                f'exec "$@" 3<&{there_in} 4>&{there_out}',
                "sh",
                "chromium",
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-extensions",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
                f"--user-data-dir={self.home}/data",
                "about:blank",
            ],
            pass_fds=(there_in, there_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home, "XDG_RUNTIME_DIR": self.home},
        )
        os.close(there_in)
        os.close(there_out)
        self.input, self.output = here_in, here_out
        self.buffer = b""
        self.last_id = 0
        self.tabs = {}

    def close(self):
        os.close(self.output)
        os.close(self.input)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def receive(self, deadline):
        """Returns the next message, or None if there is none in time."""
        while b"\0" not in self.buffer:
            if not select.select([self.input], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            data = os.read(self.input, 1 << 20)
            if not data:
                raise AssertionError(f"chromium ended: {self.process.wait()}")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data) :]
        deadline = time.monotonic() + DEADLINE
        while True:
            answer = self.receive(deadline)
            if answer is None:
                raise AssertionError(f"no answer to {method}")
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.event(answer)

    def event(self, message):
        tab = self.tabs.get(message.get("sessionId"))
        if tab:
            tab.events.append((message["method"], message["params"]))

    def tab(self, width=1280, height=1000):
        """Opens a page in its own session."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.tabs[session] = tab = Tab(self, session, width, height)
        return tab


class Tab:
    def __init__(self, browser, session, width, height):
        self.browser, self.session = browser, session
        self.events = []
        for domain in ("Page", "Runtime", "Network", "Log", "Performance", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=SOCKETS)
        # Focus events come at once only for a tab in front, so each tab behaves as if it were that.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.size(width, height)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def size(self, width, height, scale=1):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def dark(self, dark):
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def go(self, url):
        self.call("Page.navigate", url=url)

    def js(self, expression):
        """Returns the value of the expression, or of its promise, from JSON."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def until(self, expression, what=None, deadline=DEADLINE):
        """Waits until the expression is true. Returns its value."""
        last = None

        def look():
            nonlocal last
            try:
                last = self.js(f"Promise.resolve({expression}).then(v => (v instanceof Node ? true : v))")
            except AssertionError as error:
                last = error  # the page has changed
                return None
            return last

        try:
            return until(look, what or expression, deadline)
        except AssertionError as error:
            text = self.js("document.body.innerText")[:2000]
            raise AssertionError(f"timed out: {what or expression}: {last}\n{self.said()}\n{text}") from error

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText")

    def click(self, selector):
        """Clicks an element with the mouse once it is visible, enabled, at rest, and not covered. If something else is
        there when the click comes, the page ignores the click, and it is tried again."""

        def hit():
            place = self.js(f"({AIM})({json.dumps(selector)})")
            if not place:
                return False
            x, y = place
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            return self.js("window.aim ? window.aim.end() : true")  # it is gone if the click led to another page

        until(hit, f"{selector} to be clicked", DEADLINE)

    def key(self, name, shift=False):
        code, number, text = KEYS[name]
        more = {"text": text} if text else {}
        event = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, selector, text):
        """Replaces the field's text."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.until(
            f"(e => e && (e.focus(), document.activeElement === e) && (e.select(), true))({element})",
            f"{selector} to have the focus",
        )
        self.call("Input.insertText", text=text)
        value = self.js(f"{element}.value")
        if value != text:
            raise AssertionError(f"{selector} has {value!r} instead of {text!r}")

    def choose(self, selector, value):
        self.js(
            f"""(() => {{
                const e = document.querySelector({json.dumps(selector)});
                e.value = {json.dumps(value)};
                e.dispatchEvent(new Event("input", {{ bubbles: true }}));
                e.dispatchEvent(new Event("change", {{ bubbles: true }}));
            }})()"""
        )

    def screenshot(self, path, whole=False):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(picture))

    # --- events ---

    def said(self):
        """Returns the console's errors and warnings, and exceptions, since the page was loaded."""
        said = []
        for method, params in self.events:
            if method == "Page.frameNavigated" and "parentId" not in params["frame"]:
                said.clear()
            elif method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                said.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                said.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                said.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return said

    def bus_calls(self):
        """Returns (time, method) of each bus call that the page has sent on its web socket."""
        self.js("0")  # all earlier events arrive before this answer
        calls = []
        for method, params in self.events:
            if method == "Network.webSocketFrameSent":
                for line in params["response"]["payloadData"].split("\n"):
                    if line.startswith('{"') and '"call":' in line:
                        calls.append((params["timestamp"], json.loads(line)["call"]))
        return calls

    def accessible(self):
        """Returns (role, name) of all elements, as a screen reader sees them."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        seen = [n for n in nodes if not n.get("ignored")]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in seen if "role" in n]

    def names(self, role):
        return [name for r, name in self.accessible() if r == role]

    def nameless(self):
        """Returns the elements that a screen reader cannot name: they have no name, or only a sign."""
        return [(r, n) for r, n in self.accessible() if r in NAMED and not any(c.isalnum() or c in "/–" for c in n)]

    # --- Cockpit ---

    def close_channel(self, what):
        """Closes the latest channel that was opened with `what` in its options, as the bridge does when it cannot go
        on."""
        opened = [
            json.loads(line)
            for method, params in self.events
            if method == "Network.webSocketFrameSent"
            for line in params["response"]["payloadData"].split("\n")
            if '"command":"open"' in line and what in line
        ]
        close = {"command": "close", "channel": opened[-1]["channel"], "problem": "terminated"}
        data = json.dumps("\n" + json.dumps(close))
        self.js(f"sockets.at(-1).dispatchEvent(new MessageEvent('message', {{ data: {data} }}))")

    def login(self, user, password, administrator):
        """Logs in on Cockpit's page, with or without what Cockpit calls administrative access."""
        self.go(ORIGIN)
        self.until("document.querySelector('#login-user-input')?.offsetParent", "the login page")
        value = "any" if administrator else "none"
        self.js(f"localStorage.setItem('superuser:{user}', '{value}')")
        self.type("#login-user-input", user)
        self.type("#login-password-input", password)
        self.click("#login-button")
        self.until("document.querySelector('#host-apps')", "Cockpit's shell")
