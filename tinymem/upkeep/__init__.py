"""Upkeep: forget, keep within limits, embed again, examine, repair, export and import a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.upkeep.diagnosis import Diagnosis, Finding, doctor, rebuild
    from tinymem.upkeep.exporting import Exported, export_memory
    from tinymem.upkeep.importing import Imported, import_memory
    from tinymem.upkeep.migration import Migrated, migrate
    from tinymem.upkeep.reindexing import Reindexed, reindex
    from tinymem.upkeep.retention import Retention, RetentionReport
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "diagnosis": "Diagnosis Finding doctor rebuild",
        "exporting": "Exported export_memory",
        "importing": "Imported import_memory",
        "migration": "Migrated migrate",
        "reindexing": "Reindexed reindex",
        "retention": "Retention RetentionReport",
    })  # fmt: skip

__all__ = [
    "Diagnosis", "Exported", "Finding", "Imported", "Migrated", "Reindexed", "Retention", "RetentionReport",
    "doctor", "export_memory", "import_memory", "migrate", "rebuild", "reindex",
]  # fmt: skip
