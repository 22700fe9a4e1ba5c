"""A browser that is logged in to the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def admin_client(db: None) -> Client:
    """As pytest-django's, whose user costs half a second of hashing a password that nobody types."""
    client = Client()
    client.force_login(User.objects.create(username="admin", is_staff=True, is_superuser=True))
    return client
