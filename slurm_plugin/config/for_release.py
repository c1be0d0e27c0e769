"""The configuration for lifting holds: a mistake in it must not keep jobs held."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.slurm_plugin.config import Config, Loaded, load, load_option

NEEDED = ("mode", "partitions", "backend", "period", "paths.state", "paths.run", "paths.control")

log = logging.getLogger("tiresias")


def load_for_release(file: Path | None, overrides: Mapping[str, object] | None = None) -> Loaded:
    """Load the configuration. If it has a mistake, return the readable ones of the NEEDED options, and defaults for the others."""
    try:
        return load(file, overrides or {})
    except UsageError as error:
        log.warning("%s; the holds are lifted with the options that can be read", error)
        return Loaded(_readable(file), {})


def _readable(file: Path | None) -> Config:
    found: dict[str, Any] = {}
    for key in NEEDED:
        with suppress(UsageError):
            found[key] = load_option(key, file)
    paths = {key.partition(".")[2]: value for key, value in found.items() if "." in key}
    config = replace(Config(), **{key: value for key, value in found.items() if "." not in key})
    return replace(config, paths=replace(config.paths, **paths))
