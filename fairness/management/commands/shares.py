"""``manage.py shares``: what tenants were served lately, against their weights.

``--json`` prints one object::

    {"window_s": 60.0, "jain": {"bulk": 0.9996}, "tenants": [
        {"tenant": "acme", "lane": "bulk", "weight": 3.0, "served_s": 112.5, "share": 0.3, "due": 0.3, "starts": 1125,
         "waiting": 40, "in_flight": 12, "backlog_age_s": 8.1, "throttled": 0, "refused": 0, "reason": ""}, …]}

``share``: its part of the slot-seconds that were served in the lane; ``due``: that which its weight gives it among
those that were served or wait; ``jain``: by lane, over the tenants that had something waiting all the while (1 is
fair; a lane without any is left out); ``reason``: what holds the first that waits (empty: its turn; null: nothing
waits). ``--metrics`` prints the same for Prometheus.
"""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from fairness.observed import LONGEST_S, WINDOW_S, Observed, Shares, as_metrics, observe

COLUMNS = ("tenant", "lane", "weight", "served_s", "share", "due", "starts", "waiting", "in_flight", "backlog_age_s",
           "throttled", "refused", "reason")  # fmt: skip


class Command(BaseCommand):
    help = "Show what tenants were served lately, against their weights, and what waits."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--window", type=float, default=WINDOW_S, metavar="S", help="seconds, up to a day (60)")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print an object of JSON")
        form.add_argument("--metrics", action="store_true", help="print metrics in Prometheus' text format")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            found = observe(window_s=options["window"])
        except ValueError as problem:
            wanted = f"must be above 0, and at most {LONGEST_S:g} seconds, a day"
            raise CommandError(f"--window {options['window']:g}: {wanted}") from problem
        except DatabaseError as problem:
            reason = str(problem).strip().partition("\n")[0]
            raise CommandError(f"the database does not answer: {reason}") from problem
        if options["metrics"]:
            self.stdout.write(as_metrics(found), ending="")
        else:
            self.stdout.write(json.dumps(_as_json(found)) if options["json"] else _as_text(found))


def _as_json(found: Shares) -> dict[str, Any]:
    tenants = [{column: _rounded(getattr(row, column)) for column in COLUMNS} for row in found.rows]
    return {"window_s": found.window_s, "jain": {k: round(v, 4) for k, v in found.jain.items()}, "tenants": tenants}


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _as_text(found: Shares) -> str:
    head = ["tenant", "lane", "weight", "served", "share", "due", "starts", "waiting", "oldest", "throttled", "held by"]
    rows = [head, *map(_cells, found.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    index = ", ".join(f"{lane} {value:.4f}" for lane, value in found.jain.items()) or "nobody waited all the while"
    return "\n".join([*lines, "", f"the last {found.window_s:g} s; Jain's index: {index}"])


def _cells(row: Observed) -> list[str]:
    age = "-" if row.backlog_age_s is None else f"{row.backlog_age_s:.1f} s"
    held_by = "-" if row.reason is None else row.reason or "its turn"
    return [
        row.tenant, row.lane, f"{row.weight:g}", f"{row.served_s:.1f} s", f"{row.share:.1%}", f"{row.due:.1%}",
        f"{row.starts:,.0f}", f"{row.waiting:,}", age, f"{row.throttled:,.0f}", held_by,
    ]  # fmt: skip
