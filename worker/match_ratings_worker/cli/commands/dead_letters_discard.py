"""`dead-letters discard`: remove dead letters for good."""

from __future__ import annotations

from match_ratings_worker.cli.change_options import ByOption, YesOption, confirm
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import print_json
from match_ratings_worker.cli.dead_letter_options import (
    AllOption,
    OptionalWhyOption,
    require_selection,
    signed_by,
    with_filter_options,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.dead_letters import DeadLetterFilter, DeadLetterStore
from match_ratings_worker.storage import LadderHandle


@with_filter_options()
def discard(
    where: DeadLetterFilter,
    every: AllOption = False,
    why: OptionalWhyOption = None,
    by: ByOption = None,
    yes: YesOption = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Remove dead letters for good. They are kept, with author, time and reason, in the stream
    `ratings:{<ladder>}:discarded`, and nothing rates them any more.

    Say which: ids, filters, or --all. Where no ids are given it counts them and asks first.
    """
    require_selection(where, every=every)
    author, why = signed_by(by, why)
    installation = load_installation()
    name = installation.ladder(ladder).name

    async def count(handle: LadderHandle) -> tuple[int, str]:
        letters = DeadLetterStore(handle)
        until = await letters.newest_id()
        return (await letters.count_by_reason(where, until=until)).total(), until

    number, until = run_on_ladder(installation, ladder, count)
    if number and not where.ids and not yes:
        confirm(f"Discard {number} dead letters of ladder {name}?")

    async def act(handle: LadderHandle) -> tuple[int, list[str]]:
        letters = DeadLetterStore(handle)
        if not where.ids:
            return await letters.discard_matching(where, until=until, by=author, why=why), []
        chosen = [letter.id async for letter in letters.find(where)]
        done = await letters.discard(chosen, by=author, why=why)
        return len(done), [letter_id for letter_id in where.ids if letter_id not in done]

    discarded, missing = run_on_ladder(installation, ladder, act)
    if json:
        print_json({"discarded": discarded, "missing": missing})
    else:
        print(f"discarded: {discarded}")
    if missing:
        text = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}: no such dead letter"
        raise CommandError(f"{text} of ladder {name}", ExitCode.FAILED)
