"""The scheduling note of a submission in one line on standard error, and a record for the controller (submitted_scripts.py).

tsbatch has it done in a process of its own, and does not wait for it for long: folders of the site may hang.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

from tiresias.errors import one_line
from tiresias.protocol import control, environment, site_configuration
from tiresias.protocol.job_kind import Key, script_hash
from tiresias.protocol.job_log import log_line
from tiresias.protocol.profile_summary import Summary, from_object
from tiresias.protocol.submitted_scripts import key, note
from tiresias.wrappers import opportunistic, previous_job, settings
from tiresias.wrappers.previous_job import PreviousJob
from tiresias.wrappers.scheduling_notes import save_detection, site_controller, wording
from tiresias.wrappers.scheduling_notes.submit_options import SubmitOptions

PROFILES = 32  # read, of one script
PLACED = {"consolidate": "kept on the fewest nodes", "spread": "placed wherever GPUs are free"}


def report(name: str, path: str, asked: SubmitOptions, arguments: Sequence[str], script: bytes, silent: bool) -> None:
    """Print the note unless `silent`, and record the script.

    Args:
        name: File name of the script.
        path: The script's path as Slurm shows it.
        asked: The submit options.
        arguments: The script's arguments.
        script: Its content.
        silent: Record the script only.
    """
    kind, root = script_hash(script), Path(settings.of_job(os.environ)[environment.CONTROL_ROOT])
    seen_in, before = save_detection.seen_in(name, script, arguments), previous_job.of_script(root, kind)
    if "test-only" not in asked:  # first: the controller needs it, and folders that hang end this process
        saves = wording.saves(seen_in, before) or bool(os.environ.get(environment.CHECKPOINT))
        choice, sizes = opportunistic.noted(os.environ, saves), os.environ.get(environment.ELASTIC, "")
        note(root, key(path, asked.get("job-name") or name), kind, choice, sizes)
    try:
        if not silent:
            log_line(scheduling_note(name, asked, kind, seen_in, before))
    except OSError as error:
        log_line(f"the scheduling note for this job could not be written: {one_line(error)}")


def scheduling_note(name: str, asked: SubmitOptions, kind: str, seen_in: str, before: PreviousJob | None) -> str:
    """Return the note in one line.

    Args:
        name: File name of the script.
        asked: The submit options.
        kind: Hash of the script.
        seen_in: The file that names checkpoints, "" without one.
        before: What the last job of the script showed.
    """
    root = Path(settings.of_job(os.environ)[environment.CONTROL_ROOT])
    scheduling = wording.scheduling(asked, _user(), site_controller.of_host(site_configuration.read(), time.time()))
    parts = [
        "nothing is submitted, but it would be under Tiresias' supervisor" if "test-only" in asked else "",
        scheduling.words,
        wording.self_saving(asked, scheduling.managed, os.environ.get(environment.CHECKPOINT, ""))
        or wording.saving(asked, scheduling.managed, seen_in, before),
        wording.renewal(asked, seen_in or os.environ.get(environment.CHECKPOINT, ""), before),
        wording.opportunistic(opportunistic.chosen(os.environ), scheduling.managed),
        wording.order(asked, scheduling.orders),
        placing(root, kind, asked.get("job-name") or name),
    ]
    return one_line("; ".join(filter(None, parts)))


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # known to other hosts only
        return str(os.getuid())


def placing(root: Path, script: str, name: str) -> str:
    """Return the placement by the newest profile of the script under this name, for any number of GPUs; "" without one."""
    folder = control.profiles_folder(root, os.getuid())
    found = [_summary(path, script, name) for path in sorted(folder.glob(f"{script}-*.json"))[:PROFILES]]
    newest = max(filter(None, found), key=lambda summary: summary.made, default=None)
    if newest is None or newest.decision not in PLACED:
        return ""
    return f"{PLACED[newest.decision]}, by the traffic of job {newest.job}"


def _summary(path: Path, script: str, name: str) -> Summary | None:
    gpus = path.name.split("-")[1]
    key = Key(name, script, int(gpus) if gpus.isascii() and gpus.isdigit() else 0)
    return from_object(key, control.read(path, os.getuid())) if key.file == path.name else None
