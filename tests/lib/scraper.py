# SPDX-License-Identifier: LGPL-2.1-or-later
"""A scraper for tests of xsched-exporter, and a parser of its expositions."""

import http.client
import re
import socket

ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,"
    "*/*;q=0.1"
)  # the Accept header of Prometheus 2.42
SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


class UnixHTTP(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


def get(address, path="/metrics", method="GET", accept=None, timeout=30, body=None):
    """(status, type, text) by a TCP port or the path of a socket."""
    c = (
        http.client.HTTPConnection("127.0.0.1", address, timeout=timeout)
        if isinstance(address, int)
        else UnixHTTP(address, timeout=timeout)
    )
    try:
        c.request(method, path, headers={"Accept": accept} if accept else {}, body=body)
        answer = c.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        c.close()


class Metrics:
    """An exposition, either format."""

    def __init__(self, text):
        self.text, self.samples = text, []
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = SAMPLE.match(line).groups()
            self.samples.append((name, dict(LABEL.findall(labels or "")), float(value)))

    def all(self, name, **labels):
        return [(l, v) for n, l, v in self.samples if n == name and labels.items() <= l.items()]

    def value(self, name, **labels):
        """The value of the only sample; None: there is none."""
        found = self.all(name, **labels)
        assert len(found) <= 1, (name, labels, found)
        return found[0][1] if found else None


def scrape(address, accept=None, timeout=30):
    status, kind, text = get(address, accept=accept, timeout=timeout)
    assert status == 200, (status, text)
    assert kind.startswith("application/openmetrics-text" if accept else "text/plain"), kind
    return Metrics(text)
