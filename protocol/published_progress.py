"""The answer to `{"op": "progress"}`: what one job reported, and what is predicted from it.

Each field states its meaning in `Annotated`; docs/status_page.py writes the reference page from these types.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from tiresias.protocol.published_job import PublishedJob, PublishedRun


class PublishedCriterion(TypedDict, total=False):
    """When a training of an unknown number of steps ends: at a loss, or when the loss does not fall any more."""

    loss: Annotated[float, "the loss at which it ends"]
    threshold: Annotated[float, "it ends when the loss falls by less than this part of its maximum in an epoch"]
    epoch_steps: Annotated[float, "steps of an epoch"]
    epochs: Annotated[int, "in so many epochs one after the other"]


class PublishedSize(TypedDict):
    """One size of an elastic job."""

    gpus: Annotated[int, "its GPUs"]
    servers: Annotated[int, "its parameter servers on CPUs alone; 0: none"]
    seconds: Annotated[float, "predicted seconds of training left with them"]


class PublishedProgress(TypedDict):
    """What a job reported."""

    job: Annotated[PublishedJob, "as in the status"]
    runs: Annotated[list[PublishedRun], "its runs, the first one first"]
    steps: Annotated[list[float], "steps of the kept losses, rising"]
    losses: Annotated[list[float], "the losses; each the mean of `reports_a_point` reports"]
    reports_a_point: Annotated[int, "how many reports are the mean of one point"]
    until: Annotated[PublishedCriterion | None, "when the training ends, as its program stated; null: it did not"]
    sizes: Annotated[list[PublishedSize], "the predictions for an elastic job by size; empty: none"]
    uncertain: Annotated[bool, "few sizes are measured, or the predictions are wide"]
