"""Values and errors as text for a reader."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from match_ratings_worker.safe_text import describe_error, describe_problem, printable, quote


class Inner(BaseModel):
    size: Annotated[int, Field(ge=1)]


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")] = "x"
    parts: list[Inner] = []
    url: int = 0

    @model_validator(mode="after")
    def _fits(self) -> Document:
        if self.url == 13:
            msg = "RATINGS_URL: thirteen brings bad luck"
            raise ValueError(msg)
        return self


def error(data: object) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate(data)
    return caught.value


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"url": "x"}, 'url: "x" is not allowed: input should be a valid integer'),
        ({"name": "\x1b[2J"}, 'name: "\\u001b[2J" is not allowed: 1-128 characters without control'),
        ({"parts": [{"size": 1}, {"size": 0}]}, "parts.1.size: 0 is not allowed: input should be greater"),
        ({"parts": [{}]}, "parts.0.size: it is required"),
        ({"nmae": 1}, "nmae: there is no field of this name"),
        ({"\x1b[2J": 1}, "\\u001b[2J: there is no field of this name"),
        ({"url": 13}, "message: RATINGS_URL: thirteen brings bad luck"),
        ([1], "message: [1] is not a JSON object"),
    ],
)
def test_an_error_names_the_field_its_value_and_what_is_allowed(data: object, sentence: str) -> None:
    assert describe_error(error(data)).startswith(sentence)


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        ({"url": "secret"}, {"hidden": ("url",)}, "url: the value is not allowed: input should be"),
        ({"url": "x"}, {"name": str.upper}, 'URL: "x" is not allowed'),
        ({"url": 13}, {"whole": ""}, "RATINGS_URL: thirteen brings bad luck"),
        ({"url": 13}, {"whole": "request"}, "request: RATINGS_URL: thirteen"),
        (
            {"name": "A"},
            {"hints": {"string_pattern_mismatch": "use a-z"}},
            'name: "A" is not allowed: use a-z',
        ),
        ({"x": 1}, {"hints": {"extra_forbidden": "no such setting"}}, "x: no such setting"),
    ],
)
def test_the_caller_chooses_names_and_hints(data: object, options: dict[str, Any], sentence: str) -> None:
    assert describe_error(error(data), **options).startswith(sentence)


def test_each_of_several_problems_can_be_described() -> None:
    problems = error({"url": "x", "name": 7}).errors(include_url=False)
    assert [describe_problem(item).partition(":")[0] for item in problems] == ["name", "url"]


def test_a_quoted_value_is_short_and_printable() -> None:
    assert quote("x" * 100) == '"' + "x" * 76 + "..."
    assert quote("\x1b[31m\u202e") == '"\\u001b[31m\\u202e"'
    assert printable("a\nb\udc80") == "a\\nb\\udc80"
