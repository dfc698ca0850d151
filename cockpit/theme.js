/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Light or dark, as Cockpit's shell says it to its own pages. Before anything is painted, and so no module. */

(() => {
    const preference = window.matchMedia("(prefers-color-scheme: dark)");

    const apply = chosen => {
        const style = chosen || localStorage.getItem("shell:style") || "auto";

        document.documentElement.classList.toggle("dark", style === "dark" || (style === "auto" && preference.matches));
    };

    window.addEventListener("storage", event => event.key === "shell:style" && apply());
    window.addEventListener("cockpit-style", event => apply(event.detail.style));
    preference.addEventListener("change", () => apply());
    apply();
})();
