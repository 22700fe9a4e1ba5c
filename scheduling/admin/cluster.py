"""The pages of nodes and shards: who is there, and who owns what, as ``manage.py cluster`` says it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.http import HttpRequest

from scheduling.admin.read_only import ReadOnlyAdmin
from scheduling.models import Node, Shard
from scheduling.services.cluster import cluster


class FleetList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        _look_up(self.result_list)


def _look_up(rows: Any) -> None:
    """The state of all that a page shows, at one moment; each row gets its own, None for a node that is long gone."""
    found = cluster()
    states: dict[Any, Any] = {node.id: node for node in found.nodes} | {shard.id: shard for shard in found.shards}
    for row in rows:
        row.state = states.get(row.pk)


class FleetAdmin(ReadOnlyAdmin):
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return FleetList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Model | None:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            _look_up([row])
        return row


@admin.register(Node)
class NodeAdmin(FleetAdmin):
    list_display = ("id", "region", "weight", "alive", "lease_left", "owns", "fires", "latency_p50", "latency_p99")
    readonly_fields = ("alive", "lease_left", "owns", "latency_p50", "latency_p99")
    exclude = ("latency",)
    ordering = ("id",)

    @admin.display(description="alive", boolean=True)
    def alive(self, node: Any) -> bool:
        return node.state is not None and node.state.alive

    @admin.display(description="lease left")
    def lease_left(self, node: Any) -> str:
        return f"{node.state.lease_left_s:.1f} s" if self.alive(node) else "-"

    @admin.display(description="shards")
    def owns(self, node: Any) -> int:
        return node.state.shards if node.state is not None else 0

    @admin.display(description="latency p50")
    def latency_p50(self, node: Any) -> str:
        return _latency(node, "p50")

    @admin.display(description="latency p99")
    def latency_p99(self, node: Any) -> str:
        return _latency(node, "p99")


def _latency(node: Any, quantile: str) -> str:
    value = node.state.latency_ms[quantile] if node.state is not None else None
    return "-" if value is None else f"{value:.1f} ms"


@admin.register(Shard)
class ShardAdmin(FleetAdmin):
    list_display = ("id", "owner", "owned", "epoch", "confirmed_to", "lag", "unconfirmed")
    readonly_fields = ("owned", "confirmed_to", "lag", "unconfirmed")
    list_select_related = ("owner",)
    list_per_page = 256

    @admin.display(description="owned", boolean=True)
    def owned(self, shard: Any) -> bool:
        return bool(shard.state.owned)

    @admin.display(description="confirmed up to (epoch, number)")
    def confirmed_to(self, shard: Any) -> str:
        return str(shard.state.watermark)

    @admin.display(description="lag")
    def lag(self, shard: Any) -> str:
        return f"{shard.state.lag_s:.1f} s"

    @admin.display(description="due, not confirmed")
    def unconfirmed(self, shard: Any) -> int:
        return int(shard.state.unconfirmed)
