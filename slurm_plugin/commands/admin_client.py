"""What pause, resume and stop share: an order to the running controller, and waiting until it has been carried out."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.config import Config, load_config
from tiresias.slurm_plugin.sockets.admin_requests import OUTCOME
from tiresias.slurm_plugin.sockets.control_socket import ask

PATIENCE = 60.0  # seconds: a cycle may be waiting for slurmctld
HASTE = 10.0  # of who goes on without the controller then
_LOOK = 0.05


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")


def configured(args: argparse.Namespace) -> tuple[Config, Path]:
    """The configuration, and the control socket that it names."""
    config = load_config(args.config, {})
    return config, config.paths.run / "control.sock"


def give(path: Path, request: Mapping[str, Any], patience: float = PATIENCE) -> str:
    """What the controller did, in words. Raises Unavailable when none answers, TiresiasError when it refuses or hangs."""
    number = ask(path, request)["order"]
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if (words := ask(path, {"op": OUTCOME, "order": number})["outcome"]) is not None:
            return str(words)
        time.sleep(_LOOK)
    raise TiresiasError(
        f"the controller took the order {patience:g} s ago and has not carried it out: it may hang, see its log; "
        "`tiresias stop --release` works without it"
    )
