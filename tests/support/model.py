"""The rules once more, as simply as they can be said: one message after another, everything in memory.

`Model` is fed the raw messages of one ladder in the order of its stream and ends with what the worker must
end with. It shares no code with the worker except the formula, which has tests of its own. `stored` reads
the same picture back from a server, so that one `==` compares the two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Backgammon, Game, State
from tests.support.clock import DAY

HORIZON = 14 * DAY
WINDOW = 7 * DAY
SKEW = 300_000

Problem = Callable[[dict[str, Any]], str | None]

#: One rating change as a player sees it: the event without its time of rating, in the order of the ledger.
Event = dict[str, Any]


@dataclass
class Picture:
    """All of a ladder that other programs can see, and what must be left of the worker's own keys."""

    ratings: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    games: dict[str, int] = field(default_factory=dict)
    last_game: dict[str, int] = field(default_factory=dict)
    windows: dict[str, dict[str, int]] = field(default_factory=dict)
    #: player -> events, in order.
    events: dict[str, list[Event]] = field(default_factory=dict)
    #: (source id, reason, raw), sorted.
    dead: list[tuple[str, str, bytes]] = field(default_factory=list)
    #: "match x", "prize x" or "void x" -> whether it changed ratings.
    receipts: dict[str, bool] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    #: What is not done: inbox entries, pending entries, lines.
    unfinished: list[str] = field(default_factory=list)


