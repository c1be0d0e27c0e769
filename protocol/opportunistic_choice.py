"""The owner's choice for runs on idle GPUs beyond the cells of the job's virtual cluster (`tsbatch --opportunistic`).

    no        the job never runs there
    yes       it runs there if it can save: when the GPUs are needed it is preempted by checkpoint; the default
    restart   it runs there, and accepts that its run is ended and started again from the beginning when the GPUs are needed
    saves     of a note of tsbatch only: `yes`, and the script was seen to save

The supervisor reports the choice of its job (control.py); until then the controller has the note of the submission
(submitted_scripts.py). Each is a statement of the job's owner, and counts for that job only.
"""

from __future__ import annotations

NO, YES, RESTART, SAVES = "no", "yes", "restart", "saves"
CHOICES = (YES, NO, RESTART)  # of the option


def known(value: object) -> str:
    """Return `value` where it is a choice or `saves`, else "": it comes from a file of the user."""
    return value if isinstance(value, str) and value in (*CHOICES, SAVES) else ""


def combined(stored: str, found: str) -> str:
    """Return the choice after another statement of it: "" states nothing, and `yes` does not contradict `saves`."""
    return stored if not found or (stored == SAVES and found == YES) else found
