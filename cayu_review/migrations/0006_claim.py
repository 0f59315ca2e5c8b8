"""Who is looking at a waiting approval."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_review', '0005_membership_limits'),
        ('cayu_runtime', '0016_tenant_limits'),
    ]

    operations = [
        migrations.CreateModel(
            name='Claim',
            fields=[
                (
                    'approval',
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name='+',
                        serialize=False,
                        to='cayu_runtime.approval',
                    ),
                ),
                ('holder', models.CharField(max_length=200)),
                ('holder_name', models.CharField(max_length=200)),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
                (
                    'tenant',
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name='+',
                        to='cayu_runtime.tenant',
                    ),
                ),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'until'], name='claim_of_tenant')],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('until__gt', models.F('since'))), name='claim_has_time')
                ],
            },
        ),
    ]
