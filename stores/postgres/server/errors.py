"""tinymem's errors for those of PostgreSQL, each with advice. No password is in any of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from tinymem.errors import FormatError, InputError, StorageError, TinymemError

__all__ = ["address", "damaged", "guarded", "is_lost", "unreachable"]

# What libpq's message says when it cannot connect, and what to do.
REASONS = {
    "password": "check the user and the password in the address, or in ~/.pgpass",
    "pg_hba.conf": "the server lets this user in from other hosts only, or with TLS only: ask who runs it",
    "refused": "start the server, or check the host and the port",
    "No such file": "start the server, or check the host and the port",
    "translate host name": "check the host in the address",
    "starting up": "the server is starting: try again in a moment",
    "shutting down": "the server stops: try again once it runs",
    "recovery": "the server recovers from a crash: try again in a moment",
    "too many": "the server has no connection left: raise max_connections there, or put a pooler before it",
    "remaining connection slots": "the server has no connection left: raise max_connections there",
    "timeout": "the server does not answer: check the host, the port and the network",
    "role": "check the user in the address",
    "does not exist": "make the database, or check its name in the address",
}
ADVICE: dict[type[psycopg.Error], str] = {
    errors.LockNotAvailable: "another process has been writing to this namespace for too long; try again",
    errors.QueryCanceled: "the server's time limit for a statement is over; raise statement_timeout, or try again",
    errors.InsufficientPrivilege: "have the owner of the tables run CALL tinymem.allow(USER, NAMESPACE)",
    errors.DiskFull: "free some disk space on the server",
    errors.OutOfMemory: "the server is out of memory",
    errors.ReadOnlySqlTransaction: "this server is read only, as a replica is: connect to the primary",
    errors.SerializationFailure: "another process has written meanwhile; try again",
    errors.DeadlockDetected: "another process has written meanwhile; try again",
}
LOST = ("08", "57P")  # classes of errors after which the server has ended the connection
REFUSED = (errors.IntegrityError, errors.DataError, psycopg.DataError, UnicodeEncodeError, OverflowError)


def address(url: str) -> str:
    """Return the address without its password and options; InputError if it is none."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        # libpq's own message may quote the password
        raise InputError(
            "this is no address of a PostgreSQL database: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "with / : @ and % in the password as %2F %3A %40 and %25"
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    service = f"?service={parts['service']}" if parts.get("service") else ""
    return f"postgresql://{user}{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}{service}"


def unreachable(place: str, error: psycopg.Error) -> StorageError:
    """Return the error for a server that lets nobody in."""
    said = " ".join(str(error).split())
    advice = next((advice for key, advice in REASONS.items() if key in said), "check the address and the server")
    return StorageError(f"{place} cannot be reached: {said.removeprefix('connection failed: ')}; {advice}")


def is_lost(connection: psycopg.Connection[tuple[object, ...]], error: BaseException | None = None) -> bool:
    """Return whether the connection broke, as this `error` on it says; it is closed then.

    After the server has ended it, psycopg may hold it for sound, in the middle of a pipeline.
    """
    if isinstance(error, psycopg.OperationalError) and (error.sqlstate or LOST[0]).startswith(LOST):
        connection.close()
    return connection.closed or connection.broken


def damaged(place: str, reason: object) -> FormatError:
    """Return the error for damaged tables, with advice."""
    return FormatError(f"{place} is damaged: {reason}; restore it from a backup, or import an export of it")


@contextmanager
def guarded(place: str) -> Iterator[None]:
    """Raise tinymem's errors for those of PostgreSQL."""
    try:
        yield
    except TinymemError:
        raise
    except errors.UniqueViolation as error:
        if error.diag.table_name == "steps":
            raise InputError(f"{place}: a step with this id or number is in the memory already") from error
        raise InputError(f"a value that cannot be stored: {_said(error)}") from error
    except REFUSED as error:
        raise InputError(f"a value that cannot be stored: {_said(error)}") from error
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedObject, errors.UndefinedFunction) as error:
        raise damaged(place, _said(error)) from error
    except psycopg.Error as error:
        advice = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), "check the server, try again")
        raise StorageError(f"{place}: {_said(error)}; {advice}") from error


def _said(error: BaseException) -> str:
    """Return what the server says of an error, on one line and without the values that it quotes in details."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error)).split())
