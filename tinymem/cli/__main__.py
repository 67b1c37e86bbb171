"""The command as `python -m tinymem.cli`, without its script."""

from __future__ import annotations

from tinymem.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
