"""Every figure of the rules, through the command line."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.support.processes import Ended, command
from tests.support.published_figures import VECTORS

Row = dict[str, Any]


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def done(*arguments: str) -> Ended:
    found = command(*arguments, "--json")
    assert found.returncode == 0, found.stderr
    return found


def previews(*arguments: str) -> list[Row]:
    return done("preview", *arguments).json_lines


def changes(*arguments: str) -> dict[str, tuple[float, float]]:
    """Result -> both players' changes, for one opponent and one cube or length."""
    return {row["result"]: (row["first"]["change"], row["second"]["change"]) for row in previews(*arguments)}


def explained(result: str, *arguments: str) -> Row:
    """The event of a match that never happened."""
    found: Row = done("preview", "--explain", result, *arguments).json["event"]
    return found


def period(*arguments: str) -> Row:
    found: Row = done("period", *arguments).json
    return found


def settings(system: str) -> dict[str, Any]:
    return {name: item["default"] for name, item in done("systems", system).json["settings"].items()}


# 1. backgammon


def test_everyone_starts_at_1500() -> None:
    assert done("systems", "backgammon").json["start"] == {"rating": 1500}


def test_the_favourites_expected_score() -> None:
    table = {0: 50.0, 50: 52.4, 100: 54.8, 150: 57.1, 200: 59.5, 300: 64.0, 400: 68.3, 500: 72.3}
    opponents = ",".join(str(1500 - gap) for gap in table)
    rows = previews("--rating", "1500", "--opponent", opponents, "--cube", "1")
    found = {1500 - row["opponent"]: round(100 * row["first"]["expected"], 1) for row in rows}
    assert found == table


def test_changes_by_gap() -> None:
    table = {0: (16, 16), 100: (14, 18), 200: (13, 19), 300: (12, 20), 400: (10, 22)}
    opponents = ",".join(str(1500 - gap) for gap in table)
    rows = previews("--rating", "1500", "--opponent", opponents, "--cube", "1")
    for row in rows:
        favourite, underdog = table[1500 - row["opponent"]]
        change = favourite if row["result"] == "win" else -underdog
        assert (row["first"]["change"], row["second"]["change"]) == (change, -change)


@pytest.mark.parametrize(
    ("recent", "table"), [("0,0", [16, 19, 21, 24, 27, 29, 32]), ("50,50", [8, 9, 11, 12, 13, 15, 16])]
)
def test_changes_by_cube_with_k_32_and_k_16(recent: str, table: list[int]) -> None:
    rows = previews("--rating", "1500", "--opponent", "1500", "--recent-games", recent)
    wins = {row["cube"]: row["first"]["change"] for row in rows if row["result"] == "win"}
    assert wins == dict(zip((1, 2, 4, 8, 16, 32, 64), table, strict=True))
    coefficients = {row["cube"]: row["coefficient"] for row in rows}
    assert coefficients == {cube: pytest.approx(1 + math.log2(cube) / 6) for cube in wins}
    assert (coefficients[1], coefficients[64]) == (1.0, 2.0)


def test_each_player_has_a_k_of_his_own() -> None:
    even = ("--rating", "1500", "--opponent", "1500", "--cube", "1", "--recent-games")
    assert changes(*even, "60,10") == {"win": (8, -16), "loss": (-8, 16)}
    assert changes(*even, "49,50") == {"win": (16, -8), "loss": (-16, 8)}


@pytest.mark.parametrize(
    ("rules", "divisor", "k", "cube_4", "favourite_by_300"),
    [
        ("1.0", 400, 32, 4.0, (84.9, 5, -27)),
        ("1.0.5", 400, 32, 4 / 3, (84.9, 5, -27)),
        ("1.2.0", 800, 32, 4 / 3, (70.3, 9, -23)),
        ("1.3.1", 1200, 32, 4 / 3, (64.0, 12, -20)),
    ],
)
def test_the_history(
    rules: str, divisor: int, k: int, cube_4: float, favourite_by_300: tuple[float, int, int]
) -> None:
    about = ("--rating", "1800", "--opponent", "1500", "--rules", rules)
    event = explained("win", *about, "--cube", "4")
    assert (event["rules"], event["figures"]["divisor"]) == (rules, divisor)
    assert event["coefficient"] == pytest.approx(cube_4)
    assert [part["k"] for part in event["players"]] == [k, k]
    win, loss = previews(*about, "--cube", "1")
    shown = round(100 * win["first"]["expected"], 1)
    assert (shown, win["first"]["change"], loss["first"]["change"]) == favourite_by_300
    # Only the newest rules know heavy players.
    heavy = explained("win", *about, "--recent-games", "50,0")
    assert heavy["players"][0]["k"] == (16 if rules == "1.3.1" else k)


