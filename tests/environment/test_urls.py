"""Passwords do not get into messages."""

from __future__ import annotations

import pytest

from project.environment.urls import is_amqp, masked, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@db:5432/app", "postgresql://me:***@db:5432/app"),
        ("postgresql://me:p@ss@db/app", "postgresql://me:***@db/app"),
        ("redis://:s3cret@cache:6379/0", "redis://:***@cache:6379/0"),
        ("postgresql://db/app?user=me&password=s3cret&sslmode=require", None),
        ("amqp://a:one@x//;amqp://a:two@y//", "amqp://a:***@x//;amqp://a:***@y//"),
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("postgresql://postgres@%2Ftmp%2Fx/app", "postgresql://postgres@%2Ftmp%2Fx/app"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, shown: str | None):
    assert masked(url) == (shown or "postgresql://db/app?user=me&password=***&sslmode=require")


def test_a_drivers_message_is_one_line_without_the_password():
    message = 'connection to "db" failed:\n  FATAL: password "s3cret" is wrong'
    assert without_password(message, "postgresql://me:s3cret@db/app") == (
        'connection to "db" failed: FATAL: password "***" is wrong'
    )


def test_rabbitmq_is_told_from_other_brokers():
    assert is_amqp("amqps://mq//")
    assert not is_amqp("redis://cache/0")