class Model:
    """One ladder of the backgammon system; `now` is the time in ms at which every message arrives."""

    def __init__(
        self,
        ladder: str,
        *,
        now: int,
        system: Backgammon | None = None,
        windows: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.ladder, self.now = ladder, now
        self.system = system or Backgammon()
        self.picture = Picture(windows={name: dict(games) for name, games in (windows or {}).items()})
        self._kinds: dict[str, tuple[Callable[[dict[str, Any], int], str], Problem]] = {
            "match-finished": (self._match, _match_problem),
            "tournament-finished": (self._tournament, _tournament_problem),
            "match-voided": (self._void, _void_problem),
        }
        self._contents: dict[str, object] = {}
        self._rated: dict[str, Event] = {}
        self._counts: Counter[str] = Counter()

    def feed_all(self, raws: Iterable[tuple[str, bytes | None]]) -> Picture:
        """Feeds (stream id, raw message) pairs and returns the picture."""
        for source_id, raw in raws:
            self.feed(raw, source_id)
        return self.picture

    def feed(self, raw: bytes | None, source_id: str = "") -> str:
        """Takes the next message; its outcome: rated, prize, voided, aside, duplicate or dead:<reason>."""
        outcome = self._outcome(raw)
        if outcome.startswith("dead:"):
            kept = raw if raw is not None else b'["other","field"]'
            self.picture.dead.append((source_id, outcome.removeprefix("dead:"), kept))
            self.picture.dead.sort()
        self._counts[outcome] += 1
        self.picture.counts = dict(self._counts)
        return outcome

    def _outcome(self, raw: bytes | None) -> str:
        data = _parsed(raw)
        if data is None:
            return "dead:malformed"
        if type(data.get("version", 1)) is int and data.get("version", 1) > 1:
            return "dead:unsupported-version"
        if data.get("type", "match-finished") not in self._kinds:
            return "dead:invalid"
        act, problem_of = self._kinds[data.get("type", "match-finished")]
        if problem := problem_of(data):
            return f"dead:{problem}"
        if data["ladder"] != self.ladder:
            return "dead:wrong-ladder"
        finished_at = _ms(data["finished_at"])
        assert finished_at is not None
        if finished_at > self.now + SKEW:
            return "dead:clock-skew"
        if finished_at < self.now - HORIZON:
            return "dead:too-late"
        return act(data, finished_at)

    def _had_before(self, effect: str, content: object) -> str | None:
        if effect not in self._contents:
            return None
        return "duplicate" if self._contents[effect] == content else "dead:conflict"

    def _match(self, data: dict[str, Any], at: int) -> str:
        names, winner, cube = data["players"], data["winner"], data.get("cube", 1)
        mode = {"casual": "boosted"}.get(data.get("mode", "ranked"), data.get("mode", "ranked"))
        effect, content = f"match {data['match_id']}", (mode, sorted(names), winner, at, cube)
        if before := self._had_before(effect, content):
            return before
        if mode != "ranked":
            self._contents[effect], self.picture.receipts[effect] = content, False
            return "not-rated"
        if winner is None:
            return "dead:invalid"  # backgammon has no draws
        self._contents[effect], self.picture.receipts[effect] = content, True
        recent = [
            sum(at - WINDOW <= time < at for time in self.picture.windows.get(name, {}).values())
            for name in names
        ]
        scores = (1.0, 0.0) if winner == names[0] else (0.0, 1.0)
        states = [State(self._rating(name)) for name in names]
        game = Game(at, scores, (recent[0], recent[1]), cube, data.get("length"))
        outcome = self.system.rate(states[0], states[1], game)
        late = any(at < self.picture.last_game.get(name, 0) for name in names)
        parts = [
            self._change(name, side.change)
            | {"score": score, "expected": side.expected, "k": side.k, "recent_games": count}
            for name, side, score, count in zip(names, outcome.sides, scores, recent, strict=True)
        ]
        for name in names:
            self.picture.games[name] = self.picture.games.get(name, 0) + 1
            self.picture.last_game[name] = max(self.picture.last_game.get(name, 0), at)
            self.picture.windows.setdefault(name, {})[data["match_id"]] = at
        self._rated[data["match_id"]] = {"rules": outcome.rules, "finished_at": at, "players": parts}
        self._publish(
            parts,
            cause="match",
            match_id=data["match_id"],
            cube=cube,
            coefficient=outcome.coefficient,
            rules=outcome.rules,
            finished_at=at,
            late=late,
        )
        return "rated"

    def _tournament(self, data: dict[str, Any], at: int) -> str:
        podium = data["podium"]
        prizes = data.get("prizes", [50, 25, 15][: len(podium)])
        effect, content = f"prize {data['tournament_id']}", (data["public"], podium, prizes, at)
        if before := self._had_before(effect, content):
            return before
        self._contents[effect], self.picture.receipts[effect] = content, data["public"]
        if not data["public"]:
            return "not-rated"
        parts = [self._change(name, points) for name, points in zip(podium, prizes, strict=True)]
        for name in podium:
            self.picture.games.setdefault(name, 0)
            self.picture.last_game.setdefault(name, 0)
        rules = self.system.rules_at(at)
        tournament_id = data["tournament_id"]
        self._publish(parts, cause="prize", tournament_id=tournament_id, rules=rules, finished_at=at)
        return "prize"

    def _void(self, data: dict[str, Any], at: int) -> str:
        effect, names = f"void {data['match_id']}", data["players"]
        if before := self._had_before(effect, sorted(names)):
            return before
        rated = self._rated.get(data["match_id"])
        if rated is None or {part["player"] for part in rated["players"]} != set(names):
            return "dead:invalid"
        self._contents[effect], self.picture.receipts[effect] = sorted(names), True
        changes = {part["player"]: part["change"] for part in rated["players"]}
        parts = [self._change(name, -changes[name]) for name in names]
        for name in names:
            self.picture.games[name] -= 1
            del self.picture.windows[name][data["match_id"]]
            if not self.picture.windows[name]:
                del self.picture.windows[name]
        self._publish(
            parts,
            cause="void",
            match_id=data["match_id"],
            why=data["why"],
            rules=rated["rules"],
            finished_at=rated["finished_at"],
        )
        return "void"

    def _rating(self, name: str) -> int:
        return self.picture.ratings.get(name, self.system.start)

    def _change(self, name: str, change: Any) -> Event:
        before = self._rating(name)
        self.picture.ratings[name] = before + change
        self.picture.sequences[name] = sequence = self.picture.sequences.get(name, 0) + 1
        return {
            "player": name,
            "before": before,
            "change": change,
            "after": before + change,
            "sequence": sequence,
        }

    def _publish(self, parts: list[Event], **fields: Any) -> None:
        event = seen({**fields, "ladder": self.ladder, "system": "backgammon", "rated_at": self.now}, parts)
        for part in parts:
            self.picture.events.setdefault(part["player"], []).append(event)


def seen(fields: Event, parts: list[Event]) -> Event:
    """An event as `Picture` holds it."""
    event = RatingUpdated.model_validate({**fields, "players": tuple(parts)})
    return event.model_dump(mode="json", exclude={"rated_at": True, "figures": True, "id": True})


def _parsed(raw: bytes | None) -> dict[str, Any] | None:
    if raw is None or len(raw) > 16_384:
        return None
    try:
        data = json.loads(raw.decode("utf-8"))
        json.dumps(data, ensure_ascii=False).encode("utf-8")  # a lone surrogate is no text
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _is_id(value: object) -> bool:
    return (
        isinstance(value, str)
        and 1 <= len(value) <= 128
        and not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in value)
    )


