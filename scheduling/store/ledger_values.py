"""The values of the ledger's statements: a delivery, many of them, and the end of a run.

Texts are cut to what the history keeps.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from scheduling.core.errors import LeaseLost
from scheduling.core.fingerprint import essence, first_line
from scheduling.core.identity import run_id
from scheduling.store.ledger_port import Delivery
from scheduling.store.ledger_session import Values

RESULT_LIMIT = 1_000  # characters that the history keeps
ERROR_LIMIT = 2_000
LINE_LIMIT = 500  # of a dead letter
TRACEBACK_LIMIT = 16_000  # of its end, where the cause is


def named(delivery: Delivery) -> Values:
    return {
        "fire_id": delivery.fire_id,
        "job_id": delivery.job_id,
        "tenant": delivery.tenant,
        "scheduled_for": delivery.scheduled_for,
        "history_days": delivery.history_days,
        "fence": delivery.fence,
        "holder": delivery.holder,
    }


def many(deliveries: Collection[Delivery]) -> Values:
    return {
        "earliest": min(d.scheduled_for for d in deliveries),
        "latest": max(d.scheduled_for for d in deliveries),
        "fire_ids": [d.fire_id for d in deliveries],
        "scheduled_fors": [d.scheduled_for for d in deliveries],
        "history_days": [d.history_days for d in deliveries],
        "fences": [d.fence for d in deliveries],
        "holders": [d.holder for d in deliveries],
    }


def ended(
    delivery: Delivery,
    run_state: str,
    *,
    worker: str,
    result: str = "",
    error: str = "",
    traceback: str = "",
) -> Values:
    """The end of a run, for its row in the history and, if it is that of its fire, for the dead letter."""
    text = kept(error, ERROR_LIMIT)
    return named(delivery) | {
        "run_id": run_id(delivery.fire_id, delivery.fence),
        "day_before": delivery.scheduled_for - timedelta(days=1),
        "run_state": run_state,
        "worker": worker,
        "result": kept(result, RESULT_LIMIT),
        "error": text,
        "traceback": kept(traceback[-TRACEBACK_LIMIT:], TRACEBACK_LIMIT),
        "line": kept(first_line(text), LINE_LIMIT),
        "essence": kept(essence(text, traceback), ERROR_LIMIT),
    }


def kept(text: str, limit: int) -> str:
    """Text as Postgres can store it: no NUL, no lone surrogate, not too long."""
    plain = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def lost(delivery: Delivery) -> LeaseLost:
    return LeaseLost(
        f"fire {delivery.fire_id}: holder {delivery.holder} with fence {delivery.fence} holds it no longer; "
        "nothing was written"
    )
