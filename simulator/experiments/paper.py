"""The paper's results, the simulation that corresponds to each one, and why the simulated value may differ. Data only.

Tiresias, NSDI'19: Figure 7, Tables 1, 4 and 5, sections 5.2 and 5.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NAMES = {
    "las": "Tiresias-L",
    "gittins_known": "Tiresias-G",
    "fifo": "YARN-CS",
    "best_effort": "Best-effort",
    "sf": "SF",
    "srtf": "SRTF",
    "srsf": "SRSF",
    "time_sharing": "Gandiva",
}

METRICS = {
    "mean_jct": "mean JCT", "median_jct": "median JCT", "p95_jct": "95th JCT", "makespan": "makespan",
    "mean_queueing": "mean queueing", "median_queueing": "median queueing", "p95_queueing": "95th queueing",
    "small_short_jct": "mean JCT of bin 1", "preemptions": "preemptions", "lost_seconds": "their overhead",
}  # fmt: skip
COUNTS = {"preemptions"}  # the others are seconds

WHY: Mapping[str, str] = {
    "durations": "The paper gives the range of the 480 jobs' durations and how many are short, not the durations. Here they follow "
    "bounded Pareto distributions of shape 1, the variant's have heavier tails (3 for short jobs, 0.75 for long ones).",
    "cost": "A preemption costs 62 s here, the paper's mean of 13,724 s for 221, whatever the model. Without it see 5.3.1.",
    "start": "The testbed takes seconds to start any job, the simulator none: half the jobs never wait.",
    "events": "Here decisions are made at every event, so a policy that sorts continuously preempts at each, and each preemption "
    "costs; the paper does not describe what the testbed does in between.",
    "load": "The paper's trace is its authors' own; this one is the public one of 2017, a duration being the first start to the "
    "last end. The paper gives neither its cluster's size nor its load. The variant (1,900 GPUs in place of 2,000) shows how much "
    "follows from that alone.",
    "generated": "The trace is not there (--traces), so a load of the same kind was generated.",
    "gandiva": "The paper does not describe how it simulates Gandiva. That half the jobs take 2.6 times as long there "
    "fits jobs that share GPUs; here it is round robin, a job to a GPU, in which a short job hardly waits.",
    "placement": "YARN-CS lets a job wait until GPUs on few machines are free, and GPUs idle; here a job takes any GPUs. The "
    "testbed's makespan under YARN-CS, 1.21 times that of Tiresias, shows it.",
    "formula": "By the printed formula, with the three services as the distribution, no index falls below 0.125, that of a job "
    "which has had nothing, so job 2 keeps its GPU. The slides give 0.25 to a job which has had nothing and 0.2 from 4 GPU-units "
    "on, so job 3 overtakes job 2.",
}


@dataclass(frozen=True, slots=True)
class Number:
    """One result of the paper.

    Attributes:
        section: Section or table of the paper.
        workload: The workload, see `reproduce`.
        policy: The policy.
        metric: The metric, a key of METRICS.
        paper: The printed value, divided by that of `over` if it is a ratio.
        why: Keys of WHY that explain a difference.
        over: The policy to which a ratio relates; empty: no ratio.
    """

    section: str
    workload: str
    policy: str
    metric: str
    paper: float
    why: tuple[str, ...] = ()
    over: str = ""

    @property
    def what(self) -> str:
        """The policy and the metric in words."""
        over = f" / {NAMES[self.over]}" if self.over else ""
        return f"{NAMES.get(self.policy, self.policy)}{over}, {METRICS[self.metric]}"


JCT = ("mean_jct", "median_jct", "p95_jct")
QUEUEING = ("mean_queueing", "median_queueing", "p95_queueing")

Rows = Mapping[str, tuple[float, ...]]


def _rows(
    section: str,
    workload: str,
    metrics: tuple[str, ...],
    rows: Rows,
    why: Mapping[str, tuple[str, ...]],
    over: str = "",
) -> list[Number]:
    """Return one number for each metric of each policy. why: by metric, else by policy, else of ''."""
    return [
        Number(section, workload, policy, metric, paper, why.get(metric, why.get(policy, why[""])), over)
        for policy, numbers in rows.items()
        for metric, paper in zip(metrics, numbers, strict=True)
    ]


EXAMPLE = "figure 7"
FIGURE_7 = "Figure 7: three jobs on two GPUs, mean JCT"
TABLE_1 = "Table 1: the trace, over SRSF"
TESTBED = "Section 5.2: testbed"
TABLE_4 = "Table 4: testbed, queueing delay of all jobs"
OVERHEAD = "Section 5.2.4: testbed, preemptions"
FIDELITY = "Section 5.3.1: the testbed's jobs simulated, preemption free"
TABLE_5 = "Table 5: the trace, over Tiresias-L"

NUMBERS: tuple[Number, ...] = (
    Number(FIGURE_7, EXAMPLE, "SRSF", "mean_jct", 28 / 3),
    Number(FIGURE_7, EXAMPLE, "2D-LAS", "mean_jct", 35 / 3),
    Number(FIGURE_7, EXAMPLE, "2D-Gittins, slides' index values", "mean_jct", 10.0),
    Number(FIGURE_7, EXAMPLE, "2D-Gittins, printed formula", "mean_jct", 10.0, ("formula",)),
    *_rows(TABLE_1, "trace", JCT, {"sf": (1.52, 1.20, 3.45), "srtf": (1.03, 1.01, 1.55)}, {"": ("load",)}, "srsf"),
    *_rows(TESTBED, "testbed", JCT[:2], {"fifo": (5.5, 27.0)}, {"": ("durations", "cost", "placement")}, "las"),
    *_rows(TESTBED, "testbed", JCT[:2], {"gittins_known": (1.06, 1.05)}, {"": ("events", "cost")}, "las"),
    *_rows(
        TESTBED, "testbed", ("small_short_jct",), {"las": (300,), "gittins_known": (330,), "fifo": (300 * 27.6,)},
        {"fifo": ("durations", "placement"), "": ("durations", "start")},
    ),
    *_rows(
        TESTBED, "testbed", ("makespan",),
        {"fifo": (33270,), "las": (27400,), "gittins_known": (27510,), "srtf": (28070,)},
        {"fifo": ("durations", "placement"), "": ("durations", "cost")},
    ),
    *_rows(
        TABLE_4, "testbed", QUEUEING,
        {
            "fifo": (8146, 7464, 15327), "srtf": (593, 32, 3133), "gittins_known": (1005, 39, 7933),
            "las": (963, 13, 7755),
        },
        {"median_queueing": ("start", "durations"), "fifo": ("durations", "placement"),
         "": ("durations", "cost", "events")},
    ),
    *_rows(
        OVERHEAD, "testbed", ("preemptions", "lost_seconds"),
        {"las": (221, 13724), "gittins_known": (297, 17425), "srtf": (316, 18057)}, {"las": ("durations",), "": ("events",)},
    ),
    *_rows(FIDELITY, "testbed, free", (JCT[0], JCT[2]), {"fifo": (5.11, 1.50)}, {"": ("durations",)}, "las"),
    *_rows(FIDELITY, "testbed, free", (JCT[0], JCT[2]), {"srtf": (0.74, 0.55)}, {"": ("durations",)}, "las"),
    *_rows(FIDELITY, "testbed, free", (JCT[0], JCT[2]), {"gittins_known": (1.01, 1.13)}, {"": ("durations",)}, "las"),
    *_rows(
        TABLE_5, "trace", JCT,
        {
            "fifo": (2.41, 30.85, 1.25), "best_effort": (1.50, 9.03, 1.08), "srtf": (1.00, 1.00, 0.84),
            "time_sharing": (2.00, 2.59, 2.08), "gittins_known": (0.97, 1.00, 0.85),
        },
        {"time_sharing": ("gandiva", "load"), "": ("load",)}, "las",
    ),
)  # fmt: skip
