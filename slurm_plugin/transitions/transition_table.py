"""The transition table: what is done in each step of a preemption, a renewal, a start and a release, and what may follow.

    preempt:  hold -> turn -> signal -> wait -> parked -> requeue -> drain
    restart:  hold -> turn -> parked -> requeue -> drain, a preemption without a checkpoint
    assist:   as preempt -> yielded, until Slurm has started the beneficiary (mode assist)
    renew:    hold -> signal -> wait -> requeue -> drain
    resize:   for a beneficiary as preempt, else as renew, without signal and wait if the run made no step; a start then gives the
              job its new size
    start:    start -> confirm, within a hand-over start -> prioritize -> confirm; confirm -> prioritize -> confirm in cells, where
              Slurm ranks an unmanaged job before it
    suggest:  start -> confirm, of nodes in mode assist; confirm -> pinned where Slurm does not start the job there
    release:  pinned -> held

drain -> requeue where slurmctld was killed and shows the run that it had requeued as running again.

A step is journaled before its operation is executed, and each operation is idempotent: after a crash an open intent continues at
the step that was journaled last. When Slurm does not answer, the intent stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep, StoredWord

PREEMPT, RESTART, ASSIST = IntentKind.PREEMPT, IntentKind.RESTART, IntentKind.ASSIST
RENEW, RESIZE, REPLACE = IntentKind.RENEW, IntentKind.RESIZE, IntentKind.REPLACE
START, SUGGEST, RELEASE = IntentKind.START, IntentKind.SUGGEST, IntentKind.RELEASE
Step = IntentStep


class Operation(Enum):
    """What the engine executes in a step."""

    HOLD = "hold the running job, so that it stays pending after the requeue"
    AWAIT_TURN = "wait until the victims that are more likely to be late have parked"
    AWAIT_PARKED = "wait until the victims that save have parked"
    SIGNAL = "send the checkpoint signal"
    AWAIT_SAVE = "wait for the checkpoint"
    AWAIT_GROUP = "wait until all victims of the beneficiary have parked; the last one starts the beneficiary"
    REQUEUE = "requeue the job"
    AWAIT_END = "wait until the job has released its GPUs"
    AWAIT_BENEFICIARY = "wait until Slurm has started the beneficiary, then lift the hold"
    LEAVE_RUNNING = "lift the hold of a job that could not be preempted"
    SPARE = "lift the hold of a job that was not signalled"
    START = "pin the job to its nodes and release it"
    PRIORITIZE = "give the job the highest priority"
    CONFIRM = "wait until Slurm has started the job"
    REHOLD = "hold a job again that Slurm did not start"
    SUGGEST = "pin a job that is not held to the nodes which its victims release"
    AWAIT_START = "wait until Slurm has started the job on these nodes"
    TAKE_BACK = "give a job that Slurm did not start its own nodes back"
    UNPIN = "give a pending job its own nodes back"
    LIFT = "lift the hold"


class Phase(StoredWord):
    """The label of a step in the views."""

    RUNNING = "running"
    SIGNALLED = "signalled"
    SAVING = "saving"
    PARKED = "parked"
    LEAVING = "leaving"
    STARTING = "starting"


class TimeLimit(NamedTuple):
    """How long a step may last. setting: of [preemption], seconds; since: the field of the intent that it counts from."""

    setting: str
    since: str


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table.

    Attributes:
        kind, step: the state that the row is about.
        operation: what is executed in it.
        following: the step that follows where all goes well; None: the intent ends.
        otherwise: the other steps that may follow.
        urgency: intents with the smallest number come first: what frees GPUs and jobs before what takes them.
        phase: what the views show.
        calls: the operations of the back end that it needs, for the budget of calls.
        time_limit: None: it lasts as long as it takes.
    """

    kind: IntentKind
    step: IntentStep
    operation: Operation
    following: IntentStep | None
    otherwise: tuple[IntentStep, ...]
    urgency: int
    phase: Phase
    calls: tuple[str, ...] = ()
    time_limit: TimeLimit | None = None

    def may_lead_to(self, step: IntentStep) -> bool:
        """Return whether the table allows that step to follow."""
        return step == self.following or step in self.otherwise


