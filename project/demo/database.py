"""Which database the demo plays in; decided before Django is set up, and before anything is written.

The demo sets the clock of all jobs and deletes what an earlier demo left, so it must never meet somebody's data: it
makes a database of its own where the server is its own, and elsewhere takes one that is empty, or that it has marked
before.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from scheduling.core.errors import FairbeatError

OWN_DATABASE = "fairbeat_demo"
MARK = "This database belongs to the demo of Fairbeat, which empties it at each start."

FOUND = """
SELECT to_regclass('scheduling_job') IS NOT NULL, obj_description(to_regclass('demo_effect'), 'pg_class') = %s
"""
IN_USE = "SELECT EXISTS (SELECT FROM scheduling_job), EXISTS (SELECT FROM scheduling_node WHERE lease_until > now())"


class NotTheDemos(FairbeatError):
    """The configured database holds data that the demo did not make."""


def own_database(server_url: str) -> str:
    """Make a new database on the demo's own server, in place of an earlier one; ``server_url`` names another one."""
    base, _, _ = server_url.rpartition("/")
    name = sql.Identifier(OWN_DATABASE)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    return f"{base}/{OWN_DATABASE}"


def is_to_be_emptied(url: str) -> bool:
    """Whether this configured database is an earlier demo's; False where it is nobody's.

    Raises NotTheDemos for one that holds jobs, and is not marked.
    """
    with psycopg.connect(url) as connection:
        has_tables, is_marked = connection.execute(FOUND, [MARK]).fetchone() or (False, False)
        if not has_tables:
            return False
        has_jobs, is_running = connection.execute(IN_USE).fetchone() or (False, False)
    if is_running:
        raise NotTheDemos("DATABASE_URL: a scheduler node is running on this database; give the demo one of its own")
    if has_jobs and not is_marked:
        raise NotTheDemos(
            "DATABASE_URL: this database holds jobs that the demo did not make, and it would delete them; "
            "give it an empty database"
        )
    return is_marked
