"""Why a job is not preempted, pinned or resized: the codes that the journal stores, "code: parameters", and the words for them.

The codes are what the database holds: they do not change.
"""

from __future__ import annotations

from tiresias.slurm_plugin.state.intents import StoredWord


class Unmovable(StoredWord):
    """Why a run is not preempted any more."""

    NOT_SAVED = "not_saved"  # parameter: the seconds that it had
    PREEMPTION_REFUSED = "preemption_refused"  # parameter: Slurm's message
    NOT_REQUEUEABLE = "not_requeueable"  # parameter: Slurm's message
    EARLIER_VERSION = "earlier_version"  # parameter: the words of a version that stored no code


class Unpinnable(StoredWord):
    """Why a job is left to Slurm."""

    PINS_CHANGE_REQUEST = "pins_change_request"  # parameter: what they change
    IMPOSSIBLE_STARTS = "impossible_starts"  # parameters: how many starts, and Slurm's reason
    FEWER_GPUS_THAN_NODES = "fewer_gpus_than_nodes"  # parameters: GPUs and nodes of the request
    EARLIER_VERSION = "earlier_version"  # parameter: the words of a version that stored no code


class Rigid(StoredWord):
    """Why an elastic job keeps the size that it requests."""

    OTHER_RANKS = "other_ranks"  # parameters: the ranks that registered, the GPUs of the run, the ranks of its size
    SIZE_REFUSED = "size_refused"  # parameters: the GPUs of the size, and Slurm's message


_TEXTS = {
    Unmovable.NOT_SAVED: "did not save within {} s of the signal",
    Unmovable.PREEMPTION_REFUSED: "Slurm refused its preemption: {}",
    Unmovable.NOT_REQUEUEABLE: "{}",
    Unpinnable.PINS_CHANGE_REQUEST: "every pin to nodes changes its request: {}",
    Unpinnable.IMPOSSIBLE_STARTS: "Slurm refused {} starts: {}",
    Unpinnable.FEWER_GPUS_THAN_NODES: "it requests fewer GPUs ({}) than nodes ({})",
    Unmovable.EARLIER_VERSION: "{}",
    Rigid.OTHER_RANKS: "its program ignores the number of GPUs: {} ranks registered with {} GPUs in place of {}",
    Rigid.SIZE_REFUSED: "Slurm does not accept it with {} GPUs: {}",
}
_TEXT_OF = {str(code): text for code, text in _TEXTS.items()}

# SQL that turns the sentences of schemas 1 to 8 into codes. What none of them wrote keeps its words.
_NOT_SAVED = "replace(replace(unmovable, 'did not save within ', ''), ' s of the signal', '')"
_FEWER = "replace(replace(replace(unpinnable, 'it requests fewer GPUs (', ''), ') than nodes (', ' '), ')', '')"
SENTENCES_TO_CODES = (
    f"""update job set unmovable = case
  when unmovable like 'did not save within % s of the signal' then 'not_saved: ' || {_NOT_SAVED}
  when unmovable like 'Slurm refused its preemption: %'
    then 'preemption_refused: ' || substr(unmovable, length('Slurm refused its preemption: ') + 1)
  else 'earlier_version: ' || unmovable end where unmovable != ''""",
    f"""update job set unpinnable = case
  when unpinnable like 'every pin to nodes changes its request: %'
    then 'pins_change_request: ' || substr(unpinnable, length('every pin to nodes changes its request: ') + 1)
  when unpinnable like 'Slurm refused % starts: %'
    then 'impossible_starts: ' || replace(substr(unpinnable, length('Slurm refused ') + 1), ' starts: ', ' ')
  when unpinnable like 'it requests fewer GPUs (%) than nodes (%)' then 'fewer_gpus_than_nodes: ' || {_FEWER}
  else 'earlier_version: ' || unpinnable end where unpinnable != ''""",
)


def stored(code: Unmovable | Unpinnable | Rigid, *parameters: object) -> str:
    """Return what the journal stores. Only the last parameter may contain spaces."""
    return f"{code}: {' '.join(map(str, parameters))}"


def is_code(reason: str, code: Unmovable | Unpinnable) -> bool:
    """Return whether a stored reason has this code."""
    return reason.partition(": ")[0] == code


def text(reason: str) -> str:
    """Return the words for a stored reason; "" for none. What is no code is returned as it is."""
    code, _, parameters = reason.partition(": ")
    template = _TEXT_OF.get(code)
    if template is None or not parameters:
        return reason
    count = template.count("{}")
    found = parameters.split(" ", count - 1)
    return template.format(*found) if len(found) == count else reason
