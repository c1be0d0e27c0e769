"""The knobs of a policy, each declared once with its default and what is allowed.

`PolicyConfig()` is what a site gets, `PolicyConfig.paper()` what the paper ran. Times are seconds, service is GPU-seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.registry import Registry
from tiresias.scheduler.stages import ADMISSION, EVICTIONS, POLICIES, SIZINGS, TENANT_RULES

ORDERS = ("running_first", "first_start", "last_start")

FAIRNESS = ("none", "users", "accounts")
ATTAINED = ("job", "array", "user")

PAPER_THRESHOLD = {"testbed": 3200.0, "production": 3600.0}  # GPU-seconds

# times of `starve_limit` after which a job's rank improves no more; with the default factor of 2 its cost is 1e-12 by then
MOST_DISCOUNTS = 40

# A job whose service is this near below a threshold has crossed it: sums of floats never land on it exactly.
SERVICE_TOLERANCE = 1e-3


def _knob(
    default: object, doc: str, allowed: str, check: Callable[[Any], bool], names: Registry[Any] | None = None
) -> Any:
    """`names`: where installed packages add to what is allowed."""
    return field(
        default=default, metadata={"doc": doc, "allowed": allowed, "check": check, "names": names and (lambda: names)}
    )


def _rising(values: object) -> bool:
    if not isinstance(values, tuple) or not all(_is_number(each) and 0 < each < math.inf for each in values):
        return False
    return all(low < high for low, high in pairwise(values))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _positive(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]  # checked to be a number


def _above_one(value: object) -> bool:
    return _is_number(value) and value > 1  # type: ignore[operator]


def _not_negative(value: object) -> bool:
    return _is_number(value) and 0 <= value < math.inf  # type: ignore[operator]


def _one_or_more(value: object) -> bool:
    return _is_number(value) and 1 <= value < math.inf  # type: ignore[operator]


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _named_in(names: Registry[Any]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


@dataclass(frozen=True)
class PolicyConfig:
    """Raises UsageError for a value that cannot be meant."""

    name: str = _knob(
        "adaptive",
        "how jobs are ranked",
        ", ".join(POLICIES.built_in),
        _named_in(POLICIES),
        POLICIES,
    )
    thresholds: tuple[float, ...] = _knob(
        (3200.0,), "GPU-seconds at which a job sinks one queue", "positive numbers, each above the one before", _rising
    )
    in_queue_order: str = _knob(
        "running_first", "the order inside a queue", ", ".join(ORDERS), lambda value: value in ORDERS
    )
    promote_knob: float = _knob(
        math.inf,
        "promote a job that has waited so many times longer than it ran",
        "a number above 0, or inf",
        _positive,
    )
    starve_limit: float = _knob(
        345600.0, "promote a job that has waited so many seconds", "seconds above 0, or inf", _positive
    )
    starve_factor: float = _knob(
        2.0,
        "times by which each starve_limit of waiting lowers the cost by which adaptive ranks a job; inf: it goes first",
        "a number above 1, or inf",
        _above_one,
    )
    drain_limit: float = _knob(
        3600.0,
        "seconds at most for which GPUs are kept free for a job that starve_limit promoted",
        "seconds, 0 or more",
        _not_negative,
    )
    min_run: float = _knob(
        60.0,
        "seconds that a job runs, from its first step after a start, before it may be preempted",
        "seconds, 0 or more",
        _not_negative,
    )
    min_run_cost_factor: float = _knob(
        2.0,
        "the same, in times of what a preemption costs the job; the larger counts",
        "a number, 0 or more",
        _not_negative,
    )
    protection_limit: float = _knob(
        1800.0,
        "seconds at most that a late first step, and a high preemption cost, each protect a job",
        "seconds, 0 or more",
        _not_negative,
    )
    cooldown: float = _knob(0.0, "seconds between two preemptions of one job", "seconds, 0 or more", _not_negative)
    max_preemptions: int = _knob(0, "preemptions of one job, 0: no limit", "a whole number, 0 or more", _count)
    preemption_cost: float = _knob(
        60.0,
        "seconds that adaptive takes a preemption to cost where it was not measured",
        "seconds, 0 or more",
        _not_negative,
    )
    target_slowdown: float = _knob(
        math.inf,
        "adaptive ranks by submission and so many times the expected time to completion; inf: by that time alone",
        "a number above 0, or inf",
        _positive,
    )
    defragment: int = _knob(
        0,
        "jobs that may run on any nodes and are preempted at once to defragment nodes for a consolidated job; 0: none",
        "a whole number, 0 or more",
        _count,
    )
    interval: float = _knob(
        0.0,
        "seconds between two moments at which running jobs are preempted or change their size; a simulation starts jobs at these "
        "moments only, too; 0: at any moment",
        "seconds, 0 or more",
        _not_negative,
    )
    quantum: float = _knob(300.0, "seconds of a turn of time_sharing", "seconds, 1 or more", _one_or_more)
    admission: str = _knob(
        "shared",
        "which jobs may hold GPUs, besides what Slurm's own rules allow; shared: all jobs; the others share the cluster among "
        "virtual clusters",
        ", ".join(("shared", *TENANT_RULES.built_in)),
        lambda value: isinstance(value, str) and (value in ADMISSION or value in TENANT_RULES),
        ADMISSION,
    )
    sizing: str = _knob(
        "fixed",
        "how many GPUs a job gets; fixed: those that it requests; minimum_first: elastic jobs get their fewest GPUs, then those "
        "that are left; marginal_gain: the same, and those that are left go where they shorten a job most; weighted_gain: "
        "where they raise the speed of short jobs most; drf, tetris: baselines of Optimus's evaluation",
        ", ".join(SIZINGS.built_in),
        _named_in(SIZINGS),
        SIZINGS,
    )
    size_samples: int = _knob(
        0,
        "sizes at which steps of a new elastic job, or of jobs of its kind, are timed before its size is chosen by predictions; 0: "
        "it is not sampled",
        "a whole number, 0 or more",
        _count,
    )
    sample_time: float = _knob(
        60.0, "seconds of each of these samples, from its first step", "seconds, 0 or more", _not_negative
    )
    fairness: str = _knob(
        "none",
        "owners that share the GPUs: users, or accounts; what one used more than the others, by shares, counts against its jobs",
        ", ".join(FAIRNESS),
        lambda value: value in FAIRNESS,
    )
    attained: str = _knob(
        "job",
        "whose service ranks a job by its attained service: its own, that of its job array, or that of all jobs of its user",
        ", ".join(ATTAINED),
        lambda value: value in ATTAINED,
    )
    usage_half_life: float = _knob(
        43200.0,
        "seconds after which the service of a user, an account or an array counts half",
        "seconds above 0, or inf",
        _positive,
    )
    usage_period: float = _knob(
        3600.0,
        "seconds between two counts of that service, at each of which the order may change",
        "seconds, 1 or more",
        _one_or_more,
    )
    eviction: str = _knob(
        "by_policy",
        "which running jobs release GPUs; by_policy: cost_aware for policies that weigh that cost, by_rank for others",
        ", ".join(EVICTIONS.built_in),
        _named_in(EVICTIONS),
        EVICTIONS,
    )

    def __post_init__(self) -> None:
        for knob in fields(self):
            value = getattr(self, knob.name)
            if not knob.metadata["check"](value):
                names = knob.metadata["names"]
                allowed = ", ".join([knob.metadata["allowed"], *(names().plugins() if names else ())])
                raise UsageError(f"{knob.name} = {value!r} is not possible; allowed: {allowed}")

    @classmethod
    def paper(cls, name: str = "las", cluster: str = "testbed") -> PolicyConfig:
        """Sections 5.2 and 5.3: two queues, their threshold that of PAPER_THRESHOLD, and nothing that the paper does not have."""
        return cls(
            name=name,
            thresholds=(PAPER_THRESHOLD[cluster],),
            starve_limit=math.inf,
            drain_limit=0.0,
            min_run=0.0,
            min_run_cost_factor=0.0,
        )

    def scaled(self, factor: float) -> PolicyConfig:
        """The same policy for jobs that run `factor` times faster: every threshold and time is divided by it."""
        return replace(
            self,
            thresholds=tuple(threshold / factor for threshold in self.thresholds),
            starve_limit=self.starve_limit / factor,
            drain_limit=self.drain_limit / factor,
            min_run=self.min_run / factor,
            protection_limit=self.protection_limit / factor,
            cooldown=self.cooldown / factor,
            preemption_cost=self.preemption_cost / factor,
            quantum=self.quantum / factor,
            interval=self.interval / factor,
            sample_time=self.sample_time / factor,
            usage_half_life=self.usage_half_life / factor,
            usage_period=max(self.usage_period / factor, 1.0),
        )

    @property
    def limits(self) -> tuple[float, ...]:
        """GPU-seconds at which the queues of the policy end; none where it has no queues."""
        limits: tuple[float, ...] = POLICIES[self.name].queue_limits(self)
        return limits

    @property
    def counts_owners(self) -> bool:
        """Whether the service of users, accounts or arrays changes the order of jobs."""
        return self.fairness != "none" or self.attained != "job"

    @property
    def needs_snapshots(self) -> bool:
        """Whether a stage besides the policy decides on whole snapshots, so that the order and the GPUs alone are not enough."""
        return self.admission != "shared" or self.sizing != "fixed" or EVICTIONS.is_plugin(self.eviction)

    @cached_property
    def queue_begins(self) -> tuple[float, ...]:
        """GPU-seconds at which each of the queues by `thresholds` begins."""
        return (0.0, *self.thresholds)

    @cached_property
    def queue_ends(self) -> tuple[float, ...]:
        """GPU-seconds at which each of the queues by `thresholds` ends; inf for the last one."""
        return (*self.thresholds, math.inf)

    @cached_property
    def promotes(self) -> bool:
        """Whether waiting jobs are promoted at all."""
        return self.promote_knob < math.inf or self.starve_limit < math.inf

    @cached_property
    def starve_discounts(self) -> tuple[float, ...]:
        """By what `adaptive` multiplies the cost of a job, by the times of `starve_limit` that it waited; the last: for more."""
        return tuple(self.starve_factor**-times for times in range(MOST_DISCOUNTS + 1))

    @cached_property
    def starving_first(self) -> bool:
        """Whether jobs that `starve_limit` promoted go before all others. Not where `promote_knob` promotes as well: then the order
        is the paper's."""
        return self.starve_limit < math.inf and self.promote_knob == math.inf
