"""A transition of one job under way, as the journal stores it: its kind, its step and its outcome.

The values of these enums are what the database and the kill campaigns hold: they do not change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class StoredWord(str, Enum):
    """A word of the database. It equals, formats and serialises as its value."""

    def __str__(self) -> str:
        return str(self.value)


class IntentKind(StoredWord):
    """What is done to a job."""

    PREEMPT = "preempt"
    RESTART = (
        "restart"  # a preemption without a checkpoint: the run is ended, and the job starts again from the beginning
    )
    ASSIST = (
        "assist"  # a preemption in mode assist: Slurm starts the beneficiary, and the preempted job is held until then
    )
    # a requeue of a job that saved by itself, because its time limit was near, or whose ended run a killed slurmctld shows again
    RENEW = "renew"
    RESIZE = "resize"  # a requeue of an elastic job, so that it starts again with another number of GPUs or parameter servers
    REPLACE = "replace"  # a requeue of a job that starts again without a slow node
    START = "start"
    SUGGEST = "suggest"  # of nodes for a beneficiary of mode assist, which Slurm starts
    RELEASE = "release"  # of a hold and a pin; the job's row is its journal, so no intent of this kind is written


# that save and release GPUs for a beneficiary; a change of size has one or none
SAVING = (IntentKind.PREEMPT, IntentKind.ASSIST, IntentKind.RESIZE)
PREEMPTIONS = (*SAVING, IntentKind.RESTART)
OF_PENDING_JOBS = (IntentKind.START, IntentKind.SUGGEST)
COUNTED = (*PREEMPTIONS, IntentKind.REPLACE)  # by policy.max_preemptions and policy.cooldown


def action_of(kind: IntentKind) -> IntentKind:
    """Return the action that decisions and the log name: a preemption is one in each mode."""
    return IntentKind.PREEMPT if kind == IntentKind.ASSIST else kind


class IntentStep(StoredWord):
    """The state of an intent: what is about to be done, or waited for, next."""

    HOLD = "hold"
    TURN = "turn"
    SIGNAL = "signal"
    WAIT = "wait"
    PARKED = "parked"
    REQUEUE = "requeue"
    DRAIN = "drain"
    UNHOLD = "unhold"
    SPARE = "spare"
    YIELDED = "yielded"  # it has released its GPUs, and stays held until its beneficiary runs
    START = "start"
    PRIORITIZE = "prioritize"
    CONFIRM = "confirm"
    REHOLD = "rehold"
    PINNED = "pinned"  # of a release, and of nodes on which Slurm has not started the job
    HELD = "held"  # of a release


class IntentOutcome(StoredWord):
    """How an intent ends. The database holds it with its details: "parked: 1.50 s after the decision"."""

    ENDED = "ended"
    PARKED = "parked"
    RESTARTED = "restarted"
    RUNNING = "running"
    LEFT_RUNNING = "left running"
    NOT_STARTED = "not started"
    LEFT_TO_SLURM = "left to Slurm"
    LEFT = "left"
    REFUSED = "refused"
    RELEASED = "released"


class Notice(StoredWord):
    """What the list of decisions reports besides the beginnings and the outcomes of intents."""

    PROMOTE = "promote"
    RELOAD = "reload"
    SHADOW = "shadow"
    PIN_TAKEN_BACK = "pin taken back"
    DEMOTED = "demoted"
    RANKED_AGAIN = "ranked again"
    FIRST = "goes first"  # in Slurm's queue


@dataclass(slots=True)
class Intent:
    """A start, a preemption or a renewal of one job.

    Attributes:
        key: the job, as the journal names it.
        id: the job, as Slurm names it.
        restart: the restart count of the run that the intent is about.
        step: the step that was journaled last.
        nodes: of a start or a suggestion, its nodes and GPUs; of a preemption, those that its beneficiary gets.
        beneficiary: of a preemption, the job that gets the GPUs; of a start within a hand-over, the job itself.
        began: epoch second of the decision; of a preemption, of the checkpoint signal, once the job was signalled.
        stepped: epoch second at which the step was journaled.
        outcome: "" until the intent is over.
        epoch: of the leader that began it.
        cells: the types of the cells of its virtual cluster on `nodes`, by node (owned_cells.py); "": none.
        seq: its number in the database.
        parts: for each of the nodes the GPUs from each of its parts (`scheduler.actions.Start.parts`); (): any.
        servers: the parameter servers of the job that gets `nodes` (`scheduler.actions.Start.servers`); 0: none, or not chosen.
    """

    key: str
    id: str
    restart: int
    kind: IntentKind
    step: IntentStep
    nodes: tuple[tuple[str, int], ...] = ()
    beneficiary: str = ""
    began: float = 0.0
    stepped: float = 0.0
    outcome: str = ""
    epoch: int = 0
    cells: str = ""
    seq: int = field(default=0)
    parts: tuple[tuple[int, ...], ...] = ()
    servers: int = 0
