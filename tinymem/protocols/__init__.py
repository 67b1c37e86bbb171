"""The protocols of what a user may bring (embedder, vector store, token counter, summarizer, tracker) and their data.

These are structural types (`typing.Protocol`): any object with these methods will do, nothing needs to be inherited.
Arrays are numpy; every shape is in the docstring. Scores are similarities: higher is closer, always.
"""

from tinymem.protocols.adapters import (
    Embedder,
    Embeds,
    Ids,
    Metadata,
    Summarizer,
    Summarizes,
    TokenCounter,
    Vectors,
    VectorStore,
)
from tinymem.protocols.journal import Journal, Maintenance, MessageRows, SummaryRows
from tinymem.protocols.rows import (
    EmbeddedPassage,
    Lexical,
    MessageRow,
    PassageRow,
    StepRow,
    SummaryRow,
    TermCheck,
)
from tinymem.protocols.tracking import (
    NOTHING,
    Changes,
    ChangeTracker,
    NoteSource,
    PassageChange,
    Span,
    StepNote,
)

__all__ = [
    "NOTHING",
    "ChangeTracker",
    "Changes",
    "EmbeddedPassage",
    "Embedder",
    "Embeds",
    "Ids",
    "Journal",
    "Lexical",
    "Maintenance",
    "MessageRow",
    "MessageRows",
    "Metadata",
    "NoteSource",
    "PassageChange",
    "PassageRow",
    "Span",
    "StepNote",
    "StepRow",
    "Summarizer",
    "Summarizes",
    "SummaryRow",
    "SummaryRows",
    "TermCheck",
    "TokenCounter",
    "VectorStore",
    "Vectors",
]
