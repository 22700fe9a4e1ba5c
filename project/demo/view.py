"""What the demo shows while it runs: a table that is drawn anew in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce, Now
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from scheduling.core.fire import UNFINISHED
from scheduling.models import Fire, JobClock, JobRun, Node

TENANTS_SHOWN = 10
LINE_S = 2.0  # plain lines come this often


class TenantCount(NamedTuple):
    slug: str
    fires: int
    skipped: int
    pending: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Counts since the start; ``nodes`` are the living ones with the number of their shards."""

    job_time: datetime
    tenants: Sequence[TenantCount]  # the busiest first
    nodes: Sequence[tuple[str, int]]

    def total(self, column: str) -> int:
        return sum(getattr(tenant, column) for tenant in self.tenants)

    def __str__(self) -> str:
        counts = "  ".join(f"{column} {self.total(column)}" for column in ("fires", "runs", "skipped", "pending"))
        nodes = "  ".join(f"{node}: {shards} shards" for node, shards in self.nodes)
        return f"{self.job_time:%Y-%m-%d %H:%M:%S} UTC  {counts}  {nodes}"


def take_snapshot() -> Snapshot:
    """Reads all of the demo's history: the caller sees to it that this is a small part of what the machine does."""
    runs = dict(JobRun.objects.order_by().values_list("tenant_id").annotate(count=Count("*")))
    fires = Fire.objects.order_by().values_list("tenant_id", "tenant__slug")
    counted = fires.annotate(
        fired=Count("pk", filter=~Q(state="skipped")),
        skipped=Coalesce(Sum("covers", filter=Q(state="skipped")), 0),
        pending=Count("pk", filter=Q(state__in=UNFINISHED)),
    )
    tenants = [TenantCount._make([slug, *counts, runs.get(tenant, 0)]) for tenant, slug, *counts in counted]
    nodes = Node.objects.filter(lease_until__gt=Now()).order_by("id").annotate(owned=Count("shards"))
    return Snapshot(
        job_time=JobClock.objects.now(),
        tenants=sorted(tenants, key=lambda tenant: -tenant.fires),
        nodes=list(nodes.values_list("id", "owned")),
    )


class View(Protocol):
    def show(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None: ...


def open_view(header: Sequence[str]) -> View:
    """``header`` is said once, above everything else."""
    console = Console()
    return LiveView(console, header) if console.is_terminal else Lines(header)


class Lines:
    """For pipes, files and CI."""

    def __init__(self, header: Sequence[str]) -> None:
        for line in header:
            print(line, flush=True)
        self._next = 0.0

    def show(self, snapshot: Snapshot) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_S
            print(snapshot, flush=True)

    def close(self) -> None:
        """Nothing is held."""


class LiveView:
    """For a terminal."""

    def __init__(self, console: Console, header: Sequence[str]) -> None:
        self._header = header
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(Group(*self._header, "", _tenants(snapshot), _nodes(snapshot)), refresh=True)

    def close(self) -> None:
        self._live.stop()


def _tenants(snapshot: Snapshot) -> Table:
    table = Table(title=f"job time {snapshot.job_time:%Y-%m-%d %H:%M:%S} UTC", title_justify="left", show_footer=True)
    table.add_column("tenant", footer=f"all {len(snapshot.tenants)}")
    for column in ("fires", "runs", "skipped", "pending"):
        table.add_column(column, footer=str(snapshot.total(column)), justify="right", min_width=7)
    for tenant in snapshot.tenants[:TENANTS_SHOWN]:
        counts = (tenant.fires, tenant.runs, tenant.skipped, tenant.pending)
        table.add_row(tenant.slug, *(str(count) for count in counts))
    return table


def _nodes(snapshot: Snapshot) -> Table:
    table = Table("node", "shards")
    for node, shards in snapshot.nodes:
        table.add_row(node, str(shards))
    return table