Do = Operation
_SAVE = TimeLimit("deadline", "began")
_START_CALLS = ("job", "pin", "job", "lift")
_SLURM = TimeLimit("start_timeout", "stepped")
_GO_BACK = (Step.DRAIN, Step.SIGNAL, Step.UNHOLD)


def _save_and_requeue(kind: IntentKind) -> tuple[Transition, ...]:
    """A preemption of one job for no other one."""
    return (
        Transition(kind, Step.HOLD, Do.HOLD, Step.SIGNAL, (Step.REQUEUE,), 11, Phase.SIGNALLED, ("hold",)),
        Transition(kind, Step.SIGNAL, Do.SIGNAL, Step.WAIT, (), 9, Phase.SIGNALLED, ("signal",)),
        Transition(kind, Step.WAIT, Do.AWAIT_SAVE, Step.REQUEUE, _GO_BACK, 8, Phase.SAVING, (), _SAVE),
        Transition(kind, Step.REQUEUE, Do.REQUEUE, Step.DRAIN, (Step.UNHOLD,), 0, Phase.LEAVING, ("job", "requeue")),
        Transition(kind, Step.DRAIN, Do.AWAIT_END, None, (Step.REQUEUE,), 4, Phase.LEAVING, ("job",)),
        Transition(kind, Step.UNHOLD, Do.LEAVE_RUNNING, None, (), 1, Phase.STARTING, ("release",)),
    )


def _for_a_beneficiary(kind: IntentKind, after: IntentStep | None, *unsaved: IntentStep) -> tuple[Transition, ...]:
    """A preemption with a checkpoint. after: what follows the release of the GPUs; unsaved: where nothing has to be saved."""
    return (
        Transition(kind, Step.HOLD, Do.HOLD, Step.TURN, (Step.SIGNAL, *unsaved), 11, Phase.SIGNALLED, ("hold",)),
        Transition(kind, Step.TURN, Do.AWAIT_TURN, Step.SIGNAL, (Step.WAIT, Step.SPARE), 10, Phase.RUNNING),
        Transition(kind, Step.SIGNAL, Do.SIGNAL, Step.WAIT, (), 9, Phase.SIGNALLED, ("signal",)),
        Transition(kind, Step.WAIT, Do.AWAIT_SAVE, Step.PARKED, (Step.REQUEUE, *_GO_BACK), 8, Phase.SAVING, (), _SAVE),
        Transition(kind, Step.PARKED, Do.AWAIT_GROUP, Step.REQUEUE, (Step.DRAIN, Step.TURN), 7, Phase.PARKED),
        Transition(kind, Step.REQUEUE, Do.REQUEUE, Step.DRAIN, (Step.UNHOLD,), 0, Phase.LEAVING, ("job", "requeue")),
        Transition(kind, Step.DRAIN, Do.AWAIT_END, after, (Step.REQUEUE,), 4, Phase.LEAVING, ("job",)),
        Transition(kind, Step.UNHOLD, Do.LEAVE_RUNNING, None, (), 1, Phase.STARTING, ("release",)),
        Transition(kind, Step.SPARE, Do.SPARE, None, (), 2, Phase.RUNNING, ("release",)),
    )


