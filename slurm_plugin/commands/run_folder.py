"""The configured folder of the sockets, read without the import of the whole configuration, which takes longer than a page."""

from __future__ import annotations

import os
from pathlib import Path

from tiresias.protocol import environment, site_configuration

_KEY = "paths.run"


def run_folder() -> Path:
    """Return paths.run.

    Raises:
        UsageError: A file cannot be read, or the value is not allowed.
    """
    if (found := _plain()) is not None:
        return found
    from tiresias.slurm_plugin.config import load_option

    return Path(load_option(_KEY, None))


def _plain() -> Path | None:
    """Return the value where it needs no message; None: the configuration has to check it."""
    main = site_configuration.FILE
    try:
        files = [*([main] if main.exists() else []), *site_configuration.drop_ins(main)]
        sections = [site_configuration.parse(file).get("paths", {}) for file in files]
    except (ImportError, OSError, ValueError, RecursionError):
        return None
    value: object = site_configuration.RUN
    for section in sections:
        if not isinstance(section, dict):
            return None
        value = section.get("run", value)
    value = os.environ.get(environment.of_option(_KEY), value)
    is_plain = isinstance(value, str) and value.startswith("/") and value.isprintable() and value == value.strip()
    return Path(str(value)) if is_plain else None
