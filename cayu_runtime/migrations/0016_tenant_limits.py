"""What a tenant may have at once, and the reason of a call that may not ask because of it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0015_agreement'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='max_running_sessions',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='tenant',
            name='max_pending_approvals',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='tenant',
            name='max_steps',
            field=models.IntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ('max_pending_approvals__gte', 1), ('max_running_sessions__gte', 1), ('max_steps__gte', 1)
                ),
                name='tenant_limits_allow_one',
            ),
        ),
        migrations.RemoveConstraint(
            model_name='toolcall',
            name='call_blocked_says_why',
        ),
        migrations.AddConstraint(
            model_name='toolcall',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(('state', 'blocked'), _negated=True),
                    ('reason__in', ('invalid', 'policy', 'denied_before', 'linked', 'stale', 'limit_reached')),
                    _connector='OR',
                ),
                name='call_blocked_says_why',
            ),
        ),
    ]
