"""What becomes of a raw message before it is rated: a message, or a reason and a sentence for a person."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from match_ratings import MatchFinished, Reason, TournamentFinished
from match_ratings.messages import Message
from match_ratings.stream_names import MAX_MESSAGE_BYTES
from match_ratings_worker.pipeline.validate_message import Problem, digest, read_message, too_large
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.safe_text import quote
from tests.support.clock import DAY
from tests.support.model import HORIZON, SKEW, match, raw, tournament, void

#: 2026-11-29T12:00:00Z.
NOW = 1_795_953_600_000


def read(message: bytes | None, kind: str = "match", **options: Any) -> Message | Problem:
    return read_message(
        message, **{"ladder": "backgammon", "kind": kind, "now": NOW, "horizon": HORIZON, **options}
    )


def problem(message: dict[str, Any] | bytes | None, kind: str = "match", **options: Any) -> Problem:
    found = read(raw(message) if isinstance(message, dict) else message, kind, **options)
    assert isinstance(found, Problem), f"it was accepted: {found}"
    return found


# What is right


def test_a_right_match_and_a_right_tournament() -> None:
    found = read(raw(match(finished_at=NOW, cube=4)))
    assert isinstance(found, MatchFinished) and found.cube == 4
    found = read(raw(tournament(finished_at=NOW)), "tournament")
    assert isinstance(found, TournamentFinished) and found.prizes == (50, 25)


@pytest.mark.parametrize("finished_at", [NOW, NOW + SKEW, NOW - HORIZON])
def test_the_limits_of_time_themselves_are_right(finished_at: int) -> None:
    assert isinstance(read(raw(match(finished_at=finished_at))), MatchFinished)


def test_a_message_of_exactly_the_largest_size_is_right() -> None:
    text = raw(match(finished_at=NOW, note=""))
    text = text[:-2] + b"x" * (MAX_MESSAGE_BYTES - len(text)) + text[-2:]
    assert len(text) == MAX_MESSAGE_BYTES
    assert isinstance(read(text), MatchFinished)


# Each reason, and what its sentence names

DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "not JSON"),
        (b"\x00", "not JSON"),
        (b"{", "not JSON"),
        (b"'match'", "not JSON"),
        (raw(match(finished_at=NOW)) + b"}", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"match_id":"\xc3("}', "not JSON"),
        (DEEP, "not JSON"),
        (b"[]", "[]"),
        (b"null", "null"),
        (b'"match"', "match"),
        (b"17", "17"),
        (b"NaN", "NaN"),
    ],
)
def test_malformed(message: bytes, words: str) -> None:
    found = problem(message, "")
    assert found.reason is Reason.MALFORMED
    assert found.detail.startswith("message: ") and words in found.detail


@pytest.mark.parametrize(
    "message",
    [
        b"\xef\xbb\xbf" + raw(match(finished_at=NOW)),
        raw(match(finished_at=NOW)).decode().encode("utf-16"),
        raw(match(finished_at=NOW)).decode().encode("utf-32"),
        raw(match(finished_at=NOW, note="\ud800")),
        raw(match(finished_at=NOW))[:-1] + b', "note": ' + b"[" * 500 + b"]" * 500 + b"}",
    ],
    ids=["byte order mark", "UTF-16", "UTF-32", "lone surrogate", "deep"],
)
def test_what_only_looks_like_json_in_utf_8_is_malformed_too(message: bytes) -> None:
    found = problem(message, "")
    assert found.reason is Reason.MALFORMED
    assert found.detail.startswith("message: ")


def test_a_missing_message_and_one_too_large_are_malformed() -> None:
    assert problem(None, "") == (Reason.MALFORMED, "message: the stream entry has no field of this name")
    found = too_large(1_000_000)  # bytes that the claim did not fetch
    assert found.reason is Reason.MALFORMED and "1000000" in found.detail and "16384" in found.detail
    found = problem(b" " * (MAX_MESSAGE_BYTES + 1), "")
    assert found.reason is Reason.MALFORMED and "16385" in found.detail and "16384" in found.detail


def test_a_message_that_the_claim_could_not_read_is_malformed() -> None:
    assert problem(match(finished_at=NOW), "").reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "extra", [{}, {"cube": 3}, {"players": ["ada", "ada"]}, {"finished_at": "tomorrow"}, {"type": "duel"}]
)
@pytest.mark.parametrize("kind", ["match", ""])
def test_a_newer_version_is_unsupported_whatever_else_it_says(kind: str, extra: dict[str, Any]) -> None:
    found = problem(match(finished_at=NOW, version=2) | extra, kind)
    assert found.reason is Reason.UNSUPPORTED_VERSION
    assert found.detail.startswith("version: 2 ") and "1" in found.detail


#: message, field, value as the sentence quotes it, some word of what is allowed.
INVALID: list[tuple[dict[str, Any], str, str, str]] = [
    (match(finished_at=NOW, cube=3), "cube", "3", "1, 2, 4, 8, 16, 32, 64"),
    (match(finished_at=NOW, cube="2"), "cube", '"2"', ""),
    (match(finished_at=NOW, cube=2.0), "cube", "2.0", "whole"),
    (match(finished_at=NOW, length=0), "length", "0", "1"),
    (match(finished_at=NOW, mode="blitz"), "mode", '"blitz"', "ranked"),
    (match(finished_at=NOW, ending="bored"), "ending", '"bored"', "timed-out"),
    (match(finished_at=NOW, win_type=3), "win_type", "3", "gammon"),
    (match(finished_at=NOW, type="duel"), "type", '"duel"', "match-finished"),
    (match("", finished_at=NOW), "match_id", '""', "1-128 characters"),
    (match("a\nb", finished_at=NOW), "match_id", r'"a\nb"', "control characters"),
    (match("m", ("ada", "x" * 129), finished_at=NOW), "players.1", '"xxx', "1-128 characters"),
    (match(finished_at=NOW) | {"players": ["ada"]}, "players.1", "", "required"),
    (match(finished_at=NOW) | {"players": "ada"}, "players", '"ada"', "array"),
    (match(finished_at=NOW, winner="cyd"), "winner", '"cyd"', "one of the players"),
    (match(finished_at=NOW) | {"ladder": "Chess!"}, "ladder", '"Chess!"', "lower-case letters"),
    (match(finished_at=NOW // 1000), "finished_at", str(NOW // 1000), "milliseconds"),
    (match(finished_at="2026-11-29T12:00:00"), "finished_at", '"2026-11-29T12:00:00"', "offset"),
    (match(), "finished_at", "", "required"),
    (tournament(finished_at=NOW) | {"podium": ["ada", "ada"]}, "podium", '["ada", "ada"]', "different"),
    (tournament(finished_at=NOW) | {"podium": []}, "podium", "[]", "at least 1"),
    (tournament(finished_at=NOW, prizes=[1]), "prizes", "[1]", "podium"),
    (tournament(finished_at=NOW, prizes=[1, 5000]), "prizes.1", "5000", "1000"),
    (tournament(finished_at=NOW, public="yes"), "public", '"yes"', "boolean"),
    (tournament("", finished_at=NOW), "tournament_id", '""', "1-128 characters"),
    (void(finished_at=NOW, why=""), "why", '""', "1"),
    (void(finished_at=NOW, why=7), "why", "7", ""),
    (void("", finished_at=NOW), "match_id", '""', "1-128 characters"),
    (void(finished_at=NOW) | {"players": ["ada"]}, "players.1", "", "required"),
]


@pytest.mark.parametrize(("message", "field", "value", "allowed"), INVALID)
@pytest.mark.parametrize("understood", [True, False], ids=["queued", "unread"])
def test_invalid(message: dict[str, Any], field: str, value: str, allowed: str, understood: bool) -> None:
    # The claim's own reading is coarse: it may have queued the message or not.
    kind = (
        ("tournament" if "podium" in message else "void" if "why" in message else "match")
        if understood
        else ""
    )
    found = problem(message, kind)
    assert found.reason is Reason.INVALID
    assert found.detail.startswith(f"{field}: ") or f"; {field}: " in found.detail
    assert value in found.detail
    assert allowed in found.detail


@pytest.mark.parametrize("kind", ["match", ""])
def test_self_play(kind: str) -> None:
    found = problem(match("m", ("ada", "ada"), finished_at=NOW), kind)
    assert found.reason is Reason.SELF_PLAY
    assert found.detail.startswith("players: ") and '["ada", "ada"]' in found.detail


def test_wrong_ladder() -> None:
    for message, kind in ((match(finished_at=NOW), "match"), (tournament(finished_at=NOW), "tournament")):
        found = problem(message | {"ladder": "chess"}, kind)
        assert found.reason is Reason.WRONG_LADDER
        assert (
            found.detail.startswith("ladder: ")
            and '"chess"' in found.detail
            and '"backgammon"' in found.detail
        )


@pytest.mark.parametrize(
    ("finished_at", "reason"), [(NOW + SKEW + 1, "clock-skew"), (NOW - HORIZON - 1, "too-late")]
)
def test_clock_skew_and_too_late_begin_one_millisecond_past_the_limit(finished_at: int, reason: str) -> None:
    for message, kind in (
        (match(finished_at=finished_at), "match"),
        (tournament(finished_at=finished_at), "tournament"),
    ):
        found = problem(message, kind)
        assert found.reason.value == reason
        assert found.detail.startswith("finished_at: ") and str(finished_at) in found.detail
        assert ("300 s" if reason == "clock-skew" else "14 days") in found.detail


@given(st.text())
def test_a_quoted_value_is_plain_text_on_one_line(value: str) -> None:
    quoted = quote(value)
    assert quoted.isprintable() and len(quoted) <= 80


# Hostile bytes

SOME_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted(
    {*match(finished_at=0), *tournament(finished_at=0), "version", "cube", "mode", "length", "prizes", "type"}
)


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A message with some fields replaced by anything, and perhaps some bytes as well."""
    message = draw(st.sampled_from([match(finished_at=NOW), tournament(finished_at=NOW)]))
    message = {**message, **draw(st.dictionaries(st.sampled_from(FIELDS), SOME_JSON, max_size=3))}
    text = json.dumps(message, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.binary(max_size=4)) + text[at + draw(st.integers(0, 3)) :]
    return text


