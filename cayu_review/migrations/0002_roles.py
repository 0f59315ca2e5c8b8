from django.db import migrations, models

ROLES = ('viewer', 'approver', 'auditor', 'administrator')


class Migration(migrations.Migration):
    dependencies = [
        ('cayu_review', '0001_initial'),
    ]

    operations = [
        migrations.RemoveConstraint(model_name='membership', name='membership_role_known'),
        migrations.AlterField(
            model_name='membership',
            name='role',
            field=models.CharField(choices=[(role, role) for role in ROLES], max_length=20),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ROLES)), name='membership_role_known'),
        ),
    ]
