"""The files that the configuration of the parameter service's manager names, on this host."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tiresias.slurm_plugin.cluster.finding import Finding, Level

CONFIGURATION = Path("/etc/tiresias/manager.json")  # of tiresias-parameter-service.service
_ABOUT = "parameter service"
_MADE_BY = {
    "script": "copy aggregator.sh of /usr/share/slurm-tiresias/parameter-service there, and adapt it",
    "service_key_file": "python3 -c 'import secrets; print(secrets.token_hex(32))' into it, as the service account with umask 077",
    "announce": "make this folder as the service account",
}


def configuration_findings(file: Path) -> Iterator[Finding]:
    """Yield what is missing. A host without the file runs no manager: nothing."""
    try:
        content = json.loads(file.read_text())
        named = {key: Path(content[key]) for key in _MADE_BY}
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError) as error:
        words = f"{file} cannot be read: {getattr(error, 'strerror', None) or error!r:.80}"
        yield Finding(
            Level.RISK, _ABOUT, words, "compare it with manager.json of /usr/share/slurm-tiresias/parameter-service"
        )
        return
    for key, path in named.items():
        if (problem := _problem(key, path)) is not None:
            yield Finding(Level.RISK, _ABOUT, f"{file}: {key}: {path} {problem}", _MADE_BY[key])


def _problem(key: str, path: Path) -> str | None:
    """Return what is wrong with a file or folder; a folder that this user may not look into is not examined."""
    try:
        found: Any = path.stat()
    except FileNotFoundError:
        return "is missing"
    except OSError:
        return None
    if key == "announce":
        return None if stat.S_ISDIR(found.st_mode) else "is no folder"
    if key == "service_key_file" and found.st_mode & 0o077:
        return f"has mode {stat.S_IMODE(found.st_mode):04o}; it needs 0600"
    return None if path.is_file() else "is no file"
