"""What Django cannot say: the partitioned tables, their indexes, and the functions that more than one process relies on."""

import django.db.models.deletion
from django.db import migrations, models

LEDGER = """
CREATE TABLE scheduling_fire (
    id uuid NOT NULL,
    job_id uuid NOT NULL,
    tenant_id integer NOT NULL,
    shard_id smallint NOT NULL,
    history_days smallint NOT NULL,
    scheduled_for timestamptz NOT NULL,
    fire_at timestamptz NOT NULL,
    origin text NOT NULL DEFAULT '',
    schedule_version integer NOT NULL,
    state text NOT NULL,
    reason text NOT NULL DEFAULT '',
    fence integer NOT NULL DEFAULT 1,
    attempt integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 1,
    exclusive boolean NOT NULL DEFAULT false,
    seq_epoch integer,
    seq bigint,
    claimed_at timestamptz,
    claimed_until timestamptz,
    confirmed boolean NOT NULL DEFAULT false,
    wake_at timestamptz,
    lease_until timestamptz,
    holder uuid,
    started_at timestamptz,
    covers integer NOT NULL DEFAULT 1,
    covers_to timestamptz,
    nominal text NOT NULL DEFAULT '',
    finished_at timestamptz,
    -- scheduled_for leads: a fire is found by the millisecond in its id, and a day is read in order
    PRIMARY KEY (scheduled_for, id, history_days),
    CONSTRAINT fire_is_one_for_each_occurrence UNIQUE (job_id, scheduled_for, origin, history_days)
) PARTITION BY LIST (history_days);

-- a take-over reads what is beyond the watermark
CREATE INDEX fire_claimed ON scheduling_fire (shard_id, seq_epoch, seq) WHERE state = 'claimed';
-- the owner's poll: what has waited long enough, and whose lease ran out
CREATE INDEX fire_waiting ON scheduling_fire (shard_id, wake_at) WHERE state IN ('parked', 'retry_wait');
CREATE INDEX fire_running ON scheduling_fire (shard_id, lease_until) WHERE state = 'running';
-- predecessors, where runs of a job may not overlap
CREATE INDEX fire_exclusive ON scheduling_fire (job_id)
    WHERE exclusive AND state IN ('claimed', 'parked', 'retry_wait', 'running');
-- stop 2: claimed, not confirmed in time
CREATE INDEX fire_unconfirmed ON scheduling_fire (claimed_until)
    WHERE state = 'claimed' AND claimed_until IS NOT NULL;

CREATE TABLE scheduling_jobrun (
    id uuid NOT NULL,
    fire_id uuid NOT NULL,
    fence integer NOT NULL,
    job_id uuid NOT NULL,
    tenant_id integer NOT NULL,
    history_days smallint NOT NULL,
    scheduled_for timestamptz NOT NULL,
    attempt integer NOT NULL,
    state text NOT NULL,
    holder uuid NOT NULL,
    worker text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    result text NOT NULL DEFAULT '',
    error text NOT NULL DEFAULT '',
    traceback text NOT NULL DEFAULT '',
    PRIMARY KEY (scheduled_for, id, history_days)
) PARTITION BY LIST (history_days);
"""

CLASSES = "\n".join(
    f"CREATE TABLE {table}_{days} PARTITION OF {table} FOR VALUES IN ({days}) PARTITION BY RANGE (scheduled_for);"
    for table in ("scheduling_fire", "scheduling_jobrun")
    for days in (7, 30, 90)
)

JOB_NOW = """
CREATE FUNCTION fairbeat_job_time(at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    -- scheduling.core.clock.TimeLapse.job_time
    SELECT coalesce(
        (SELECT c.job_origin + interval '1 second' * c.speed * coalesce(
                    least(greatest(extract(epoch FROM at - c.real_origin)::float8, 0),
                          coalesce(c.stops_after_s, 'infinity')), 0)
         FROM scheduling_jobclock c),
        at)
$$;
CREATE FUNCTION fairbeat_job_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT fairbeat_job_time(clock_timestamp())
$$;
"""

