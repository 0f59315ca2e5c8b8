"""Append-only rows: triggers that refuse to change or remove them, on both databases."""

from django.db import migrations

TABLES = ("cayu_runtime_event", "cayu_runtime_auditentry", "cayu_runtime_message", "cayu_runtime_decision")

POSTGRES_FUNCTION = """
CREATE FUNCTION cayu_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are append-only', TG_TABLE_NAME USING ERRCODE = '55000';
END
$$
"""


def create(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRES_FUNCTION, params=None)
    for table in TABLES:
        for statement in statements(schema_editor.connection.vendor, table):
            schema_editor.execute(statement)


def statements(vendor, table):
    if vendor == "postgresql":
        yield (
            f"CREATE TRIGGER cayu_append_only_row BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION cayu_append_only()"
        )
        yield (
            f"CREATE TRIGGER cayu_append_only_all BEFORE TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION cayu_append_only()"
        )
    else:
        for verb in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER cayu_append_only_{verb.lower()}_{table} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are append-only'); END"
            )


def drop(apps, schema_editor):
    for table in TABLES:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP TRIGGER cayu_append_only_row ON {table}")
            schema_editor.execute(f"DROP TRIGGER cayu_append_only_all ON {table}")
        else:
            for verb in ("update", "delete"):
                schema_editor.execute(f"DROP TRIGGER cayu_append_only_{verb}_{table}")
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION cayu_append_only()")


class Migration(migrations.Migration):
    dependencies = [("cayu_runtime", "0001_initial")]

    operations = [migrations.RunPython(create, drop)]
