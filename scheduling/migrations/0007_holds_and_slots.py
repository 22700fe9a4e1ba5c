"""Tenants whose due jobs wait unclaimed, and the slots of strict caps."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fairness", "0003_shares"),
        ("scheduling", "0006_execution"),
    ]

    operations = [
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("shard_id", models.SmallIntegerField()),
                ("since", models.DateTimeField(help_text="Job time.")),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="fairness.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["shard_id", "tenant"],
                "constraints": [
                    models.UniqueConstraint(models.F("shard_id"), models.F("tenant"), name="hold_is_one_a_shard")
                ],
            },
        ),
        migrations.CreateModel(
            name="Slot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "lane",
                    models.CharField(
                        blank=True, default="", help_text="Of the cap, as are tenant and task.", max_length=20
                    ),
                ),
                ("task", models.CharField(blank=True, default="", max_length=255)),
                ("number", models.PositiveIntegerField(help_text="From 1; those beyond the cap are not given out.")),
                ("fire_id", models.UUIDField(null=True)),
                ("scheduled_for", models.DateTimeField(null=True)),
                ("history_days", models.SmallIntegerField(null=True)),
                (
                    "fence",
                    models.IntegerField(
                        db_default=0,
                        default=0,
                        help_text="Of the fire, when it took the slot: under a higher one it has it no more.",
                    ),
                ),
                ("taken_at", models.DateTimeField(help_text="Real time.", null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="fairness.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["tenant", "lane", "task", "number"],
                "indexes": [
                    models.Index(
                        models.F("fire_id"), condition=models.Q(("fire_id__isnull", False)), name="slot_by_fire"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("tenant"), models.F("lane"), models.F("task"), models.F("number"), name="slot_is_one"
                    )
                ],
            },
        ),
    ]
