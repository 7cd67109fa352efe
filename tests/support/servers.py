"""Real servers, a fake one, and a ladder of its own for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import fakeredis
import pytest
from redis.asyncio import Redis

from embedded import Endpoint, Server, ServerError, find_binary

#: A test that uses one of these needs a real server.
SERVER_FIXTURES = {"server", "redis", "own_server"}

#: Part of the name of every ladder of this run, so that its keys can be told from another run's.
RUN = uuid.uuid4().hex[:8]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a real server."""
    for item in items:
        if SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope="session")
def server() -> Iterator[Endpoint]:
    """One server for the whole run: RATINGS_TEST_REDIS_URL, redis-server on PATH, or the embedded one.

    It is shared: a test keeps to the keys of its `ladder`, and neither flushes nor configures the server.
    """
    url = os.environ.get("RATINGS_TEST_REDIS_URL")
    if not url:
        with Server() as started:
            yield Endpoint(started.url)
        return
    endpoint = Endpoint(url)
    yield endpoint
    with endpoint.client() as client:
        for key in client.scan_iter(match=f"ratings:{{t-{RUN}*", count=1000):
            client.unlink(key)


@pytest.fixture
def ladder() -> str:
    """The slug of a ladder that no other test uses."""
    return f"t-{RUN}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def redis(server: Endpoint) -> AsyncIterator[Redis]:
    """An asynchronous client of the shared server; replies are bytes."""
    async with Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test alone, to stop, kill and restart; it keeps every acknowledged write."""
    try:
        binary = find_binary()
    except ServerError as error:
        if os.environ.get("RATINGS_TEST_REDIS_URL"):
            pytest.skip(f"only RATINGS_TEST_REDIS_URL is there, which cannot be restarted: {error}")
        raise
    with Server(appendonly=True, fsync="always", binary=binary) as started:
        yield started


@pytest.fixture
async def fake() -> AsyncIterator[fakeredis.FakeAsyncRedis]:
    """An empty server in memory that runs Lua; replies are bytes."""
    async with fakeredis.FakeAsyncRedis(version=(7,)) as client:
        yield client


@pytest.fixture(params=["fake", pytest.param("server", marks=pytest.mark.server)])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """A client of a fake server, and of the real one."""
    if request.param == "fake":
        async with fakeredis.FakeAsyncRedis(version=(7,)) as fake:
            yield fake
    else:
        endpoint: Endpoint = request.getfixturevalue("server")
        async with Redis.from_url(endpoint.url) as real:
            yield real
