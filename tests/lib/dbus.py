# SPDX-License-Identifier: LGPL-2.1-or-later
"""A small D-Bus client for tests: one blocking connection, file descriptors, and messages that no library would send.

Values are Python's own; a variant is the pair (signature, value). Replies come as a list of values; variants in them
are unpacked to their value. Nothing here knows xsched."""

import array
import collections
import functools
import os
import re
import socket
import struct
import time

from processes import is_readable

CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
NO_REPLY = 1
TIMEOUT = 60.0

_FIXED = {
    "y": ("B", 1),
    "n": ("<h", 2),
    "q": ("<H", 2),
    "i": ("<i", 4),
    "u": ("<I", 4),
    "b": ("<I", 4),
    "x": ("<q", 8),
    "t": ("<Q", 8),
    "d": ("<d", 8),
    "h": ("<I", 4),
}
_ALIGN = {"s": 4, "o": 4, "g": 1, "v": 1, "a": 4, "(": 8, "{": 8, **{k: v[1] for k, v in _FIXED.items()}}


_ANCILLARY = socket.CMSG_SPACE(253 * 4)


class DBusError(Exception):
    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


class Disconnected(Exception):
    pass


@functools.lru_cache(maxsize=None)
def split(signature):
    """The complete types of a signature."""
    out, i = [], 0
    while i < len(signature):
        start = i
        while signature[i] == "a":
            i += 1
        if signature[i] in "({":
            depth = 0
            while True:
                depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(signature[i], 0)
                i += 1
                if depth == 0:
                    break
        else:
            i += 1
        out.append(signature[start:i])
    return tuple(out)


# Functions that put and get a type are made once for each type, because tests read trees of thousands of objects.


@functools.lru_cache(maxsize=None)
def _putter(t):
    """put(data, value, fds): appends to the bytearray and to the list."""
    c = t[0]
    n = _ALIGN[c]
    if c == "h":

        def put(data, v, fds):
            data += b"\0" * (-len(data) % 4) + struct.pack("<I", len(fds))
            fds.append(v)

    elif c in _FIXED:
        pack = struct.Struct(_FIXED[c][0]).pack

        def put(data, v, fds):
            data += b"\0" * (-len(data) % n) + pack(v)

    elif c in "sog":
        pack = struct.Struct("B" if c == "g" else "<I").pack

        def put(data, v, fds):
            raw = v if isinstance(v, bytes) else v.encode()
            data += b"\0" * (-len(data) % n) + pack(len(raw)) + raw + b"\0"

    elif c == "v":
        signature = _putter("g")

        def put(data, v, fds):
            signature(data, v[0], fds)
            _putter(v[0])(data, v[1], fds)

    elif c == "a":
        item, alignment = _putter(t[1:]), _ALIGN[t[1]]

        def put(data, v, fds):
            data += b"\0" * (-len(data) % 4 + 4)
            at = len(data)
            data += b"\0" * (-at % alignment)
            start = len(data)
            for i in v.items() if isinstance(v, dict) else v:
                item(data, i, fds)
            struct.pack_into("<I", data, at - 4, len(data) - start)

    else:
        parts = tuple(_putter(p) for p in split(t[1:-1]))

        def put(data, v, fds):
            data += b"\0" * (-len(data) % 8)
            for part, i in zip(parts, v, strict=True):
                part(data, i, fds)

    return put