def test_the_dates_of_the_rules_are_a_setting() -> None:
    dated = (
        "--rating",
        "1800",
        "--opponent",
        "1500",
        "--cube",
        "1",
        "--set",
        "rules.1.3.1=2026-10-01T00:00:00Z",
    )
    before, after = "2026-09-30T23:59:59.999Z", "2026-10-01T00:00:00Z"
    assert changes(*dated, "--at", before)["win"] == (9, -9)
    assert changes(*dated, "--at", after)["win"] == (12, -12)


def test_absurd_gaps_give_nothing_or_all() -> None:
    found = changes("--rating", "1000000000", "--opponent", "0", "--cube", "1")
    assert found == {"win": (0, 0), "loss": (-32, 32)}


def test_a_win_against_a_far_weaker_player_can_give_nothing() -> None:
    assert changes("--rating", "3800", "--opponent", "1500", "--cube", "1")["win"] == (0, 0)


def test_rounding_is_half_away_from_zero_once() -> None:
    rows = vectors("backgammon")["nearest_to_half"] + vectors("backgammon")["computed"]
    for row in rows[::5]:
        heavy = "50" if row.get("K", row.get("winnerK")) == 16 else "0"
        other = "50" if row.get("loserK", row.get("K")) == 16 else "0"
        gap = row["winner_minus_loser"]
        about = ("--rating", str(5000 + gap), "--opponent", "5000", "--cube", str(row["cube"]))
        won, lost = changes(*about, "--recent-games", f"{heavy},{other}")["win"]
        assert won == row["winner"]
        assert lost == row.get("loser", -row["winner"])


# 2. fide


def test_the_table_and_the_curve_differ_for_134_of_401_differences() -> None:
    about = ("--system", "fide", "--rating", "2000", "--opponent", ",".join(map(str, range(1600, 2001))))
    table, curve = (
        [
            row["first"]["expected"]
            for row in previews(*about, "--set", f"expectation={name}")
            if row["result"] == "win"
        ]
        for name in ("table", "curve")
    )
    assert len(table) == len(curve) == 401
    assert sum(one != round(two, 2) for one, two in zip(table, curve, strict=True)) == 134
    assert (table[0], round(curve[0], 2)) == (0.92, 0.91)


def test_ties_with_k_10_are_rounded_away_from_zero() -> None:
    opponents = ",".join(map(str, range(1600, 2401)))
    rows = previews("--system", "fide", "--rating", "2000", "--opponent", opponents, "--k", "10")
    score = {"win": 1.0, "draw": 0.5, "loss": 0.0}
    ties = {}
    for row in rows:
        exact = round(10 * (100 * score[row["result"]] - round(100 * row["first"]["expected"]))) / 100
        if abs(exact) % 1 == 0.5:
            ties[row["result"], row["first"]["expected"]] = (exact, row["first"]["change"])
    assert len(ties) == 24
    for exact, change in ties.values():
        assert change == math.copysign(abs(exact) + 0.5, exact)


def test_the_400_point_rule_is_judged_for_each_player() -> None:
    about = ("--system", "fide", "--rating", "2813", "--opponent", "2400")
    parts = explained("win", *about, "--at", "2025-10-01T00:00:00Z")["players"]
    assert [part["figures"]["difference"] for part in parts] == [413, -400]
    before = explained("win", *about, "--at", "2025-09-30T23:59:59Z")["players"]
    assert [part["figures"]["difference"] for part in before] == [400, -400]
    below = explained("win", "--system", "fide", "--rating", "2649", "--opponent", "2000")["players"]
    assert below[0]["figures"]["difference"] == 400


