"""Pauses between tries."""

from match_ratings_worker.backoff import Backoff


def test_pauses_double_up_to_the_cap() -> None:
    backoff = Backoff(0.5, 3.0)
    assert not backoff.started
    assert [backoff.next_pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.started


def test_a_reset_begins_with_the_first_pause() -> None:
    backoff = Backoff(0.5, 3.0)
    for _ in range(2000):  # for hours without Redis
        backoff.next_pause()
    backoff.reset()
    assert not backoff.started and backoff.next_pause() == 0.5
