"""What the actions on jobs ask for. A field has the name of the service's argument that it becomes."""

from __future__ import annotations

from uuid import uuid4

from django import forms

from scheduling.core.errors import InvalidField
from scheduling.core.fire import CatchUp
from scheduling.services import backfill, cancel, pause, redrive
from scheduling.services.backfill import BackfillOverlap

_MISSED = {
    CatchUp.NONE: "none: what was missed stays skipped",
    CatchUp.LATEST: "latest: run the newest that was missed",
    CatchUp.ALL: "all: run each that was missed, within the job's catch-up limit and window",
}
_TURNS = {
    BackfillOverlap.ONE_AT_A_TIME: "one at a time",
    BackfillOverlap.ALLOW: "may overlap (where the job's own policy allows it)",
}
_MOMENT = "A day, as 2026-03-08, or a time, as 2026-03-08T09:00, in the job's zone; or with its offset."


def _choices(words: dict[CatchUp, str] | dict[BackfillOverlap, str]) -> list[tuple[str, str]]:
    return [(str(value), said) for value, said in words.items()]


class ActionForm(forms.Form):
    """``refuse`` shows a service's refusal at the field that it is about."""

    def refuse(self, problem: InvalidField) -> None:
        if problem.field in self.fields:
            self.add_error(problem.field, problem.problem)
        else:
            self.add_error(None, str(problem))


class PauseForm(ActionForm):
    reason = forms.CharField(max_length=pause.REASON_LIMIT, help_text="For the people who find them paused.")
    until = forms.CharField(required=False, help_text=f"Empty: until someone resumes. {_MOMENT}")
    catch_up = forms.ChoiceField(
        label="At that time", choices=_choices(_MISSED), help_text="What becomes of the occurrences that were missed."
    )


class ResumeForm(ActionForm):
    catch_up = forms.ChoiceField(label="What was missed", choices=_choices(_MISSED))


class RunNowForm(ActionForm):
    """The request makes a second click on the button run nothing twice."""

    request = forms.UUIDField(initial=uuid4, widget=forms.HiddenInput)


class CancelForm(ActionForm):
    reason = forms.CharField(
        required=False, max_length=cancel.REASON_LIMIT, help_text="What those that run are told. May be empty."
    )


class RedriveForm(ActionForm):
    """``counted_at``: what died later than the page was made is not meant."""

    rate_per_s = forms.FloatField(
        label="How many a second",
        initial=redrive.DEFAULT_RATE_PER_S,
        help_text="So that what they need, and failed for, is not overrun by them.",
    )
    counted_at = forms.DateTimeField(widget=forms.HiddenInput)


class DiscardForm(ActionForm):
    counted_at = forms.DateTimeField(widget=forms.HiddenInput)


class BackfillForm(ActionForm):
    start = forms.CharField(label="From", help_text=_MOMENT)
    until = forms.CharField(help_text="The same; a day is meant to its end.")
    overlap = forms.ChoiceField(label="Runs", choices=_choices(_TURNS))
    rate_per_s = forms.FloatField(label="How many a second", initial=backfill.DEFAULT_RATE_PER_S)
    request = forms.UUIDField(initial=uuid4, widget=forms.HiddenInput)


class CountedBackfillForm(BackfillForm):
    """The same once it was counted: to be confirmed as it is."""

    counted = forms.IntegerField()

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        for field in self.fields.values():
            field.widget = forms.HiddenInput()
