"""Each schedule gives the learning rates of its reference."""

from __future__ import annotations

import pytest

from slipway.containers.training.schedules import Schedule


def test_the_rate_rises_in_a_line_and_falls_to_zero() -> None:
    schedule = Schedule(peak=1.0, steps=100, warmup_share=0.2, decay_power=0.5)
    rates = [schedule.rate(step) for step in range(101)]
    assert rates[0] > 0
    assert rates[20] == max(rates) == 1.0
    assert rates[10] == pytest.approx(11 / 21)
    assert rates[60] == pytest.approx(0.5**0.5)
    assert rates[100] == 0
    assert rates[:21] == sorted(rates[:21])
    assert rates[20:] == sorted(rates[20:], reverse=True)


@pytest.mark.parametrize("decay", ["habana", "nvidia"])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_rate_without_rise_or_without_fall_is_no_error(share: float, decay: str) -> None:
    schedule = Schedule(peak=1.0, steps=3, warmup_share=share, decay_power=1.0, decay=decay)
    assert all(0 < schedule.rate(step) <= 1 for step in range(3))


def test_nvidia_s_rate_drops_where_the_warm_up_ends() -> None:
    """LAMB's phase 1: (1 - progress) ** 0.5 of the whole training, so 0.846 of the peak after the warm-up."""
    schedule = Schedule(peak=6e-3, steps=7038, warmup_share=0.2843, decay_power=0.5, decay="nvidia")
    assert schedule.rate(2000) == pytest.approx(6e-3 * (1 - 2000 / 7038) ** 0.5)
    assert schedule.rate(2001) / 6e-3 == pytest.approx(0.846, abs=1e-3)


def test_habana_s_rate_stays_at_its_peak_for_a_while_and_falls_from_there() -> None:
    """The 1.5B script: warm-up 0.05, constant 0.25, then linear to zero."""
    schedule = Schedule(peak=1.5e-3, steps=1000, warmup_share=0.05, constant_share=0.25, decay_power=1.0)
    assert {schedule.rate(step) for step in range(50, 300)} == {1.5e-3}
    assert schedule.rate(650) == pytest.approx(1.5e-3 / 2)
    assert schedule.rate(1000) == 0