@settings(max_examples=500)
@given(
    st.binary() | SOME_JSON.map(lambda value: json.dumps(value).encode()) | nearly_right(),
    st.sampled_from(["match", "tournament", ""]),
)
def test_any_bytes_give_a_message_or_a_problem(message: bytes, kind: str) -> None:
    found = read(message, kind)
    if isinstance(found, Problem):
        assert isinstance(found.reason, Reason)
        assert found.detail and found.detail.isprintable() and len(found.detail) < 1000
        found.detail.encode()
    else:
        # What is accepted can be rated: its digest can be taken, and it is of this ladder and time.
        assert len(digest(found, Backgammon())) == 16
        assert found.ladder == "backgammon" and NOW - HORIZON <= found.finished_at <= NOW + SKEW
        assert not isinstance(found, MatchFinished) or found.cube in (1, 2, 4, 8, 16, 32, 64)


# Digests


def digest_of(message: dict[str, Any] | bytes) -> str:
    text = raw(message) if isinstance(message, dict) else message
    kind = "tournament" if b"tournament_id" in text else "void" if b"match-voided" in text else "match"
    found = read(text, kind, now=NOW + DAY)
    assert not isinstance(found, Problem), found
    return digest(found, Backgammon())


BASE = match(finished_at=NOW, cube=4, mode="boosted", length=7)


