"""The page of calendars: closed days and hours, refused at their field where they cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin

from scheduling.core.closed_times import calendar_of
from scheduling.core.errors import InvalidField
from scheduling.models import Calendar, Job

if TYPE_CHECKING:
    CalendarModelForm = forms.ModelForm[Calendar]
    CalendarModelAdmin = admin.ModelAdmin[Calendar]
else:
    CalendarModelForm = forms.ModelForm
    CalendarModelAdmin = admin.ModelAdmin

_AT = {"weekdays": "hours"}  # where a field of the core stands on the page


class CalendarForm(CalendarModelForm):
    class Meta:
        model = Calendar
        fields = "__all__"
        widgets = {"days": forms.Textarea(attrs={"rows": 4}), "hours": forms.Textarea(attrs={"rows": 4})}
        help_texts = {
            "tenant": "Empty: the jobs of every tenant may use it.",
            "days": "Closed days, as 2026-12-25, 2026-12-26.",
        }

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if "hours" in values and values["hours"] is None:
            values["hours"] = []
        if not self.errors:
            self._check(values)
        return values

    def _check(self, values: dict[str, Any]) -> None:
        try:
            calendar_of(values["tz"], values["days"], values["hours"])
        except InvalidField as problem:
            self.add_error(_AT.get(problem.field, problem.field), str(problem))
        if values["tenant"] is not None and self.instance.pk is not None:
            other = Job.objects.filter(calendar=self.instance).exclude(tenant=values["tenant"]).first()
            if other is not None:
                self.add_error("tenant", f"The job {other} of another tenant uses this calendar.")


@admin.register(Calendar)
class CalendarAdmin(CalendarModelAdmin):
    form = CalendarForm
    list_display = ("name", "tenant", "tz", "closed_days", "closed_hours")
    list_select_related = ("tenant",)
    search_fields = ("name",)

    @admin.display(description="closed days")
    def closed_days(self, calendar: Calendar) -> int:
        return len(calendar.days)

    @admin.display(description="closed hours")
    def closed_hours(self, calendar: Calendar) -> str:
        try:
            closed = calendar.closed_times().hours
        except InvalidField as problem:  # written by SQL
            return f"cannot be read: {problem}"
        return ", ".join(f"{entry.begins:%H:%M} to {entry.ends:%H:%M}" for entry in closed) or "-"
