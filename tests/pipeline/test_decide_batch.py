"""`decide`: what becomes of a batch, as a pure function of what was read. No Redis, no clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from match_ratings import MatchFinished, RatingUpdated, Reason, TournamentFinished
from match_ratings_worker.pipeline.decide_batch import decide
from match_ratings_worker.pipeline.message_batch import (
    BatchSnapshot,
    Commit,
    InboxEntry,
    LadderRules,
    PlayerState,
)
from match_ratings_worker.pipeline.validate_message import digest
from match_ratings_worker.rating import Backgammon, Game, Outcome, RatingSystem, State
from match_ratings_worker.storage.receipts import Receipt
from tests.support.clock import DAY
from tests.support.model import HORIZON, match, tournament

#: 2026-11-29T12:00:00Z.
NOW = 1_795_953_600_000


class Table:
    """A batch and what was read for it: every player's line holds what the batch put there, and no more."""

    def __init__(self, system: RatingSystem | None = None, states: dict[str, State] | None = None) -> None:
        self.system = system or Backgammon()
        self.states = states or {}
        self.entries: list[InboxEntry] = []
        self.lines: dict[str, list[str]] = {}
        self.windows: dict[str, list[int]] = {}
        self.receipts: dict[str, str] = {}
        self.faults: dict[str, str] = {}
        self.failed: dict[str, Exception] = {}

    def add(self, message: dict[str, Any], entry_id: str = "") -> str:
        """Puts a message at the end of the batch and of its players' lines; returns its stream id."""
        entry_id = entry_id or f"{len(self.entries) + 1}-0"
        read: MatchFinished | TournamentFinished
        if "podium" in message:
            read = TournamentFinished.model_validate({"finished_at": NOW, **message})
            players, receipt = read.podium, f"prizes:{read.tournament_id}"
        else:
            read = MatchFinished.model_validate({"finished_at": NOW, **message})
            players, receipt = read.players, f"receipt:{read.match_id}"
        content = digest(read, self.system)
        self.entries.append(
            InboxEntry(entry_id, 1, players=players, receipt=receipt, message=read, digest=content)
        )
        for name in players:
            self.lines.setdefault(name, []).append(entry_id)
        waits = self.receipts.get(receipt, "?")
        self.receipts[receipt] = f"{waits} {entry_id}" if waits.startswith("?") else waits
        return entry_id

    def decide(self) -> list[Commit]:
        """The commits for all that was added."""
        players = {
            name: PlayerState(
                self.states.get(name, self.system.initial()),
                sequence=0,
                line=line[: sum(name in entry.players for entry in self.entries)],
                fault=self.faults.get(name),
            )
            for name, line in self.lines.items()
        }
        windows: dict[tuple[str, str], int | str] = {}
        for entry in self.entries:
            assert entry.message is not None
            at = entry.message.finished_at
            for name in entry.players:
                stored = self.windows.get(name, [])
                windows[entry.id, name] = sum(at - 7 * DAY <= time < at for time in stored)
        receipts = {key: Receipt.parse(text) for key, text in self.receipts.items()}
        snapshot = BatchSnapshot(NOW, players, windows, receipts)
        found = decide(self.entries, snapshot, LadderRules("backgammon", self.system, HORIZON), self.failed)
        return list(found)


def events(commits: Iterable[Commit]) -> list[RatingUpdated]:
    return [RatingUpdated.model_validate_json(event) for commit in commits for event in commit.events]


def actions(commits: Iterable[Commit]) -> list[tuple[str, str]]:
    return [(commit.entry.id, commit.action) for commit in commits]


def changes(commits: Iterable[Commit], player: str) -> list[tuple[float, float, int]]:
    """The player's (before, after, sequence) in order."""
    return [
        (part.before, part.after, part.sequence)
        for event in events(commits)
        for part in event.players
        if part.player == player
    ]


# Lines


