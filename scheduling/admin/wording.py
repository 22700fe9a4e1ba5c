"""How the pages say things: schedules in words, instants in a zone, links from row to row."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.conf import scheduling_settings
from scheduling.core.definition import Kind
from scheduling.core.errors import InvalidField
from scheduling.core.fire import CatchUp, State
from scheduling.core.recurrence import Preview, words
from scheduling.core.why import Explained, Why
from scheduling.models import DeadLetter, Fire, Job, JobRun, Redrive, Step
from scheduling.services.cancel import Cancelled
from scheduling.store.next_runs import NextRun

FIRES_AHEAD = 6
CHARACTERS_SHOWN = 4_000  # of arguments
_UNITS = (("day", timedelta(days=1)), ("h", timedelta(hours=1)), ("min", timedelta(minutes=1)))


def schedule_words(job: Job) -> str:
    """In words; as it is stored, where it cannot be read."""
    try:
        return words(job.schedule)
    except InvalidField:
        stored = {Kind.ONCE: job.at, Kind.INTERVAL: job.every, Kind.CRON: job.cron, Kind.RRULE: job.rrule}
        return f"{job.kind} {stored[Kind(job.kind)]} ({job.tz})"


def coming_fires(job: Job) -> str | SafeString:
    """The next occurrences by the code that schedules, with what is odd about each."""
    try:
        entries = job.preview(FIRES_AHEAD)
    except InvalidField as problem:
        return f"cannot be scheduled: {problem}"
    rows = format_html_join("", "<li>{}, {}{}</li>", ((_local(e.local), instant(e.utc), _oddities(e)) for e in entries))
    return format_html("<ul>{}</ul>", rows) if entries else "none"


def _oddities(entry: Preview) -> str:
    said = [str(mark) for mark in entry.marks]
    if entry.nominal:
        said.append(f"stands for {', '.join(local.isoformat(' ') for local in entry.nominal)}")
    if entry.fire_at != entry.utc:
        said.append(f"fires at {instant(entry.fire_at)}")
    return f": {', '.join(said)}" if said else ""


def _local(moment: datetime) -> str:
    fraction = f"{moment:.%f}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%a %Y-%m-%d %H:%M:%S}{fraction} {moment:%Z}"


def duration(length: timedelta | None) -> str:
    """In the largest unit that divides it: ``90 min``, ``7 days``, ``0.1 s``."""
    if length is None:
        return "-"
    for unit, size in _UNITS:
        count, rest = divmod(length, size)
        if count and not rest:
            return f"{count} {unit}{'s' if unit == 'day' and count != 1 else ''}"
    return f"{length.total_seconds():g} s"


def instant(moment: datetime | None) -> str:
    """To the second, in UTC; with fractions where there are any."""
    if moment is None:
        return "-"
    moment = moment.astimezone(UTC)
    fraction = f"{moment:.%f}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def next_run(job: Job, run: NextRun | None) -> str | SafeString:
    """The next occurrence: in the job's zone, and in UTC. ``run`` None: the job is gone."""
    if run is None or run.fire_at is None:
        return f"cannot be scheduled: {job.problem}" if job.problem else "-"
    if job.problem:
        return f"will be skipped, as the last one: {job.problem}"
    if run.scheduled_for is None:
        return "is being planned"
    utc = instant(run.scheduled_for)
    if job.tz == "UTC":
        return utc
    local = run.scheduled_for.astimezone(ZoneInfo(job.tz))
    return format_html("{}<br>{}", _local(local), utc)


def state(job: Job) -> str:
    """One word; what is wrong comes before what is intended."""
    if job.deleted_at:
        return "deleted"
    if job.problem:
        return "broken"
    if job.paused_at:
        return "paused"
    return "active" if job.next_fire_at or job.in_bucket else "finished"


def pause(job: Job) -> str | SafeString:
    """Since when, by whom, why, and until when."""
    if job.paused_at is None:
        return "-"
    since = f"since {instant(job.paused_at)} by {job.paused_by or 'someone'}"
    return format_html("{}<br>{}<br>{}", since, job.pause_reason or "without a reason", _pause_end(job))


def _pause_end(job: Job) -> str:
    if job.paused_until is None:
        return "until someone resumes it"
    local = "" if job.tz == "UTC" else f"{_local(job.paused_until.astimezone(ZoneInfo(job.tz)))}, "
    missed = "stays skipped" if job.catch_up == CatchUp.NONE else f"comes back: {job.catch_up}"
    return f"until {local}{instant(job.paused_until)}; then what was missed {missed}"


def arguments(value: Any) -> str | SafeString:
    """Arguments, or another value of JSON, laid out for people; secrets are hidden (``SCHEDULING["MASK_KEYS"]``)."""
    text = json.dumps(scheduling_settings(settings).mask.value(value), ensure_ascii=False, indent=2)
    if len(text) > CHARACTERS_SHOWN:
        text = f"{text[:CHARACTERS_SHOWN]}… ({len(text)} characters)"
    return format_html('<pre class="arguments">{}</pre>', text) if "\n" in text else text


def reason(row: Fire) -> str:
    """Why it is as it is; and whether it was asked to stop."""
    said = row.reason.replace("_", " ")
    if row.cancel_reason and row.state == State.RUNNING:
        said = f"asked to stop: {row.cancel_reason}"
    return said or "-"


def explained(found: Explained) -> SafeString:
    """Why it waits, with its one reason; when it may start, and who holds its place."""
    said = format_html("<strong>{}</strong>: {}", str(found.why).replace("_", " "), found.words)
    if found.expected_at is not None and found.why is not Why.NOT_DUE:
        said = format_html("{}<br>may start at {}", said, instant(found.expected_at))
    if found.holders:
        holders = format_html_join("", "<li>behind {}</li>", ((holder,) for holder in found.holders))
        said = format_html("{}<ul>{}</ul>", said, holders)
    return said


def run_state(run: JobRun) -> str:
    return run.state.replace("_", " ")


def step(row: Step) -> str:
    """What became of it. One that was begun and not done is in doubt, unless its attempt still runs."""
    return "done" if row.is_done else f"begun under fence {row.fence}, not known to be done"


def cancelled(done: Cancelled) -> str:
    """What a cancellation has done."""
    said = f"Cancelled: {done.at_once} that did not run. Asked to stop: {done.asked} that run."
    if done.sent:
        said += f" Sent to plain Celery tasks, and not to be called back: {done.sent}."
    return said + (f" Had ended before: {done.over}." if done.over else "")


def job_link(job: Job) -> str | SafeString:
    return f"{job} (deleted)" if job.deleted_at else _link("job", job, str(job))


def fire_link(fire: Fire, text: str = "") -> SafeString:
    return _link("fire", fire, text or instant(fire.scheduled_for))


def run_link(run: JobRun, text: str) -> SafeString:
    return _link("jobrun", run, text)


def redrive_link(redrive: Redrive | None, text: str) -> str | SafeString:
    return text if redrive is None else _link("redrive", redrive, text)


def letter_link(letter: DeadLetter, text: str) -> SafeString:
    return _link("deadletter", letter, text)


def letters_link(query: str, text: str) -> SafeString:
    """To the list of dead letters that a query string asks for."""
    return format_html('<a href="{}?{}">{}</a>', reverse("admin:scheduling_deadletter_changelist"), query, text)


def _link(model: str, row: Job | Fire | JobRun | DeadLetter | Redrive, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse(f"admin:scheduling_{model}_change", args=[row.pk]), text)
