"""The profiles of a replay's jobs, as trial runs would have left them: the trainer sends nothing that could be recorded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tiresias.profiler.placement_verdict import CONSOLIDATE, PACKLIMIT, SPREAD
from tiresias.protocol import control
from tiresias.protocol.job_kind import Key, script_hash
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.simulator import models

MEGABYTE = 1e6


def of(model: str) -> Summary:
    """By Table 6."""
    row = models.model(model)
    decision = CONSOLIDATE if row.skew > PACKLIMIT else SPREAD
    why = f"its largest tensor is {row.skew:.1%} of the model"
    return Summary(
        decision,
        (why,),
        "parameter servers",
        row.skew,
        None,
        row.size * MEGABYTE,
        row.largest * MEGABYTE,
        row.iteration,
    )


def leave(root: Path, uid: int, script: bytes, jobs: Iterable[tuple[str, str, int]]) -> None:
    """jobs: (name, model, GPUs) of each of the user's. As root."""
    folder = control.profiles_folder(root, uid)
    folder.mkdir(parents=True)
    for name, model, gpus in jobs:
        key = Key(name, script_hash(script), gpus)
        control.write(folder, key.file, as_object(key, of(model)))
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, uid, uid)