def test_a_match_whose_turn_it_is_is_rated() -> None:
    table = Table()
    table.add(match())
    commits = table.decide()
    assert actions(commits) == [("1-0", "rated")]
    [event] = events(commits)
    assert (event.match_id, event.rated_at, event.late) == ("m-1", NOW, False)
    assert changes(commits, "ada") == [(1500, 1516, 1)]
    assert changes(commits, "bob") == [(1500, 1484, 1)]
    assert [change.state for change in commits[0].changes] == [State(1516, 1, NOW), State(1484, 1, NOW)]


def test_states_are_carried_forward_within_the_batch() -> None:
    # Given one player's matches against three others, all in one batch
    table = Table()
    for number, other in enumerate(("bob", "cyd", "bob")):
        table.add(match(f"m-{number}", ("ada", other)))
    # Then each begins where the one before has ended
    commits = table.decide()
    [first, second, third] = changes(commits, "ada")
    assert first[1] == second[0] and second[1] == third[0]
    assert [sequence for _, _, sequence in (first, second, third)] == [1, 2, 3]
    assert [(commit.changes[0].read, commit.changes[0].written) for commit in commits] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]
    assert changes(commits, "bob")[1][0] == changes(commits, "bob")[0][1]


def test_what_waits_for_another_worker_holds_up_its_players_and_nobody_else() -> None:
    # Given a line on which another worker's match stands before ours
    table = Table()
    table.lines["bob"] = ["0-1"]
    table.add(match("m-1", ("ada", "bob")))
    table.add(match("m-2", ("ada", "cyd")))
    table.add(match("m-3", ("cyd", "dan")))
    table.add(match("m-4", ("eve", "fay")))
    # Then ours waits, and so does all that is behind it on any line; others go
    assert actions(table.decide()) == [("4-0", "rated")]


def test_the_head_of_the_line_is_ours_but_the_next_one_is_not() -> None:
    # Given ada's line: ours, another worker's, ours
    table = Table()
    table.add(match("m-1", ("ada", "bob")), "1-0")
    table.lines["ada"].append("2-0")
    table.add(match("m-3", ("ada", "cyd")), "3-0")
    # Then only the first of ours goes
    assert actions(table.decide()) == [("1-0", "rated")]


def test_another_workers_match_between_two_of_ours_on_one_line_only() -> None:
    # Given ours (ada, bob), theirs (bob, cyd), ours (ada, bob): free on ada's line, not on bob's
    table = Table()
    table.add(match("m-1", ("ada", "bob")), "1-0")
    table.lines["bob"].append("2-0")
    table.add(match("m-3", ("ada", "bob")), "3-0")
    table.add(match("m-4", ("ada", "dan")), "4-0")
    # Then the last one must not overtake on ada's line
    assert actions(table.decide()) == [("1-0", "rated")]


def test_an_entry_that_is_on_no_line_any_more_never_goes() -> None:
    # Given a message that another worker has taken over and settled
    table = Table()
    table.add(match("m-1"))
    table.lines["ada"] = []
    assert table.decide() == []


def test_the_line_is_compared_as_it_was_read_not_as_the_batch_has_it() -> None:
    # Given our two messages, of which somebody settled the first while we read
    table = Table()
    table.add(match("m-1", ("ada", "bob")))
    table.add(match("m-2", ("ada", "cyd")))
    table.lines["ada"], table.lines["bob"] = ["2-0"], []
    assert actions(table.decide()) == [("2-0", "rated")]


# Windows


def k_of(commits: Sequence[Commit], player: str) -> list[tuple[float | None, int | None]]:
    return [
        (part.k, part.recent_games)
        for event in events(commits)
        for part in event.players
        if part.player == player
    ]


@pytest.mark.parametrize(("games", "k"), [(0, 32), (48, 32), (49, 32), (50, 16), (51, 16)])
def test_k_halves_at_50_stored_games(games: int, k: int) -> None:
    table = Table()
    table.windows["ada"] = [NOW - DAY] * games
    table.add(match())
    commits = table.decide()
    assert k_of(commits, "ada") == [(k, games)] and k_of(commits, "bob") == [(32, 0)]
    assert changes(commits, "ada")[0][1] == 1500 + k // 2


