/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long it took, of late: a histogram of the service's, as a picture and in words
 *
 * The service counts since it began, by bounds that are powers of two of microseconds: what came in a minute is the
 * difference of two countings. Before there are two of them it is all that was counted.
 */

import { el, replace, setAttribute, setText, svg } from "./dom.js";
import { SPAN_MS } from "./model.js";
import { _, format, span } from "./words.js";

const WIDTH = 240, HEIGHT = 46, BOTTOM = 14, FEWEST = 8;

/* [usec, count] of each bound, of what came between two countings. */
function between(before, now) {
    let below = 0;

    return now.bounds.map(([usec, upto], i) => {
        const all = upto - (before ? before.bounds[i][1] : 0), count = all - below;

        below = all;
        return [usec, Math.max(0, count)];
    });
}

export class Histogram {
    /* `title`: what is measured; `explain`: what that is. */
    constructor(title, explain) {
        this.title = title;
        this.countings = [];
        this.bars = svg("g", {});
        this.picture = svg("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT + BOTTOM}`, role: "img" },
            this.bars);
        this.heading = el("div", { class: "subtle" }, title);
        this.words = el("figcaption", {});
        this.element = el(
            "figure",
            { class: "latency", title: explain, hidden: true },
            this.heading,
            this.picture,
            this.words
        );
    }

    /* `value`: as the bus has it. */
    update(value, now) {
        const [bounds, , n] = value, last = this.countings.at(-1);

        if (last && last.now === now)
            return;
        if (last && n < last.n) /* of another run of the service */
            this.countings = [];
        this.element.hidden = false;
        this.countings.push({ now, bounds, n });
        while (this.countings.length > 2 && this.countings[1].now <= now - SPAN_MS)
            this.countings.shift();
        const first = this.countings[0], since = now - first.now;
        const counts = between(since > 0 ? first : null, this.countings.at(-1));

        setText(this.heading, since > 0 ? format(_("$0, in the last $1"), this.title, span(since * 1000))
            : format(_("$0, since the service began"), this.title));
        this.tell(counts);
        this.draw(counts);
    }

    tell(counts) {
        const n = counts.reduce((sum, [, count]) => sum + count, 0);
        const within = part => {
            let sum = 0;

            return counts.find(([, count]) => (sum += count) >= part * n)[0];
        };
        const words = n === 0 ? _("nothing")
            : format(_("half within $0, 99 % within $1"), span(within(0.5)), span(within(0.99)));

        setAttribute(this.picture, "class", n === 0 ? "histogram nothing" : "histogram");
        setText(this.words, words);
        setAttribute(this.picture, "aria-label", `${this.heading.textContent}: ${words}`);
    }

    /* From the first that anything fell into to the last. */
    draw(counts) {
        const places = counts.map(([, count], i) => (count > 0 ? i : -1)).filter(i => i >= 0);
        const first = Math.max(0, Math.min(places[0] ?? 0, (places.at(-1) ?? 0) - FEWEST + 1));
        const shown = counts.slice(first, Math.max((places.at(-1) ?? 0) + 1, first + FEWEST));
        const most = Math.max(1, ...shown.map(([, count]) => count)), width = WIDTH / shown.length;
        const label = (i, x, anchor) =>
            svg("text", { class: "tick", x, y: HEIGHT + 11, "text-anchor": anchor }, span(shown[i][0]));

        replace(
            this.bars,
            svg("path", { class: "grid", d: `M0 ${HEIGHT}H${WIDTH}` }),
            shown.map(([, count], i) => {
                const height = count > 0 ? Math.max(1.5, (HEIGHT * count) / most) : 0;

                return svg("rect", { class: "bar", x: i * width + 1, y: HEIGHT - height, width: width - 2, height });
            }),
            label(0, 0, "start"),
            label(Math.floor(shown.length / 2), WIDTH / 2, "middle"),
            label(shown.length - 1, WIDTH, "end")
        );
    }
}
