"""The limits of a part of a tenant have the defaults, and the words, that a tenant has: both are the same fields."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fairness", "0003_shares"),
    ]

    operations = [
        migrations.AlterField(
            model_name="limit",
            name="burst",
            field=models.PositiveIntegerField(
                db_default=1, default=1, help_text="Fires that may go at once after a rest."
            ),
        ),
        migrations.AlterField(
            model_name="limit",
            name="is_strict",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="The cap holds whatever fails, by rows in Postgres; it costs a statement for each batch of fires.",
                verbose_name="strict cap",
            ),
        ),
        migrations.AlterField(
            model_name="limit",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Fires that may be with the workers at once; the others wait. Empty: no cap.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="limit",
            name="rate_per_s",
            field=models.FloatField(
                blank=True,
                help_text="Fires a second; what is beyond waits, and a denser schedule is warned of. Empty: no rate.",
                null=True,
                verbose_name="rate",
            ),
        ),
    ]
