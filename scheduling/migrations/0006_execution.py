"""What execution needs: dead letters and their redrives, steps, the tasks that workers know, and a fire's cancellation.

What waits is indexed by tenant, so that one tenant's mass of retries hides nobody's.
"""

import django.db.models.deletion
from django.db import migrations, models


BY_WAKE_TIME = "(shard_id, wake_at)"
BY_TENANT = "(shard_id, tenant_id, wake_at)"


def _waiting_by(columns: str) -> str:
    return f"""
    DROP INDEX fire_waiting;
    CREATE INDEX fire_waiting ON scheduling_fire {columns} WHERE state IN ('parked', 'retry_wait');
    """


class Migration(migrations.Migration):
    dependencies = [
        ("fairness", "0002_history_days_is_fixed"),
        ("scheduling", "0005_edits_of_what_came_back"),
    ]

    operations = [
        migrations.RunSQL(_waiting_by(BY_TENANT), _waiting_by(BY_WAKE_TIME)),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("fire_id", models.UUIDField(null=True, unique=True)),
                ("shard_id", models.SmallIntegerField(null=True)),
                ("history_days", models.SmallIntegerField(null=True)),
                ("scheduled_for", models.DateTimeField(null=True)),
                ("fire_at", models.DateTimeField(null=True)),
                ("origin", models.TextField(db_default="", default="")),
                ("schedule_version", models.IntegerField(null=True)),
                ("fence", models.IntegerField(help_text="With which it died.", null=True)),
                ("attempts", models.IntegerField(db_default=0, default=0)),
                ("exclusive", models.BooleanField(db_default=False, default=False)),
                ("task", models.TextField(db_default="", default="")),
                ("args", models.JSONField(db_default=[], default=list)),
                ("kwargs", models.JSONField(db_default={}, default=dict)),
                (
                    "reason",
                    models.TextField(
                        choices=[
                            ("attempts_exhausted", "attempts exhausted"),
                            ("gave_up", "gave up"),
                            ("rejected", "rejected"),
                            ("delivery_limit", "delivery limit"),
                            ("undecodable", "undecodable"),
                            ("unknown_task", "unknown task"),
                            ("forged", "forged"),
                            ("cancelled", "cancelled"),
                        ]
                    ),
                ),
                ("error", models.TextField(db_default="", default="", help_text="One line.")),
                ("traceback", models.TextField(db_default="", default="", help_text="Its end, where the cause is.")),
                ("fingerprint", models.CharField(help_text="The same for those that died of the same.", max_length=16)),
                ("worker", models.TextField(db_default="", default="")),
                ("queue", models.TextField(db_default="", default="", help_text="Where the broker had the message.")),
                ("message", models.BinaryField(help_text="The beginning of what could not be read.", null=True)),
                ("died_at", models.DateTimeField(help_text="Real time.")),
                (
                    "redriven_at",
                    models.DateTimeField(help_text="Real time; empty: it waits for someone to decide.", null=True),
                ),
                ("redrives", models.IntegerField(db_default=0, default=0)),
            ],
            options={
                "ordering": ["-died_at", "-id"],
            },
        ),
        migrations.CreateModel(
            name="Redrive",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("asked_at", models.DateTimeField(help_text="Real time.")),
                ("asked_by", models.CharField(blank=True, default="", max_length=200)),
                ("rate_per_s", models.FloatField(help_text="Fires a second, at most.")),
                ("total", models.IntegerField(default=0)),
                ("moved", models.IntegerField(default=0)),
                (
                    "skipped",
                    models.IntegerField(default=0, help_text="Their jobs are deleted, or they live again already."),
                ),
                (
                    "stopped_at",
                    models.DateTimeField(help_text="Real time; what had not moved by then stays dead.", null=True),
                ),
                ("finished_at", models.DateTimeField(help_text="Real time.", null=True)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("fire_id", models.UUIDField()),
                ("name", models.CharField(max_length=200)),
                ("fence", models.IntegerField(help_text="Of the attempt that began it.")),
                ("scheduled_for", models.DateTimeField()),
                ("begun_at", models.DateTimeField(help_text="Real time.")),
                ("is_done", models.BooleanField(default=False)),
                ("result", models.JSONField(null=True)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="WorkerTask",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("is_guarded", models.BooleanField(help_text="Made with @job: it acquires its fires in the ledger.")),
                ("seen_at", models.DateTimeField(help_text="Real time.")),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="job",
            name="job_overlap_is_known",
        ),
        migrations.RemoveConstraint(
            model_name="jobrun",
            name="job_run_state_is_known",
        ),
        migrations.AddField(
            model_name="fire",
            name="cancel_reason",
            field=models.TextField(
                db_default="", default="", help_text="Why it is to stop, where that was asked for while it runs."
            ),
        ),
        migrations.AddField(
            model_name="fire",
            name="sent_again_at",
            field=models.DateTimeField(
                help_text="Real time at which its message, which seemed to be gone, was last sent once more.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="overlap",
            field=models.CharField(
                choices=[
                    ("allow", "allow"),
                    ("skip", "skip"),
                    ("buffer_one", "buffer one"),
                    ("buffer_all", "buffer all"),
                    ("cancel_running", "cancel running"),
                ],
                default="allow",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="jobrun",
            name="state",
            field=models.TextField(
                choices=[
                    ("succeeded", "succeeded"),
                    ("failed", "failed"),
                    ("lost", "lost"),
                    ("timed_out", "timed_out"),
                    ("snoozed", "snoozed"),
                    ("cancelled", "cancelled"),
                ]
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("overlap__in", ["allow", "skip", "buffer_one", "buffer_all", "cancel_running"])),
                name="job_overlap_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="jobrun",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["succeeded", "failed", "lost", "timed_out", "snoozed", "cancelled"])),
                name="job_run_state_is_known",
            ),
        ),
        migrations.AddField(
            model_name="deadletter",
            name="job",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="scheduling.job",
            ),
        ),
        migrations.AddField(
            model_name="deadletter",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="fairness.tenant",
            ),
        ),
        migrations.AddIndex(
            model_name="redrive",
            index=models.Index(
                models.F("id"),
                condition=models.Q(("finished_at__isnull", True), ("stopped_at__isnull", True)),
                name="redrive_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="redrive",
            constraint=models.CheckConstraint(
                condition=models.Q(("rate_per_s__gt", 0)), name="redrive_rate_is_positive"
            ),
        ),
        migrations.AddField(
            model_name="deadletter",
            name="redrive",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="letters",
                to="scheduling.redrive",
            ),
        ),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(models.F("scheduled_for"), name="step_by_age"),
        ),
        migrations.AddConstraint(
            model_name="step",
            constraint=models.UniqueConstraint(models.F("fire_id"), models.F("name"), name="step_is_one_for_each_name"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["-died_at", "-id"], name="dead_letter_newest"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                models.F("fingerprint"), condition=models.Q(("redriven_at__isnull", True)), name="dead_letter_alike"
            ),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["tenant", "-died_at"], name="dead_letter_of_tenant"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                models.F("redrive"),
                models.F("id"),
                condition=models.Q(("redrive__isnull", False), ("redriven_at__isnull", True)),
                name="dead_letter_to_redrive",
            ),
        ),
        migrations.AddConstraint(
            model_name="deadletter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "reason__in",
                        [
                            "attempts_exhausted",
                            "gave_up",
                            "rejected",
                            "delivery_limit",
                            "undecodable",
                            "unknown_task",
                            "forged",
                            "cancelled",
                        ],
                    )
                ),
                name="dead_letter_reason_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="deadletter",
            constraint=models.CheckConstraint(
                condition=models.Q(("redriven_at__isnull", True), ("fire_id__isnull", False), _connector="OR"),
                name="dead_letter_is_redriven_as_a_fire",
            ),
        ),
    ]
