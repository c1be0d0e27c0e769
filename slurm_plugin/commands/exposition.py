"""The controller's metrics in the formats of Prometheus: its text format once, or over HTTP the format that the client accepts.

A process of its own that asks the controller's socket at each scrape. Only this file, views/metrics.py and their tests need
prometheus_client.
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
from tiresias.slurm_plugin.commands.status import ask_status
from tiresias.slurm_plugin.sockets.metrics_server import MetricsServer
from tiresias.slurm_plugin.views.metrics import metrics


def registry(socket: Path) -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(_Controller(socket))
    return found


def text(socket: Path) -> str:
    """Prometheus's text format, version 0.0.4. OpenMetrics has types such as info that node_exporter and promtool refuse."""
    return generate_latest(registry(socket)).decode()


def server(socket: Path, address: str, port: int) -> WSGIServer:
    """OpenMetrics for clients whose Accept header names it, the text format for others. Raises OSError."""
    return MetricsServer((address, port), make_wsgi_app(registry(socket)))


class _Controller(Collector):
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def collect(self) -> Iterator[Metric]:
        try:
            status = ask_status(self._socket)
        except TiresiasError:
            status = None
        return metrics(status, time.time())

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked before the first scrape."""
        return iter(())
