"""Attachments: what of a tool's result is too large for the call's row. Append-only, like 0002."""

from importlib import import_module

import django.db.models.deletion
from django.db import migrations, models

import cayu_runtime.core.ids
import cayu_runtime.models.fields

TABLES = ("cayu_runtime_attachment",)


def create(apps, schema_editor):
    vendor = schema_editor.connection.vendor
    for table in TABLES:
        for statement in import_module("cayu_runtime.migrations.0002_append_only").statements(vendor, table):
            schema_editor.execute(statement)


def drop(apps, schema_editor):
    for table in TABLES:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP TRIGGER cayu_append_only_row ON {table}")
            schema_editor.execute(f"DROP TRIGGER cayu_append_only_all ON {table}")
        else:
            for verb in ("update", "delete"):
                schema_editor.execute(f"DROP TRIGGER cayu_append_only_{verb}_{table}")


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0005_session_model_failures'),
    ]

    operations = [
        migrations.CreateModel(
            name='Attachment',
            fields=[
                (
                    'id',
                    models.UUIDField(
                        default=cayu_runtime.core.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ('position', models.SmallIntegerField()),
                ('kind', models.CharField(max_length=12)),
                ('name', models.CharField(max_length=200)),
                ('media_type', models.CharField(max_length=100)),
                ('size', models.BigIntegerField()),
                ('sha256', cayu_runtime.models.fields.DigestField(max_length=32)),
                ('body', cayu_runtime.models.fields.BytesField()),
                ('created_at', models.DateTimeField()),
                (
                    'call',
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name='attachments',
                        to='cayu_runtime.toolcall',
                    ),
                ),
                (
                    'effect',
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name='attachments',
                        to='cayu_runtime.effectrecord',
                    ),
                ),
                (
                    'session',
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to='cayu_runtime.session'
                    ),
                ),
                (
                    'tenant',
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to='cayu_runtime.tenant'
                    ),
                ),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('call', 'position'), name='attachment_position_unique'),
                    models.CheckConstraint(
                        condition=models.Q(('kind__in', ('content', 'structured', 'artifact'))),
                        name='attachment_kind_known',
                    ),
                    models.CheckConstraint(
                        condition=models.Q(('position__gte', 0), ('size__gte', 0)), name='attachment_numbers_sane'
                    ),
                ],
            },
        ),
        migrations.RunPython(create, drop),
    ]
