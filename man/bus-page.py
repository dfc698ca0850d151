#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes org.xsched.Scheduler(5) from the comments of the interface XML.

A comment precedes the element that it documents. In a method's comment, "@name: text" documents an argument, up to the
next one; "polkit:" begins the text about authorisation. Prints scdoc: the template, with @CONVENTIONS@ (the comment at
the head of the XML) and @INTERFACES@ filled in."""

import re
import sys
import xml.etree.ElementTree as ET

EMITS = "org.freedesktop.DBus.Property.EmitsChangedSignal"
EMITS_WORDS = {
    "true": "",
    "const": ", never changes",
    "invalidates": ", a change invalidates it",
    "false": ", changes are not signalled",
}
ACCESS_WORDS = {"read": "read only", "readwrite": "read and write", "write": "write only"}


def escape(text):
    return re.sub(r"([\\*_`#|<>\[\]~])", r"\\\1", text)


def paragraph(text):
    """One paragraph of scdoc. `x` and @x are emphasised; a first character that would start a list is escaped."""
    text = " ".join(text.split())
    parts = re.split(r"`([^`]+)`|@(\w+)", text)
    out = ""
    for i in range(0, len(parts), 3):
        out += escape(parts[i])
        if i + 2 < len(parts):
            out += f"_{escape(parts[i + 1] or parts[i + 2])}_"
    return "\\" + out if re.match(r"[-.]", out) else out


class Comment:
    def __init__(self, text):
        text, _, self.polkit = text.partition("polkit:")
        if "@" in self.polkit:  # an argument after the polkit text
            self.polkit, at, rest = self.polkit.partition("@")
            text += at + rest
        parts = re.split(r"@(\w+):", text)
        self.text = parts[0].strip()
        self.arguments = dict(zip(parts[1::2], parts[2::2]))


def documented(parent):
    """(element, its comment) for every element in `parent`."""
    comment = ""
    for child in parent:
        if child.tag is ET.Comment:
            comment = child.text
        else:
            yield child, Comment(comment)
            comment = ""


def signature(element):
    def side(direction):
        return ", ".join(
            f'{escape(a.get("type"))} _{escape(a.get("name"))}_'
            for a in element.iter("arg")
            if a.get("direction", "in") == direction
        )

    text = f'*{escape(element.get("name"))}*({side("in")})'
    return text + (f' -> {side("out")}' if side("out") else "")


def member(element, comment):
    if element.tag == "property":
        emits = "true"
        for annotation in element.iter("annotation"):
            if annotation.get("name") == EMITS:
                emits = annotation.get("value")
        yield (
            f'*{escape(element.get("name"))}* ({escape(element.get("type"))}, '
            f'{ACCESS_WORDS[element.get("access")]}{EMITS_WORDS[emits]})'
        )
    else:
        yield signature(element)
    blocks = [comment.text] if comment.text else []
    blocks += [f"@{name}: {text}" for name, text in comment.arguments.items()]
    blocks += [f"Authorisation: {comment.polkit.strip()}"] if comment.polkit else []
    for i, block in enumerate(blocks):
        if i > 0:
            yield ""
        yield "\t" + paragraph(block)
    yield ""


def interfaces(root):
    for interface, comment in documented(root):
        yield from (f'# {interface.get("name")}', "", paragraph(comment.text), "")
        for tag, title in (("method", "Methods"), ("signal", "Signals"), ("property", "Properties")):
            members = [m for m in documented(interface) if m[0].tag == tag]
            if members:
                yield from (f"## {title}", "")
            for element, about in members:
                yield from member(element, about)


def head(path):
    """The comment in front of the root element, which ElementTree does not keep. Its first paragraph is about the file,
    its last one lists the errors, which the template explains in more detail."""
    text = open(path, encoding="utf-8").read()
    comments = re.findall(r"<!--(.*?)-->", text[: text.index("<node")], re.S)
    return "\n\n".join(paragraph(p) for p in re.split(r"\n\s*\n", comments[-1].strip())[1:-1])


def main():
    template, xml = sys.argv[1:]
    root = ET.parse(xml, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))).getroot()
    page = open(template, encoding="utf-8").read()
    sys.stdout.write(page.replace("@CONVENTIONS@", head(xml)).replace("@INTERFACES@", "\n".join(interfaces(root))))


main()
