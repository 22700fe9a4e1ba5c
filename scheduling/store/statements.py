"""The statements of the store's ``.sql`` files."""

from __future__ import annotations

from scheduling.sql_files import read_statements, statements

__all__ = ["read_statements", "statements"]