def test_the_batchs_own_games_count() -> None:
    # Given 49 stored games; when three games come in one batch, each a little later
    table = Table()
    table.windows["ada"] = [NOW - DAY] * 49
    for number in range(3):
        table.add(match(f"m-{number}", finished_at=NOW - 10 + number))
    # Then the window passes 50 between the first and the second
    assert k_of(table.decide(), "ada") == [(32, 49), (16, 50), (16, 51)]


def test_the_window_is_half_open_also_within_a_batch() -> None:
    # Given games of one batch that finished 7 days, and 7 days and a millisecond, before the last
    table = Table()
    table.add(match("m-1", finished_at=NOW - 7 * DAY - 1))
    table.add(match("m-2", finished_at=NOW - 7 * DAY))
    table.add(match("m-3", finished_at=NOW))
    assert k_of(table.decide(), "ada") == [(32, 0), (32, 1), (32, 1)]


def test_games_of_the_same_millisecond_do_not_count_for_each_other() -> None:
    table = Table()
    for number in range(3):
        table.add(match(f"m-{number}", finished_at=NOW))
    assert k_of(table.decide(), "ada") == [(32, 0)] * 3


def test_a_late_match_is_counted_as_of_its_day_and_marked() -> None:
    # Given a match, one that finished before it, one of other players
    table = Table()
    table.add(match("m-1", ("ada", "bob"), finished_at=NOW))
    table.add(match("m-2", ("cyd", "ada"), finished_at=NOW - DAY))
    table.add(match("m-3", ("ada", "dan"), finished_at=NOW))
    table.add(match("m-4", ("eve", "fay"), finished_at=NOW - DAY))
    # Then the late one does not see the later game, and the game after it sees the late one only
    commits = table.decide()
    assert k_of(commits, "ada") == [(32, 0), (32, 0), (32, 1)]
    assert [event.late for event in events(commits)] == [False, True, False, False]
    # And the latest game stays the latest
    of_ada = [commit.changes[commit.entry.players.index("ada")].state.last_game for commit in commits[:3]]
    assert of_ada == [NOW, NOW, NOW]


def test_late_is_judged_by_what_is_stored_too() -> None:
    table = Table(states={"bob": State(1600, 3, NOW)})
    table.add(match("m-1", finished_at=NOW - 1))
    table.add(match("m-2", ("bob", "cyd"), finished_at=NOW))
    assert [event.late for event in events(table.decide())] == [True, False]


# The same id again


def test_a_duplicate_and_a_conflict_inside_a_batch() -> None:
    # Given a match, the same again in other words, and the same id with another cube
    table = Table()
    table.add(match("m-1"))
    table.add(match("m-1", ("bob", "ada"), winner="ada", note="duplicate"))
    table.add(match("m-1", cube=2))
    table.add(match("m-2"))
    # Then the first is rated, the second acknowledged, the third is a dead letter, the next goes on
    commits = table.decide()
    assert actions(commits) == [("1-0", "rated"), ("2-0", "duplicate"), ("3-0", "dead"), ("4-0", "rated")]
    assert commits[2].problem is not None and commits[2].problem.reason is Reason.CONFLICT
    assert '"m-1"' in commits[2].problem.detail
    assert changes(commits, "ada")[1][0] == changes(commits, "ada")[0][1]


def test_a_conflict_between_different_players_is_decided_in_the_order_of_the_stream() -> None:
    table = Table()
    table.add(match("m-1", ("ada", "bob")))
    table.add(match("m-1", ("cyd", "dan")))
    assert actions(table.decide()) == [("1-0", "rated"), ("2-0", "dead")]


def test_an_id_that_another_workers_message_has_first_waits() -> None:
    # Given a message whose id an earlier one, in another worker's hands, has reserved
    table = Table()
    table.receipts["receipt:m-1"] = "? 0-7"
    table.add(match("m-1", ("ada", "bob")))
    table.add(match("m-2", ("bob", "cyd")))
    table.add(match("m-3", ("dan", "eve")))
    # Then it waits, with those behind it: neither rated nor called a conflict
    assert actions(table.decide()) == [("3-0", "rated")]