HOLD_EPOCHS = """
CREATE FUNCTION fairbeat_hold_epochs(shards smallint[], epochs integer[]) RETURNS void LANGUAGE plpgsql AS $$
    -- First statement of every transaction written under an epoch. FOR SHARE, because a take-over updates these rows:
    -- it waits for us, or we see its epoch and are refused.
    DECLARE stale text;
    BEGIN
        PERFORM s.id FROM scheduling_shard s WHERE s.id = ANY (shards) ORDER BY s.id FOR SHARE;
        SELECT string_agg(mine.id::text, ',') INTO stale
        FROM unnest(shards, epochs) AS mine(id, epoch)
        LEFT JOIN scheduling_shard s ON s.id = mine.id AND s.epoch = mine.epoch
        WHERE s.id IS NULL;
        IF stale IS NOT NULL THEN
            RAISE EXCEPTION 'stale epoch' USING ERRCODE = 'FB001', DETAIL = stale;
        END IF;
    END
$$;
"""

SCHEDULE = (
    "kind at every anchor cron rrule dtstart tz day_match gap fold start_at end_at max_runs jitter calendar_id".split()
)  # what schedule_version moves with
SCHEDULE_EDITED = f"""
CREATE FUNCTION fairbeat_schedule_edited() RETURNS trigger LANGUAGE plpgsql AS $$
    -- Up to now the old schedule may have occurrences that no claim has seen: the planner of the new one gives each its row.
    BEGIN
        NEW.schedule_version := OLD.schedule_version + 1;
        NEW.schedule_changed_at := fairbeat_job_now();
        IF OLD.next_fire_at <= NEW.schedule_changed_at OR OLD.next_scheduled_for <= NEW.schedule_changed_at THEN
            NEW.superseded := OLD.superseded || jsonb_build_array(jsonb_build_object(
                'kind', OLD.kind, 'at', OLD.at, 'every_us', (extract(epoch FROM OLD.every) * 1000000)::bigint,
                'anchor', OLD.anchor, 'cron', OLD.cron, 'rrule', OLD.rrule, 'dtstart', OLD.dtstart, 'tz', OLD.tz,
                'day_match', OLD.day_match, 'gap', OLD.gap, 'fold', OLD.fold, 'start_at', OLD.start_at,
                'end_at', OLD.end_at, 'jitter_us', (extract(epoch FROM OLD.jitter) * 1000000)::bigint,
                'after', coalesce(OLD.next_scheduled_for - interval '1 microsecond', OLD.schedule_changed_at),
                'edited_at', NEW.schedule_changed_at));
        END IF;
        IF NEW.max_runs IS NOT NULL THEN  -- claimed ahead: they will be claimed anew, and counted then, or superseded
            NEW.fired := OLD.fired - (
                SELECT count(*) FROM scheduling_fire f
                WHERE f.job_id = OLD.id AND f.scheduled_for > NEW.schedule_changed_at AND f.origin = ''
                  AND f.attempt = 0 AND f.state IN ('claimed', 'parked'));
        END IF;
        NEW.next_scheduled_for := NULL;
        NEW.next_fire_at := NEW.schedule_changed_at;
        NEW.problem := '';
        PERFORM pg_notify('fairbeat', NEW.shard_id::text);
        RETURN NEW;
    END
$$;
CREATE TRIGGER schedule_edited BEFORE UPDATE OF {", ".join(SCHEDULE)} ON scheduling_job
    FOR EACH ROW WHEN (
        ({", ".join(f"OLD.{name}" for name in SCHEDULE)})
        IS DISTINCT FROM ({", ".join(f"NEW.{name}" for name in SCHEDULE)})
        AND NEW.deleted_at IS NULL)
    EXECUTE FUNCTION fairbeat_schedule_edited();
"""

