"""The rule that a tenant's history class is fixed."""

from django.db import migrations

FIXED = """
CREATE FUNCTION fairness_history_days_is_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'history_days: tenant % keeps its class of % days; it is part of the identity of its fires',
            OLD.slug, OLD.history_days USING ERRCODE = 'check_violation';
    END
$$;
CREATE TRIGGER history_days_is_fixed BEFORE UPDATE OF history_days ON fairness_tenant
    FOR EACH ROW WHEN (OLD.history_days <> NEW.history_days) EXECUTE FUNCTION fairness_history_days_is_fixed();
"""


class Migration(migrations.Migration):
    dependencies = [("fairness", "0001_initial")]

    operations = [
        migrations.RunSQL(
            FIXED,
            "DROP TRIGGER history_days_is_fixed ON fairness_tenant; DROP FUNCTION fairness_history_days_is_fixed()",
        ),
    ]
