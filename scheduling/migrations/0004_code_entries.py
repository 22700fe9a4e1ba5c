"""Jobs that an entry of a Celery app's beat_schedule makes, and what the code said of each last."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0003_buckets"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="origin",
            field=models.CharField(
                blank=True,
                choices=[("", "by hand"), ("code", "code")],
                db_default="",
                default="",
                editable=False,
                help_text="Code: made by an entry of a Celery app's beat_schedule, which changes what nobody has changed here.",
                max_length=10,
            ),
        ),
        migrations.CreateModel(
            name="CodeEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("app", models.CharField(help_text="Main name of the Celery app.", max_length=200)),
                ("name", models.CharField(help_text="Key in its beat_schedule.", max_length=200)),
                ("said", models.JSONField(help_text="What the code said, by parts of a job.")),
                (
                    "gone",
                    models.BooleanField(
                        default=False, help_text="The code does not have it any more, and its job was paused."
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="scheduling.job",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "code entries",
                "constraints": [
                    models.UniqueConstraint(models.F("app"), models.F("name"), name="code_entry_is_unique_in_app")
                ],
            },
        ),
    ]
