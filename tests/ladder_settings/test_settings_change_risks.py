"""What is dangerous about other settings: pure cases, each with the sentence that an operator reads."""

from __future__ import annotations

import pytest

from match_ratings_worker.ladder_settings.settings_change_risks import (
    LadderUsage,
    SettingDifference,
    differences,
    flat,
    risks,
)
from match_ratings_worker.rating import Backgammon, Fide, Glicko2, RatingSystem
from tests.support.clock import DAY

NOW = 1_790_000_000_000  # 2026-09-21
USED = LadderUsage(now=NOW, rated=12, waiting=3, held=0)

PLAIN = Backgammon(rules={"1.2.0": NOW - 400 * DAY})


def dated(days: float) -> Backgammon:
    """The plain rules and 1.3.1 from so many days from now on."""
    return Backgammon(rules={"1.2.0": NOW - 400 * DAY, "1.3.1": NOW + int(days * DAY)})


def test_a_date_in_the_future_is_safe() -> None:
    assert risks(PLAIN, dated(1), USED) == []
    assert risks(dated(1), dated(2), USED) == []  # moved, before it came into force
    assert risks(dated(2), PLAIN, USED) == []  # taken back, in time


@pytest.mark.parametrize(("minutes", "safe"), [(4.9, False), (5, False), (5.1, True)])
def test_a_date_that_a_servers_clock_may_have_reached_is_not_safe(minutes: float, safe: bool) -> None:
    found = risks(PLAIN, dated(minutes / 24 / 60), USED)
    assert (not found) == safe
    assert safe or "is less than 5 minutes ahead, as a clock may be: matches" in found[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            PLAIN,
            dated(-1),
            "since 2026-09-20 14:13:20Z were rated by rules 1.2.0 and would be rated by 1.3.1",
        ),
        (PLAIN, dated(0), "since 2026-09-21 14:13:20Z"),  # now is too late
        (dated(-2), dated(-1), "were rated by rules 1.3.1 and would be rated by 1.2.0"),
        (dated(-2), dated(3), "since 2026-09-19"),
        # Without dates 1.3.1 rates every game; the date is in the future, but what was before is not.
        (Backgammon(), Backgammon(rules={"1.3.1": NOW + DAY}), "at any time were rated by rules 1.3.1"),
    ],
)
def test_a_date_in_the_past_changes_the_rules_for_finished_games(
    old: Backgammon, new: Backgammon, words: str
) -> None:
    (danger,) = risks(old, new, USED)
    assert danger.startswith("rules: ") and words in danger


def test_a_setting_without_a_date_applies_to_games_that_have_finished() -> None:
    (danger,) = risks(Glicko2(), Glicko2(tau=0.5), USED)
    assert danger.startswith("tau: the change from 0.75 to 0.5 has no date")
    assert "3 messages wait" in danger


def test_what_changes_no_rating_is_safe() -> None:
    assert risks(Glicko2(), Glicko2(listed_rd=90, provisional_rd=120), USED) == []


def test_another_system_reads_the_ratings_differently() -> None:
    found = risks(Glicko2(), Backgammon(), USED)
    assert "12 changes were made by glicko2, and backgammon would go on from those ratings" in found[0]
    assert "rd, volatility" in found[0]
    assert len(found) == 2 and "3 messages wait" in found[1]


def test_games_that_are_held_would_be_lost_to_another_system() -> None:
    found = risks(Fide(), Backgammon(), LadderUsage(NOW, rated=0, waiting=0, held=7))
    assert len(found) == 1 and "7 players have games held" in found[0] and "close-period --early" in found[0]


def test_settings_that_cannot_be_read_are_dangerous_and_an_unused_ladder_is_not() -> None:
    assert len(risks(None, Backgammon(), USED)) == 1
    unused = LadderUsage(NOW, rated=0, waiting=0, held=0)
    assert risks(None, Backgammon(), unused) == risks(Fide(), Glicko2(), unused) == []


def test_field_by_field_with_dates_by_their_version() -> None:
    assert flat(PLAIN.model_dump(mode="json")) == {"start": 1500, "rules.1.2.0": NOW - 400 * DAY}
    adopted = PLAIN.model_dump(mode="json")
    assert differences("backgammon", adopted, dated(1)) == [SettingDifference("rules.1.3.1", None, NOW + DAY)]
    assert differences("backgammon", adopted, PLAIN) == []
    other: RatingSystem = Fide(k=20)
    found = differences("backgammon", adopted, other)
    assert found[0] == SettingDifference("system", "backgammon", "fide")
    assert (
        SettingDifference("k", None, 20) in found
        and SettingDifference("rules.1.2.0", NOW - 400 * DAY, None) in found
    )