@pytest.mark.parametrize("ledger_id", ["1700000000000-0", "-"])
def test_a_receipt_decides(ledger_id: str) -> None:
    # Given an id that has had its effect
    table = Table()
    same = digest(MatchFinished.model_validate(match("m-1", finished_at=NOW)), table.system)
    table.receipts["receipt:m-1"] = f"{ledger_id} {same}"
    table.add(match("m-1"))
    table.add(match("m-1", winner="bob"))
    table.add(match("m-2"))
    commits = table.decide()
    assert actions(commits) == [("1-0", "duplicate"), ("2-0", "dead"), ("3-0", "rated")]
    assert changes(commits, "ada") == [(1500, 1516, 1)]


def test_a_match_and_a_tournament_of_the_same_id_have_nothing_to_do_with_each_other() -> None:
    table = Table()
    table.add(match("x"))
    table.add(tournament("x"))
    assert actions(table.decide()) == [("1-0", "rated"), ("2-0", "prize")]


# Set aside, prizes, draws


@pytest.mark.parametrize("mode", ["boosted", "casual", "tournament"])
def test_boosted_and_tournament_matches_are_set_aside(mode: str) -> None:
    # Given a match that does not count, then one that does
    table = Table()
    table.windows["ada"] = [NOW - DAY] * 49
    table.add(match("m-1", mode=mode, finished_at=NOW - 5))
    table.add(match("m-2", finished_at=NOW))
    # Then only the second changes a rating, and the first does not count in its window
    commits = table.decide()
    assert actions(commits) == [("1-0", "not-rated"), ("2-0", "rated")]
    assert k_of(commits, "ada") == [(32, 49)] and changes(commits, "ada") == [(1500, 1516, 1)]


def test_a_match_set_aside_has_had_its_effect() -> None:
    table = Table()
    table.add(match("m-1", mode="boosted"))
    table.add(match("m-1", mode="casual"))
    table.add(match("m-1", mode="ranked"))
    assert actions(table.decide()) == [("1-0", "not-rated"), ("2-0", "duplicate"), ("3-0", "dead")]


def test_prizes_change_the_rating_and_nothing_else() -> None:
    # Given a game, a tournament, a game
    table = Table()
    table.add(match("m-1", finished_at=NOW - 5))
    table.add(tournament("t-1", ("bob", "ada", "cyd")))
    table.add(match("m-2", finished_at=NOW))
    # Then the prizes are paid on top, are no game, and do not count in the window
    commits = table.decide()
    assert changes(commits, "bob")[1] == (1484, 1534, 2)
    assert changes(commits, "ada")[1] == (1516, 1541, 2)
    assert changes(commits, "cyd") == [(1500, 1515, 1)]
    assert k_of(commits, "ada") == [(32, 0), (None, None), (32, 1)]
    prize = events(commits)[1]
    assert (prize.cause, prize.tournament_id, prize.match_id, prize.cube) == ("prize", "t-1", None, None)
    assert [part.score for part in prize.players] == [None] * 3
    assert [change.state for change in commits[1].changes] == [
        State(1534, 1, NOW - 5),
        State(1541, 1, NOW - 5),
        State(1515, 0, 0),
    ]
    assert [commit.game for commit in commits] == [("m-1", NOW - 5), ("", ""), ("m-2", NOW)]


def test_prizes_are_paid_once_and_only_for_public_tournaments() -> None:
    table = Table()
    table.add(tournament("t-1"))
    table.add(tournament("t-1"))
    table.add(tournament("t-1", prizes=[60, 25]))
    table.add(tournament("t-2", public=False))
    table.add(tournament("t-2", public=True))
    table.add(tournament("t-3", prizes=[-10, 0]))
    commits = table.decide()
    assert [action for _, action in actions(commits)] == [
        "prize",
        "duplicate",
        "dead",
        "not-rated",
        "dead",
        "prize",
    ]
    assert changes(commits, "ada") == [(1500, 1550, 1), (1550, 1540, 2)]
    assert changes(commits, "bob") == [(1500, 1525, 1), (1525, 1525, 2)]