@pytest.mark.parametrize(
    "again",
    [
        json.dumps(BASE, indent=4).encode(),
        raw(dict(reversed(BASE.items()))),
        raw({**BASE, "seen_by": ["eve"], "hops": 3}),
        raw({**BASE, "finished_at": "2026-11-29T12:00:00Z"}),
        raw({**BASE, "finished_at": "2026-11-29T15:30:00.000999+03:30"}),
        raw({**BASE, "mode": "casual"}),
        raw({**BASE, "players": ["bob", "ada"]}),
        raw({**BASE, "version": 1, "type": "match-finished"}),
        raw({**BASE, "win_type": "gammon", "ending": "resigned", "length": None}),
        raw(BASE).replace(b'"ada"', b'"\\u0061da"'),
        raw({"cube": 64, "winner": "bob"})[:-1] + b", " + raw(BASE)[1:],  # the last of two counts
    ],
)
def test_the_same_content_has_the_same_digest(again: bytes) -> None:
    assert digest_of(again) == digest_of(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"winner": "bob"},
        {"winner": None},
        {"players": ["ada", "cyd"]},
        {"players": ["ada", "Bob"]},
        {"cube": 8},
        {"mode": "ranked"},
        {"mode": "tournament"},
        {"finished_at": NOW + 1},
        {"finished_at": "2026-11-29T12:00:00+03:30"},
    ],
)
def test_other_content_has_another_digest(change: dict[str, Any]) -> None:
    assert digest_of({**BASE, **change}) != digest_of(BASE)


def test_digests_of_tournaments() -> None:
    base = tournament(finished_at=NOW)
    assert digest_of({**base, "prizes": [50, 25], "name": "Open"}) == digest_of(base)
    others = ({"public": False}, {"prizes": [50, 24]}, {"podium": ["bob", "ada"]}, {"finished_at": NOW + 1})
    assert len({digest_of(base), *(digest_of({**base, **other}) for other in others)}) == 5


def test_digests_of_voids() -> None:
    base = void(finished_at=NOW)
    for same in ({"why": "another"}, {"players": ["bob", "ada"]}, {"finished_at": NOW + 1}):
        assert digest_of({**base, **same}) == digest_of(base)
    assert digest_of({**base, "players": ["ada", "cyd"]}) != digest_of(base)


def test_ids_cannot_be_shifted_between_fields() -> None:
    # Were the parts merely joined, two different matches could look the same.
    one = match("m", ("a", 'b", "c'), finished_at=NOW)
    other = match("m", ('a", "b', "c"), finished_at=NOW)
    assert digest_of({**one, "winner": None}) != digest_of({**other, "winner": None})
