"""Postgres: claim, advance, recover, ledger, partitions. Every statement is named, in the ``.sql`` files beside."""
