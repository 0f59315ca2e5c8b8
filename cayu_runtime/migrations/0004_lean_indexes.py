"""Indexes of references that are nearly always null hold only those that are set.

Each is dropped by its name: altering the column would drop what else stands on it, and make SQLite copy the table.
"""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

FULL = {
    "cayu_runtime_toolcall_held_by_id_be78a136": ("toolcall", "held_by"),
    "cayu_runtime_toolcall_repeats_id_db480a70": ("toolcall", "repeats"),
    "cayu_runtime_effectrecord_linked_to_id_0198183b": ("effectrecord", "linked_to"),
}


def reference(related_name: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.PROTECT,
        related_name=related_name,
        to="cayu_runtime.effectrecord",
    )


class Migration(migrations.Migration):
    dependencies = [("cayu_runtime", "0003_worker")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(f"DROP INDEX {index}", f"CREATE INDEX {index} ON cayu_runtime_{table} ({column}_id)")
                for index, (table, column) in FULL.items()
            ],
            state_operations=[
                migrations.AlterField("toolcall", "held_by", reference("holds")),
                migrations.AlterField("toolcall", "repeats", reference("repeated_by")),
                migrations.AlterField("effectrecord", "linked_to", reference("linked")),
            ],
        ),
        migrations.AddIndex(
            "toolcall",
            models.Index(fields=["held_by"], name="call_held", condition=models.Q(("held_by__isnull", False))),
        ),
        migrations.AddIndex(
            "toolcall",
            models.Index(fields=["repeats"], name="call_repeats", condition=models.Q(("repeats__isnull", False))),
        ),
        migrations.AddIndex(
            "effectrecord",
            models.Index(fields=["linked_to"], name="effect_linked", condition=models.Q(("linked_to__isnull", False))),
        ),
    ]
