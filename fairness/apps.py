from django.apps import AppConfig
from django.db.models.signals import post_migrate


class FairnessConfig(AppConfig):
    name = "fairness"
    verbose_name = "Fairness"
    default_auto_field = "django.db.models.AutoField"

    def ready(self) -> None:
        from fairness import checks  # noqa: F401  (registers them)
        from fairness.models import seed_default_tenant

        post_migrate.connect(seed_default_tenant, sender=self, dispatch_uid="fairness.seed_default_tenant")
