"""What sharing needs: tenants' limits and quotas, queues that are in use, workers' reports, and how tenants stand."""

import datetime
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


# What the fair queue would refuse; nobody can have meant the difference.
WITHIN_BOUNDS = """
UPDATE fairness_tenant SET weight = 0.001 WHERE weight < 0.001;
UPDATE fairness_tenant SET rate_per_s = least(greatest(rate_per_s, 1e-9), 1e9) WHERE rate_per_s < 1e-9 OR rate_per_s > 1e9;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("fairness", "0002_history_days_is_fixed"),
    ]

    operations = [
        migrations.RunSQL(WITHIN_BOUNDS, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", models.AutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField(help_text="UTC, on the job clock.")),
                ("taken", models.PositiveIntegerField(default=0)),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text="Real time."),
                ),
            ],
            options={
                "ordering": ["-day", "tenant"],
            },
        ),
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("id", models.AutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "lane",
                    models.CharField(
                        blank=True,
                        choices=[("transactional", "transactional"), ("bulk", "bulk")],
                        default="",
                        help_text="Empty: both lanes together.",
                        max_length=20,
                    ),
                ),
                (
                    "task",
                    models.CharField(
                        blank=True, default="", help_text="Name of a task. Empty: all together.", max_length=255
                    ),
                ),
                (
                    "rate_per_s",
                    models.FloatField(
                        blank=True, help_text="Fires a second. Empty: no rate.", null=True, verbose_name="rate"
                    ),
                ),
                ("burst", models.PositiveIntegerField(default=1, help_text="Fires that may go at once after a rest.")),
                (
                    "max_in_flight",
                    models.PositiveIntegerField(
                        blank=True, help_text="Fires that may be with the workers at once. Empty: no cap.", null=True
                    ),
                ),
                (
                    "is_strict",
                    models.BooleanField(
                        default=False, help_text="The cap holds whatever fails.", verbose_name="strict cap"
                    ),
                ),
            ],
            options={
                "ordering": ["tenant", "lane", "task"],
            },
        ),
        migrations.CreateModel(
            name="ServedShare",
            fields=[
                ("id", models.AutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("minute", models.DateTimeField(help_text="Its beginning, real time.")),
                ("lane", models.CharField(max_length=20)),
                ("weight", models.FloatField()),
                ("served_s", models.FloatField(default=0.0, help_text="Slot-seconds.")),
                ("starts", models.PositiveIntegerField(default=0)),
                ("throttled", models.PositiveIntegerField(default=0, help_text="Times that a limit said: later.")),
                (
                    "refused",
                    models.PositiveIntegerField(
                        default=0, help_text="Jobs that a quota refused, or fires that the broker did."
                    ),
                ),
                (
                    "backlogged_s",
                    models.FloatField(
                        default=0.0, help_text="Seconds of the minute in which something waited for its turn."
                    ),
                ),
            ],
            options={
                "ordering": ["-minute", "tenant", "lane"],
            },
        ),
        migrations.CreateModel(
            name="Standing",
            fields=[
                ("id", models.AutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node", models.CharField(max_length=200)),
                ("lane", models.CharField(max_length=20)),
                ("at", models.DateTimeField(help_text="Real time at which it was written.")),
                ("waiting", models.PositiveIntegerField(help_text="Fires that the node holds for their turn.")),
                (
                    "in_flight",
                    models.PositiveIntegerField(
                        help_text="Fires of the node that are with the broker and the workers."
                    ),
                ),
                (
                    "reason",
                    models.TextField(
                        blank=True, default="", help_text="What holds the first of them. Empty: its turn."
                    ),
                ),
                (
                    "until",
                    models.DateTimeField(
                        help_text="Real time at which that is asked again; empty: when one ends.", null=True
                    ),
                ),
                ("weight", models.FloatField()),
                ("starts_per_s", models.FloatField(default=0.0, help_text="Over the last minute.")),
                (
                    "served_per_s",
                    models.FloatField(default=0.0, help_text="Slot-seconds a second, over the last minute."),
                ),
                ("mean_s", models.FloatField(default=0.0, help_text="Slot-seconds of one fire, as expected.")),
                ("oldest_at", models.DateTimeField(help_text="When the oldest that waits was due.", null=True)),
                (
                    "grants",
                    models.JSONField(default=list, help_text="The last hundred: fire and instant, newest first."),
                ),
            ],
            options={
                "ordering": ["tenant", "lane", "node"],
            },
        ),
        migrations.CreateModel(
            name="TenantQueue",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("lane", models.CharField(max_length=20)),
                ("made_at", models.DateTimeField(help_text="Real time.")),
                (
                    "used_at",
                    models.DateTimeField(
                        help_text="Real time at which something was last known to be published to it; coarse."
                    ),
                ),
                (
                    "retired_at",
                    models.DateTimeField(
                        help_text="Real time from which nothing is published to it any more: it is being emptied.",
                        null=True,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="WorkerReport",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("started_at", models.DateTimeField(help_text="Real time.")),
                ("seen_at", models.DateTimeField(help_text="Real time, by the database's clock.")),
                ("interval_s", models.FloatField(help_text="Real seconds since the last report.")),
                ("slots", models.PositiveIntegerField(help_text="Tasks that it can run at once.")),
                ("busy", models.PositiveIntegerField(help_text="Tasks that run now.")),
                ("waiting", models.PositiveIntegerField(help_text="Messages that it holds, and that do not run yet.")),
                ("idle_s", models.FloatField(help_text="Slot-seconds without a task.")),
                ("ran", models.PositiveIntegerField(help_text="Tasks that ended.")),
                ("ran_s", models.FloatField(help_text="Slot-seconds that these took.")),
                ("is_leaving", models.BooleanField(default=False, help_text="It ends once what it runs has ended.")),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="tenant",
            name="tenant_weight_is_positive",
        ),
        migrations.RemoveConstraint(
            model_name="tenant",
            name="tenant_rate_is_positive",
        ),
        migrations.AddField(
            model_name="tenant",
            name="burst",
            field=models.PositiveIntegerField(
                db_default=1, default=1, help_text="Fires that may go at once after a rest."
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="daily_fires",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Fires a day (UTC, on the job clock); the others wait for the next. Empty: no budget.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="is_strict",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="The cap holds whatever fails, by rows in Postgres; it costs a statement for each batch of fires.",
                verbose_name="strict cap",
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Fires that may be with the workers at once; the others wait. Empty: no cap.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="max_jobs",
            field=models.PositiveIntegerField(
                blank=True, help_text="Jobs that it may have; one more is refused. Empty: no quota.", null=True
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="stagger",
            field=models.DurationField(
                blank=True,
                help_text="Jitter of its jobs that name none, so that they do not all fire at the top of the hour.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="transactional_weight",
            field=models.FloatField(
                blank=True,
                help_text="Its weight in the transactional lane, where its plan has another one there. Empty: the same.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="rate_per_s",
            field=models.FloatField(
                blank=True,
                help_text="Fires a second; what is beyond waits, and a denser schedule is warned of. Empty: no rate.",
                null=True,
                verbose_name="rate",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(("weight__gte", 0.001), ("weight__lte", 10000.0)),
                name="tenant_weight_is_positive",
                violation_error_message="weight: a number from 0.001 to 10000",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("transactional_weight__isnull", True),
                    models.Q(("transactional_weight__gte", 0.001), ("transactional_weight__lte", 10000.0)),
                    _connector="OR",
                ),
                name="tenant_transactional_weight_is_one",
                violation_error_message="transactional weight: a number from 0.001 to 10000, or empty",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(("burst__gte", 1)),
                name="tenant_burst_is_positive",
                violation_error_message="burst: at least 1",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_strict", False), ("max_in_flight__isnull", False), _connector="OR"),
                name="tenant_strict_needs_a_cap",
                violation_error_message="strict cap: needs a number of fires that may be in flight",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("stagger__isnull", True),
                    models.Q(("stagger__gte", datetime.timedelta(0)), ("stagger__lte", datetime.timedelta(days=1))),
                    _connector="OR",
                ),
                name="tenant_stagger_is_a_span",
                violation_error_message="stagger: from 0 to a day, or empty",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("rate_per_s__isnull", True),
                    models.Q(("rate_per_s__gte", 1e-09), ("rate_per_s__lte", 1000000000.0)),
                    _connector="OR",
                ),
                name="tenant_rate_is_positive",
                violation_error_message="rate: a number from 1e-9 to 1e9, or empty",
            ),
        ),
        migrations.AddField(
            model_name="budget",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="budgets", to="fairness.tenant"
            ),
        ),
        migrations.AddField(
            model_name="limit",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="limits", to="fairness.tenant"
            ),
        ),
        migrations.AddField(
            model_name="servedshare",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="served_shares", to="fairness.tenant"
            ),
        ),
        migrations.AddField(
            model_name="standing",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="standings", to="fairness.tenant"
            ),
        ),
        migrations.AddField(
            model_name="tenantqueue",
            name="tenant",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="queues", to="fairness.tenant"
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.UniqueConstraint(models.F("tenant"), models.F("day"), name="budget_is_one_a_day"),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.UniqueConstraint(
                models.F("tenant"), models.F("lane"), models.F("task"), name="limit_is_one_of_its_kind"
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("lane", ""), ("task", ""), _negated=True),
                name="limit_is_of_a_part",
                violation_error_message="lane, task: name one of them; a limit of the whole tenant is its own field",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("lane__in", ["", "transactional", "bulk"])),
                name="limit_lane_is_known",
                violation_error_message="lane: transactional or bulk, or empty",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("rate_per_s__isnull", False), ("max_in_flight__isnull", False), _connector="OR"),
                name="limit_bounds_something",
                violation_error_message="rate, max in flight: give one of them, or delete the limit",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("rate_per_s__isnull", True),
                    models.Q(("rate_per_s__gte", 1e-09), ("rate_per_s__lte", 1000000000.0)),
                    _connector="OR",
                ),
                name="limit_rate_is_positive",
                violation_error_message="rate: a number from 1e-9 to 1e9, or empty",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("burst__gte", 1)),
                name="limit_burst_is_positive",
                violation_error_message="burst: at least 1",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_strict", False), ("max_in_flight__isnull", False), _connector="OR"),
                name="limit_strict_needs_a_cap",
                violation_error_message="strict cap: needs a number of fires that may be in flight",
            ),
        ),
        migrations.AddConstraint(
            model_name="servedshare",
            constraint=models.UniqueConstraint(
                models.F("minute"), models.F("tenant"), models.F("lane"), name="served_share_is_one_a_minute"
            ),
        ),
        migrations.AddConstraint(
            model_name="standing",
            constraint=models.UniqueConstraint(
                models.F("node"), models.F("tenant"), models.F("lane"), name="standing_is_one_a_node"
            ),
        ),
    ]
