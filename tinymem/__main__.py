"""The command `tinymem` as `python -m tinymem`."""

from tinymem.cli.__main__ import main

if __name__ == "__main__":
    main()
