"""The pages of nodes and shards: who is there, and who owns what. Written by the nodes alone."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from scheduling.admin.read_only import ReadOnlyAdmin
from scheduling.core.latency import LatencyHistogram
from scheduling.models import Node, Shard


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    list_display = ("id", "region", "weight", "alive", "shard_count", "fires", "latency_p99", "started_at")
    readonly_fields = ("alive", "shard_count", "latency_p99")
    exclude = ("latency",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        """With the lease judged by the database's clock, as the nodes themselves do."""
        nodes: QuerySet[Node] = super().get_queryset(request)
        return nodes.annotate(is_alive=Q(lease_until__gt=Now()), owned=Count("shards")).order_by("id")

    @admin.display(description="alive", boolean=True)
    def alive(self, node: Any) -> bool:
        return bool(node.is_alive)

    @admin.display(description="shards")
    def shard_count(self, node: Any) -> int:
        return int(node.owned)

    @admin.display(description="latency p99")
    def latency_p99(self, node: Node) -> str:
        p99 = LatencyHistogram.from_dict(node.latency).quantile(0.99) if node.latency else None
        return "-" if p99 is None else f"{p99 * 1000:.1f} ms"


@admin.register(Shard)
class ShardAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "owned", "epoch", "confirmed_to")
    readonly_fields = ("owned", "confirmed_to")
    list_select_related = ("owner", "progress")
    list_per_page = 256

    def get_queryset(self, request: HttpRequest) -> QuerySet[Shard]:
        shards: QuerySet[Shard] = super().get_queryset(request)
        return shards.annotate(is_owned=Q(owner__lease_until__gt=Now())).annotate(seq=F("progress__seq"))

    @admin.display(description="owned", boolean=True)
    def owned(self, shard: Any) -> bool:
        return bool(shard.is_owned)

    @admin.display(description="confirmed up to (epoch, number)")
    def confirmed_to(self, shard: Shard) -> str:
        return f"({shard.progress.seq_epoch}, {shard.progress.seq})"
