"""A cluster of three etcd members on free loopback ports, each of which can be killed and started again."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from project.environment.etcd import Member, program
from project.environment.process import ServerFailed, free_port

NAMES = ("one", "two", "three")
ANSWER_S = 1.0


class Etcd:
    """Raises ServerFailed where there is none, and none can be had."""

    def __init__(self, run_dir: Path) -> None:
        peers = {name: free_port() for name in NAMES}
        etcd = program(run_dir)
        self.members = [Member(run_dir / "etcd" / name, program=etcd, name=name, peers=peers) for name in NAMES]

    def start(self) -> None:
        """Start all members, and wait until they have a leader."""
        self.start_again(*self.members)

    def start_again(self, *members: Member) -> None:
        for member in members:
            member.launch()
        for member in members:
            member.wait()

    def leader(self) -> Member:
        """Raises ServerFailed where there is none."""
        for member in self.members:
            if _leads(member):
                return member
        raise ServerFailed("etcd has no leader")

    def close(self) -> None:
        for member in self.members:
            member.close()


def _leads(member: Member) -> bool:
    status = urllib.request.Request(f"{member.url}/v3/maintenance/status", b"{}")
    try:
        with urllib.request.urlopen(status, timeout=ANSWER_S) as answer:
            said = json.load(answer)
    except OSError:
        return False
    return bool(said.get("leader") == said["header"]["member_id"])
