/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The policy of a device, and its parameters. */

import { variant } from "./bus.js";
import { openDialog } from "./dialog.js";
import { el, setText } from "./dom.js";
import { _, format } from "./words.js";

/* key -> type, as Describe calls it, what one unit of the field is on the bus, bounds of the field */
const PARAMETERS = {
    TimeSliceUSec: ["t", "timeslice_usec", 1000, 0.1, 10000],
    Concurrency: ["u", "concurrency", 1, 1, 64],
    StarveUSec: ["t", "starve_usec", 1000, 0, 3600000],
};
const LABELS = {
    TimeSliceUSec: () => _("Length of a turn, ms"),
    Concurrency: () => _("How many run at once"),
    StarveUSec: () => _("A turn for everybody after waiting, ms (0: never)"),
};

export async function changeDevice(bus, device, done) {
    const [policies, settings] = await Promise.all([bus.call("ListPolicies", ""), bus.call("ListSettings", "")]);
    const before = settings[0].filter(([target]) => target === `device:${device.id}`);
    const about = el("p", { class: "subtle" });
    const tell = () => setText(about, policies[0].find(([name]) => name === select.value)?.[1] || "");
    const select = el("select", { id: "device-Policy", oninput: tell });

    for (const [name] of policies[0])
        select.append(el("option", { value: name }, name));
    select.value = device.policy;
    tell();
    const inputs = Object.entries(PARAMETERS).map(([key, [, name, unit, min, max]]) => {
        const input = el("input", { id: `device-${key}`, type: "number", min, max, step: "any", required: true });

        input.value = device[name] / unit;
        return [key, input];
    });
    const field = (id, label, input) => el("div", { class: "field" }, el("label", { for: id }, label), input);
    const form = el(
        "form",
        { onsubmit: event => event.preventDefault() },
        el("div", { class: "fields" }, field("device-Policy", _("Policy"), select)),
        about,
        el("div", { class: "fields" }, inputs.map(([key, input]) => field(`device-${key}`, LABELS[key](), input))),
        el("p", { class: "subtle" }, _("It counts until the next boot; for good it is written in xsched.conf(5)."))
    );

    const undo = async names => {
        await bus.call("SetPolicy", "ssta{sv}", [device.id, "", 0, { Unset: variant("as", names) }]);
        for (const [, , { Policy, ...others }] of before)
            await bus.call("SetPolicy", "ssta{sv}", [device.id, Policy?.v || "", 0, others]);
        done(null);
    };

    openDialog(format(_("Policy of $0"), device.name || device.id), form, [
        [_("Apply"), async () => {
            if (!form.reportValidity())
                throw new Error(_("A value is out of range."));
            const changed = {};

            for (const [key, input] of inputs) {
                const [type, name, unit] = PARAMETERS[key], value = Math.round(input.valueAsNumber * unit);

                if (value !== device[name])
                    changed[key] = variant(type, value);
            }
            const policy = select.value === device.policy ? "" : select.value;

            if (policy === "" && Object.keys(changed).length === 0)
                return;
            await bus.call("SetPolicy", "ssta{sv}", [device.id, policy, 0, changed]);
            const names = [...(policy ? ["Policy"] : []), ...Object.keys(changed)];

            done(format(_("$0: the policy was changed."), device.name || device.id), () => undo(names));
        }],
    ]);
}
