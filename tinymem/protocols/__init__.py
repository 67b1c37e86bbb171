"""The protocols of what a user may bring (embedder, vector store, token counter, summarizer, journal) and their data.

These are structural types (`typing.Protocol`): any object with these methods will do, nothing needs to be inherited.
`tinymem.testing` holds the contract that each must pass. Arrays are numpy; every shape is in the docstring. Scores are
similarities: higher is closer, always.
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
from tinymem.protocols.journal import Finder, Journal, Maintenance, MessageRows, SummaryRows
from tinymem.protocols.rows import (
    ALL_PASSAGES,
    Change,
    EmbeddedPassage,
    Facts,
    FiledStep,
    FileNote,
    Lexical,
    MessageRow,
    PassageColumns,
    PassageRow,
    Place,
    Slice,
    Sought,
    StepOutline,
    StepRow,
    SummaryRow,
    Tally,
    TermCheck,
    VectorCheck,
)

__all__ = [
    "ALL_PASSAGES",
    "Change",
    "EmbeddedPassage",
    "Embedder",
    "Embeds",
    "Facts",
    "FileNote",
    "FiledStep",
    "Finder",
    "Ids",
    "Journal",
    "Lexical",
    "Maintenance",
    "MessageRow",
    "MessageRows",
    "Metadata",
    "PassageColumns",
    "PassageRow",
    "Place",
    "Slice",
    "Sought",
    "StepOutline",
    "StepRow",
    "Summarizer",
    "Summarizes",
    "SummaryRow",
    "SummaryRows",
    "Tally",
    "TermCheck",
    "TokenCounter",
    "VectorCheck",
    "VectorStore",
    "Vectors",
]