CALENDAR_OF_TENANT = """
CREATE FUNCTION fairbeat_calendar_is_foreign(calendar bigint, tenant bigint) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'calendar %: a job of tenant % may not use the calendar of another tenant', calendar, tenant
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_calendar_is_of_its_tenant';
    END
$$;
CREATE FUNCTION fairbeat_job_takes_calendar() RETURNS trigger LANGUAGE plpgsql AS $$
    -- FOR SHARE: a change of the calendar's tenant waits for us, and then finds this job
    DECLARE owner bigint;
    BEGIN
        SELECT tenant_id INTO owner FROM scheduling_calendar WHERE id = NEW.calendar_id FOR SHARE;
        IF owner <> NEW.tenant_id THEN
            PERFORM fairbeat_calendar_is_foreign(NEW.calendar_id, NEW.tenant_id);
        END IF;
        RETURN NEW;
    END
$$;
CREATE TRIGGER calendar_is_of_its_tenant BEFORE INSERT OR UPDATE OF calendar_id, tenant_id ON scheduling_job
    FOR EACH ROW WHEN (NEW.calendar_id IS NOT NULL) EXECUTE FUNCTION fairbeat_job_takes_calendar();
CREATE FUNCTION fairbeat_calendar_moves() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE other bigint;
    BEGIN
        SELECT tenant_id INTO other FROM scheduling_job
        WHERE calendar_id = NEW.id AND tenant_id <> NEW.tenant_id LIMIT 1;
        IF FOUND THEN
            PERFORM fairbeat_calendar_is_foreign(NEW.id, other);
        END IF;
        RETURN NEW;
    END
$$;
CREATE TRIGGER calendar_moves BEFORE UPDATE OF tenant_id ON scheduling_calendar
    FOR EACH ROW WHEN (NEW.tenant_id IS DISTINCT FROM OLD.tenant_id) EXECUTE FUNCTION fairbeat_calendar_moves();
"""
NO_CALENDAR_OF_TENANT = """
DROP TRIGGER calendar_is_of_its_tenant ON scheduling_job;
DROP TRIGGER calendar_moves ON scheduling_calendar;
DROP FUNCTION fairbeat_job_takes_calendar();
DROP FUNCTION fairbeat_calendar_moves();
DROP FUNCTION fairbeat_calendar_is_foreign(bigint, bigint);
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(LEDGER + CLASSES, "DROP TABLE scheduling_fire; DROP TABLE scheduling_jobrun;")
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Fire",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("shard_id", models.SmallIntegerField()),
                        ("history_days", models.SmallIntegerField()),
                        ("scheduled_for", models.DateTimeField()),
                        ("fire_at", models.DateTimeField()),
                        (
                            "origin",
                            models.TextField(
                                default="", help_text="Empty for the schedule's own; manual:… or backfill:… otherwise."
                            ),
                        ),
                        ("schedule_version", models.IntegerField()),
                        (
                            "state",
                            models.TextField(
                                choices=[
                                    ("claimed", "claimed"),
                                    ("parked", "parked"),
                                    ("retry_wait", "retry wait"),
                                    ("running", "running"),
                                    ("succeeded", "succeeded"),
                                    ("skipped", "skipped"),
                                    ("dead", "dead"),
                                ]
                            ),
                        ),
                        (
                            "reason",
                            models.TextField(default="", help_text="Why it is skipped, parked, dead or waiting."),
                        ),
                        ("fence", models.IntegerField(default=1)),
                        ("attempt", models.IntegerField(default=0)),
                        ("max_attempts", models.IntegerField(default=1)),
                        (
                            "exclusive",
                            models.BooleanField(default=False, help_text="Its job does not let runs overlap."),
                        ),
                        ("seq_epoch", models.IntegerField(null=True)),
                        ("seq", models.BigIntegerField(null=True)),
                        ("claimed_at", models.DateTimeField(help_text="Real time.", null=True)),
                        (
                            "claimed_until",
                            models.DateTimeField(
                                help_text="Stop 2: published by then, or any node does it again.", null=True
                            ),
                        ),
                        ("confirmed", models.BooleanField(default=False, help_text="Stop 2: the broker has it.")),
                        (
                            "wake_at",
                            models.DateTimeField(help_text="Job time at which its owner looks at it again.", null=True),
                        ),
                        (
                            "lease_until",
                            models.DateTimeField(help_text="Real time at which its holder's lease ends.", null=True),
                        ),
                        ("holder", models.UUIDField(help_text="The delivery that runs it.", null=True)),
                        (
                            "started_at",
                            models.DateTimeField(help_text="Real time at which the current attempt began.", null=True),
                        ),
                        ("covers", models.IntegerField(default=1, help_text="Occurrences that this row accounts for.")),
                        ("covers_to", models.DateTimeField(help_text="The last of them.", null=True)),
                        (
                            "nominal",
                            models.TextField(
                                default="", help_text="Local times that the zone skips, for which it stands."
                            ),
                        ),
                        ("finished_at", models.DateTimeField(help_text="Real time.", null=True)),
                        (
                            "tenant",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="fairness.tenant",
                            ),
                        ),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="fires",
                                to="scheduling.job",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-scheduled_for", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="JobRun",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("fire_id", models.UUIDField()),
                        ("fence", models.IntegerField()),
                        ("history_days", models.SmallIntegerField()),
                        ("scheduled_for", models.DateTimeField()),
                        ("attempt", models.IntegerField()),
                        (
                            "state",
                            models.TextField(
                                choices=[("succeeded", "succeeded"), ("failed", "failed"), ("lost", "lost")]
                            ),
                        ),
                        ("holder", models.UUIDField()),
                        ("worker", models.TextField(default="")),
                        ("started_at", models.DateTimeField(help_text="Real time.")),
                        ("finished_at", models.DateTimeField(help_text="Real time.")),
                        ("result", models.TextField(default="")),
                        ("error", models.TextField(default="")),
                        ("traceback", models.TextField(default="")),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="runs",
                                to="scheduling.job",
                            ),
                        ),
                        (
                            "tenant",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="fairness.tenant",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-scheduled_for", "-id"],
                    },
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["claimed", "parked", "retry_wait", "running", "succeeded", "skipped", "dead"])
                ),
                name="fire_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(condition=models.Q(("fence__gte", 1)), name="fire_fence_starts_at_one"),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(("attempt__gte", 0)), name="fire_attempt_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(("covers__gte", 1)), name="fire_covers_at_least_itself"
            ),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True),
                    models.Q(("holder__isnull", False), ("lease_until__isnull", False)),
                    _connector="OR",
                ),
                name="fire_running_has_holder_and_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["parked", "retry_wait"]), _negated=True),
                    ("wake_at__isnull", False),
                    _connector="OR",
                ),
                name="fire_waiting_has_wake_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["parked", "skipped", "dead"]), _negated=True),
                    models.Q(("reason", ""), _negated=True),
                    _connector="OR",
                ),
                name="fire_unrun_has_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="fire",
            constraint=models.CheckConstraint(
                condition=models.Q(models.Q(("state", "skipped"), _negated=True), ("attempt", 0), _connector="OR"),
                name="fire_skipped_never_started",
            ),
        ),
        migrations.AddConstraint(
            model_name="jobrun",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["succeeded", "failed", "lost"])), name="job_run_state_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="jobrun",
            constraint=models.CheckConstraint(
                condition=models.Q(("attempt__gte", 1)), name="job_run_attempt_counts_from_one"
            ),
        ),
        migrations.AddConstraint(
            model_name="jobrun",
            constraint=models.CheckConstraint(
                condition=models.Q(("finished_at__gte", models.F("started_at"))), name="job_run_ends_after_it_starts"
            ),
        ),
        migrations.RunSQL(JOB_NOW, "DROP FUNCTION fairbeat_job_now(); DROP FUNCTION fairbeat_job_time(timestamptz);"),
        migrations.RunSQL(HOLD_EPOCHS, "DROP FUNCTION fairbeat_hold_epochs(smallint[], integer[])"),
        migrations.RunSQL(
            SCHEDULE_EDITED,
            "DROP TRIGGER schedule_edited ON scheduling_job; DROP FUNCTION fairbeat_schedule_edited()",
        ),
        migrations.RunSQL(CALENDAR_OF_TENANT, NO_CALENDAR_OF_TENANT),
    ]
