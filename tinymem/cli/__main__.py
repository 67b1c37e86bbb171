"""The command as `python -m tinymem.cli`, and what its script calls: light, since all else takes half a second."""

from __future__ import annotations

import os
import signal

__all__ = ["main"]

INTERRUPTED = 130  # the exit status of a command that Ctrl-C ends


def main() -> None:
    """Run the command; Ctrl-C ends it quietly, also while it is loaded."""
    if is_usual := signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as by nohup
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from tinymem.cli.main import main as run

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