@functools.lru_cache(maxsize=None)
def _getter(t):
    """get(data, at, fds): (value, where the next one is)."""
    c = t[0]
    n = _ALIGN[c]
    if c in _FIXED:
        unpack, size = struct.Struct(_FIXED[c][0]).unpack_from, _FIXED[c][1]
        if c in "hb":

            def get(data, at, fds):
                at += -at % n
                v = unpack(data, at)[0]
                return fds[v] if c == "h" else bool(v), at + size

        else:

            def get(data, at, fds):
                at += -at % n
                return unpack(data, at)[0], at + size

    elif c == "g":

        def get(data, at, fds):
            end = at + 1 + data[at]
            return data[at + 1 : end].decode(), end + 1

    elif c in "so":
        length = struct.Struct("<I").unpack_from

        def get(data, at, fds):
            at += -at % 4
            end = at + 4 + length(data, at)[0]
            return data[at + 4 : end].decode(), end + 1

    elif c == "v":
        signature = _getter("g")

        def get(data, at, fds):
            inner, at = signature(data, at, fds)
            return _getter(inner)(data, at, fds)

    elif c == "a":
        item, alignment, length = _getter(t[1:]), _ALIGN[t[1]], struct.Struct("<I").unpack_from

        def get(data, at, fds):
            at += -at % 4
            end = length(data, at)[0]
            at += 4
            at += -at % alignment
            end += at
            items = []
            while at < end:
                i, at = item(data, at, fds)
                items.append(i)
            return dict(items) if t[1] == "{" else items, at

    else:
        parts = tuple(_getter(p) for p in split(t[1:-1]))

        def get(data, at, fds):
            at += -at % 8
            items = []
            for part in parts:
                i, at = part(data, at, fds)
                items.append(i)
            return tuple(items), at

    return get


class Message:
    """A message that was received. Its body is read on first use."""

    def __init__(self, kind, serial, fields, data, fds):
        self.type, self.serial, self.fds, self._data, self._signature = kind, serial, fds, data, fields.get(8, "")
        self.reply_to, self.path, self.interface, self.member = (fields.get(n) for n in (5, 1, 2, 3))
        self.error, self.destination, self.sender = (fields.get(n) for n in (4, 6, 7))

    @functools.cached_property
    def body(self):
        values, at = [], 0
        for t in split(self._signature):
            v, at = _getter(t)(self._data, at, self.fds)
            values.append(v)
        return values


def encode(kind, serial, fields, signature="", args=(), flags=0):
    """One message as (bytes, fds). `fields`: {code: (signature, value)}."""
    body, fds = bytearray(), []
    for t, v in zip(split(signature), args, strict=True):
        _putter(t)(body, v, fds)
    fields = dict(fields)
    if signature:
        fields[8] = ("g", signature)
    if fds:
        fields[9] = ("u", len(fds))
    head = bytearray(struct.pack("<cBBBII", b"l", kind, flags, 1, len(body), serial))
    _putter("a(yv)")(head, fields.items(), [])
    return bytes(head + b"\0" * (-len(head) % 8) + body), fds


