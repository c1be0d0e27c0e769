"""Print or serve the controller's state as metrics for Prometheus. A separate process queries the controller's socket: no
scrape delays a cycle, and the controller listens on no port.

examples:
  tiresias metrics                              print them once, in Prometheus's text format, for node_exporter's textfile collector
  tiresias metrics --listen 127.0.0.1:9817      serve them at http://127.0.0.1:9817/metrics; OpenMetrics where Accept names it

etc/tiresias-metrics.service runs it, etc/tiresias-alerts.yml has alerts, etc/tiresias-dashboard.json a dashboard for
Grafana.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.commands.terminal import add_socket_option, socket_path
from tiresias.slurm_plugin.config import load_option


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_socket_option(parser)
    parser.add_argument("--listen", metavar="ADDRESS:PORT", help="serve until stopped, without authentication")
    parser.add_argument("--by-account", action="store_true", help="split waits, preemptions and losses by account")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    exposition = _exposition()
    if args.listen:
        return _serve(exposition, args.listen, socket_path(args), args.by_account)
    sys.stdout.write(exposition.text(socket_path(args), args.by_account, _service()))
    return 0


def _service() -> Path | None:
    """Return the folder of the parameter service's report; None where no service is configured."""
    return Path(found) if (found := load_option("service_report", None)) else None


def _exposition() -> ModuleType:
    """Imported here, so that a missing library is one line and --help works without it."""
    try:
        return import_module("tiresias.slurm_plugin.commands.exposition")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        remedy = "pip install prometheus-client (Debian: apt-get install python3-prometheus-client)"
        raise TiresiasError(f"tiresias metrics needs the Python package prometheus_client: {remedy}") from None


def _serve(exposition: ModuleType, listen: str, socket: Path, by_account: bool) -> int:
    address, _, port = listen.rpartition(":")
    if not (address and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--listen {listen[:60]!r}: give an address and a port, such as 127.0.0.1:9817")
    try:
        server = exposition.server(socket, address, int(port), by_account, _service())
    except OSError as error:
        raise TiresiasError(f"--listen {listen}: {error.strerror}; choose another port or address") from None
    with server:
        print(f"serving http://{address}:{server.server_port}/metrics", file=sys.stderr, flush=True)
        server.serve_forever()
    return 0
