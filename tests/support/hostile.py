"""Text that tries to do something to whoever shows it."""

from __future__ import annotations

import re

# What a terminal obeys.
OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "[red]\x1b[31m\x1b]8;;http://evil\x07[link=http://evil]x[/]\r\n\u202e\ud800\x00 日本 👩‍👩‍👧 שלום"
