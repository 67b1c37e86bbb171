"""Ports of the loopback interface."""

from __future__ import annotations

import socket
import time


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    """Return once somebody listens."""
    for _ in range(6_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")
