"""The version of the documents that the control socket publishes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiresias.errors import TiresiasError

VERSION = 1


def check_version(status: Mapping[str, Any]) -> None:
    """Raise TiresiasError where the controller publishes another version of the format than this command reads."""
    if (found := status.get("version")) != VERSION:
        raise TiresiasError(
            f"the controller publishes version {found}, this command reads {VERSION}: use the same release"
        )
