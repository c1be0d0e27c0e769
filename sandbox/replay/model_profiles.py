"""Profiles of a replay's jobs, as trial runs would have stored them: the trainer sends no traffic that could be recorded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tiresias.profiler.placement_verdict import CONSOLIDATE, PACKLIMIT, SPREAD
from tiresias.protocol import control
from tiresias.protocol.job_kind import Key, script_hash
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.simulator import models

BYTES_PER_MB = 1e6


def of(model: str) -> Summary:
    """Return the profile of a model from the paper's Table 6."""
    row = models.model(model)
    decision = CONSOLIDATE if row.skew > PACKLIMIT else SPREAD
    why = f"its largest tensor is {row.skew:.1%} of the model"
    return Summary(
        decision,
        (why,),
        "parameter servers",
        row.skew,
        None,
        row.size * BYTES_PER_MB,
        row.largest * BYTES_PER_MB,
        row.iteration,
    )


def leave(root: Path, uid: int, script: bytes, jobs: Iterable[tuple[str, str, int]]) -> None:
    """Store the profiles of a user's jobs, given as (name, model, GPUs). Needs root."""
    folder = control.profiles_folder(root, uid)
    folder.mkdir(parents=True, exist_ok=True)
    for name, model, gpus in jobs:
        key = Key(name, script_hash(script), gpus)
        control.write(folder, key.file, as_object(key, of(model)))
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, uid, uid)
