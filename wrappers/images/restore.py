"""Write an image's files to the node and become the restored program: a process that the supervisor starts in place of the script.

    restore TOOL FOLDER ADDRESS CHECKPOINTS CONTROL RESTART LAUNCH_COMMAND...

Where the folder of images holds some already, a commit of them has failed: the program continues from these. Where no image of the
store verifies, the launch command starts the script from its beginning.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tiresias.errors import TiresiasError
from tiresias.protocol.job_log import log_line
from tiresias.wrappers.images import image_job, image_store, option, program_files, written_files
from tiresias.wrappers.images.image_job import ImageJob

if TYPE_CHECKING:
    from tiresias.checkpoint.state import Checkpoint

REFUSED = 1  # exit code


class ImageRefused(TiresiasError):
    """The image was made by a program, or on a processor, that is not here."""


def main(words: list[str]) -> int:
    """Become the program; return an exit code where that fails."""
    job = image_job.of_words(words)
    try:
        command = _command(job, words[image_job.WORDS :])
        os.execvp(command[0], command)
    except (TiresiasError, OSError) as error:
        log_line(f"the program is not restored: {error}")
    return REFUSED


def _command(job: ImageJob, launch: list[str]) -> list[str]:
    if job.place.has_image():
        return job.place.restart()

    from tiresias.checkpoint.store import Store

    store = Store(job.checkpoints)
    found = store.restore()
    if found is None:
        log_line(f"no image in {job.checkpoints} verifies: the script starts from its beginning")
        return launch
    if problem := _why_not(job, found):
        store.confirm_restore()  # the image itself is whole
        raise ImageRefused(f"image {found.step} in {job.checkpoints} {problem}")
    image_store.write(found.state, job.place.images)
    written_files.cut(image_store.note_of(found.state).written)
    job.note_restore(found.step)
    log_line(f"run {job.restart} resumes from image {found.step}")
    return job.place.restart()


def _why_not(job: ImageJob, found: Checkpoint) -> str:
    note = image_store.note_of(found.state)
    if note.tool != job.place.TOOL:
        return f"was dumped with {option.OPTION}={note.tool}: submit the job anew with that option"
    if job.place.SAME_FOLDER and note.folder != str(job.place.images):
        return (
            f"was dumped in {note.folder}, and here the folder is {job.place.images}: use the same TMPDIR on all nodes"
        )
    if file := program_files.changed(note.identities):
        return f"was made with other files: {file}. Put the file back and requeue the job, or submit it anew"
    if lacking := sorted(set(note.cpu) - set(program_files.cpu_features())):
        features, node = ", ".join(lacking[:4]), os.uname().nodename
        return f"needs a processor with {features}, and {node} has none: requeue the job to such nodes (--constraint)"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
