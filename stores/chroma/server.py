"""The connection to a Chroma server, with time-outs, and the name of a memory's collection on it."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tinymem.errors import FormatError, InputError
from tinymem.stores.files import make_private_file, make_private_folder

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

__all__ = ["collection_of", "connect", "disconnect"]

ANSWERS_WITHIN = 5.0  # seconds for the heartbeat
DONE_WITHIN = 30.0  # seconds for a request; Chroma's own client waits for ever
_COLLECTION = "collection.txt"  # holds the name of the folder's collection


def connect(url: str) -> ClientAPI:
    """Return a client for the server at `url`, which must answer now.

    Raises:
        InputError: `url` is not the URL of a server.
        OSError: The server does not answer; other errors of the network come through too.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise InputError(f'"chroma:{url}" must name a server after the colon, as in "chroma:http://localhost:8000"')
    import chromadb
    from chromadb.config import Settings

    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 8000)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    _ask(f"{parts.scheme}://{host}:{port}")
    client = chromadb.HttpClient(parts.hostname, port, ssl=secure, settings=Settings(anonymized_telemetry=False))
    for session in _sessions(client):
        session.timeout = DONE_WITHIN
    return client


def _ask(base: str) -> None:
    """Raise unless the server answers: making a client would wait for ever for a server that hangs."""
    with suppress(urllib.error.HTTPError):  # an error is an answer too
        urllib.request.urlopen(f"{base}/api/v2/heartbeat", timeout=ANSWERS_WITHIN).close()


def collection_of(folder: Path) -> str:
    """Return the folder's collection name, made once, which no other folder has on any machine."""
    make_private_folder(folder)
    file = folder / _COLLECTION
    if not file.exists():
        fresh = file.with_name(f"{_COLLECTION}.{os.getpid()}")
        make_private_file(fresh)
        fresh.write_text(f"tinymem-{uuid.uuid4().hex}\n", encoding="utf-8")
        os.replace(fresh, file)
    title = file.read_text(encoding="utf-8").strip()
    if not re.fullmatch(r"tinymem-[0-9a-f]{32}", title):
        raise FormatError(f"{file} should hold the name of a collection, but holds {title[:60]!r}")
    return title


def disconnect(client: Any) -> None:
    """Close any client, and its HTTP connections, which Chroma leaves to the garbage collector."""
    with suppress(AttributeError):  # the client was closed already
        client.close()
    for session in _sessions(client):
        session.close()


def _sessions(client: Any) -> Iterator[Any]:
    for owner in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(owner, "_server", None), "_session", None)
        if session is not None:
            yield session
