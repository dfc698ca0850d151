# SPDX-License-Identifier: LGPL-2.1-or-later
"""Encodes and decodes messages of Protocol Buffers, by the numbers of their fields."""


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def message(fields):
    """Encodes {field number: value}. Values are numbers, texts, encoded messages, or lists of these."""
    out = b""
    for number, value in fields.items():
        for v in value if isinstance(value, list) else [value]:
            if isinstance(v, int):
                out += varint(number << 3) + varint(v)
                continue
            data = v.encode() if isinstance(v, str) else v
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def text_map(texts):
    return [message({1: k, 2: v}) for k, v in texts.items()]


def take_varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return n, at


def fields_of(data):
    """Decodes a message. Returns {field number: [value]}; values with a length are bytes, others are numbers."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = take_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = take_varint(data, at)
        else:
            size, at = take_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def text_of(data, number):
    """Returns the text of a field, which is empty if the field is missing."""
    return fields_of(data).get(number, [b""])[-1].decode()


def texts_of(data, number):
    """Returns the map of texts in a field."""
    return {text_of(pair, 1): text_of(pair, 2) for pair in fields_of(data).get(number, [])}
