"""Rating again from records: the same rules as the worker's, and what is compared of two trials."""

from __future__ import annotations

import pytest

from match_ratings import Cause, MatchFinished, MatchVoided, PlayerUpdate, RatingUpdated, TournamentFinished
from match_ratings_worker.evaluation import (
    BackgammonVariant,
    HistoryRecord,
    InitialState,
    LedgerReader,
    Match,
    PeriodEnd,
    Prize,
    Simulation,
    Void,
    of_message,
    run_trial,
)
from match_ratings_worker.evaluation.backtest_trial import most_active
from match_ratings_worker.rating import SYSTEMS, Backgammon, Fibs, Fide, Game, Glicko2, GlickoPeriods, State
from tests.support.clock import DAY
from tests.support.synthetic_matches import START, matches


def game(
    number: int, players: tuple[str, str] = ("ada", "bob"), at: int = START, score: float = 1.0
) -> Match:
    return Match(f"m{number}", players, score, at)


# Simulation.


@pytest.mark.parametrize(("later", "counted"), [(7 * DAY, 50), (7 * DAY + 1, 49), (0, 0)])
def test_the_window_is_half_open_and_anchored_at_the_game(later: int, counted: int) -> None:
    # Given a first game, and 49 more in the next millisecond
    replay = Simulation(Backgammon())
    for number in range(50):
        replay.feed(game(number, ("ada", f"x{number}"), START + bool(number)))
    # When the next game finishes up to 7 days after the first, that one counts; later it does not.
    before = replay.state("ada")
    replay.feed(game(50, ("ada", "bob"), START + later))
    alone = Backgammon().rate(before, State(1500), Game(START, (1, 0), (counted, 0)))
    assert alone.sides[0].k == (16 if counted == 50 else 32)
    assert replay.state("ada").rating == alone.sides[0].rating
    assert replay.state("bob").rating == alone.sides[1].rating


def test_recent_games_that_the_ledger_counted_are_taken_from_it() -> None:
    replay = Simulation(Backgammon())
    replay.feed(game(1)._replace(recent_games=(60, 10)))
    assert (replay.state("ada").rating, replay.state("bob").rating) == (1508, 1484)


def test_a_match_that_is_sent_again_has_one_effect() -> None:
    replay = Simulation(Backgammon())
    assert replay.feed(game(1)) is not None
    assert replay.feed(game(1)) is None
    assert replay.state("ada") == State(1516, 1, START)


def test_what_a_system_does_not_rate_is_skipped() -> None:
    replay = Simulation(Fibs())
    assert replay.feed(game(1)) is None  # unlimited
    assert replay.feed(game(2, score=0.5)._replace(length=3)) is None  # a draw
    assert replay.skipped == 2 and not replay.states
    assert replay.feed(game(3)._replace(length=3)) is not None


def test_prizes_and_voids() -> None:
    replay = Simulation(Backgammon(), voided=["m1"])
    for record in (game(1), Prize((("ada", 50),)), game(2, at=START + 1), Void("m1", ("ada", "bob"))):
        replay.feed(record)
    alone = Simulation(Backgammon())
    alone.feed(InitialState("ada", 1566, "backgammon", {}))
    alone.feed(InitialState("bob", 1484, "backgammon", {}))
    alone.feed(game(2, at=START + 1))
    assert replay.state("ada").rating == alone.state("ada").rating - 16
    assert replay.state("bob").rating == alone.state("bob").rating + 16
    assert replay.state("ada").games == 1
    replay.feed(Void("m9", ("ada", "bob")))  # of a match that is not known


@pytest.mark.parametrize("system", [Fide(), GlickoPeriods()])
def test_a_period_ends_before_a_game_of_a_later_one(system: Fide | GlickoPeriods) -> None:
    replay = Simulation(system)
    for number in range(3):
        replay.feed(game(number))
    assert replay.state("ada").rating == system.initial().rating
    replay.feed(game(9, ("ada", "cid"), START + 40 * DAY))
    assert replay.state("ada").rating > system.initial().rating
    assert replay.state("bob").rating == system.initial().rating
    closes_at = system.closes_at(replay.state("bob"))
    assert closes_at is not None
    replay.feed(PeriodEnd("bob", closes_at - 1))  # not his period's end
    assert replay.state("bob").rating == system.initial().rating
    replay.feed(PeriodEnd("bob", closes_at))
    assert replay.state("bob").rating < system.initial().rating


def test_a_start_brings_the_systems_own_fields_to_the_same_system_alone() -> None:
    start = InitialState("ada", 1725.5, "glicko2", {"rd": 60.0, "volatility": 0.05}, 30, START)
    replay = Simulation(Glicko2())
    replay.feed(start)
    assert replay.state("ada") == State(1725.5, 30, START, (60.0, 0.05))
    other = Simulation(Backgammon())
    other.feed(start)
    assert other.state("ada") == State(1726, 30, START, ())


# Records.


def test_messages_as_records() -> None:
    about = {"match_id": "m", "ladder": "x", "players": ("ada", "bob"), "finished_at": START}
    read = MatchFinished.model_validate
    assert of_message(read({**about, "winner": "bob", "cube": 4, "length": 7})) == Match(
        "m", ("ada", "bob"), 0.0, START, 4, 7
    )
    assert of_message(read({**about, "winner": None})) == Match("m", ("ada", "bob"), 0.5, START)
    assert of_message(read({**about, "winner": "ada", "mode": "boosted"})) is None
    tournament = {"tournament_id": "t", "ladder": "x", "podium": ("ada", "bob"), "finished_at": START}
    public = TournamentFinished.model_validate({**tournament, "public": True})
    assert of_message(public) == Prize((("ada", 50), ("bob", 25)))
    assert of_message(public.model_copy(update={"public": False})) is None
    assert of_message(MatchVoided.model_validate({**about, "why": "w"})) == Void("m", ("ada", "bob"))