class Connection:
    """`ahead`: calls are sent without waiting for the end of the authentication, as the libraries in programs do."""

    expected = ()  # lines of the authentication that have not arrived yet

    def __init__(self, address, hello=True, ahead=False):
        self.socket = _connect(address) if isinstance(address, str) else address
        if ahead:
            self.socket.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n")
            self.expected = [b"DATA", b"OK", b"AGREE_UNIX_FD"]
        else:
            self.socket.sendall(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
            self._line(b"OK")
            self.socket.sendall(b"NEGOTIATE_UNIX_FD\r\n")
            self._line(b"AGREE_UNIX_FD")
            self.socket.sendall(b"BEGIN\r\n")
        self.buffer, self.fds, self.serial = b"", [], 0
        self.signals, self.replies, self.parsed = collections.deque(), {}, []
        self.name = self.bus("Hello") if hello else None

    def _line(self, expected):
        line = b""
        while not line.endswith(b"\r\n"):
            c = self.socket.recv(1)
            if not c:
                raise Disconnected("during authentication")
            line += c
        if not line.startswith(expected):
            raise Disconnected(f"authentication: {line}")

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def taken(self):
        """Returns the descriptors of all messages so far; they are then the caller's."""
        fds, self.parsed = self.parsed, []
        return fds

    # --- out ---

    def send_raw(self, data, fds=()):
        sent = 0
        self.socket.settimeout(TIMEOUT)
        while sent < len(data):
            aux = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds and not sent else []
            try:
                sent += self.socket.sendmsg([data[sent:]], aux)
            except (BrokenPipeError, ConnectionResetError) as e:
                raise Disconnected(str(e)) from e

    def next_serial(self):
        self.serial += 1
        return self.serial

    def send(self, destination, path, interface, member, signature="", *args, flags=0):
        serial = self.next_serial()
        fields = {1: ("o", path), 3: ("s", member)}
        if destination:
            fields[6] = ("s", destination)
        if interface:
            fields[2] = ("s", interface)
        data, fds = encode(CALL, serial, fields, signature, args, flags)
        self.send_raw(data, fds)
        return serial

    def send_times(self, n, destination, path, interface, member, signature="", *args):
        """Sends the same call n times at once. Returns the serials."""
        serials = [self.next_serial() for _ in range(n)]
        fields = {1: ("o", path), 2: ("s", interface), 3: ("s", member), 6: ("s", destination)}
        data, _ = encode(CALL, 0, fields, signature, args)
        self.send_raw(b"".join(data[:8] + struct.pack("<I", s) + data[12:] for s in serials))
        return serials

    # --- in ---

    def _receive(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not is_readable(self.socket, left):
            raise TimeoutError("no answer")
        try:
            data, aux, _, _ = self.socket.recvmsg(65536, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError as e:
            raise Disconnected(str(e)) from e
        for level, kind, raw in aux:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.fds += array.array("i", raw[: len(raw) // 4 * 4])
        if not data:
            raise Disconnected("end of file")
        self.buffer += data

    def _accept(self):
        """Reads the authentication's lines. Returns whether all have arrived."""
        while self.expected and b"\r\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\r\n", 1)
            if not line.startswith(self.expected.pop(0)):
                raise Disconnected(f"authentication: {line}")
        return not self.expected

    def _parse(self):
        if not self._accept():
            return None
        if len(self.buffer) < 16:
            return None
        n_body, serial, n_fields = struct.unpack_from("<III", self.buffer, 4)
        n_head = 16 + n_fields + -(16 + n_fields) % 8
        if len(self.buffer) < n_head + n_body:
            return None
        fields = dict(_getter("a(yv)")(self.buffer, 12, ())[0])
        n_fds = fields.get(9, 0)
        fds, self.fds = self.fds[:n_fds], self.fds[n_fds:]
        self.parsed += fds
        m = Message(self.buffer[1], serial, fields, self.buffer[n_head : n_head + n_body], fds)
        self.buffer = self.buffer[n_head + n_body :]
        return m

    def _pump(self, deadline):
        while (m := self._parse()) is None:
            self._receive(deadline)
        if m.type == SIGNAL:
            self.signals.append(m)
        elif m.type in (RETURN, ERROR):
            self.replies[m.reply_to] = m

    def answered(self, serial, timeout=TIMEOUT):
        """Returns the answer as a message, without its body."""
        deadline = time.monotonic() + timeout
        while serial not in self.replies:
            self._pump(deadline)
        m = self.replies.pop(serial)
        if m.type == ERROR:
            raise DBusError(m.error, m.body[0] if m.body else "")
        return m

    def reply(self, serial, timeout=TIMEOUT):
        return self.answered(serial, timeout).body

    def call(self, destination, path, interface, member, signature="", *args, timeout=TIMEOUT):
        return self.reply(self.send(destination, path, interface, member, signature, *args), timeout)

    def bus(self, member, signature="", *args):
        body = self.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", member, signature, *args
        )
        return body[0] if body else None

    def get(self, destination, path, interface, name):
        return self.call(destination, path, "org.freedesktop.DBus.Properties", "Get", "ss", interface, name)[0]

    def set(self, destination, path, interface, name, signature, value):
        self.call(
            destination, path, "org.freedesktop.DBus.Properties", "Set", "ssv", interface, name, (signature, value)
        )

    def monitor(self, *rules):
        """Makes the connection a monitor, which only receives others' messages: next_message()."""
        self.call(
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus.Monitoring",
            "BecomeMonitor",
            "asu",
            list(rules),
            0,
        )

    def next_message(self, timeout=TIMEOUT):
        deadline = time.monotonic() + timeout
        while (m := self._parse()) is None:
            self._receive(deadline)
        return m

    def match(self, rule):
        self.bus("AddMatch", "s", rule)

    def signal(self, member, timeout=TIMEOUT):
        """Returns the next signal of this name; other messages before it are dropped."""
        deadline = time.monotonic() + timeout
        while True:
            while self.signals:
                m = self.signals.popleft()
                if m.member == member:
                    return m
            self._pump(deadline)


def _connect(address):
    path = re.search(r"unix:(path|abstract)=([^,;]+)", address)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    s.connect(("\0" if path[1] == "abstract" else "") + path[2])
    return s
