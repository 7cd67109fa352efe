"""Part 5: what a match costs as players, windows and backlog grow, and the memory it takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.lab import Drain, Lab, Summary, summary
from benchmarks.matches import LADDER, LONG, SHORT, Ids, Matches
from benchmarks.processes import BenchError, Program
from benchmarks.report import Column, Section, Spread, Target
from match_ratings.stream_names import inbox, outbox
from match_ratings_worker.storage.redis_keys import Keys

__all__ = ["growth"]

_DAY_MS = 86_400_000
_PLAYERS = (1_000, 1_000_000)
_WINDOWS = (1, 50, 300, 2_000)
_BACKLOGS = (1_000, 1_000_000)

# KEYS: prefix of the players, leaderboard. ARGV: format of an id, first, last, games, last game in ms.
_ADD_PLAYERS = """
for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  local player, rating = string.format(ARGV[1], i), tostring(1200 + i % 600)
  redis.call('HSET', KEYS[1] .. player, 'rating', rating, 'sequence', ARGV[4], 'games', ARGV[4],
    'last_game', ARGV[5])
  redis.call('ZADD', KEYS[2], rating, player)
end
"""
# KEYS: a player's games, prefix of the games. ARGV: format of an id, first, last.
_COPY_GAMES = """
for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  redis.call('COPY', KEYS[1], KEYS[2] .. string.format(ARGV[1], i))
end
"""
# KEYS: inbox. ARGV: the message with %s for the match id and both players, the format of a player's id,
# first, last, players.
_ADD_MATCHES = """
for i = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  local one = math.random(0, ARGV[5] - 1)
  local other = (one + math.random(1, ARGV[5] - 1)) % ARGV[5]
  local names = {string.format(ARGV[2], one), string.format(ARGV[2], other)}
  local id = string.format('00000000-0000-4000-9000-%012d', i)
  redis.call('XADD', KEYS[1], '*', 'message', string.format(ARGV[1], id, names[1], names[2], names[1]))
