"""The sockets that commands listen at."""

from __future__ import annotations

import socket

from tinymem.errors import InputError

__all__ = ["address", "listening"]


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at {host} port {port}: {getattr(error, 'strerror', None) or error}") from None


def address(host: str, listener: socket.socket) -> str:
    """Return the address that a browser or a client opens."""
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{listener.getsockname()[1]}"
