"""What the demo's match server sends, and what is to become of each message. Pure: the same seed gives the
same messages, but for their times.

Six days of play on a backgammon site: most matches are ranked, a few players play far more than the others,
a server re-sends what it is not sure of, and now and then a message is wrong, in every way that there is.
"""

from __future__ import annotations

import json
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from functools import partial
from typing import Any

from match_ratings import FIELD, Ending, MatchFinished, Mode, TournamentFinished, WinType
from match_ratings.messages import CUBES

__all__ = ["DAMAGED", "LADDER", "Delivery", "Door", "Outcome", "deliveries"]

LADDER = "backgammon"
#: A player whose stored state the demo damages, so that rating this player's match keeps failing.
DAMAGED = "Mr. Glitch"

_HOUR = 3_600_000
_DAY = 24 * _HOUR
#: The days of play, in ms: less than the window of 7, so that busy players pass 50 games in it.
_SPAN = 6 * _DAY
#: In this first part of the matches, one wrong message of each kind is sent; more come at random.
_EACH_WRONG_WITHIN = 0.6

_FIRST_NAMES = """
Ayşe Bob Chiara Deniz Elif Farid Grace Hüseyin Ingrid João Kemal Leyla Mina Nikos Olga Pedro Qadir Renée
Şahin Tomás Ulrike Vera Wei Xenia Yusuf Zoë Ahmet Beatriz Cem Dora Emre Fatma Giorgos Hana İpek Jonas Katya
Levent Maya Nuri Ömer Paulina Raj Selin Tarık Uğur Viktor Wanda Yasemin Zeynep Άννα Борис Σοφία Дарья 李明
さくら 민준 Åsa Björn Çağla Élodie Gül Iñaki Jürgen Kübra Łukasz Mümtaz Núria Özge Piet Rıza Søren Tülay Žofia
"""
_NAMES = _FIRST_NAMES.split()


class Door(Enum):
    """The way in that a message takes."""

    PUBLISH = auto()  # match_ratings.publish
    JOB = auto()  # match_ratings.enqueue
    STREAM = auto()  # XADD by hand, as a server in any other language does it
    PICKLED = auto()  # an arq job as arq's default serializer writes it


