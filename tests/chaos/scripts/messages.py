"""What happens to messages between queue and worker: delivered again, many times over, or not to be made sense of."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from scheduling.core import message
from tests.chaos.load import MAKING, TASK, Group, make_more
from tests.chaos.mail import Mail, queue_of
from tests.chaos.registry import scenario
from tests.chaos.stage import Act

FULL = ("acme", "bakery", "city")  # tenants whose queues are never empty for long
COPIES, MOST = 10, 100  # of so many messages
TAKING_S, LATER_S = 1.5, 2.0
SLOW = Group("acme", "slow", 8, None, work_s=3.0)


@scenario("8", "half-open", "cut")
def _acknowledgements_lost(act: Act) -> None:
    """The broker takes a worker for gone, and gives all that it runs to the other one. Half-open: the worker does not
    even hear of it, and acknowledges into the void.
    """
    at = act.now() + MAKING
    make_more(SLOW, start_at=at, end_at=at)
    act.leaves_database()
    act.lasts(MAKING.total_seconds() + 0.7)
    host = act.pick(act.fleet.workers)
    if act.injection.variant == "cut":
        host.rabbitmq.cut()
    else:
        host.rabbitmq.half_open()
    act.lasts(act.rng.uniform(2.0, 4.0))
    act.network_heals(host)


@scenario("9", "out of order")
def _ten_times(act: Act) -> None:
    """Whatever can be got hold of is put back ten times, and once more when all of it is long done."""
    with Mail(act.services.rabbitmq.url) as mail:
        taken = mail.take(map(queue_of, FULL), for_s=TAKING_S, most=MOST)
        copies = COPIES * taken
        act.rng.shuffle(copies)
        for copy in copies:
            mail.post_copy(copy)
        mail.acknowledge(taken)
        act.note = f"{len(taken)} messages, {len(copies)} copies"
        act.lasts(LATER_S)
        for copy in act.rng.sample(taken, len(taken)):
            mail.post_copy(copy)
    act.heals()
    act.recovers()


Nonsense = Callable[[Mail, str, str], None]  # puts a message with this mark into a queue


def _not_json(mail: Mail, queue: str, mark: str) -> None:
    mail.post(queue, f"[[], {{, {mark}".encode(), application_headers=_headers(), **_AS_JSON)


def _pickled(mail: Mail, queue: str, mark: str) -> None:
    binary = {"content_type": "application/x-python-serialize", "content_encoding": "binary"}
    mail.post(queue, b"\x80\x04" + mark.encode(), application_headers=_headers(), **binary)


def _of_no_task(mail: Mail, queue: str, mark: str) -> None:
    mail.post(queue, json.dumps({"said": mark}), **_AS_JSON)


def _of_unknown_task(mail: Mail, queue: str, mark: str) -> None:
    mail.post(queue, message.body("[]", "{}"), application_headers=_headers(task=f"nobody.knows.{mark}"), **_AS_JSON)


def _of_no_fire(mail: Mail, queue: str, mark: str) -> None:
    """It says of which fire it is in a way that nobody can read."""
    said = {message.FENCE: "the second", message.JOB: "none", message.SCHEDULED_FOR: "soon", message.KEEP: "long"}
    mail.post(queue, message.body(json.dumps([mark]), "{}"), application_headers=_headers(**said), **_AS_JSON)


_AS_JSON = {"content_type": "application/json", "content_encoding": "utf-8"}
_NONSENSE: dict[str, Nonsense] = {
    "not JSON": _not_json,
    "pickled": _pickled,
    "of no task": _of_no_task,
    "of an unknown task": _of_unknown_task,
    "of no fire": _of_no_fire,
}


@scenario("21", "messages")
def _nonsense(act: Act) -> None:
    """Each is a dead letter in the end, and those beside it run."""
    with Mail(act.services.rabbitmq.url) as mail:
        for _ in range(4):
            for post in _NONSENSE.values():
                post(mail, queue_of(act.pick([*FULL])), _mark(act))
            act.lasts(0.5)
    act.heals()
    act.recovers()


@scenario("21", "forged messages")
def _forged(act: Act) -> None:
    """A tenant sends what names another tenant's fire; as that tenant's, and as its own."""
    with Mail(act.services.rabbitmq.url) as mail:
        taken = mail.take([queue_of("acme")], for_s=TAKING_S, most=MOST)
        for number, copy in enumerate(taken):
            headers = dict(copy.properties["application_headers"])
            if number % 2:
                headers[message.TENANT] = "bakery"
            body = message.body("[]", json.dumps({"work_s": 0.0, "said": _mark(act)}))
            mail.post(queue_of("bakery"), body, application_headers=headers, **_AS_JSON)
        act.note = f"{len(taken)} messages forged"
        act.lasts(LATER_S)  # they arrive before what they imitate
    act.heals()
    act.recovers()


def _mark(act: Act) -> str:
    mark = f"mark-{uuid4().hex}"
    act.deeds.marks.add(mark)
    return mark


def _headers(**said: Any) -> dict[str, Any]:
    return {"lang": "py", "task": TASK, "id": str(uuid4())} | said
