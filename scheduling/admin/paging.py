"""Pages through big tables: counts exactly up to a bound, and beyond it takes the planner's estimate."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db.models import QuerySet

EXACT_UP_TO = 10_000

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator


class BoundedPaginator(AnyPaginator):
    """Never counts more than ``EXACT_UP_TO`` rows. Where the estimate is too high, the last pages are empty."""

    object_list: QuerySet[Any]

    @cached_property
    def count(self) -> int:
        counted = self.object_list.order_by()[: EXACT_UP_TO + 1].count()
        if counted <= EXACT_UP_TO:
            return counted
        plan = json.loads(self.object_list.order_by().explain(format="json"))
        return max(int(plan[0]["Plan"]["Plan Rows"]), counted)
