"""What counts as an inversion of Slurm's order in a replay, and what explains it."""

from __future__ import annotations

from tiresias.sandbox.replay.slurm_inversions import SlurmOrderJudge
from tiresias.sandbox.replay.slurm_order_log import LoggedPreemption, LoggedStart, QueueSample, Rank, SlurmctldLog
from tiresias.slurm_plugin.state.journal_rows import Decision


def ranks(*jobs: int) -> dict[str, Rank]:
    """The jobs that wait in their turn, in Slurm's order."""
    return {str(job): (float(place), 0.0, job) for place, job in enumerate(jobs)}


def samples(*waiting: dict[str, Rank]) -> list[QueueSample]:
    """One for each second, from 0 on; each takes 0.1 s."""
    return [QueueSample(float(second), second + 0.1, each) for second, each in enumerate(waiting)]


def log(*starts: LoggedStart, requeued: tuple[tuple[float, str], ...] = ()) -> SlurmctldLog:
    return SlurmctldLog({}, list(starts), list(requeued), [], list(requeued))


def main(time: float, job: int) -> LoggedStart:
    return LoggedStart(time, str(job), by_backfill=False)


def backfill(time: float, job: int) -> LoggedStart:
    return LoggedStart(time, str(job), by_backfill=True)


def preempt(now: float, victim: int, beneficiary: int) -> Decision:
    why = f"for job {beneficiary}, which is first in Slurm's order: expected gain 5 s"
    return Decision(now, str(victim), "preempt", why)


def counted(judge: SlurmOrderJudge) -> tuple[float, float, float]:
    found = judge.count()
    return found["inversions"], found["backfill_inversions"], found["unexplained_inversions"]


def test_starts_in_slurms_order_are_no_inversions() -> None:
    judge = SlurmOrderJudge(samples(ranks(1, 2), ranks(2), ranks()), log(main(0.5, 1), main(1.5, 2)))
    assert counted(judge) == (0, 0, 0)


def test_backfill_is_an_inversion_of_slurms_own() -> None:
    judge = SlurmOrderJudge(samples(ranks(1, 2), ranks(1)), log(backfill(0.5, 2)))
    assert counted(judge) == (1, 1, 0)


def test_a_start_of_the_main_scheduler_out_of_order_is_unexplained() -> None:
    judge = SlurmOrderJudge(samples(ranks(1, 2), ranks(1)), log(main(0.5, 2)))
    assert counted(judge) == (1, 0, 1)
    assert list(judge.unexplained()) == ["job 2 starts before job 1"]


def test_a_job_that_starts_or_leaves_the_queue_in_the_same_second_is_not_overtaken() -> None:
    judge = SlurmOrderJudge(samples(ranks(1, 2), ranks()), log(main(0.5, 2), main(0.6, 1)))
    assert counted(judge) == (0, 0, 0)


def test_a_preemption_by_slurm_itself_explains_a_start() -> None:
    events = log(main(0.5, 2))._replace(preemptions=[LoggedPreemption(0.3, "7", "requeued", "2")])
    assert counted(SlurmOrderJudge(samples(ranks(1, 2), ranks(1)), events)) == (1, 0, 0)


def test_a_new_job_has_the_rank_of_its_submission() -> None:
    events = log(main(0.5, 3))._replace(submitted={"3": (9.0, 0.3, 3)})
    judge = SlurmOrderJudge(samples(ranks(1), ranks(1)), events)
    assert counted(judge) == (1, 0, 1)
    assert judge.count()["starts_of_unknown_rank"] == 0


def test_a_start_whose_rank_is_unknown_is_reported() -> None:
    """A released job that starts between two samples was in no order before: its submission is long past."""
    events = log(main(1.5, 3))._replace(submitted={"3": (9.0, 0.3, 3)})
    judge = SlurmOrderJudge(samples(ranks(1), ranks(1), ranks(1)), events)
    assert counted(judge) == (0, 0, 0)
    assert judge.count()["starts_of_unknown_rank"] == 1


def test_a_preemption_for_the_first_job_is_explained() -> None:
    queue = samples(*[ranks(2, 3)] * 6, ranks(3), ranks(3))
    events = log(main(5.5, 2), requeued=((5.0, "1"),))
    assert counted(SlurmOrderJudge(queue, events, [preempt(4.5, 1, 2)])) == (0, 0, 0)


def test_a_preemption_for_another_job_than_the_first_is_unexplained() -> None:
    queue = samples(*[ranks(2, 3)] * 20)
    judge = SlurmOrderJudge(queue, log(), [preempt(14.5, 1, 3)])
    assert list(judge.unexplained()) == ["job 2 waits before job 3, for which a job is preempted"]


def test_a_job_that_arrives_during_the_cycle_of_the_decision_explains_nothing_against_it() -> None:
    queue = samples(*[ranks(3)] * 9, *[ranks(2, 3)] * 9)
    assert counted(SlurmOrderJudge(queue, log(), [preempt(14.5, 1, 3)])) == (0, 0, 0)


def test_a_backfilled_job_on_released_gpus_is_unexplained() -> None:
    queue = samples(*[ranks(2, 3)] * 6, *[ranks(2)] * 6, ranks())
    events = log(backfill(5.5, 3), main(11.5, 2), requeued=((5.0, "1"),))
    judge = SlurmOrderJudge(queue, events, [preempt(4.5, 1, 2)])
    assert list(judge.unexplained()) == ["job 3 starts on GPUs that were released for job 2"]


def test_a_backfilled_job_is_explained_where_the_beneficiary_does_not_fit() -> None:
    """A run of 4 GPUs goes on, so that 4 of 8 are free."""
    queue = samples(*[ranks(2, 3)] * 9, *[ranks(2)] * 6, ranks())
    events = log(main(0.5, 1), main(0.6, 4), backfill(8.5, 3), main(14.5, 2), requeued=((5.0, "1"),))
    fits, fits_not = (
        SlurmOrderJudge(queue, events, [preempt(4.5, 1, 2)], {"1": 4, "2": gpus, "3": 1, "4": 4}, 8) for gpus in (4, 8)
    )
    assert len(list(fits.unexplained())) == 1
    assert not list(fits_not.unexplained())


def test_a_job_that_is_backfilled_before_the_release_is_explained() -> None:
    queue = samples(*[ranks(2, 3)] * 6, *[ranks(2)] * 6, ranks())
    events = log(backfill(5.5, 3), main(11.5, 2), requeued=((8.0, "1"),))
    assert counted(SlurmOrderJudge(queue, events, [preempt(4.5, 1, 2)])) == (1, 1, 0)


def test_a_job_that_ranks_before_the_beneficiary_may_take_the_gpus() -> None:
    """Job 4 arrives with a higher rank after the decision; what is backfilled then is backfilled beside job 4."""
    queue = samples(*[ranks(2, 3)] * 5, *[ranks(4, 2, 3)] * 9)
    vain = Decision(12.0, "1", "parked", "8 s after the decision; Slurm did not start job 2 on its GPUs")
    judge = SlurmOrderJudge(queue, log(backfill(7.5, 3), requeued=((5.0, "1"),)), [preempt(4.5, 1, 2), vain])
    assert not list(judge.unexplained())
    assert judge.count()["preemptions_in_vain"] == 1
