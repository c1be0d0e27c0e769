"""The limit on calls to slurmctld in slurm.conf."""

from __future__ import annotations

import pytest

from tiresias.slurm_plugin.cluster.site import RateLimit, rate_limit, settings_of

LIMITED = {"SlurmctldParameters": "enable_configless,rl_enable", "SlurmUser": "slurm(64030)"}


@pytest.mark.parametrize("uid", [0, 64030])
def test_root_and_slurm_user_have_no_limit(uid: int) -> None:
    assert rate_limit(LIMITED, uid) is None


def test_others_have_slurms_own_default() -> None:
    assert rate_limit(LIMITED, 1000) == RateLimit(30, 2.0)


def test_or_what_is_configured() -> None:
    words = "rl_enable,rl_bucket_size=100,rl_refill_rate=10,rl_refill_period=2"
    assert rate_limit({"SlurmctldParameters": words}, 1000) == RateLimit(100, 5.0)


@pytest.mark.parametrize("words", ["", "(null)", "rl_bucket_size=3"])
def test_without_rl_enable_there_is_none(words: str) -> None:
    assert rate_limit({"SlurmctldParameters": words, "SlurmUser": "slurm(64030)"}, 1000) is None


def test_a_program_that_slurm_numbers_is_found() -> None:
    reported = "EpilogMsgTime           = 2000 usec\nEpilogSlurmctld[0]      = /etc/tiresias/poke.sh\n"
    assert settings_of(reported) == {"EpilogMsgTime": "2000 usec", "EpilogSlurmctld": "/etc/tiresias/poke.sh"}