end
"""
#: How much one call of these does, so that none holds the server for long.
_AT_ONCE = 50_000


def growth(lab: Lab) -> list[Section]:
    """Players, windows, backlog, memory."""
    columns = (
        Column("name", ""),
        Column("rate", "matches/s"),
        Column("cpu_us", "CPU of both, µs each"),
        Column("against", "÷ the first", 2),
        Column("worker_us", "worker, µs"),
        Column("server_us", "server, µs"),
    )
    section = Section("Growth: the cost of a match as the work grows", columns)
    _players(lab, section)
    _windows(lab, section)
    _backlog(lab, section)
    return [section, _memory(lab)]


def _row(section: Section, name: str, figures: Summary, first: Summary, **more: Any) -> float:
    cost, least = _cost(figures), _cost(first)
    section.rows.append(figures.row(name, cpu_us=cost, against=cost / least, **more))
    return cost / least


def _cost(figures: Summary) -> Spread:
    pairs = zip(figures.worker_us.values, figures.server_us.values, strict=True)
    return Spread([worker + server for worker, server in pairs])


def _players(lab: Lab, section: Section) -> None:
    """Two servers side by side: on one, the keys of a million players would slow the thousand down too."""
    few, many = _sizes(lab, _PLAYERS)
    with lab.another() as other:
        labs = {few: lab, many: other}
        for players, each in labs.items():
            lab.step(f"making {players:,} players")
            each.wire.at_once(each.emptied())
            _add_players(each, LADDER, players, games=0)
        done: dict[int, list[Drain]] = {players: [] for players in labs}
        with lab.workers() as workers, other.workers() as others:
            for turn in lab.rounds(3, 12):
                for players, each, crew in ((few, lab, workers), (many, other, others)):
                    lab.step(f"round {turn}: {players:,} players")
                    count = lab.size(12_000, 1_000)
                    done[players].append(_more(each, LADDER, players, count, turn, crew))
    figures = {players: summary(drains) for players, drains in done.items()}
    for players, figure in figures.items():
        share = _row(section, f"{players:,} players", figure, figures[few], players=players)
    section.targets.append(Target(f"cost with {many:,} players ÷ {few:,}", "<= 1.3", share, share <= 1.3))


def _windows(lab: Lab, section: Section) -> None:
    """Ladders side by side on one server, with one worker for all."""
    ladders = {games: f"games-{games}" for games in _WINDOWS}
    config = lab.server.directory / "ladders.toml"
    config.write_text("".join(f"[ladders.{ladder}]\n" for ladder in ladders.values()))
    lab.wire.at_once(lab.emptied(*ladders.values()))
    players = lab.size(1_000, 100)
    for games, ladder in ladders.items():
        lab.step(f"making {players:,} players with {games:,} games in the window")
        _add_players(lab, ladder, players, games=games)
        _add_games(lab, ladder, players, games)
    done: dict[int, list[Drain]] = {games: [] for games in ladders}
    with lab.workers(ladders=len(ladders), RATINGS_CONFIG=str(config)) as workers:
        for turn in lab.rounds(3, 12):
            for games, ladder in ladders.items():
                lab.step(f"round {turn}: {games:,} games in the window")
                done[games].append(_more(lab, ladder, players, lab.size(6_000, 500), turn, workers))
    figures = {games: summary(drains) for games, drains in done.items()}
    for games, figure in figures.items():
        name = f"{games:,} game{'s' if games > 1 else ''} in the window"
        share = _row(section, name, figure, figures[1], games=games)
    section.targets.append(Target("cost with 2,000 games in the window ÷ 1", "<= 1.3", share, share <= 1.3))


def _sizes(lab: Lab, sizes: Sequence[int]) -> list[int]:
    return [min(size, lab.size(size, 20_000)) for size in sizes]


def _more(lab: Lab, ladder: str, players: int, count: int, turn: int, workers: Sequence[Program]) -> Drain:
    commands = Matches(count, players, seed=f"{ladder} {turn}", ladder=ladder).commands()
    return lab.drain(commands, workers, ladder=ladder, keep=True)


def _calls(lab: Lab, script: str, keys: Sequence[str], first: Sequence[str], count: int, *rest: str) -> None:
    """Calls a script that takes a first and a last number, again and again up to `count`."""
    for at in range(0, count, _AT_ONCE):
        last = min(at + _AT_ONCE, count) - 1
        lab.wire.call("EVAL", script, len(keys), *keys, *first, at, last, *rest)


def _add_players(lab: Lab, ladder: str, players: int, games: int) -> None:
    keys = Keys(ladder)
    yesterday = str(int(time.time() * 1000) - _DAY_MS)
    _calls(
        lab, _ADD_PLAYERS, (keys.player_, keys.leaderboard), (LONG.player,), players, str(games), yesterday
    )


def _add_games(lab: Lab, ladder: str, players: int, games: int) -> None:
    """The same games for each player: spread over the window, a day of it left free at both ends."""
    newest = int(time.time() * 1000) - _DAY_MS
    scores = (newest - number * 5 * _DAY_MS // games for number in range(games))
    pairs = [part for pair in zip(scores, LONG.matches(games, ladder), strict=True) for part in pair]
    template = "bench:games"
    for at in range(0, len(pairs), 1_000):
        lab.wire.call("ZADD", template, *pairs[at : at + 1_000])
    _calls(lab, _COPY_GAMES, (template, Keys(ladder).games_), (LONG.player,), players)
    lab.wire.call("DEL", template)


def _backlog(lab: Lab, section: Section) -> None:
    """A thousand waiting, again and again; and the first of a million."""
    few, many = _sizes(lab, _BACKLOGS)
    times, part = lab.size(15, 2), lab.size(15_000, 1_000)
    players = 100_000
    drains: dict[int, list[Drain]] = {few: [], many: []}
    memory = 0.0
    for turn in lab.rounds(2, 15):
        lab.step(f"round {turn}: a backlog of {few:,}, {times} times")
        lab.wire.at_once(lab.emptied())
        with lab.workers() as workers:
            fillings = [Matches(few, players, seed=f"{number}").commands() for number in range(times)]
            small = [lab.drain(commands, workers, keep=True) for commands in fillings]
        drains[few].append(_together(small))
        lab.step(f"round {turn}: a backlog of {many:,}")
        lab.wire.at_once(lab.emptied())
        begun = _memory_used(lab)
        _add_matches(lab, many, players)
        memory = (_memory_used(lab) - begun) / many
        with lab.workers(ladders=0) as workers:
            drains[many].append(_window(lab, workers, part))
    figures = {backlog: summary(found) for backlog, found in drains.items()}
    for backlog, figure in figures.items():
        _row(section, f"backlog of {backlog:,}", figure, figures[few], backlog=backlog)
    section.notes.append(
        f"Backlog of {few:,}: {times} times in each round. Backlog of {many:,}: {part:,} of it rated in each "
        f"round; a waiting match takes {memory:,.0f} bytes."
    )


def _together(drains: Sequence[Drain]) -> Drain:
    return Drain(
        sum(drain.matches for drain in drains),
        sum(drain.seconds for drain in drains),
        sum(drain.worker_cpu for drain in drains),
        sum(drain.server_cpu for drain in drains),
        "",
    )


def _window(lab: Lab, workers: Sequence[Program], count: int) -> Drain:
    """The next matches that running workers rate of a backlog that they do not finish."""
    stream = outbox(LADDER)

    def look() -> tuple[int, float, float, float]:
        rated = lab.wire.call("XLEN", stream)
        return (rated, time.monotonic(), sum(worker.cpu() for worker in workers), lab.server_cpu())

    deadline = time.monotonic() + 60
    before = after = look()
    while not before[0] or after[0] < before[0] + count:
        time.sleep(0.02)
        after = look()
        before = before if before[0] else after
        if time.monotonic() > deadline:
            raise BenchError(f"only {after[0]} matches were rated in 60 s")
        for worker in workers:
            worker.check()
    rated, seconds, worker_cpu, server_cpu = (end - begin for begin, end in zip(before, after, strict=True))
    return Drain(int(rated), seconds, worker_cpu, server_cpu, "")


def _add_matches(lab: Lab, count: int, players: int) -> None:
    sample = Matches(1, 2, ids=Ids("@%d", long=False), seed="@match").messages()[0]
    for old in ('"@match0"', '"@0"', '"@1"'):
        sample = sample.replace(old, '"%s"')
    _calls(lab, _ADD_MATCHES, (inbox(LADDER),), (sample, LONG.player), count, str(players))


def _memory(lab: Lab) -> Section:
    """The difference that players with one match make, and then that of further matches."""
    columns = (
        Column("name", ""),
        Column("match", "a rated match"),
        Column("event", "its event"),
        Column("receipt", "its receipt"),
        Column("rest", "both windows, keys"),
        Column("player", "a player"),
    )
    section = Section("Memory: bytes of the server's", columns)
    players = lab.size(10_000, 1_000)
    for ids, name in ((LONG, "ids of 36 characters"), (SHORT, "short ids")):
        lab.step(f"memory, {name}")
        first = Matches(players // 2, players, seed="a", ids=ids, everyone_once=True)
        further = Matches(2 * players, players, seed="b", ids=ids)
        lab.wire.at_once(lab.emptied())
        with lab.workers() as workers:
            empty = _memory_used(lab)
            lab.drain(first.commands(), workers, keep=True)
            once = _memory_used(lab)
            lab.drain(further.commands(), workers, keep=True)
            full = _memory_used(lab)
        match = (full - once) / further.count
        player = (once - empty - match * first.count) / players
        event = lab.wire.call("MEMORY", "USAGE", outbox(LADDER), "SAMPLES", 0) / (first.count + further.count)
        receipt = lab.wire.call("MEMORY", "USAGE", Keys(LADDER).receipt(next(ids.matches(1, "b"))))
        row = {"name": name, "match": match, "event": event, "receipt": receipt, "player": player}
        section.rows.append({**row, "rest": match - event - receipt})
        section.targets.append(Target(f"bytes a rated match, {name}", "<= 1024", match, match <= 1024))
    return section


def _memory_used(lab: Lab) -> float:
    """Bytes of the server's memory, without buffers of clients, once nothing is under way."""
    time.sleep(0.3)
    about = lab.info("memory")
    return float(about["used_memory"]) - float(about.get("mem_clients_normal", 0))
