"""The site's settings for a job, fixed at submission: TIRESIAS_* variables, else the configuration, else defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiresias.protocol import environment, site_configuration

_FROM_FILE: dict[
    str, tuple[str, str, type | tuple[type, ...]]
] = {  # variable -> (table, key, kind) of the configuration
    environment.CONTROL_ROOT: ("paths", "control", str),
    environment.CHECKPOINT_ROOT: ("paths", "checkpoints", str),
    environment.SIGNAL: ("preemption", "signal", str),
    environment.SAVE_DEADLINE: ("preemption", "deadline", (int, float)),
    environment.FINAL_CODES: ("preemption", "final_codes", list),
    environment.PLACEMENT_BANDWIDTH: ("placement", "bandwidth", (int, float)),
    environment.PLACEMENT_PACKLIMIT: ("placement", "packlimit", (int, float)),
    environment.IDLE_GPUS_ACTION: ("idle_gpus", "action", str),
    environment.IDLE_GPUS_BELOW: ("idle_gpus", "below", (int, float)),
    environment.IDLE_GPUS_WARN_AFTER: ("idle_gpus", "warn_after", (int, float)),
    environment.IDLE_GPUS_INTERVAL: ("idle_gpus", "interval", (int, float)),
}
_ENVIRONMENT_ONLY = (
    environment.CHECKPOINT,
    environment.PARK_TIMEOUT,
    environment.STEPS_FROM,
    environment.OPPORTUNISTIC,
    environment.ELASTIC,
    environment.PROFILE,
    environment.PROFILE_LIBRARIES,
)


def of_job(env: Mapping[str, str], configuration: Path = site_configuration.FILE) -> dict[str, str]:
    """The variables for a job's environment. A configuration that cannot be read counts as none: submitting goes on."""
    document = site_configuration.read(configuration)
    settings = _roots(env, document is not None)
    document = document or {}
    for name, (table, key, kind) in _FROM_FILE.items():
        section = document.get(table)
        value = section.get(key) if isinstance(section, dict) else None
        if isinstance(value, list) and kind is list:
            settings[name] = ",".join(map(str, value)) or "none"
        elif isinstance(value, kind) and value:
            settings[name] = str(value)
    given = {name: env[name] for name in (*_FROM_FILE, *_ENVIRONMENT_ONLY) if env.get(name)}
    return settings | given


def _roots(env: Mapping[str, str], has_site: bool) -> dict[str, str]:
    home = Path(env.get("HOME") or "~").expanduser() / ".tiresias"
    folders = site_configuration.CONTROL, site_configuration.CHECKPOINTS
    control, checkpoints = folders if has_site else (str(home / "control"), str(home / "checkpoints"))
    return {environment.CONTROL_ROOT: control, environment.CHECKPOINT_ROOT: checkpoints}
