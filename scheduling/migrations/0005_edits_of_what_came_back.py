"""An edit counts anew what the end of a pause has brought back and has not started, as it does what was claimed ahead:
the new schedule's claim takes it over, and counts it for max_runs.
"""

from django.db import migrations

UNSTARTED, WITH_WHAT_CAME_BACK = "('claimed', 'parked')", "('claimed', 'parked', 'retry_wait')"


def _with_states(old: str, new: str) -> str:
    """The function of the trigger, with these states instead of those."""
    source = "pg_get_functiondef('fairbeat_schedule_edited'::regproc)"
    return f"DO $do$ BEGIN EXECUTE replace({source}, $old${old}$old$, $new${new}$new$); END $do$;"


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0004_code_entries")]

    operations = [
        migrations.RunSQL(_with_states(UNSTARTED, WITH_WHAT_CAME_BACK), _with_states(WITH_WHAT_CAME_BACK, UNSTARTED))
    ]
