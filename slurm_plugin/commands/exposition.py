"""The controller's metrics in Prometheus's formats: its text format once, or over HTTP the format that the client accepts.

Runs as a process of its own that queries the controller's socket at each scrape. Only this file, views/metrics.py and their
tests need prometheus_client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.service_report_files import read_report
from tiresias.slurm_plugin.sockets.metrics_server import MetricsServer
from tiresias.slurm_plugin.sockets.published_status import ask_status
from tiresias.slurm_plugin.views.metrics import metrics
from tiresias.slurm_plugin.views.service_metrics import service_metrics


def registry(socket: Path, by_account: bool, service: Path | None = None) -> CollectorRegistry:
    """Return a registry with the controller's metrics, and those of a parameter service that reports into the folder."""
    found = CollectorRegistry()
    found.register(_Controller(socket, by_account))
    if service:
        found.register(_Service(service))
    return found


def text(socket: Path, by_account: bool = False, service: Path | None = None) -> str:
    """Return the metrics in Prometheus's text format, version 0.0.4.

    OpenMetrics has types such as info that node_exporter and promtool refuse.
    """
    return generate_latest(registry(socket, by_account, service)).decode()


def server(socket: Path, address: str, port: int, by_account: bool = False, service: Path | None = None) -> WSGIServer:
    """Return a server of OpenMetrics for clients whose Accept header names it, of the text format for others.

    Raises:
        OSError: the address cannot be used.
    """
    return MetricsServer((address, port), make_wsgi_app(registry(socket, by_account, service)))


class _Controller(Collector):
    def __init__(self, socket: Path, by_account: bool) -> None:
        self._socket, self._by_account = socket, by_account

    def collect(self) -> Iterator[Metric]:
        try:
            status = ask_status(self._socket)
        except TiresiasError:
            status = None
        return metrics(status, time.time(), self._by_account)

    def describe(self) -> Iterator[Metric]:
        """Return nothing: the controller is not queried before the first scrape."""
        return iter(())


class _Service(Collector):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        try:
            report = read_report(self._folder)
        except TiresiasError:
            report = None
        return service_metrics(report, time.time())

    def describe(self) -> Iterator[Metric]:
        """Return nothing: the report is not read before the first scrape."""
        return iter(())
