"""Quarantine after a restored backup, what ties its rows to their evidence, and digests that are whole.

SQLite makes a table anew to give it a constraint, and its triggers do not come along: they are put back.
"""

from importlib import import_module

import django.db.models.deletion
import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models

import cayu_runtime.core.ids

TABLES = [
    table
    for name in ("0002_append_only", "0006_attachment")
    for table in import_module(f"cayu_runtime.migrations.{name}").TABLES
]


def put_triggers_back(apps, schema_editor):
    if schema_editor.connection.vendor != "sqlite":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'cayu_append_only_*'")
        guarded = {table for (table,) in cursor.fetchall()}
    for table in TABLES:
        if table not in guarded:
            for statement in import_module("cayu_runtime.migrations.0002_append_only").statements("sqlite", table):
                schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0009_idempotency'),
    ]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, put_triggers_back),
        migrations.CreateModel(
            name='Quarantine',
            fields=[
                (
                    'id',
                    models.UUIDField(
                        default=cayu_runtime.core.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ('reason', models.CharField(max_length=500)),
                ('started_by', models.CharField(max_length=200)),
                ('started_by_name', models.CharField(max_length=200)),
                ('started_at', models.DateTimeField()),
                ('newest_record_at', models.DateTimeField(null=True)),
                ('cursor', models.UUIDField(null=True)),
                ('taken_at', models.DateTimeField(null=True)),
                ('released_at', models.DateTimeField(null=True)),
                ('released_by', models.CharField(default='', max_length=200)),
                ('release_reason', models.CharField(default='', max_length=500)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='dispatchpause',
            name='pause_unique',
        ),
        migrations.RemoveConstraint(
            model_name='dispatchpause',
            name='pause_unique_everywhere',
        ),
        migrations.RemoveConstraint(
            model_name='effectrecord',
            name='effect_unknown_was_dispatched',
        ),
        migrations.AddIndex(
            model_name='effectrecord',
            index=models.Index(
                condition=models.Q(
                    ('quarantined_at__isnull', False), ('state__in', ('outcome_unknown', 'manual_review'))
                ),
                fields=['tenant', 'id'],
                name='effect_quarantined',
            ),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('intent_digest'), 32)
                ),
                name='approval_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='attachment',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('sha256'), 32)
                ),
                name='attachment_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('request_digest'), 32)
                ),
                name='attempt_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='auditentry',
            constraint=models.CheckConstraint(
                condition=models.Q(django.db.models.lookups.Exact(django.db.models.functions.text.Length('hash'), 32)),
                name='audit_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('digest'), 32)
                ),
                name='decision_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='effectrecord',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('action_digest'), 32),
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('intent_digest'), 32),
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('receipt_digest'), 32),
                ),
                name='effect_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='effectrecord',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ('state__in', ('proposed', 'authorized', 'abandoned')),
                    ('dispatch_id__isnull', False),
                    ('quarantined_at__isnull', False),
                    _connector='OR',
                ),
                name='effect_unknown_was_dispatched',
            ),
        ),
        migrations.AddConstraint(
            model_name='effectrecord',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(('state__in', ('proposed', 'abandoned')), _negated=True),
                    ('quarantined_at__isnull', True),
                    _connector='OR',
                ),
                name='effect_quarantined_at_absent',
            ),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.CheckConstraint(
                condition=models.Q(django.db.models.lookups.Exact(django.db.models.functions.text.Length('hash'), 32)),
                name='event_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('request_digest'), 32)
                ),
                name='idempotency_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('fields_digest'), 32)
                ),
                name='proposal_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='question',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('digest'), 32)
                ),
                name='question_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('last_hash'), 32)
                ),
                name='session_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('audit_hash'), 32)
                ),
                name='tenant_digests_whole',
            ),
        ),
        migrations.AddConstraint(
            model_name='toolcall',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('schema_digest'), 32),
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('action_digest'), 32),
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('intent_digest'), 32),
                    django.db.models.lookups.Exact(django.db.models.functions.text.Length('policy_digest'), 32),
                ),
                name='call_digests_whole',
            ),
        ),
        migrations.AddField(
            model_name='quarantine',
            name='tenant',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='cayu_runtime.tenant'),
        ),
        migrations.AddField(
            model_name='dispatchpause',
            name='quarantine',
            field=models.OneToOneField(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name='pause',
                to='cayu_runtime.quarantine',
            ),
        ),
        migrations.AddConstraint(
            model_name='dispatchpause',
            constraint=models.UniqueConstraint(
                condition=models.Q(('quarantine__isnull', True), ('tenant__isnull', False)),
                fields=('tenant', 'tool', 'agent'),
                name='pause_unique',
            ),
        ),
        migrations.AddConstraint(
            model_name='dispatchpause',
            constraint=models.UniqueConstraint(
                condition=models.Q(('quarantine__isnull', True), ('tenant__isnull', True)),
                fields=('tool', 'agent'),
                name='pause_unique_everywhere',
            ),
        ),
        migrations.AddConstraint(
            model_name='dispatchpause',
            constraint=models.UniqueConstraint(
                condition=models.Q(('quarantine__isnull', False), ('tenant__isnull', False)),
                fields=('tenant',),
                name='pause_one_quarantine',
            ),
        ),
        migrations.AddConstraint(
            model_name='dispatchpause',
            constraint=models.UniqueConstraint(
                condition=models.Q(('quarantine__isnull', False), ('tenant__isnull', True)),
                fields=('tool',),
                name='pause_one_quarantine_everywhere',
            ),
        ),
        migrations.AddConstraint(
            model_name='dispatchpause',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ('quarantine__isnull', True), models.Q(('agent', ''), ('tool', '')), _connector='OR'
                ),
                name='pause_quarantine_holds_all',
            ),
        ),
        migrations.AddConstraint(
            model_name='quarantine',
            constraint=models.CheckConstraint(
                condition=models.Q(('reason', ''), _negated=True), name='quarantine_says_why'
            ),
        ),
        migrations.AddConstraint(
            model_name='quarantine',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(('release_reason', ''), ('released_at__isnull', True), ('released_by', '')),
                    models.Q(
                        ('released_at__gte', models.F('taken_at')),
                        ('released_at__isnull', False),
                        ('taken_at__isnull', False),
                        models.Q(('released_by', ''), _negated=True),
                        models.Q(('release_reason', ''), _negated=True),
                    ),
                    _connector='OR',
                ),
                name='quarantine_released_by_someone_when_whole',
            ),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(
                condition=models.Q(('stopped_by__isnull', False)),
                fields=['tenant', 'updated_at'],
                name='session_stopped',
            ),
        ),
        migrations.RunPython(put_triggers_back, migrations.RunPython.noop),
    ]