@pytest.mark.parametrize(
    ("rating", "figures", "k"),
    [
        ("2400", ("games=100",), 10),
        ("2350", ("games=100", "peak=2400"), 10),  # it stays 10
        ("2399", ("games=100",), 20),
        ("2000", ("games=100", "birth_year=2008"), 40),  # to the end of the year of the 18th birthday
        ("2000", ("games=100", "birth_year=2007"), 20),
        ("2000", ("games=100", "birth_year=2010", "peak=2300"), 20),
        ("2000", ("games=29",), 40),
        ("2000", ("games=30",), 20),
    ],
)
def test_k_by_the_rules(rating: str, figures: tuple[str, ...], k: int) -> None:
    given = [option for text in figures for option in ("--figure", text)]
    about = ("--system", "fide", "--rating", rating, "--opponent", "2000", "--at", "2026-12-31T23:00:00Z")
    assert previews(*about, *given)[0]["first"]["k"] == k
    assert previews(*about, *given, "--k", "17")[0]["first"]["k"] == 17


@pytest.mark.parametrize(
    ("k", "games", "used"), [(40, 20, 35), (20, 40, 17), (20, 39, 17), (20, 35, 20), (10, 70, 10)]
)
def test_the_700_rule(k: int, games: int, used: int) -> None:
    found = period("--system", "fide", "--rating", "1500", "--k", str(k), *["1500:0.5"] * games)
    assert (found["k_by_rules"], found["k"]) == (k, used)


def test_a_period_is_rounded_once() -> None:
    case = vectors("fide")["period"]
    games = [f"{opponent}:{score}" for opponent, score in case["games"]]
    about = ("--system", "fide", "--rating", "1500", "--k", "20", *games)
    table = period(*about)
    assert table["exact"] == pytest.approx(case["total_table"]) and table["after"] == case["new_rating"]
    curve = period(*about, "--set", "expectation=curve")
    assert curve["exact"] == pytest.approx(case["total_logistic"], abs=5e-4)


def test_published_changes_of_single_games() -> None:
    for case in vectors("fide")["cases"]:
        if "uncapped" in case["name"]:  # without the 400-point rule
            continue
        result = {1: "win", 0.5: "draw", 0: "loss"}[case["score"]]
        about = [
            *("--system", "fide", "--rating", str(case["own"]), "--opponent", str(case["opp"])),
            *("--k", str(case["K"]), "--at", "2026-01-01T00:00:00Z"),
        ]
        for name, rounded in (("table", "rounded_table"), ("curve", "rounded_logistic")):
            if rounded in case:
                assert changes(*about, "--set", f"expectation={name}")[result][0] == case[rounded], case[
                    "name"
                ]


def test_a_rating_under_the_floor_is_none() -> None:
    found = period("--system", "fide", "--rating", "1400", "--k", "20", "1500:0")
    assert (found["computed"], found["after"]) == (1393, None)


def test_performance() -> None:
    for case in vectors("fide")["performance"]:
        found = done("performance", *map(str, case["opponents"]), "--score", str(case["score"])).json
        assert (found["table"]["rating"], found["table"]["difference"]) == (case["performance"], case["dp"])
    lost = done("performance", "1600", "--score", "0").json
    assert (lost["table"]["rating"], lost["table"]["difference"], lost["linear"]) == (800, -800, None)
    assert "0 %, where the linear approximation breaks" in lost["why_not_linear"]
    even = done("performance", "1500", "1700", "--score", "1").json
    assert even["table"]["rating"] == even["linear"]["rating"] == 1600
    linear = done("performance", "2000", "2000", "2000", "2000", "--score", "3").json["linear"]
    assert linear["rating"] == 2000 + 400 * (3 - 1) // 4


def test_a_first_rating() -> None:
    games = ("1901:1", "1901:1", "1901:1", "1902:0", "1902:0")
    found = period("--system", "fide", "--rating", "0", *games)
    assert sum(int(game.partition(":")[0]) for game in games) == 9507
    assert found["after"] == 1922
    assert period("--system", "fide", "--rating", "0", *games[:4])["after"] is None  # it needs 5 games
    assert period("--system", "fide", "--rating", "0", *["2600:1"] * 5)["after"] == 2200  # at most
    assert period("--system", "fide", "--rating", "0", *["1300:0"] * 5)["after"] is None  # at least 1400


# 3. fibs