def test_a_draw_is_invalid_and_leaves_its_id_free() -> None:
    # Given a draw, which backgammon does not have, and the same match put right
    table = Table()
    table.add(match("m-1", winner=None))
    commits = table.decide()
    assert actions(commits) == [("1-0", "dead")]
    assert commits[0].problem is not None and commits[0].problem.reason is Reason.INVALID
    assert commits[0].problem.detail.startswith("winner: null")
    assert not table.failed


def test_a_draw_does_not_hold_up_what_is_behind_it() -> None:
    table = Table()
    table.add(match("m-1", winner=None))
    table.add(match("m-2"))
    assert actions(table.decide()) == [("1-0", "dead"), ("2-0", "rated")]


# What goes wrong


class Fragile(Backgammon):
    """Raises for a cube of 64, and after both states are known for one of 32."""

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        if game.cube == 64:
            raise ZeroDivisionError("a bug in the system")
        outcome = super().rate(first, second, game)
        if game.cube == 32:
            return outcome._replace(figures={"bad": object()})  # type: ignore[dict-item]
        return outcome


@pytest.mark.parametrize("cube", [64, 32])
def test_a_system_that_raises_costs_only_its_own_message(cube: int) -> None:
    # Given a batch with a match that makes the system raise
    table = Table(Fragile())
    table.add(match("m-1", ("ada", "bob")))
    table.add(match("m-2", ("ada", "cyd"), cube=cube))
    table.add(match("m-3", ("bob", "eve")))
    table.add(match("m-4", ("cyd", "dan")))
    # Then it keeps its place, what is behind it waits, and the others are rated as if it were not there
    commits = table.decide()
    assert actions(commits) == [("1-0", "rated"), ("3-0", "rated")]
    assert list(table.failed) == ["2-0"]
    assert changes(commits, "bob")[1][0] == changes(commits, "bob")[0][1]


def test_a_state_that_cannot_be_read_costs_only_its_players_messages() -> None:
    table = Table()
    table.faults["bob"] = "WRONGTYPE"
    table.add(match("m-1", ("ada", "bob")))
    table.add(match("m-2", ("cyd", "dan")))
    assert actions(table.decide()) == [("2-0", "rated")]
    assert list(table.failed) == ["1-0"] and "bob" in str(table.failed["1-0"])


# The event


def test_the_event_has_every_figure() -> None:
    table = Table(states={"ada": State(1700, 80, NOW - DAY), "bob": State(1400, 3, NOW - DAY)})
    table.windows["ada"] = [NOW - DAY] * 50
    table.add(match("m-1", winner="bob", cube=8, length=7, finished_at=NOW - 1))
    [commit] = table.decide()
    event = json.loads(commit.events[-1])
    ada, bob = event.pop("players")
    assert (event["rules"], event["system"], event["cube"], event["coefficient"]) == (
        "1.3.1",
        "backgammon",
        8,
        1.5,
    )
    assert (event["finished_at"], event["rated_at"], event["version"]) == (NOW - 1, NOW, 1)
    chance = 1 / (1 + 10 ** (300 / 1200))
    assert bob["expected"] == pytest.approx(chance) and ada["expected"] == pytest.approx(1 - chance)
    assert (ada["k"], bob["k"], ada["recent_games"], bob["recent_games"]) == (16, 32, 50, 0)
    assert (ada["score"], bob["score"]) == (0, 1)
    assert bob["change"] == round(32 * (1 - chance) * 1.5) and ada["change"] == -round(
        16 * (1 - chance) * 1.5
    )
    assert bob["after"] == bob["before"] + bob["change"] == 1400 + bob["change"]


def test_the_receipt_outlives_the_horizon_of_the_match() -> None:
    # A match sent again is either too late or has its receipt still.
    for finished_at in (NOW - HORIZON, NOW, NOW + 300_000):
        table = Table()
        table.add(match(finished_at=finished_at))
        table.add(tournament(finished_at=finished_at))
        table.add(match("m-2", mode="boosted", finished_at=finished_at))
        for commit in table.decide():
            assert NOW + commit.ttl > max(finished_at, NOW) + HORIZON
