from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_runtime', '0004_lean_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='session',
            name='model_failures',
            field=models.SmallIntegerField(default=0),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.CheckConstraint(
                condition=models.Q(('model_failures__gte', 0)), name='session_model_failures_not_negative'
            ),
        ),
    ]
