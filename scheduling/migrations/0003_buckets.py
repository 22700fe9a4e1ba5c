"""The time-bucketed store: entries of the jobs' next occurrences in a ring of tables, one for each minute, and one for
what is later.

A minute's table is written while its minute is to come, read and emptied while it passes, and truncated: what the
store costs depends on what is due, not on what has been. So the ring is never vacuumed.
"""

from django.db import migrations, models

RING = 64  # scheduling.store.buckets

ENTRIES = """
CREATE TABLE scheduling_entry (
    slot smallint NOT NULL,  -- the minute's place in the ring; -1: later
    shard_id smallint NOT NULL,
    tenant_id integer NOT NULL,
    schedule_version integer NOT NULL,
    fired integer NOT NULL DEFAULT 0,  -- since it left its job's row, for max_runs
    bucket bigint NOT NULL,  -- the second of fire_at
    job_id uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    fire_at timestamptz NOT NULL,
    -- one chain for each job
    CONSTRAINT entry_is_one_for_each_occurrence UNIQUE (job_id, scheduled_for, slot)
) PARTITION BY LIST (slot);
CREATE INDEX entry_due ON scheduling_entry (shard_id, bucket, tenant_id, fire_at);
CREATE TABLE scheduling_entry_later PARTITION OF scheduling_entry FOR VALUES IN (-1);
""" + "\n".join(
    f"CREATE TABLE scheduling_entry_{slot:02} PARTITION OF scheduling_entry FOR VALUES IN ({slot})"
    " WITH (autovacuum_enabled = false);"
    for slot in range(RING)
)

# As before, but that a job whose next occurrence is an entry cannot tell it: its owner, who plans it anew, looks.
AFTER_OF_ROW = "'after', coalesce(OLD.next_scheduled_for - interval '1 microsecond', OLD.schedule_changed_at),"
AFTER = (
    "'after', CASE WHEN OLD.in_bucket AND OLD.next_fire_at IS NULL THEN NULL"
    " ELSE coalesce(OLD.next_scheduled_for - interval '1 microsecond', OLD.schedule_changed_at) END,"
)
DUE_OF_ROW = "IF OLD.next_fire_at <= NEW.schedule_changed_at OR OLD.next_scheduled_for <= NEW.schedule_changed_at THEN"
DUE = (
    "IF OLD.in_bucket OR OLD.next_fire_at <= NEW.schedule_changed_at"
    " OR OLD.next_scheduled_for <= NEW.schedule_changed_at THEN"
)


def _replaced(pairs: list[tuple[str, str]]) -> str:
    """The function of the trigger, with these texts replaced in its source."""
    source = "pg_get_functiondef('fairbeat_schedule_edited'::regproc)"
    for old, new in pairs:
        source = f"replace({source}, $old${old}$old$, $new${new}$new$)"
    return f"DO $do$ BEGIN EXECUTE {source}; END $do$;"


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0002_partitions_and_functions")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="in_bucket",
            field=models.BooleanField(
                db_default=False,
                default=False,
                editable=False,
                help_text="Its next occurrence is an entry of the bucketed store.",
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(ENTRIES, "DROP TABLE scheduling_entry")],
            state_operations=[
                migrations.CreateModel(
                    name="Entry",
                    fields=[
                        ("job_id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("slot", models.SmallIntegerField()),
                        ("shard_id", models.SmallIntegerField()),
                        ("tenant_id", models.IntegerField()),
                        ("schedule_version", models.IntegerField()),
                        ("fired", models.IntegerField(default=0)),
                        ("bucket", models.BigIntegerField()),
                        ("scheduled_for", models.DateTimeField()),
                        ("fire_at", models.DateTimeField()),
                    ],
                ),
            ],
        ),
        migrations.RunSQL(
            _replaced([(AFTER_OF_ROW, AFTER), (DUE_OF_ROW, DUE)]), _replaced([(AFTER, AFTER_OF_ROW), (DUE, DUE_OF_ROW)])
        ),
    ]
