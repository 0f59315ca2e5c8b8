import django.db.models.deletion
from django.db import migrations, models

import cayu_runtime.core.ids
import cayu_runtime.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0010_question'),
    ]

    operations = [
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                (
                    'id',
                    models.UUIDField(
                        default=cayu_runtime.core.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ('owner', models.CharField(max_length=200)),
                ('key', models.CharField(max_length=200)),
                ('request_digest', cayu_runtime.models.fields.DigestField(max_length=32)),
                ('position', models.IntegerField()),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
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
                'indexes': [models.Index(fields=['expires_at'], name='idempotency_over')],
                'constraints': [
                    models.UniqueConstraint(fields=('tenant', 'owner', 'key'), name='idempotency_key_once'),
                    models.CheckConstraint(
                        condition=models.Q(('expires_at__gt', models.F('created_at')), ('position__gte', 0)),
                        name='idempotency_is_sane',
                    ),
                ],
            },
        ),
    ]
