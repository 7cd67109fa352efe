"""The manual's reference chapters, generated from the code.

What a table says about a name is the `#:` comment above it in the code; a name without one is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel

import schemas
from match_ratings.messages import Reason
from match_ratings_worker.cli.exit_codes import ExitCode
from match_ratings_worker.dead_letters.replay_results import ReplayOutcome
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.jobs.dead_letter_jobs import DEAD_LETTER_JOBS
from match_ratings_worker.jobs.void_jobs import VOID_JOBS
from match_ratings_worker.pipeline.message_batch import Action
from match_ratings_worker.rating import SYSTEMS, RatingSystem
from match_ratings_worker.runtime.prometheus_metrics import GAUGES, SETTLED
from match_ratings_worker.storage.redis_keys import Keys
from reference_markdown import code, comment, comments, filled, kind_text, page, sentence, table, value_text

__all__ = ["CHAPTERS", "DIRECTORY", "write"]

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "worker" / "match_ratings_worker" / "manual"

#: What settings of a system mean that share a comment with another one in the code.
_SETTINGS: Final = {
    "start_rd": "Every player's first RD, in points.",
    "start_volatility": "Every player's first volatility.",
    "min_rating": "The lowest rating, in points.",
    "max_rating": "The highest rating, in points.",
    "min_rd": "The lowest RD, in points.",
    "max_rd": "The highest RD, in points.",
    "max_volatility": "The highest volatility.",
    "provisional_rd": "A rating is provisional from this RD on, in points.",
    "listed_rd": "A player is on the leaderboard up to this RD, in points.",
}
#: What becomes of a message.
_OUTCOMES: Final = {
    "rated": "A match changed both ratings.",
    "prize": "A tournament paid its prizes.",
    "void": "A match was voided.",
    "not-rated": "Valid, and changes no rating by the rules: boosted, tournament, not public.",
    "duplicate": "The same content had its effect before.",
    "dead": "It became a dead letter; counts have it by reason, as `dead:conflict`.",
    "closed": "Not a message: a rating period was closed for a player.",
}
_JOBS: Final = {**DEAD_LETTER_JOBS, **VOID_JOBS}
#: What fields of a job's request mean that have no comment of their own.
_JOB_FIELDS: Final = {
    "ids": "Only these dead letters.",
    "reasons": "Only dead letters with one of these reasons.",
    "since": "Only those that became dead letters at this time or later.",
    "before": "Only those that became dead letters before this time.",
    "player": "Only those that name this player.",
    "match_id": "Only those of this match or tournament.",
    "all": "Every dead letter of the ladder; needed when nothing else selects.",
    "limit": "How many to list.",
    "counts": "Only the number of letters by reason.",
    "id": "The dead letter's id.",
    "set": "Values to set, by path: `cube`, `players.0`.",
    "unset": "Paths to remove.",
    "message": "The whole new message, instead of `set` and `unset`.",
    "message_base64": "The same for bytes that are not UTF-8.",
    "by": "Who asks, for the record.",
    "why": "Why, for the record.",
    "dry_run": "Only predict the outcome; nothing changes.",
    "include_parked": "Also replay those that a replay cannot help now.",
    "force_late": "Also replay those older than the horizon, if they were not rated.",
    "never_rated": "Your reason to be sure that they were not rated, where the ledger cannot tell.",
    "dead_letters": "Letters as `dead_letters_export` returned them.",
    "void_match.match_id": "The match to void.",
    "void_player.player": "Whose matches to void.",
    "void_player.since": "Only matches that finished at this time or later.",
    "void_player.until": "Only matches that finished before this time; now by default.",
}


def settings() -> str:
    """Every RATINGS_* variable."""
    made = Settings.model_json_schema()
    rows = []
    for name, field in Settings.model_fields.items():
        default = int(field.default) if isinstance(field.default, bool) else field.default
        allowed = _allowed_in_environment(name, made["properties"][name])
        rows.append((code(f"RATINGS_{name.upper()}"), value_text(default), allowed, comment(Settings, name)))
    return page(
        "Settings",
        """Every environment variable that a worker and the command line read. A wrong value stops the start
        with one sentence that names it.""",
        table(("variable", "default", "allowed", "meaning"), rows),
    )


def _allowed_in_environment(name: str, schema: dict[str, Any]) -> str:
    choices = schema.get("anyOf", [schema])
    schema = next(choice for choice in choices if choice.get("type") != "null")
    if name.endswith("_url"):
        return "URL"
    if schema.get("format") == "path":
        return "file name"
    return "`0` or `1`" if schema.get("type") == "boolean" else kind_text(schema, {})


def ladders() -> str:
    """The settings of a ladder, system by system."""
    own = [system for system in SYSTEMS.values() if system.__module__.startswith("match_ratings_worker")]
    return page(
        "Ladder settings",
        """What a table `[ladders.NAME]` in the file `RATINGS_CONFIG` may hold, for each rating system.
        `system` names the system (`backgammon` by default); the other keys are those of the system.""",
        *map(_system, own),
    )


def _system(system: type[RatingSystem]) -> str:
    made = system()
    initial = made.initial()
    start = {"rating": initial.rating, **dict(zip(system.state_fields, initial.extra, strict=True))}
    schema = system.model_json_schema()
    facts = [
        ("rates", "game by game" if made.period_grace is None else "at the end of a period"),
        ("ratings", "whole numbers" if system.integer_ratings else "decimals"),
        ("draws", "yes" if system.draws else "no"),
        ("uses besides players, winner and time", ", ".join(map(code, system.depends_on)) or "nothing"),
        ("versions of the rules", ", ".join(map(code, system.versions))),
        ("a new player", ", ".join(f"{field} {value:g}" for field, value in start.items())),
    ]
    rows = [
        (
            code(name),
            value_text(value),
            kind_text(schema["properties"][name], schema.get("$defs", {})),
            _SETTINGS.get(name) or comment(system, name),
        )
        for name, value in made.model_dump(mode="json").items()
    ]
    about = " ".join((system.__doc__ or "").partition("\n\n")[0].split())
    facts_table = table(("property", "value"), facts)
    return f"## {system.name}\n\n{about}\n\n{facts_table}\n" + table(
        ("setting", "default", "allowed", "meaning"), rows
    )


def messages() -> str:
    """The fields of every message."""
    parts = []
    for file, (model, mode) in schemas.MODELS.items():
        schema = schemas.schema(model, mode)
        name = file.removesuffix(".json")
        parts.append(_message(name, schema, schema.get("$defs", {}), sent=mode == "validation"))
    return page(
        "Messages",
        """The fields of every message, from its model in `match_ratings`. The JSON Schemas are in the
        package's folder `schemas`. Ids are JSON strings, never numbers; unknown fields are ignored; a message
        has at most 16 KiB of UTF-8.""",
        *parts,
    )


def _message(name: str, schema: dict[str, Any], definitions: dict[str, Any], *, sent: bool) -> str:
    text = f"## {name}\n\n{filled(schema['description'])}\n\n{_fields(schema, definitions, sent=sent)}"
    player = definitions.get("PlayerUpdate")
    if player:
        text += f"\nEach of `players` in {name}:\n\n{_fields(player, definitions, sent=sent)}"
    return text


def _fields(schema: dict[str, Any], definitions: dict[str, Any], *, sent: bool) -> str:
    required = set(schema.get("required", ()))
    rows = []
    for name, field in schema["properties"].items():
        kind = "array of objects" if _is_players(field) else kind_text(field, definitions)
        row = [code(name), kind, field["description"]]
        if sent:
            row.insert(2, "required" if name in required else value_text(field.get("default")))
        rows.append(row)
    titles = ("field", "type", "default", "meaning") if sent else ("field", "type", "meaning")
    return table(titles, rows)


def _is_players(field: dict[str, Any]) -> bool:
    return bool(field.get("items", {}).get("$ref", "").endswith("PlayerUpdate"))


def keys() -> str:
    """Every key of a ladder in Redis."""
    made = Keys("backgammon")
    rows = []
    for name in sorted(
        Keys.__slots__, key=lambda name: list(comments(Keys)).index(name) if name in comments(Keys) else 0
    ):
        key = getattr(made, name)
        if isinstance(key, str) and ":" in key:
            shown = f"{key}ID" if name.endswith("_") else key
            kind, _, meaning = comment(Keys, name).partition(": ")
            rows.append((code(shown), kind.lower(), meaning[:1].upper() + meaning[1:]))
    return page(
        "All keys",
        """Every key of the ladder `backgammon` in Redis. Other ladders have their own name in the braces,
        and a shadow's keys begin with `ratings:{backgammon}:shadow:`. Those in the chapter
        [redis-keys](redis-keys.md) are for readers; the others are internal and may change.""",
        table(("key", "type", "holds"), rows),
    )


def metrics() -> str:
    """Every Prometheus metric of a worker."""
    counter, meaning = SETTLED
    rows = [(code(name), "gauge", "`ladder`", sentence(text)) for name, text in GAUGES.items()]
    rows.append((code(counter), "counter", "`ladder`, `outcome`", sentence(meaning)))
    return page(
        "Metrics",
        """What each worker process serves to Prometheus where `RATINGS_METRICS_PORT` is set. The values of
        `outcome` are in [reference-codes](reference-codes.md).""",
        table(("metric", "type", "labels", "meaning"), rows),
    )


def codes() -> str:
    """Exit codes, outcomes of messages and of replays, and the reasons of dead letters."""
    exits = [(str(code.value), sentence(code.meaning)) for code in ExitCode]
    outcomes = [(code(outcome), _OUTCOMES[outcome]) for outcome in get_args(Action)]
    reasons = [(code(reason.value), comment(Reason, reason.name)) for reason in Reason]
    replayed, meaning = [], ""
    for outcome in ReplayOutcome:
        meaning = comments(ReplayOutcome).get(outcome.name, meaning)  # one comment may be for several
        replayed.append((code(outcome.value), meaning))
    return page(
        "Exit codes, outcomes and reasons",
        "The fixed words and numbers that programs can rely on.",
        "## Exit codes of the command line\n\n" + table(("code", "meaning"), exits),
        "## Outcomes of messages, in counts, metrics and logs\n\n" + table(("outcome", "meaning"), outcomes),
        "## Outcomes of replayed dead letters\n\n" + table(("outcome", "meaning"), replayed),
        "## Reasons of dead letters\n\n" + table(("reason", "when"), reasons),
    )


def jobs() -> str:
    """The requests of every arq job."""
    models = {name: inspect.getclosurevars(job).nonlocals["model"] for name, job in _JOBS.items()}
    return page(
        "arq jobs",
        """The arq jobs in the queue `ratings:jobs`, for servers in other languages; in Python the functions
        of `match_ratings` call them, with any pool. A request is one JSON object with these fields. The
        answer is one JSON object too; when its `ok` is `false`, `error` says what is wrong. It is kept for
        a day. Jobs must be written in JSON; a pickled one becomes a dead letter.""",
        *(_job(name, model) for name, model in models.items()),
    )


def _job(name: str, model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    rows = []
    for field, part in schema["properties"].items():
        default = "required" if field in schema.get("required", ()) else value_text(part.get("default"))
        meaning = _JOB_FIELDS.get(f"{name}.{field}") or _JOB_FIELDS.get(field) or comment(model, field)
        kind = kind_text(part, schema.get("$defs", {})).removesuffix(" or `null`")
        rows.append((code(field), kind, default, meaning))
    return f"## {name}\n\n" + table(("field", "type", "default", "meaning"), rows)


#: File name -> what makes its text.
CHAPTERS: Final[dict[str, Callable[[], str]]] = {
    "reference-settings.md": settings,
    "reference-ladders.md": ladders,
    "reference-messages.md": messages,
    "reference-keys.md": keys,
    "reference-metrics.md": metrics,
    "reference-jobs.md": jobs,
    "reference-codes.md": codes,
}


def text(file: str) -> str:
    """What a chapter's file holds."""
    return CHAPTERS[file]()


def write() -> None:
    """Writes all chapters."""
    for file in CHAPTERS:
        (DIRECTORY / file).write_text(text(file), encoding="utf-8")


if __name__ == "__main__":
    write()
