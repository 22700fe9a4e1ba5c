"""The frames that are joined from pieces are those that py-amqp would write."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from struct import unpack_from
from uuid import UUID

import pytest
from amqp.basic_message import Message
from amqp.serialization import dumps
from hypothesis import given
from hypothesis import strategies as st

from scheduling.broker import amqp_frames
from scheduling.broker.amqp_frames import MessageWriter, method
from scheduling.core import masking, message
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire
from scheduling.core.masking import Mask
from tests.broker.outcomes import fire, unknown, work


def writer(frame_max: int = 131_072, ignore_result: Callable[[str], bool | None] = unknown) -> MessageWriter:
    return MessageWriter(origin="gen7@host", ignore_result=ignore_result, frame_max=frame_max, channel=1)


def by_py_amqp(one: Fire, queue: str, *, frame_max: int = 131_072, ignore_result: bool | None = None) -> bytes:
    """The same message, every frame serialised by py-amqp."""
    body = message.body(one.work.args, one.work.kwargs)
    properties = Message(
        body,
        content_type="application/json",
        content_encoding="utf-8",
        application_headers=message.headers(one, origin="gen7@host", ignore_result=ignore_result),
        delivery_mode=2,
        priority=0,
        correlation_id=str(one.id),
        reply_to="",
    )._serialize_properties()  # type: ignore[attr-defined]  # missing in its stubs
    head = dumps("BBL", (60, 0, len(body))) + properties
    step = frame_max - 8
    return b"".join((
        method(1, (60, 40), dumps("Bssbb", (0, "", queue, True, False))),
        amqp_frames.frame(2, 1, head),
        *(amqp_frames.frame(3, 1, body[at : at + step]) for at in range(0, len(body), step)),
    ))  # fmt: skip


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
seconds = st.none() | st.floats(0.1, 1e6)
fires = st.builds(
    lambda moment, origin, fence, **values: fire(work(**values), scheduled_for=moment, origin=origin, fence=fence),
    moment=st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    origin=texts,
    fence=st.integers(0, 2**63 - 1),
    name=texts,
    tenant=texts,
    task=st.sampled_from(["a.b", "ünï.task", "c"]),
    args=texts,
    kwargs=texts,
    soft_timeout_s=seconds,
    hard_timeout_s=seconds,
    history_days=st.sampled_from([7, 30, 90]),
    job_id=st.uuids(),
)


@given(st.lists(fires, min_size=1, max_size=5), st.sampled_from(["q", "fairbeat.ü.bulk.v1"]))
def test_every_byte_is_as_py_amqp_writes_it(batch: list[Fire], queue: str) -> None:
    shared = writer()
    for one in batch:
        assert shared.render(one, queue) == by_py_amqp(one, queue)


@pytest.mark.parametrize("says", [True, False, None])
def test_ignore_result_is_what_the_task_says(says: bool | None) -> None:
    one = fire()
    rendered = writer(ignore_result={one.work.task: says}.get).render(one, "q")
    assert rendered == by_py_amqp(one, "q", ignore_result=says)


@pytest.mark.parametrize("length", [4087, 4088, 4089, 8176, 8177, 30_000])
def test_a_body_is_split_at_the_size_of_a_frame(length: int) -> None:
    empty = len(message.body('[""]', "{}"))
    one = fire(work(args=f'["{"x" * (length - empty)}"]', kwargs="{}"))
    assert len(message.body(one.work.args, one.work.kwargs)) == length
    rendered = writer(frame_max=4096).render(one, "q")
    assert rendered == by_py_amqp(one, "q", frame_max=4096)
    assert max(_frame_sizes(rendered)) <= 4096


def _frame_sizes(data: bytes) -> list[int]:
    sizes, at = [], 0
    while at < len(data):
        sizes.append(unpack_from(">I", data, at + 3)[0] + 8)
        at += sizes[-1]
    return sizes


def test_instants_are_written_in_utc_whatever_zone_they_came_in() -> None:
    utc = datetime(2026, 3, 8, 7, tzinfo=UTC)
    there = utc.astimezone(tz=timezone(timedelta(hours=2)))
    of = work()
    here, abroad = fire(of, scheduled_for=utc), fire(of, scheduled_for=there)
    assert writer().render(here, "q") == writer().render(abroad, "q")


@pytest.mark.parametrize("mask", [masking.DEFAULT, masking.mask_of(("customer",))])
def test_secrets_are_hidden_from_the_headers_and_sent_in_the_body(mask: Mask) -> None:
    one = fire(work(args='[{"pin": 7}]', kwargs='{"token": "s-1", "customer": 42}'))
    headers = message.headers(one, origin="gen7@host", ignore_result=None, mask=mask)
    shown = [mask.value([{"pin": 7}]), mask.value({"token": "s-1", "customer": 42})]
    assert [json.loads(headers[name]) for name in ("argsrepr", "kwargsrepr")] == shown
    shared = MessageWriter(origin="gen7@host", ignore_result=unknown, frame_max=131_072, channel=1, mask=mask)
    rendered = shared.render(one, "q")
    assert headers["argsrepr"].encode() in rendered
    assert headers["kwargsrepr"].encode() in rendered
    assert message.body(one.work.args, one.work.kwargs) in rendered


def test_an_identifier_is_written_as_str_writes_it() -> None:
    for value in (UUID(int=0), UUID(int=2**128 - 1), UUID("00112233-4455-6677-8899-aabbccddeeff")):
        assert amqp_frames._uuid_text(value) == str(value).encode()


def test_templates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_frames, "MAX_TEMPLATES", 3)
    bounded = writer()
    for number in range(10):
        one = fire(work(task=f"task {number}", soft_timeout_s=float(number)))
        assert bounded.render(one, "q") == by_py_amqp(one, "q")
    assert len(bounded._templates) <= 3
    assert len(bounded._timelimits) <= 3


def test_a_body_that_the_broker_would_close_the_channel_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_frames, "MAX_BODY_BYTES", 5000)
    with pytest.raises(InvalidField, match="args"):
        writer(frame_max=4096).render(fire(work(args=f'["{"x" * 5000}"]')), "q")


def test_headers_that_do_not_fit_into_one_frame_are_refused() -> None:
    with pytest.raises(InvalidField, match="name"):
        writer(frame_max=4096).render(fire(work(name="n" * 4000)), "q")


def test_headers_in_another_order_than_the_slots_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_frames, "SLOTS", (*amqp_frames.SLOTS, "another"))
    with pytest.raises(AssertionError, match="another"):
        writer().render(fire(), "q")
