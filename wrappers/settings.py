"""What a job is told of its site, settled when it is submitted: TIRESIAS_* variables, else the configuration, else defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

CONFIGURATION = Path("/etc/tiresias/tiresias.toml")
_FROM_FILE = {  # variable -> (table, key) of the configuration
    "TIRESIAS_CONTROL_ROOT": ("paths", "control"),
    "TIRESIAS_CHECKPOINT_ROOT": ("paths", "checkpoints"),
    "TIRESIAS_SIGNAL": ("preemption", "signal"),
}
_ENVIRONMENT_ONLY = ("TIRESIAS_PARK_TIMEOUT",)


def of_job(env: Mapping[str, str], configuration: Path = CONFIGURATION) -> dict[str, str]:
    """The variables for a job's environment. A configuration that cannot be read counts as none: submitting goes on."""
    home = Path(env.get("HOME") or "~").expanduser() / ".tiresias"
    settings = {"TIRESIAS_CONTROL_ROOT": str(home / "control"), "TIRESIAS_CHECKPOINT_ROOT": str(home / "checkpoints")}
    document = _read(configuration)
    for name, (table, key) in _FROM_FILE.items():
        section = document.get(table)
        value = section.get(key) if isinstance(section, dict) else None
        if isinstance(value, str) and value:
            settings[name] = value
    given = {name: env[name] for name in (*_FROM_FILE, *_ENVIRONMENT_ONLY) if env.get(name)}
    return settings | given


def _read(path: Path) -> dict[str, Any]:
    try:
        reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        found: dict[str, Any] = reader.loads(path.read_text(encoding="utf-8"))
        return found
    except (ImportError, OSError, ValueError):
        return {}
