#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A real Prometheus scrapes xsched-exporter, with the alert rules and the queries of the dashboard."""

import json
import os
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from exporter import *
from harness import *

FOLDER = os.environ["PROMETHEUS_FOLDER"]

PROMETHEUS_CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}
rule_files: ['{folder}/xsched.rules.yml']
scrape_configs:
  - job_name: xsched
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


class Prometheus(ExporterCase):
    """A real Prometheus, over some seconds with work that starts and ends."""

    exporter_options = ("--host-processes",)
    directory_of_all = listener_of_all = prometheus = web = None

    @classmethod
    def begin(cls):
        """Its first scrape is five seconds after its start, whatever its configuration: so it starts before the
        exporter."""
        cls.directory_of_all = tempfile.mkdtemp(prefix="xsched-prometheus-")
        cls.listener_of_all = socket.socket()
        cls.listener_of_all.bind(("127.0.0.1", 0))  # connections are accepted only when the test listens
        with socket.create_server(("127.0.0.1", 0)) as s:
            cls.web = s.getsockname()[1]
        with open(f"{cls.directory_of_all}/prometheus.yml", "w", encoding="utf-8") as f:
            f.write(PROMETHEUS_CONFIG.format(folder=FOLDER, port=cls.listener_of_all.getsockname()[1]))
        cls.prometheus = Process(
            [
                os.environ["PROMETHEUS"],
                f"--config.file={cls.directory_of_all}/prometheus.yml",
                f"--storage.tsdb.path={cls.directory_of_all}/data",
                f"--web.listen-address=127.0.0.1:{cls.web}",
                "--log.level=warn",
            ]
        )

    @classmethod
    def end(cls):
        cls.prometheus.end()
        cls.listener_of_all.close()
        shutil.rmtree(cls.directory_of_all)

    def listen(self):
        self.listener_of_all.listen(1024)
        return self.listener_of_all

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.web}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as f:
                return json.load(f)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:
                return None  # it answers, but has not read its stored data yet
            raise AssertionError(f"{query}: {e.read().decode()}") from e
        except OSError:
            return None  # not up yet

    def query(self, text):
        data = self.ask("query", query=text)
        return data["result"] if data else []

    def expand(self, text):
        for name, value in (("$__rate_interval", "20s"), ("$__range", "1h"), ("$instance", ".*"), ("$device", ".*")):
            text = text.replace(name, value)
        self.assertNotIn("$", text)
        return text

    def dashboard(self):
        """(place, query) of all queries of the dashboard, those of the variables, too."""
        with open(f"{FOLDER}/xsched.dashboard.json", encoding="utf-8") as f:
            d = json.load(f)
        found = [(f"{p['title']} {t['refId']}", t["expr"]) for p in d["panels"] for t in p["targets"]]
        for v in d["templating"]["list"]:
            if v["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", v["query"]).groups()
                found.append((v["name"], f"count by ({label}) ({series})"))
        return found

    def test_scraped(self):
        high, slot, low, low_slot = self.load()
        queries = self.dashboard()
        self.assertGreater(len(queries), 40)
        until(lambda: self.query("xsched_up == 1"), "the first scrape", nap=0.1)

        def edges():
            for s in (slot, slot):
                s.edge(0 if s.outstanding else 1)
            low_slot.edge(0 if low_slot.outstanding else 1)

        missing = dict(queries)

        def answered():
            """Each query gets an answer in time: rates need two scrapes between which something happened."""
            edges()
            for where, q in list(missing.items()):
                if self.query(self.expand(q)):
                    del missing[where]
            return not missing

        until(answered, f"answers to {missing}", nap=0.05)

        (target,) = self.ask("targets")["activeTargets"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        rules = [r for g in self.ask("rules")["groups"] for r in g["rules"]]
        self.assertEqual(len(rules), 7)
        until(
            lambda: all(r["health"] == "ok" for g in self.ask("rules")["groups"] for r in g["rules"]),
            "the rules to be evaluated",
            nap=0.1,
        )

        # Its values are the service's, and it knows the types and units that OpenMetrics carries.
        group = low.get("Group")
        wait = f'xsched_group_wait_seconds_total{{group="{group}",device="{DEVICE_ID}"}}'
        told = lambda: float(self.query(wait)[0]["value"][1])
        before = self.get("WaitUSec", self.call("GetGroup", "s", group), GROUP) / 1e6
        until(lambda: told() >= before, "the scrape after that", nap=0.1)
        self.assertLessEqual(told(), self.get("WaitUSec", self.call("GetGroup", "s", group), GROUP) / 1e6)
        meta = self.ask("metadata", metric="xsched_group_wait_seconds")["xsched_group_wait_seconds"][0]
        self.assertEqual((meta["type"], meta["unit"]), ("counter", "seconds"))
        self.assertEqual(self.ask("metadata", metric="xsched_build")["xsched_build"][0]["type"], "info")
        quantile = self.query("histogram_quantile(0.99, sum by (le) (xsched_decision_seconds_bucket))")
        self.assertGreater(float(quantile[0]["value"][1]), 0)

        # It goes on when the service ends, and notices that.
        self.service.kill()
        until(lambda: self.query("xsched_up == 0"), "it to be seen", nap=0.1)
        self.assertTrue(self.query('up{job="xsched"} == 1'))
        until(
            lambda: [a for a in self.ask("alerts")["alerts"] if a["labels"]["alertname"] == "XschedDown"],
            "the alert to be pending",
            nap=0.1,
        )
        self.service.start()
        until(lambda: self.query("xsched_up == 1"), "it to be back", nap=0.1)


def setUpModule():
    Prometheus.begin()
    unittest.addModuleCleanup(Prometheus.end)


if __name__ == "__main__":
    main()