def _is_whole(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _ms(value: object) -> int | None:
    if type(value) is int:
        return value if 10**11 <= value < 10**14 else None
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    if time.utcoffset() is None:
        return None
    return int(time.timestamp()) * 1000 + time.microsecond // 1000


def _match_problem(data: dict[str, Any]) -> str | None:
    players = data.get("players")
    right = (
        data.get("type", "match-finished") == "match-finished"
        and _is_whole(data.get("version", 1), 1, 1)
        and _is_id(data.get("match_id"))
        and isinstance(data.get("ladder"), str)
        and data.get("mode", "ranked") in ("ranked", "boosted", "casual", "tournament")
        and isinstance(players, list)
        and len(players) == 2
        and all(_is_id(name) for name in players)
        and "winner" in data
        and data.get("cube", 1) in (1, 2, 4, 8, 16, 32, 64)
        and _is_whole(data.get("cube", 1), 1, 64)
        and (data.get("length") is None or _is_whole(data["length"], 1, 1000))
        and _ms(data.get("finished_at")) is not None
    )
    if not right or players is None:
        return "invalid"
    if players[0] == players[1]:
        return "self-play"
    return None if data["winner"] is None or data["winner"] in players else "invalid"


def _tournament_problem(data: dict[str, Any]) -> str | None:
    podium = data.get("podium")
    right = (
        data.get("type") == "tournament-finished"
        and _is_whole(data.get("version", 1), 1, 1)
        and _is_id(data.get("tournament_id"))
        and isinstance(data.get("ladder"), str)
        and isinstance(data.get("public"), bool)
        and isinstance(podium, list)
        and 1 <= len(podium) <= 16
        and all(_is_id(name) for name in podium)
        and len(set(podium)) == len(podium)
        and len(data.get("prizes", [50, 25, 15][: len(podium)])) == len(podium)
        and all(_is_whole(points, -1000, 1000) for points in data.get("prizes", []))
        and _ms(data.get("finished_at")) is not None
    )
    return None if right else "invalid"


def _void_problem(data: dict[str, Any]) -> str | None:
    players = data.get("players")
    right = (
        _is_whole(data.get("version", 1), 1, 1)
        and _is_id(data.get("match_id"))
        and isinstance(data.get("ladder"), str)
        and isinstance(players, list)
        and len(players) == 2
        and all(_is_id(name) for name in players)
        and isinstance(data.get("why"), str)
        and 1 <= len(data["why"]) <= 500
        and _ms(data.get("finished_at")) is not None
    )
    if not right or players is None:
        return "invalid"
    return "self-play" if players[0] == players[1] else None


_RECEIPTS = {"receipt": "match", "prize-receipt": "prize", "void-receipt": "void"}


def stored(client: Any, ladder: str) -> Picture:
    """The picture of a ladder on a server; checks receipts and leaderboard. `client` is a synchronous one."""
    picture = Picture()
    scope = f"ratings:{{{ladder}}}:"
    ledger: dict[str, str] = {}
    for entry_id, fields in client.xrange(scope + "rating-updated"):
        event = RatingUpdated.model_validate_json(fields[b"message"])
        effect_id = event.match_id if event.match_id is not None else event.tournament_id
        ledger[entry_id.decode()] = f"{event.cause.value} {effect_id}"
        shown = event.model_dump(mode="json", exclude={"rated_at": True, "figures": True, "id": True})
        for part in event.players:
            picture.events.setdefault(part.player, []).append(shown)
    for _, fields in client.xrange(scope + "dead-letters"):
        letter = (fields[b"source_id"].decode(), fields[b"reason"].decode(), fields[b"message"])
        picture.dead.append(letter)
    picture.dead.sort()
    for key in client.scan_iter(match=scope + "*", count=5000):
        kind, _, name = key.decode("utf-8", "backslashreplace").removeprefix(scope).partition(":")
        if kind == "player":
            state = {field.decode(): int(value) for field, value in client.hgetall(key).items()}
            picture.ratings[name], picture.sequences[name] = state["rating"], state["sequence"]
            picture.games[name], picture.last_game[name] = state["games"], state["last_game"]
        elif kind == "games":
            window = client.zrange(key, 0, -1, withscores=True)
            picture.windows[name] = {match_id.decode(): int(time) for match_id, time in window}
        elif effect_kind := _RECEIPTS.get(kind):
            effect = f"{effect_kind} {name}"
            ledger_id = client.get(key).decode().split(" ")[0]
            if ledger_id == "?":
                picture.unfinished.append(f"receipt {name}")
                continue
            assert ledger_id == "-" or ledger.get(ledger_id) == effect, (
                f"the receipt of {effect} names another"
            )
            picture.receipts[effect] = ledger_id != "-"
        elif kind == "line":
            picture.unfinished.append(f"line {name}")
    picture.counts = {name.decode(): int(count) for name, count in client.hgetall(scope + "counts").items()}
    listed = client.zrange(scope + "leaderboard", 0, -1, withscores=True)
    assert {name.decode(): score for name, score in listed} == picture.ratings, "the leaderboard differs"
    picture.unfinished += [
        f"inbox {entry_id.decode()}" for entry_id, _ in client.xrange(scope + "match-finished")
    ]
    groups = client.xinfo_groups(scope + "match-finished") if client.exists(scope + "match-finished") else []
    picture.unfinished += ["pending"] * sum(group["pending"] for group in groups)
    return picture


def match(match_id: str = "m-1", players: tuple[str, str] = ("ada", "bob"), **fields: Any) -> dict[str, Any]:
    """A match message as a server might write it; the first player won unless `winner` says otherwise."""
    return {
        "match_id": match_id,
        "ladder": "backgammon",
        "players": list(players),
        "winner": players[0],
        **fields,
    }


def tournament(
    tournament_id: str = "t-1", podium: tuple[str, ...] = ("ada", "bob"), **fields: Any
) -> dict[str, Any]:
    """A tournament message as a server might write it."""
    return {
        "type": "tournament-finished",
        "tournament_id": tournament_id,
        "ladder": "backgammon",
        "public": True,
        "podium": list(podium),
        **fields,
    }


def void(match_id: str = "m-1", players: tuple[str, str] = ("ada", "bob"), **fields: Any) -> dict[str, Any]:
    """A message that takes a match back, as a server might write it."""
    return {
        "type": "match-voided",
        "match_id": match_id,
        "ladder": "backgammon",
        "players": list(players),
        "why": "a test",
        **fields,
    }


def raw(message: dict[str, Any]) -> bytes:
    """The message as JSON."""
    return json.dumps(message).encode()
