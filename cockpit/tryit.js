/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Try it: the demonstration, run as the person who asks, with a service of its own; its plot is shown as a picture, in
 * which nothing can run
 */

/* global cockpit */

import { openDialog } from "./dialog.js";
import { button, el, replace, setText } from "./dom.js";
import { _, format, problem } from "./words.js";

const SECONDS = 3;
/* Who leaves early leaves nothing: neither the file nor what runs. */
const RUN = `
plot=$(mktemp) || exit 1
trap 'rm -f "$plot"' EXIT
trap 'kill "$demo" 2>/dev/null; wait; exit 1' HUP INT TERM
xsched-demo --device="$1" --duration="$2" --plot="$plot" &
demo=$!
wait "$demo" && cat "$plot"
`;

export async function tryIt() {
    const output = el("pre", { class: "output", tabindex: 0, hidden: true }), picture = el("div", { class: "plot" });
    const select = el("select", { id: "try-device" }), status = el("p", { role: "status" });
    let running = null, devices = "";

    try {
        devices = await cockpit.spawn(["xsched-demo", "--list-devices"], { err: "message" });
    } catch (error) {
        openDialog(_("Try it"), [
            el("p", {}, _("The demonstration cannot be run: the package xsched-demo may be missing.")),
            el("p", { class: "subtle" }, problem(error)),
        ]);
        return;
    }
    for (const line of devices.split("\n").filter(l => l.trim())) {
        const [, index, name] = /^(\d+)\s+(.*)$/.exec(line) || [null, "0", line];

        select.append(el("option", { value: index }, name));
    }
    const run = button(_("Run it"), () => {
        run.disabled = true;
        replace(picture);
        setText(status, format(_("Running: three times $0 seconds."), SECONDS));
        setText(output, "");
        output.hidden = false;
        let text = "";

        running = cockpit.script(RUN, [select.value, String(SECONDS)], { err: "out" });
        running
            .stream(data => {
                text += data;
                setOutput(output, text);
            })
            .then(() => {
                const begin = text.indexOf("<svg ");

                setText(status, _("Done. Each dot is a task of the latency job; below the line it was in time."));
                if (begin >= 0)
                    picture.append(
                        el("img", {
                            src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text.slice(begin))}`,
                            alt: _("How long each task took: alone, shared without xsched, and shared with xsched"),
                        })
                    );
            })
            .catch(error => setText(status, format(_("It failed: $0"), problem(error))))
            .finally(() => {
                running = null;
                run.disabled = false;
            });
    }, { class: "button primary run-it" });

    openDialog(
        _("Try it"),
        [
            el("p", {}, _("A job that must answer in time beside a batch job, without xsched and with it.")),
            el("p", {}, _("It runs as you, with a scheduler of its own, and changes nothing on this host.")),
            el("div", { class: "fields" }, el("label", { for: "try-device" }, _("Device")), select, run),
            status,
            picture,
            output,
        ],
        [],
        { wide: true, onclose: () => running?.close("terminated") }
    );
}

/* Lines as they are, and of the picture nothing. */
function setOutput(output, text) {
    const lines = text.split("<svg ")[0];

    output.replaceChildren(document.createTextNode(lines.replace(/[^\P{Cc}\n]/gu, "\ufffd")));
    output.scrollTop = output.scrollHeight;
}