def event(cause: Cause, *parts: PlayerUpdate, **other: object) -> RatingUpdated:
    about = {"ladder": "x", "system": "glicko2", "rules": "1", "finished_at": START, "rated_at": START}
    return RatingUpdated.model_validate({**about, "cause": cause, "players": parts, **other})


def part(player: str, sequence: int, **other: object) -> PlayerUpdate:
    figures = {"before": 1500, "change": 10, "after": 1510}
    return PlayerUpdate.model_validate({**figures, "player": player, "sequence": sequence, **other})


def test_a_ledger_that_begins_in_the_middle_gives_each_player_a_start() -> None:
    reader = LedgerReader()
    own = {"rd_before": 60.0, "volatility_before": 0.05, "last_game": START - 5}
    first = event(
        Cause.MATCH,
        part("ada", 7, score=1, recent_games=3, figures=own),
        part("bob", 1, score=0),
        match_id="m",
    )
    found: list[HistoryRecord] = [*reader.read(first), *reader.read(first)]
    start = InitialState("ada", 1500, "glicko2", {"rd": 60.0, "volatility": 0.05}, 0, START - 5)
    assert found == [start, game(0)._replace(match_id="m"), game(0)._replace(match_id="m")]
    assert reader.partial_histories == 1


def test_other_events_as_records() -> None:
    read = LedgerReader().read
    assert list(read(event(Cause.PRIZE, part("ada", 1)))) == [Prize((("ada", 10),))]
    assert list(read(event(Cause.PERIOD, part("ada", 2)))) == [PeriodEnd("ada", START)]
    brought = part("cid", 1, figures={"rd_after": 80.0, "games": 12})
    assert list(read(event(Cause.IMPORT, brought))) == [
        InitialState("cid", 1510, "glicko2", {"rd": 80.0}, 12)
    ]
    voided = event(Cause.VOID, part("ada", 3), part("cid", 2), match_id="m")
    assert list(read(voided)) == [Void("m", ("ada", "cid"))]


# Trials.


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_tried(name: str) -> None:
    records = matches(300, divisor=800, players=10)
    trial = run_trial(records, SYSTEMS[name](), watched=most_active(records, 2))
    assert len(trial.predictions) == 300 and trial.skipped == 0
    assert sum(trial.games.values()) == 600
    quality, spread = trial.quality(), trial.spread()
    assert quality is not None and quality.matches == 300
    assert spread is not None and spread.low <= spread.median <= spread.high


def test_a_fitting_system_predicts_better_than_two_that_do_not() -> None:
    # With a small divisor ratings jump about, with a huge one they never get apart.
    records = matches(12_000, divisor=400, players=40, spread=200)
    losses = {}
    for divisor in (30, 1200, 40_000):
        quality = run_trial(records, BackgammonVariant(divisor=divisor)).quality(min_games=100)
        assert quality is not None
        losses[divisor] = quality.log_loss
    assert losses[1200] < losses[30] and losses[1200] < losses[40_000]


def test_a_larger_divisor_is_a_smaller_k_once_ratings_have_adapted() -> None:
    records = matches(5_000, divisor=1200, players=20)
    one, two = (
        run_trial(records, BackgammonVariant(divisor=size * 1000, k=size * 8, heavy_k=0)) for size in (40, 80)
    )
    for first, second in zip(one.predictions, two.predictions, strict=True):
        assert first is not None and second is not None
        assert first.expected == pytest.approx(second.expected, abs=0.001)


def test_a_variant_with_the_published_figures_is_the_published_system() -> None:
    records = matches(2_000, divisor=1200, players=20)
    assert run_trial(records, BackgammonVariant()).ratings == run_trial(records, Backgammon()).ratings


def test_two_trials_are_compared_over_the_matches_that_both_predict() -> None:
    records: list[HistoryRecord] = [game(1)._replace(length=3), game(2), game(3)._replace(length=5)]
    fibs, backgammon = run_trial(records, Fibs()), run_trial(records, Backgammon())
    for one, other in ((fibs, backgammon), (backgammon, fibs)):
        quality = one.quality(other)
        assert quality is not None and quality.matches == 2
    assert fibs.quality(backgammon, min_games=2) is None
    assert backgammon.quality(min_games=2) is not None


def test_the_swing_of_the_heaviest_players() -> None:
    records: list[HistoryRecord] = [game(number, at=START + number) for number in range(3)]
    records += [game(9, ("ada", "cid"), START + 8 * DAY)]
    assert most_active(records, 2) == ("ada", "bob")
    assert most_active(records, 9) == ("ada", "bob", "cid")
    trial = run_trial(records, Backgammon(), watched=["ada"])
    assert trial.swing is not None
    assert (trial.swing.players, trial.swing.weeks) == (1, 2)
    # 1500 -> 1516 -> 1531 -> 1547 in the first week, +15 against a new player in the second.
    assert (trial.swing.largest, trial.swing.mean) == (47, (47 + 15) / 2)
    assert run_trial(records, Backgammon()).swing is None


def test_the_unrated_have_no_place_in_the_spread() -> None:
    records = [game(number, ("ada", f"x{number}")) for number in range(3)]
    trial = run_trial(records, Fide(start=0))
    assert trial.spread() is None and trial.quality() is None
    system = Fide(start=0)
    outcome = system.rate(system.initial(), system.initial(), Game(START, (1, 0)))
    assert outcome.sides[0].expected == 0


def test_progress_is_told_for_every_match() -> None:
    told: list[int] = []
    run_trial(matches(2_500, divisor=800), Backgammon(), progress=told.append)
    assert told == [1000, 1000, 500]
