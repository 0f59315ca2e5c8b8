"""Standing grants, and which of them an approval was given by."""

import django.db.models.deletion
from django.db import migrations, models

import cayu_runtime.core.ids
import cayu_runtime.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0017_step_up'),
    ]

    operations = [
        migrations.CreateModel(
            name='Grant',
            fields=[
                (
                    'id',
                    models.UUIDField(
                        default=cayu_runtime.core.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ('tool', models.CharField(max_length=100)),
                ('tool_version', models.CharField(max_length=40)),
                ('agent', models.CharField(default='', max_length=100)),
                ('rules', cayu_runtime.models.fields.JSONTextField()),
                ('reason', models.CharField(max_length=500)),
                ('made_by', models.CharField(max_length=200)),
                ('made_by_name', models.CharField(max_length=200)),
                ('made_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('max_uses', models.IntegerField()),
                ('uses', models.IntegerField(default=0)),
                ('last_used_at', models.DateTimeField(null=True)),
                ('revoked_at', models.DateTimeField(null=True)),
                ('revoked_by', models.CharField(default='', max_length=200)),
                ('revoked_by_name', models.CharField(default='', max_length=200)),
                ('revoke_reason', models.CharField(default='', max_length=500)),
                (
                    'tenant',
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to='cayu_runtime.tenant'
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name='approval',
            name='grant',
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name='approvals',
                to='cayu_runtime.grant',
            ),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(
                condition=models.Q(('grant__isnull', False)), fields=['grant', '-created_at'], name='approval_of_grant'
            ),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ('grant__isnull', True),
                    models.Q(('decided_at__isnull', False), models.Q(('state', 'denied'), _negated=True)),
                    _connector='OR',
                ),
                name='approval_by_grant_is_decided',
            ),
        ),
        migrations.AddIndex(
            model_name='grant',
            index=models.Index(
                condition=models.Q(('revoked_at__isnull', True)), fields=['tenant', 'tool'], name='grant_live'
            ),
        ),
        migrations.AddIndex(
            model_name='grant',
            index=models.Index(fields=['tenant', '-made_at', '-id'], name='grant_newest'),
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(('tool', ''), _negated=True), models.Q(('tool_version', ''), _negated=True)
                ),
                name='grant_names_its_tool',
            ),
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.CheckConstraint(
                condition=models.Q(models.Q(('reason', ''), _negated=True), models.Q(('made_by', ''), _negated=True)),
                name='grant_says_who_and_why',
            ),
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.CheckConstraint(
                condition=models.Q(('expires_at__gt', models.F('made_at'))), name='grant_has_time'
            ),
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.CheckConstraint(
                condition=models.Q(('max_uses__gte', 1), ('uses__gte', 0), ('uses__lte', models.F('max_uses'))),
                name='grant_uses_bounded',
            ),
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.CheckConstraint(
                condition=models.Q(('last_used_at__isnull', True), ('uses__gte', 1), _connector='OR'),
                name='grant_dispatched_was_used',
            ),
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(('revoke_reason', ''), ('revoked_at__isnull', True), ('revoked_by', '')),
                    models.Q(
                        ('revoked_at__isnull', False),
                        models.Q(('revoked_by', ''), _negated=True),
                        models.Q(('revoke_reason', ''), _negated=True),
                    ),
                    _connector='OR',
                ),
                name='grant_revoked_by_someone',
            ),
        ),
    ]
