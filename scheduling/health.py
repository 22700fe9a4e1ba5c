"""Pages for probes of the web: ``path("health/", include("scheduling.health"))``.

``live``: this process answers. ``ready``: the database answers, and the fleet can fire: every shard has a living owner
(at stops 1 and 2: a node lives). 200, or 503 with the reason; a line of JSON. Nobody has to log in.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.services.readiness import readiness


@never_cache
@require_safe
def live(_: HttpRequest) -> HttpResponse:
    return _line({"live": True})


@never_cache
@require_safe
def ready(_: HttpRequest) -> HttpResponse:
    try:
        found = readiness()
    except DatabaseError as problem:
        reason = f"the database does not answer: {str(problem).strip().partition(chr(10))[0]}"
        return _line({"ready": False, "reason": reason}, status=503)
    if not found.reason:
        return _line({"ready": True, "nodes": found.nodes})
    said = {"ready": False, "nodes": found.nodes, "reason": found.reason, "ownerless": found.ownerless}
    return _line(said, status=503)


def _line(said: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return HttpResponse(json.dumps(said) + "\n", content_type="application/json", status=status)


app_name = "health"
urlpatterns = [path("live", live, name="live"), path("ready", ready, name="ready")]
