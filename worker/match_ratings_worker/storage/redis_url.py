"""Reads where Redis is: one server, a cluster, or a primary that Sentinels know. Pure: opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from redis.asyncio.connection import Connection, parse_url

#: The forms an address may have.
FORMS = (
    "redis://[user:password@]host[:port][/db]",
    "rediss://... (TLS)",
    "unix://path",
    "redis-cluster://[user:password@]host:port[,host:port ...]",
    "redis-sentinel://[user:password@]host:port[,host:port ...]/name[/db]",
)

#: Options of a connection that may stand behind the question mark.
_OPTIONS = ("db", "client_name", "socket_timeout", "socket_connect_timeout", "health_check_interval")


@dataclass(frozen=True, slots=True)
class Address:
    """An address, taken apart. Its repr shows no password."""

    kind: Literal["plain", "cluster", "sentinel"]
    #: The cluster's nodes to begin with, or the Sentinels.
    hosts: tuple[tuple[str, int], ...] = ()
    #: The name under which the Sentinels know the primary.
    service: str = ""
    #: Options of a connection: host, port, db, username, password, ...
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, url: str) -> Address:
        """The address in `url`; raises ValueError with a sentence that shows no password."""
        scheme = url.partition("://")[0]
        if scheme in ("redis", "rediss", "unix"):
            return cls("plain", options=_checked(url))
        if scheme not in ("redis-cluster", "redis-sentinel"):
            msg = f"it must look like one of {'; '.join(FORMS)}"
            raise ValueError(msg)
        # The library's own parser takes one host; several are taken apart here.
        parts = urlsplit("http" + url[len(scheme) :])
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        found = tuple(_host(text, 6379 if scheme == "redis-cluster" else 26379) for text in hosts.split(","))
        options: dict[str, Any] = {}
        if user:
            options["username"] = unquote(user)
        if password:
            options["password"] = unquote(password)
        path = [part for part in parts.path.split("/") if part]
        if scheme == "redis-cluster":
            if path not in ([], ["0"]):
                msg = "a cluster has database 0 only"
                raise ValueError(msg)
            return cls("cluster", found, options=options)
        if not 1 <= len(path) <= 2 or not path[-1:] or (len(path) == 2 and not path[1].isdigit()):
            msg = f"it must look like {FORMS[4]}"
            raise ValueError(msg)
        options["db"] = int(path[1]) if len(path) == 2 else 0
        return cls("sentinel", found, service=unquote(path[0]), options=options)


def _checked(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name not in _OPTIONS and not name.startswith("ssl_"):
            msg = f"its option {name[:40]!r} is not known; use {', '.join(_OPTIONS)} or ssl_..."
            raise ValueError(msg)
    try:
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        msg = "its port must be a number from 0 to 65535"
        raise ValueError(msg) from None
    try:
        options: dict[str, Any] = dict(parse_url(url))
        options.get("connection_class", Connection)(
            **{name: value for name, value in options.items() if name != "connection_class"}
        )
    except (ValueError, TypeError):
        msg = f"it cannot be read; it must look like one of {'; '.join(FORMS[:3])}"
        raise ValueError(msg) from None
    return options


def _host(text: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    try:
        port = parts.port or default_port
    except ValueError:
        msg = "its port must be a number from 0 to 65535"
        raise ValueError(msg) from None
    if not parts.hostname:
        msg = "it names no host"
        raise ValueError(msg)
    return parts.hostname, port