#: What becomes of a message, as the workers count it: rated, prize, not-rated, duplicate, dead:<reason>.
Outcome = str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message on its way."""

    door: Door
    becomes: Outcome
    #: How many matches there are up to this one.
    number: int
    message: MatchFinished | TournamentFinished | None = None
    #: STREAM: the entry's fields.
    fields: dict[str, bytes] = field(default_factory=dict)


def deliveries(matches: int, seed: int, now: int) -> Iterator[Delivery]:
    """All messages of a demo, in order; `now` is when the last match finishes, in ms since 1970."""
    return _MatchServer(matches, seed, now).deliveries()


#: What makes a good message invalid, and what it then is; from the match and the present time in ms.
_CHANGES: list[tuple[Outcome, Callable[[dict[str, Any], int], dict[str, Any]]]] = [
    ("dead:invalid", lambda match, now: {"cube": 3}),
    ("dead:invalid", lambda match, now: {"winner": "Somebody Else"}),
    ("dead:invalid", lambda match, now: {"winner": None}),  # a draw, which backgammon does not have
    ("dead:invalid", lambda match, now: {"finished_at": now // 1000}),  # seconds
    ("dead:invalid", lambda match, now: {"finished_at": "2026-10-05T12:00:00"}),  # no offset
    ("dead:unsupported-version", lambda match, now: {"version": 2}),
    ("dead:wrong-ladder", lambda match, now: {"ladder": "chess"}),
    ("dead:self-play", lambda match, now: {"players": [match["winner"]] * 2}),
    ("dead:clock-skew", lambda match, now: {"finished_at": now + 2 * _HOUR}),
    ("dead:too-late", lambda match, now: {"finished_at": now - 20 * _DAY}),
]

#: What makes a good message malformed: from its bytes to the fields of a stream entry.
_FORMS: list[Callable[[bytes], dict[str, bytes]]] = [
    lambda text: {FIELD: text[: len(text) // 2]},  # cut off
    lambda text: {FIELD: text.replace(b"ranked", b"r\xe4nked")},  # Latin-1
    lambda text: {FIELD: text[:-1] + b',"moves":"' + b"6" * 17_000 + b'"}'},  # too long
    lambda text: {"body": text},  # in another field
]


class _MatchServer:
    def __init__(self, matches: int, seed: int, now: int) -> None:
        self.random = random.Random(seed)
        self.matches, self.now = matches, now
        count = min(max(matches // 25, 12), 20_000)
        self.players = [_name(index) for index in range(count)]
        self.random.shuffle(self.players)
        #: A few play half of all matches, and are good at it.
        self.busy = self.players[: max(3, count // 25)]
        self.skills = {player: self.random.gauss(0, 500) for player in self.players}
        self.skills |= {player: abs(self.skills[player]) for player in self.busy}
        self.shares = [1 / place for place in range(1, len(self.busy) + 1)]
        #: Lately sent over the stream, to be sent again or contradicted.
        self.recent: deque[Delivery] = deque(maxlen=100)
        self.number = self.wrong_ones = self.tournaments = 0

    def deliveries(self) -> Iterator[Delivery]:
        wrong: list[Callable[[], Delivery]] = [self._conflict, self._pickled]
        wrong += [partial(self._changed, *change) for change in _CHANGES]
        wrong += [partial(self._malformed, form) for form in _FORMS]
        extra = self._plan([self._fails, *wrong])
        chance = self.random.random
        for index in range(self.matches):
            self.number = index + 1
            delivery = self._match(index)
            yield delivery
            if delivery.door is not Door.JOB:
                self.recent.append(delivery)
            if index == 0 or chance() < 0.02:
                yield self._again()
            for make in extra.get(index, ()):
                yield make()
            if chance() < 0.003:
                yield self.random.choice(wrong)()

    def _plan(self, wrong: list[Callable[[], Delivery]]) -> dict[int, list[Callable[[], Delivery]]]:
        """What follows a match, by its index: each kind of wrong message once, and tournaments' ends."""
        plan: dict[int, list[Callable[[], Delivery]]] = {}
        for index, make in enumerate(wrong):
            plan.setdefault(int(self.matches * _EACH_WRONG_WITHIN * index / len(wrong)), []).append(make)
        ends = [True] * max(1, self.matches // 1000) + [False] * max(1, self.matches // 2000)
        self.random.shuffle(ends)
        for index, public in enumerate(ends, 1):
            place = int(self.matches * index / (len(ends) + 1))
            plan.setdefault(place, []).append(partial(self._tournament_end, public=public))
        return plan

    def _match(self, index: int) -> Delivery:
        choose, chance = self.random.choices, self.random.random
        first, second = self._pair()
        first_wins = 1 / (1 + math.pow(10, (self.skills[second] - self.skills[first]) / 1200))
        mode = choose(list(Mode), (80, 10, 10))[0] if index else Mode.RANKED
        match = MatchFinished(
            match_id=f"m-{self.number:06}",
            ladder=LADDER,
            mode=mode,
            players=(first, second),
            winner=first if chance() < first_wins else second,
            # The first matches show each value once.
            cube=CUBES[index] if index < 7 else choose(CUBES, (45, 28, 14, 7, 3, 2, 1))[0],
            length=choose((None, 1, 3, 5, 7), (60, 10, 10, 10, 10))[0],
            win_type=list(WinType)[index] if index < 3 else choose(list(WinType), (70, 25, 5))[0],
            ending=list(Ending)[index] if index < 5 else choose(list(Ending), (70, 18, 4, 4, 4))[0],
            finished_at=self._finished_at(),
        )
        becomes = "rated" if mode is Mode.RANKED else "not-rated"
        if mode is Mode.BOOSTED and chance() < 0.5:  # a server that still uses the old name
            return self._raw({**_plain(match), "mode": "casual"}, becomes)
        door = Door.JOB if index and chance() < 0.03 else Door.PUBLISH
        return Delivery(door, becomes, self.number, match)

    def _pair(self) -> tuple[str, str]:
        choice = self.random.choice
        busy = self.random.random() < 0.5
        first = self.random.choices(self.busy, self.shares)[0] if busy else choice(self.players)
        second = first
        while second == first:
            second = choice(self.players)
        return (first, second) if self.random.random() < 0.5 else (second, first)

    def _finished_at(self) -> int:
        """When the present match finished, in ms: one after another up to now, but for a few late ones."""
        at = self.now - _SPAN + _SPAN * self.number // self.matches
        return at - self.random.randint(_HOUR, 36 * _HOUR) if self.random.random() < 0.02 else at

    def _tournament_end(self, *, public: bool) -> Delivery:
        self.tournaments += 1
        entrants = self.random.sample(self.players, min(len(self.players), 16))
        end = TournamentFinished(
            tournament_id=f"{'cup' if public else 'club-night'}-{self.tournaments:03}",
            ladder=LADDER,
            public=public,
            podium=tuple(sorted(entrants, key=lambda player: -self.skills[player])[:3]),
            finished_at=self._finished_at(),
        )
        return Delivery(Door.PUBLISH, "prize" if public else "not-rated", self.number, end)

    def _sent(self) -> dict[str, Any]:
        """The content of a match that was sent lately."""
        sent = self.random.choice(self.recent)
        found: dict[str, Any] = _plain(sent.message) if sent.message else json.loads(sent.fields[FIELD])
        return found

    def _again(self) -> Delivery:
        """A match re-sent in other words: other key order, spacing and time format, and an extra field."""
        data = dict(reversed(self._sent().items()))
        at = datetime.fromtimestamp(data["finished_at"] / 1000, UTC)
        data |= {"finished_at": at.isoformat(timespec="milliseconds"), "retry": 1}
        return self._raw(data, "duplicate", indent=2)

    def _conflict(self) -> Delivery:
        """A match sent again with the other player as its winner."""
        data = self._sent()
        first, second = data["players"]
        return self._raw({**data, "winner": second if data["winner"] == first else first}, "dead:conflict")

    def _good(self, first: str, second: str) -> dict[str, Any]:
        """A match that is all right, to be spoilt."""
        self.wrong_ones += 1
        match = MatchFinished(
            match_id=f"x-{self.wrong_ones:06}",
            ladder=LADDER,
            players=(first, second),
            winner=first,
            finished_at=self._finished_at(),
        )
        return _plain(match)

    def _fails(self) -> Delivery:
        return self._raw(self._good(DAMAGED, "Mrs. Glitch"), "dead:failed")

    def _changed(self, becomes: Outcome, change: Callable[[dict[str, Any], int], dict[str, Any]]) -> Delivery:
        match = self._good(*self._pair())
        return self._raw({**match, **change(match, self.now)}, becomes)

    def _malformed(self, form: Callable[[bytes], dict[str, bytes]]) -> Delivery:
        text = json.dumps(self._good(*self._pair()), ensure_ascii=False).encode()
        return Delivery(Door.STREAM, "dead:malformed", self.number, fields=form(text))

    def _pickled(self) -> Delivery:
        match = MatchFinished.model_validate(self._good(*self._pair()))
        return Delivery(Door.PICKLED, "dead:malformed", self.number, match)

    def _raw(self, data: dict[str, Any], becomes: Outcome, indent: int | None = None) -> Delivery:
        text = json.dumps(data, ensure_ascii=False, indent=indent)
        return Delivery(Door.STREAM, becomes, self.number, fields={FIELD: text.encode()})


def _plain(message: MatchFinished | TournamentFinished) -> dict[str, Any]:
    return message.model_dump(mode="json")


def _name(index: int) -> str:
    """Ayşe, ..., Žofia, Ayşe B., ..., Žofia Z., Ayşe 26, ..."""
    turn, place = divmod(index, len(_NAMES))
    last = "" if not turn else f" {chr(ord('A') + turn)}." if turn < 26 else f" {turn}"
    return _NAMES[place] + last
