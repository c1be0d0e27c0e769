"""The checkpoint of a training: a file of arrays, from which nothing is executed (`scheduler/place/learned/array_zip.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.array_zip import SIZE_AT_MOST, RefusedFile, array_of, unzipped, zipped
from tiresias.simulator.learning.placement_training import PlacementTraining

SCHEMA = "placement training 2"


def checkpoint_file(out: Path) -> Path:
    """Return the checkpoint of the training that writes its weights to `out`."""
    return out.with_name(f"{out.name}.checkpoint")


def packed(training: PlacementTraining) -> bytes:
    """Return the content of the file."""
    described, arrays = training.state()
    return zipped({"schema": SCHEMA, **described}, arrays)


def restore(training: PlacementTraining, file: Path) -> None:
    """Set a training to the state of a file.

    Raises:
        UsageError: The file cannot be read or used, or is of a training with other options or for another cluster.
    """
    try:
        described, members = _read(file)
        training.plan.check_continues(dict(described["plan"]))
        arrays = {name: array_of(members[f"{name}.npy"], name, shape) for name, shape in training.shapes().items()}
        training.restore(described, arrays)
    except UsageError as error:
        raise UsageError(f"{file}: {error}, or remove the file") from None
    except (RefusedFile, KeyError, TypeError, ValueError, OverflowError):
        raise UsageError(f"{file}: is damaged, or no checkpoint of this version; remove it to begin again") from None


def _read(file: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the description and the members. Raises RefusedFile, and UsageError where the file cannot be read."""
    try:
        with file.open("rb") as opened:
            return unzipped(opened.read(SIZE_AT_MOST + 1), SCHEMA)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}; name another --out") from None
