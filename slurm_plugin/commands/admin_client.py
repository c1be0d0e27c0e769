"""Parts shared by pause, resume and stop: an order to the running controller, and the wait for its outcome."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.config import Config, load_config
from tiresias.slurm_plugin.sockets.admin_requests import OUTCOME
from tiresias.slurm_plugin.sockets.control_client import ask

ORDER_TIMEOUT_S = 60.0  # a cycle may be waiting for slurmctld
RELEASE_ORDER_TIMEOUT_S = 10.0  # for `stop --release`, which then continues without the controller
_POLL_INTERVAL_S = 0.05


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add --config."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")


def configured(args: argparse.Namespace) -> tuple[Config, Path]:
    """Return the configuration and the path of its control socket."""
    config = load_config(args.config, {})
    return config, config.paths.run / "control.sock"


def give(path: Path, request: Mapping[str, Any], timeout: float = ORDER_TIMEOUT_S) -> str:
    """Send an order to the controller and return its outcome as text.

    Args:
        path: the control socket
        request: the order
        timeout: seconds

    Raises:
        Unavailable: no controller answers.
        TiresiasError: the controller refuses the order or hangs.
    """
    number = ask(path, request)["order"]
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (words := ask(path, {"op": OUTCOME, "order": number})["outcome"]) is not None:
            return str(words)
        time.sleep(_POLL_INTERVAL_S)
    raise TiresiasError(
        f"the controller accepted the order {timeout:g} s ago and has not carried it out: it may hang, see its log; "
        "`tiresias stop --release` works without it"
    )
