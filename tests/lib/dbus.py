# SPDX-License-Identifier: LGPL-2.1-or-later
"""A small D-Bus client for tests: one blocking connection, file descriptors, and messages that no library would send.

Values are Python's own; a variant is the pair (signature, value). Replies come as a list of values; variants in them are
unpacked to their value. Nothing here knows xsched.
"""

import array
import collections
import os
import re
import select
import socket
import struct
import time

CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
NO_REPLY = 1
TIMEOUT = 60.0

_FIXED = {
    "y": ("B", 1), "n": ("<h", 2), "q": ("<H", 2), "i": ("<i", 4), "u": ("<I", 4), "b": ("<I", 4),
    "x": ("<q", 8), "t": ("<Q", 8), "d": ("<d", 8), "h": ("<I", 4),
}
_ALIGN = {"s": 4, "o": 4, "g": 1, "v": 1, "a": 4, "(": 8, "{": 8, **{k: v[1] for k, v in _FIXED.items()}}


class DBusError(Exception):
    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


class Disconnected(Exception):
    pass


def split(signature):
    """The complete types that a signature is made of."""
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
    return out


class Writer:
    def __init__(self):
        self.data, self.fds = bytearray(), []

    def align(self, n):
        self.data.extend(b"\0" * (-len(self.data) % n))

    def put(self, t, v):
        c = t[0]
        self.align(_ALIGN[c])
        if c == "h":
            self.fds.append(v)
            v = len(self.fds) - 1
        if c in _FIXED:
            self.data += struct.pack(_FIXED[c][0], v)
        elif c in "sog":
            raw = v if isinstance(v, bytes) else v.encode()
            self.data += struct.pack("B" if c == "g" else "<I", len(raw)) + raw + b"\0"
        elif c == "v":
            self.put("g", v[0])
            self.put(v[0], v[1])
        elif c == "a":
            self.data += b"\0\0\0\0"
            at = len(self.data)
            self.align(_ALIGN[t[1]])
            start = len(self.data)
            for item in v.items() if isinstance(v, dict) else v:
                self.put(t[1:], item)
            struct.pack_into("<I", self.data, at - 4, len(self.data) - start)
        else:
            for part, item in zip(split(t[1:-1]), v, strict=True):
                self.put(part, item)


class Reader:
    def __init__(self, data, fds=()):
        self.data, self.fds, self.at = data, fds, 0

    def get(self, t):
        c = t[0]
        self.at += -self.at % _ALIGN[c]
        if c in _FIXED:
            code, size = _FIXED[c]
            v = struct.unpack_from(code, self.data, self.at)[0]
            self.at += size
            return self.fds[v] if c == "h" else bool(v) if c == "b" else v
        if c in "sog":
            if c == "g":
                n = self.data[self.at]
                self.at += 1
            else:
                n = struct.unpack_from("<I", self.data, self.at)[0]
                self.at += 4
            v = bytes(self.data[self.at : self.at + n])
            self.at += n + 1
            return v.decode()
        if c == "v":
            return self.get(self.get("g"))
        if c == "a":
            n = struct.unpack_from("<I", self.data, self.at)[0]
            self.at += 4
            self.at += -self.at % _ALIGN[t[1]]
            end, items = self.at + n, []
            while self.at < end:
                items.append(self.get(t[1:]))
            return dict(items) if t[1] == "{" else items
        return tuple(self.get(p) for p in split(t[1:-1]))


Message = collections.namedtuple("Message", "type serial reply_to path interface member error destination sender body fds")


def encode(kind, serial, fields, signature="", args=(), flags=0):
    """One message as (bytes, fds). `fields`: {code: (signature, value)}."""
    body = Writer()
    for t, v in zip(split(signature), args, strict=True):
        body.put(t, v)
    fields = dict(fields)
    if signature:
        fields[8] = ("g", signature)
    if body.fds:
        fields[9] = ("u", len(body.fds))
    head = Writer()
    for t, v in (("y", ord("l")), ("y", kind), ("y", flags), ("y", 1), ("u", len(body.data)), ("u", serial)):
        head.put(t, v)
    head.put("a(yv)", list(fields.items()))
    head.align(8)
    return bytes(head.data + body.data), body.fds


class Connection:
    def __init__(self, address, hello=True):
        self.socket = _connect(address) if isinstance(address, str) else address
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
        """The descriptors of all messages so far; they are the caller's."""
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

    # --- in ---

    def _receive(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.socket], [], [], left)[0]:
            raise TimeoutError("no answer")
        try:
            data, aux, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError as e:
            raise Disconnected(str(e)) from e
        for level, kind, raw in aux:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.fds += array.array("i", raw[: len(raw) // 4 * 4])
        if not data:
            raise Disconnected("end of file")
        self.buffer += data

    def _parse(self):
        if len(self.buffer) < 16:
            return None
        n_body, serial, n_fields = struct.unpack_from("<III", self.buffer, 4)
        n_head = 16 + n_fields + -(16 + n_fields) % 8
        if len(self.buffer) < n_head + n_body:
            return None
        r = Reader(self.buffer[:n_head])
        r.at = 12
        fields = dict(r.get("a(yv)"))
        n_fds = fields.get(9, 0)
        fds, self.fds = self.fds[:n_fds], self.fds[n_fds:]
        self.parsed += fds
        body = Reader(self.buffer[n_head : n_head + n_body], fds)
        m = Message(self.buffer[1], serial, fields.get(5), fields.get(1), fields.get(2), fields.get(3),
                    fields.get(4), fields.get(6), fields.get(7), [body.get(t) for t in split(fields.get(8, ""))], fds)
        self.buffer = self.buffer[n_head + n_body :]
        return m

    def _pump(self, deadline):
        while (m := self._parse()) is None:
            self._receive(deadline)
        if m.type == SIGNAL:
            self.signals.append(m)
        elif m.type in (RETURN, ERROR):
            self.replies[m.reply_to] = m

    def reply(self, serial, timeout=TIMEOUT):
        deadline = time.monotonic() + timeout
        while serial not in self.replies:
            self._pump(deadline)
        m = self.replies.pop(serial)
        if m.type == ERROR:
            raise DBusError(m.error, m.body[0] if m.body else "")
        return m.body

    def call(self, destination, path, interface, member, signature="", *args, timeout=TIMEOUT):
        return self.reply(self.send(destination, path, interface, member, signature, *args), timeout)

    def bus(self, member, signature="", *args):
        body = self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", member, signature, *args)
        return body[0] if body else None

    def get(self, destination, path, interface, name):
        return self.call(destination, path, "org.freedesktop.DBus.Properties", "Get", "ss", interface, name)[0]

    def set(self, destination, path, interface, name, signature, value):
        self.call(destination, path, "org.freedesktop.DBus.Properties", "Set", "ssv", interface, name, (signature, value))

    def monitor(self, *rules):
        """From here on the connection only sees what others send: next_message()."""
        self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Monitoring", "BecomeMonitor", "asu", list(rules), 0)

    def next_message(self, timeout=TIMEOUT):
        deadline = time.monotonic() + timeout
        while (m := self._parse()) is None:
            self._receive(deadline)
        return m

    def match(self, rule):
        self.bus("AddMatch", "s", rule)

    def signal(self, member, timeout=TIMEOUT):
        """The next signal of this name; others before it are dropped."""
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
