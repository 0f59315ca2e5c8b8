import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import cayu_runtime.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_review', '0002_roles'),
        ('cayu_runtime', '0009_idempotency'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                (
                    'id',
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ('name', models.CharField(max_length=100)),
                ('digest', cayu_runtime.models.fields.DigestField(max_length=32)),
                ('scopes', models.CharField(max_length=100)),
                ('created_by', models.CharField(max_length=200)),
                (
                    'created_at',
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(null=True)),
                (
                    'on_behalf_of',
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    'tenant',
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name='tokens', to='cayu_runtime.tenant'
                    ),
                ),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('digest',), name='token_digest_unique'),
                    models.CheckConstraint(
                        condition=models.Q(('expires_at__gt', models.F('created_at'))), name='token_has_time'
                    ),
                ],
            },
        ),
    ]
