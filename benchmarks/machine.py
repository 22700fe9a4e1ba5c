"""What a figure was measured on: hardware, versions, and how durable the services are."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import psycopg

PACKAGES = {"celery": "celery", "django": "django", "kombu": "kombu", "psycopg": "psycopg", "redis": "redis-py"}
DURABILITY = ("fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers")


def hardware() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions(*, database_url: str, amqp: str, redis_url: str) -> dict[str, str]:
    """Of the services and of the packages in this environment."""
    found = {"python": platform.python_version()}
    for name, called in PACKAGES.items():
        try:
            found[called] = version(name)
        except PackageNotFoundError:
            continue
    with psycopg.connect(database_url) as connection:
        found["postgres"] = setting(connection, "server_version").split()[0]
    return found | {"rabbitmq": _rabbitmq(amqp), "redis": _redis(redis_url)}


def commit_mode(database_url: str) -> dict[str, str]:
    """How durable a commit of this Postgres is."""
    with psycopg.connect(database_url) as connection:
        return {name: setting(connection, name) for name in DURABILITY}


def revision() -> dict[str, Any]:
    """The commit that is measured, its date, and whether files differ from it."""
    dirty = bool(_git("status", "--porcelain", "--untracked-files=no"))
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "date": _git("log", "-1", "--format=%cI"),
        "dirty": dirty,
    }


def measured_at() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def setting(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _rabbitmq(url: str) -> str:
    import kombu

    with kombu.Connection(url) as connection:
        connection.connect()
        properties: dict[str, Any] = connection.connection.server_properties
    found = properties.get("version", "")
    return found.decode() if isinstance(found, bytes) else str(found)


def _redis(url: str) -> str:
    import redis

    client = redis.Redis.from_url(url)
    try:
        info: dict[str, Any] = client.info("server")
    finally:
        client.close()
    return str(info.get("valkey_version") or info["redis_version"])


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
