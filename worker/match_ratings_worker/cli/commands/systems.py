"""`systems`: list the rating systems that a ladder can use, or show the settings of one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from match_ratings_worker.cli.configured_ladders import JsonOption
from match_ratings_worker.cli.console import Column, Table, print_fields, print_heading, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode, refuse
from match_ratings_worker.rating import SYSTEMS, BrokenSystem, RatingSystem


def systems(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The system to show.")] = None,
    json: JsonOption = False,
) -> None:
    """List the rating systems, including those of plug-ins, or show one with its settings."""
    if name is not None and name not in SYSTEMS:
        refuse("NAME", name, f"use one of {', '.join(SYSTEMS)}")
    found = []
    for each in [name] if name is not None else list(SYSTEMS):
        try:
            found.append(_document(SYSTEMS[each]))
        except BrokenSystem as error:
            if name is not None:
                raise CommandError(f"NAME: {error}", ExitCode.WRONG_INPUT) from None
            found.append({"name": each, "broken": str(error)})
    if json:
        for document in found:
            print_json(document)
    elif name is not None:
        _print_one(found[0])
    else:
        sheet = Table(*(Column(title) for title in ("system", "rates by", "ratings", "draws", "description")))
        sheet.add(_row(document) for document in found)


def _document(system: type[RatingSystem]) -> dict[str, Any]:
    made = system()
    initial = made.initial()
    schema = system.model_json_schema()["properties"]
    return {
        "name": system.name,
        "about": (system.__doc__ or "").strip().splitlines()[0] if system.__doc__ else "",
        "by": "game" if made.period_grace is None else "period",
        "whole": system.integer_ratings,
        "draws": system.draws,
        "depends_on": list(system.depends_on),
        "order_matters": system.order_matters,
        "versions": list(system.versions),
        "start": {"rating": initial.rating, **dict(zip(system.state_fields, initial.extra, strict=True))},
        "settings": {
            name: {"default": value, "allowed": _allowed(schema.get(name, {}))}
            for name, value in made.model_dump(mode="json").items()
        },
        "dated": list(system.dated),
    }


def _allowed(schema: dict[str, Any]) -> str:
    """The allowed values of a setting, in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(_allowed(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    kind = {
        "integer": "a whole number",
        "number": "a number",
        "string": "a text",
        "boolean": "true or false",
        "null": "none",
        "object": "a table",
    }.get(str(schema.get("type")), "")
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        kind += f" over {schema['exclusiveMinimum']:g}"
    if low is not None:
        kind += f" from {low:g}"
    return kind + (f" to {high:g}" if high is not None else "")


def _row(document: dict[str, Any]) -> tuple[str, ...]:
    if "broken" in document:
        return document["name"], "-", "-", "-", document["broken"]
    return (
        document["name"],
        document["by"],
        "whole" if document["whole"] else "decimal",
        "yes" if document["draws"] else "no",
        document["about"],
    )


def _print_one(document: dict[str, Any]) -> None:
    print_heading(f"{document['name']}: {document['about']}")
    start = ", ".join(f"{name} {value:g}" for name, value in document["start"].items())
    print_fields(
        [
            ("rates by", document["by"]),
            ("ratings", "whole numbers" if document["whole"] else "decimals"),
            ("draws", "yes" if document["draws"] else "no"),
            ("depends on", ", ".join(document["depends_on"]) or "the result alone"),
            ("rules", ", ".join(document["versions"])),
            ("a new player", start),
        ]
    )
    print()
    sheet = Table(Column("setting"), Column("default"), Column("allowed"))
    sheet.add(
        (name, "-" if item["default"] is None else str(item["default"]), item["allowed"])
        for name, item in document["settings"].items()
    )