TABLE = (
    *_for_a_beneficiary(PREEMPT, None),
    *_for_a_beneficiary(ASSIST, Step.YIELDED),
    Transition(ASSIST, Step.YIELDED, Do.AWAIT_BENEFICIARY, None, (), 13, Phase.PARKED, ("release",), _SLURM),
    Transition(RESTART, Step.HOLD, Do.HOLD, Step.TURN, (), 11, Phase.RUNNING, ("hold",)),
    Transition(RESTART, Step.TURN, Do.AWAIT_PARKED, Step.PARKED, (Step.DRAIN, Step.SPARE), 10, Phase.RUNNING),
    Transition(RESTART, Step.PARKED, Do.AWAIT_GROUP, Step.REQUEUE, (Step.DRAIN, Step.SPARE), 7, Phase.RUNNING),
    Transition(RESTART, Step.REQUEUE, Do.REQUEUE, Step.DRAIN, (Step.UNHOLD,), 0, Phase.LEAVING, ("job", "requeue")),
    Transition(RESTART, Step.DRAIN, Do.AWAIT_END, None, (Step.REQUEUE,), 4, Phase.LEAVING, ("job",)),
    Transition(RESTART, Step.UNHOLD, Do.LEAVE_RUNNING, None, (), 1, Phase.STARTING, ("release",)),
    Transition(RESTART, Step.SPARE, Do.SPARE, None, (), 2, Phase.RUNNING, ("release",)),
    *_save_and_requeue(RENEW),
    *_for_a_beneficiary(RESIZE, None, Step.REQUEUE),
    *_save_and_requeue(REPLACE),
    Transition(START, Step.START, Do.START, Step.CONFIRM, (Step.PRIORITIZE,), 12, Phase.STARTING, _START_CALLS),
    Transition(START, Step.PRIORITIZE, Do.PRIORITIZE, Step.CONFIRM, (), 5, Phase.STARTING, ("prioritize",)),
    Transition(START, Step.CONFIRM, Do.CONFIRM, None, (Step.REHOLD, Step.PRIORITIZE), 6, Phase.STARTING, (), _SLURM),
    Transition(START, Step.REHOLD, Do.REHOLD, None, (), 3, Phase.STARTING, ("job", "job", "hold")),
    Transition(SUGGEST, Step.START, Do.SUGGEST, Step.CONFIRM, (), 12, Phase.STARTING, ("job", "pin", "job")),
    Transition(SUGGEST, Step.CONFIRM, Do.AWAIT_START, None, (Step.PINNED,), 6, Phase.STARTING, (), _SLURM),
    Transition(SUGGEST, Step.PINNED, Do.TAKE_BACK, None, (), 3, Phase.STARTING, ("job", "unpin")),
    Transition(RELEASE, Step.PINNED, Do.UNPIN, Step.HELD, (), 0, Phase.STARTING, ("hold", "unpin")),
    Transition(RELEASE, Step.HELD, Do.LIFT, None, (), 0, Phase.STARTING, ("release",)),
)
_ROWS: Mapping[tuple[IntentKind, IntentStep], Transition] = {(row.kind, row.step): row for row in TABLE}


def row_of(intent: Intent) -> Transition:
    """Return the table's row for the intent's step."""
    return _ROWS[intent.kind, intent.step]


def path(kind: IntentKind, step: IntentStep) -> Iterator[Transition]:
    """The rows from that step to the end, where all goes well."""
    following: IntentStep | None = step
    while following is not None:
        yield (row := _ROWS[kind, following])
        following = row.following


def _before(end: IntentStep) -> tuple[IntentStep, ...]:
    """The steps of a preemption up to that one, without it."""
    steps = [row.step for row in path(PREEMPT, IntentStep.HOLD)]
    return tuple(steps[: steps.index(end)])


BEFORE_SIGNAL = _before(IntentStep.SIGNAL)
BEFORE_PARKED = _before(IntentStep.PARKED)
BEFORE_REQUEUE = _before(IntentStep.REQUEUE)
RELEASING_GPUS = tuple(row.step for row in path(PREEMPT, IntentStep.REQUEUE))


def is_untouched(intent: Intent) -> bool:
    """Whether a preemption has done nothing to its job but hold it: its run may go on as if nothing had been begun."""
    return intent.step in (BEFORE_REQUEUE if intent.kind == RESTART else BEFORE_SIGNAL)


def is_overdue(intent: Intent, config: PreemptionConfig, now: float) -> bool:
    """Whether the time limit of the intent's step has passed; False where it has none."""
    limit = row_of(intent).time_limit
    return limit is not None and now - getattr(intent, limit.since) >= getattr(config, limit.setting)
