from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0011_worker_ends'),
    ]

    operations = [
        migrations.AddField(
            model_name='question',
            name='requester',
            field=models.CharField(default='', max_length=200),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='question',
            name='requester_name',
            field=models.CharField(default='', max_length=200),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(condition=models.Q(('state', 'pending')), fields=['expires_at'], name='question_due'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(
                condition=models.Q(('state', 'answered')), fields=['tenant', '-closed_at'], name='question_answered'
            ),
        ),
    ]
