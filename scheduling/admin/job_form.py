"""The form of a job: all of the schedule on one page, and every refusal at the field that it is about.

What is refused is decided by ``JobDefinition``, as everywhere. A field that the person did not touch keeps its stored
value to the microsecond: a form shows instants to the second, and saving what it shows would edit the schedule.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import router
from django.forms.fields import InvalidJSONInput

from scheduling.core.definition import POLICY_FIELDS, UNSAID, JobDefinition, Kind, ScheduleFields
from scheduling.core.durations import parse_go_duration
from scheduling.core.errors import InvalidField
from scheduling.models import Job, JobClock
from scheduling.models.job_quota import fitting

if TYPE_CHECKING:
    JobModelForm = forms.ModelForm[Job]
else:
    JobModelForm = forms.ModelForm


DEEP = 200  # arrays and objects: fewer are never nested too deep for Python


class DurationField(forms.DurationField):
    """Takes ``1h30m`` and ``500ms`` beside Django's ``[days] hh:mm:ss``."""

    def to_python(self, value: Any) -> timedelta | None:
        if isinstance(value, str) and value.strip().endswith(("h", "m", "s")):
            try:
                return parse_go_duration(value.strip())
            except InvalidField as problem:
                raise ValidationError(problem.problem, code="invalid") from None
        return super().to_python(value)


class ArgumentsField(forms.JSONField):
    """Refuses what Python cannot read, too: a number of thousands of digits, a thousand arrays in one another."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except (ValueError, RecursionError):
            raise ValidationError("Enter JSON that can be read.", code="invalid") from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was typed is shown again as it was typed, where it cannot be read or is too deep to be written."""
        if isinstance(data, str) and data.count("[") + data.count("{") > DEEP:
            return InvalidJSONInput(data)
        try:
            return super().bound_data(data, initial)
        except ValueError:
            return InvalidJSONInput(data)


class JobForm(JobModelForm):
    class Meta:
        model = Job
        fields = "__all__"
        field_classes = {"args": ArgumentsField, "kwargs": ArgumentsField}
        help_texts = {
            "every": "Interval: a length from 100 ms, as 1h30m, 90s, 500ms or 01:30:00.",
            "anchor": "Interval: it fires at anchor + k × every (UTC). Empty: from now on.",
            "at": "Once: the instant (UTC).",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance._state.adding and "jitter" in self.fields:
            jitter = self.fields["jitter"]
            jitter.required, self.initial["jitter"] = False, None
            jitter.help_text = f"{jitter.help_text} Empty: over its tenant's stagger, where it has one."

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if self.instance._state.adding and values.get("jitter", UNSAID) is None:
            values["jitter"] = UNSAID
        if not self.instance._state.adding:
            values |= {n: getattr(self.instance, n) for n in values if n not in self.changed_data and n != "tenant"}
        for name, empty in (("args", []), ("kwargs", {})):
            if name in values and values[name] is None:
                values[name] = empty
        if not self.errors:
            if values["kind"] == Kind.INTERVAL and values["anchor"] is None:
                values["anchor"] = JobClock.objects.now()
            self._check(values)
        return values

    def _check(self, values: dict[str, Any]) -> None:
        try:
            schedule = ScheduleFields(**{f.name: self._value(values, f.name) for f in fields(ScheduleFields)})
            policy = {name: self._value(values, name) for name in POLICY_FIELDS}
            JobDefinition(task=values["task"], schedule=schedule, **policy)
        except InvalidField as problem:
            self.add_error(problem.field if problem.field in self.fields else None, problem.problem)
        calendar = values["calendar"]
        if calendar is not None and not calendar.is_open_to(values["tenant"].pk):
            self.add_error("calendar", "This calendar belongs to another tenant.")
        named = Job.objects.filter(tenant=values["tenant"], name=values["name"], deleted_at=None)
        if values["name"] and named.exclude(pk=self.instance.pk).exists():
            self.add_error("name", "This tenant has a job of this name already.")
        if self.instance._state.adding or self.instance.tenant_id != values["tenant"].pk:
            _, refused = fitting(values["tenant"], 1, using=router.db_for_write(Job))
            if refused is not None:
                self.add_error("tenant", f"It {refused.problem}.")

    def _value(self, values: dict[str, Any], name: str) -> Any:
        """What the job will have: from the form, and from the row where the page does not show it."""
        value = values[name] if name in values else getattr(self.instance, name)
        return Kind(value) if name == "kind" else value
