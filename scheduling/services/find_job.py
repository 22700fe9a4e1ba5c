"""A job by what a person types."""

from __future__ import annotations

from uuid import UUID

from scheduling.core.errors import InvalidField
from scheduling.models import Job


def find_job(text: str) -> Job:
    """The job ``TENANT/NAME``, or of this id. Deleted ones are not found.

    Raises InvalidField (``job``).
    """
    jobs = Job.objects.select_related("tenant", "calendar").filter(deleted_at=None)
    tenant, slash, name = text.partition("/")
    if slash and name:
        found = jobs.filter(tenant__slug=tenant, name=name).first()
    else:
        try:
            found = jobs.filter(pk=UUID(text)).first()
        except ValueError:
            raise InvalidField("job", text, "is neither TENANT/NAME nor an id") from None
    if found is None:
        raise InvalidField("job", text, "there is no such job")
    return found
