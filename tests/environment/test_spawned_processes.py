"""The fixtures that start our own processes, which other tests stand on."""

from __future__ import annotations

from django.db import connection


def test_a_spawned_process_works_on_the_database_of_the_test(spawn):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE made_by_the_test (n int)")
    try:
        process = spawn("manage.py", "inspectdb", "made_by_the_test")
        assert process.wait() == 0
        assert "class MadeByTheTest" in process.output
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE made_by_the_test")
