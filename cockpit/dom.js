/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Elements. Whatever is shown becomes a text node or an attribute, and never markup. */

const SVG = "http://www.w3.org/2000/svg";

/* Characters that could deceive the reader: utf8_is_harmful() of common/utf8.c has the same. */
/* eslint-disable no-control-regex, no-misleading-character-class */
const HARMFUL = new RegExp("[\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ufffe\\uffff\\u{e0000}-\\u{e007f}]", "gu");

/* Text of others: each character that could do something but be read is replaced by one that shows it. */
export function plain(text) {
    return String(text).replace(HARMFUL, c => {
        const code = c.charCodeAt(0);

        return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\ufffd";
    });
}

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else if (value === true)
            element.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined)
            element.setAttribute(name, plain(value));
    }
    add(element, children);
    return element;
}

/* Nodes, texts, and lists of both; null and false are nothing. */
export function add(element, children) {
    for (const child of [children].flat(Infinity)) {
        if (child === null || child === undefined || child === false)
            continue;
        element.append(child instanceof Node ? child : plain(child));
    }
    return element;
}

export function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
}

/* Only what is different is written: what stays keeps its focus and its selection, and costs no layout. */
export function setText(element, text) {
    const shown = plain(text);

    if (element.textContent !== shown)
        element.textContent = shown;
}

export function setAttribute(element, name, value) {
    if (value === null || value === undefined || value === false)
        element.removeAttribute(name);
    else if (element.getAttribute(name) !== plain(value))
        element.setAttribute(name, plain(value));
}

export function replace(element, ...children) {
    element.replaceChildren();
    return add(element, children);
}

/* Before the first of `before`, or at the end. */
function arrange(parent, children, before) {
    let next = before;

    for (const child of [...children].reverse()) {
        if (child.parentNode !== parent || child.nextSibling !== next)
            parent.insertBefore(child, next);
        next = child;
    }
}

/*
 * These children in this order. An element that is moved loses the focus and the click that is under way, so that what
 * is gone is removed first, what is where it belongs is not touched, and the one with the focus is never moved: the
 * others are moved around it.
 */
export function order(parent, children) {
    const wanted = new Set(children);
    const here = children.findIndex(child => child.parentNode === parent && child.contains(document.activeElement));

    for (const child of [...parent.childNodes])
        if (!wanted.has(child))
            child.remove();
    if (here < 0)
        return arrange(parent, children, null);
    arrange(parent, children.slice(here + 1), null);
    arrange(parent, children.slice(0, here), children[here]);
}

export function button(text, onclick, attributes = {}) {
    return el("button", { type: "button", class: "button", ...attributes, onclick }, text);
}
