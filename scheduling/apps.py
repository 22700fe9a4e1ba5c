from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SchedulingConfig(AppConfig):
    name = "scheduling"
    verbose_name = "Scheduling"

    def ready(self) -> None:
        from scheduling import checks  # noqa: F401  (registers the system checks)
        from scheduling.models.shard import seed_shards
        from scheduling.worker import registration  # noqa: F401  (each worker tells which tasks it has)

        post_migrate.connect(seed_shards, sender=self, dispatch_uid="scheduling.seed_shards")
