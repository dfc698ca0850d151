/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Why a group or a process has what it has, and why it waits, for somebody who does not know the terms. */

import { NAME } from "./bus.js";
import { isBuiltIn, meaning, NAMES, readChain, sentence, show } from "./chain.js";
import { openDialog } from "./dialog.js";
import { el } from "./dom.js";
import { _, format, reason, shortName, span } from "./words.js";

function waitSentence([device, why, by, , , usec], self) {
    const whom = by ? shortName(by) : "", own = by === self;
    const words = {
        suspended: () => (own ? _("It is suspended until it is resumed.")
            : format(_("It is suspended with $0, until that is resumed."), whom)),
        priority: () => format(_("It waits: $0 runs, with a higher priority."), whom),
        share: () => format(_("It waits: it is the turn of $0."), whom),
        max: () => format(_("It waits: Max of $0 is used up for now."), whom),
        gang: () => format(_("It waits: $0 needs another of its devices first."), whom),
    };
    const text = words[why] ? words[why]() : format(_("It waits: $0."), reason(why));

    return usec > 0 && why !== "suspended" ? format(_("$0 For $1 so far, on $2."), text, span(usec), device) : text;
}

/* What would hold without what does, one after the other, where that is something else. */
function without([first, ...others]) {
    let value = first.value;

    return others.flatMap(line => {
        if (line.lowers === false)
            return [format(_("$0 was asked for, too, and lowers nothing: $1."), line.shown, sentence(line))];
        if (line.value === value)
            return [];
        value = line.value;
        return [format(_("Without that it would be $0: $1."), line.shown, sentence(line))];
    });
}

function settingOf([key, lines]) {
    const shown = lines.map(line => ({ ...line, shown: show(key, line.value) })), others = without(shown);

    return el(
        "div",
        { class: "setting" },
        el("h3", {}, NAMES[key] ? NAMES[key]() : key, " ", el("span", { class: "value" }, shown[0].shown)),
        el("p", {}, format(_("Why: $0."), sentence(shown[0]))),
        others.length > 0 && el("ul", {}, others.map(text => el("li", {}, text))),
        el("p", { class: "subtle" }, meaning(key))
    );
}

/* `self`: how the service names it where it says who is suspended. */
export async function explain(bus, path, kind, title, self) {
    const [chain, waits] = await Promise.all([
        bus.call("ExplainObject", "o", [path]),
        bus.get(path, `${NAME}.${kind}`, "Waits"),
    ]);
    const keys = [...readChain(chain[0])], shown = keys.filter(([key, lines]) => NAMES[key] || !isBuiltIn(lines));
    const rest = keys.filter(k => !shown.includes(k));

    shown.sort(([a], [b]) => Object.keys(NAMES).indexOf(a) - Object.keys(NAMES).indexOf(b));
    openDialog(
        format(_("Why $0 has its settings"), title),
        [
            el("p", { class: "now" }, waits.map(w => waitSentence(w, self)).join(" ") || _("It does not wait now.")),
            shown.map(settingOf),
            rest.length > 0 &&
                el(
                    "details",
                    {},
                    el("summary", {}, format(_("$0 more, as built in"), rest.length)),
                    rest.map(settingOf)
                ),
        ],
        [],
        { wide: true }
    );
}
