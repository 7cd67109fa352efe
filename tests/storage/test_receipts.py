"""The grammar of receipts."""

from __future__ import annotations

import pytest

from match_ratings_worker.storage.receipts import NO_RECEIPT, Receipt


@pytest.mark.parametrize(
    ("text", "settled", "not_rated", "imported", "next_id", "ledger_id"),
    [
        (None, False, False, False, "", ""),
        ("", False, False, False, "", ""),
        ("? 1-0", False, False, False, "1-0", ""),
        ("? 1-0 2-0", False, False, False, "1-0", ""),
        ("- abcd", True, True, False, "", ""),
        ("- imported", True, True, True, "", ""),
        ("1700000000000-3 abcd", True, False, False, "", "1700000000000-3"),
    ],
)
def test_each_form(
    text: str | None, settled: bool, not_rated: bool, imported: bool, next_id: str, ledger_id: str
) -> None:
    for form in (text, text.encode() if text is not None else None):
        receipt = Receipt.parse(form)
        assert (receipt.is_settled, receipt.is_not_rated, receipt.is_imported) == (
            settled,
            not_rated,
            imported,
        )
        assert (receipt.next_id, receipt.ledger_id, receipt.is_in_batch) == (next_id, ledger_id, False)


def test_a_receipt_of_this_batch_has_no_ledger_id_yet() -> None:
    receipt = Receipt.in_batch("abcd")
    assert receipt.is_settled and receipt.is_in_batch and receipt.rest == "abcd" and not receipt.ledger_id


def test_nothing_stored() -> None:
    assert Receipt.parse(None) is NO_RECEIPT