def test_fibs() -> None:
    assert done("systems", "fibs").json["start"] == {"rating": 1500.0, "experience": 0.0}
    new = ("--system", "fibs", "--rating", "1500", "--opponent", "1500")
    old = (*new, "--figure", "experience=400,400")
    assert changes(*old, "--length", "1")["win"] == pytest.approx((2.0, -2.0))
    assert changes(*new, "--length", "1")["win"][0] == pytest.approx(9.98)
    assert changes(*new, "--length", "9")["win"][0] == pytest.approx(29.46)
    before = changes(*new, "--length", "1", "--set", "experience=before")
    assert before["win"][0] == pytest.approx(10.0)
    assert explained("win", *new)["players"][0]["k"] == pytest.approx(5 - 1 / 100)
    assert explained("win", *old)["players"][0]["k"] == 1


def test_fibs_tables() -> None:
    for lead, shares in vectors("fibs")["win_probability"].items():
        about = ("--system", "fibs", "--rating", str(1500 + int(lead)), "--opponent", "1500")
        rows = [row for row in previews(*about) if row["result"] == "win"]
        assert [round(row["first"]["expected"], 3) for row in rows] == shares
    for lead, pairs in vectors("fibs")["win_lose"].items():
        about = ("--system", "fibs", "--rating", "1500", "--opponent", str(1500 + int(lead)))
        rows = previews(*about, "--figure", "experience=1000,1000", "--length", "1,3,5,7,9")
        found = [row["first"]["change"] for row in rows]
        assert found == [pytest.approx(value, abs=0.05001) for pair in pairs for value in pair]


# 4. glicko


PAPER = ("1400/30:1", "1550/100:0", "1700/300:0")


def test_glicko() -> None:
    found = period("--system", "glicko", "--rating", "1500", "--rd", "200", *PAPER)
    assert (round(found["after"], 2), round(found["fields_after"]["rd"], 2)) == (1464.11, 151.40)
    usual = settings("glicko")
    assert (usual["start"], usual["start_rd"], round(usual["c"], 2)) == (1500, 350, 34.64)
    # RD 50 is back at 350 after 100 periods.
    long = explained(
        "win",
        "--system",
        "glicko",
        "--rating",
        "1500",
        "--opponent",
        "1500",
        "--rd",
        "50,50",
        "--figure",
        "idle_days=3000",
    )
    assert long["players"][0]["figures"]["rd"] == pytest.approx(350)
    assert long["players"][1]["figures"]["rd"] == 50


# 5. glicko2


def test_glicko_2() -> None:
    about = ("--system", "glicko2", "--rating", "1500", "--rd", "200", "--figure", "volatility=0.06")
    found = period(*about, "--set", "tau=0.5", *PAPER)
    # The paper's intermediate values are rounded.
    assert found["after"] == pytest.approx(1464.05, abs=0.01)
    assert found["fields_after"]["rd"] == pytest.approx(151.52, abs=0.01)
    assert found["fields_after"]["volatility"] == pytest.approx(0.05999598, abs=5e-9)
    idle = period(*about)
    assert (idle["after"], round(idle["fields_after"]["rd"], 5)) == (1500, 200.27142)


def test_lichess() -> None:
    usual = settings("glicko2")
    assert usual == {
        "start": 1500.0,
        "start_rd": 500.0,
        "start_volatility": 0.09,
        "tau": 0.75,
        "min_rating": 400.0,
        "max_rating": 4000.0,
        "min_rd": 45.0,
        "max_rd": 500.0,
        "max_volatility": 0.1,
        "max_change": 700.0,
        "periods_per_day": 0.21436,
        "provisional_rd": 110.0,
        "listed_rd": 75.0,
    }
    for name, case in vectors("glicko")["lichess_tau0.75_elapsed0"].items():
        white, black = case["white_before"], case["black_before"]
        rows = previews(
            *("--system", "glicko2", "--rating", str(white[0]), "--opponent", str(black[0])),
            *("--rd", f"{white[1]},{black[1]}", "--figure", f"volatility={white[2]},{black[2]}"),
        )
        result = {"1": "win", "0": "loss", "0.5": "draw"}[name.rpartition("score ")[2]]
        (row,) = [row for row in rows if row["result"] == result]
        for side, after in ((row["first"], case["white_after"]), (row["second"], case["black_after"])):
            fields = side["fields"]
            found = [side["after"], fields.get("rd", after[1]), fields.get("volatility", after[2])]
            assert found == [pytest.approx(value, rel=1e-9) for value in after]
