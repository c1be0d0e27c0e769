"""The controller's state as OpenMetrics, for Prometheus. A process of its own that asks the controller's socket: no scrape delays
a cycle, and the controller listens on no port.

examples:
  tiresias metrics                              print them once, for node_exporter's textfile collector
  tiresias metrics --listen 127.0.0.1:9817      serve them at http://127.0.0.1:9817/metrics

etc/tiresias-metrics.service runs it, etc/tiresias-alerts.yml has alerts, etc/tiresias-dashboard.json a dashboard for Grafana.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.commands.status import ask_status
from tiresias.slurm_plugin.commands.terminal import add_socket_option, socket_path
from tiresias.slurm_plugin.views.metrics import metrics


def configure(parser: argparse.ArgumentParser) -> None:
    add_socket_option(parser)
    parser.add_argument("--listen", metavar="ADDRESS:PORT", help="serve until stopped; anyone who reaches it may read")


def run(args: argparse.Namespace) -> int:
    registry = CollectorRegistry()
    registry.register(_Controller(socket_path(args)))
    if args.listen:
        return _serve(args.listen, registry)
    sys.stdout.write(generate_latest(registry).decode())  # type: ignore[no-untyped-call]
    return 0


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


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """A line a scrape helps nobody."""


def _serve(listen: str, registry: CollectorRegistry) -> int:
    address, _, port = listen.rpartition(":")
    if not (address and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--listen {listen[:60]!r}: give an address and a port, such as 127.0.0.1:9817")
    try:
        server = make_server(address, int(port), make_wsgi_app(registry), _Server, handler_class=_Quiet)
    except OSError as error:
        raise TiresiasError(f"--listen {listen}: {error.strerror}; choose another port or address") from None
    with server:
        print(f"serving http://{address}:{server.server_port}/metrics", file=sys.stderr, flush=True)
        server.serve_forever()
    return 0
