"""The bucketed store against the indexed one: the same story leaves the same fires, and the same to come."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.committed import CLEAN
from tests.store.story import Story

PAUSES = {"pause": 20, "resume": 15, "raw_pause": 5, "work": 10}
EDITS = {"edit": 30, "mend": 10, "calendar": 5, "tenant": 5}
OWNERS = {"switch": 15, "take_over": 10, "upkeep": 15, "back": 5, "edit": 15}


@pytest.mark.parametrize(("seed", "shape"), [(1, {}), (2, PAUSES), (3, EDITS), (4, OWNERS)])
def test_a_story_leaves_the_same_whichever_store_it_is_told_to(
    seed: int, shape: dict[str, int], committed_db: None
) -> None:
    story = Story(seed, shape=shape)
    of_rows = story.told("indexed")
    with connection.cursor() as cursor:
        cursor.execute(CLEAN)
    assert story.told("bucketed") == of_rows
