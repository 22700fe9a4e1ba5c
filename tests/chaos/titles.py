"""The faults by number. The numbers are those of the list of faults that the product must survive."""

from __future__ import annotations

TITLES = {
    "1": "a node is killed at a step of its work",
    "2": "a node is frozen past its lease, then woken",
    "3": "a node is cut off from the coordinator alone",
    "4": "Postgres restarts as from a crash; sessions are ended, 5 a second",
    "5": "committed, but the caller saw the connection end",
    "6": "RabbitMQ is killed and started again; its memory alarm; it stalls",
    "7": "confirms lost; a full queue refuses; a queue is deleted; queues are purged",
    "8": "acknowledgements lost: redelivered while the first one still runs",
    "9": "each message ten times, out of order",
    "10": "workers killed at each step of the ledger; leases outlived; out of memory; poison",
    "11": "etcd loses its leader; its majority",
    "12": "Redis emptied, killed and started again, gone",
    "13": "one-way partitions between a node and etcd, or Postgres",
    "15": "the wall clock of a node jumps by 5 s, by an hour",
    "16": "jobs retimed, paused, deleted in the moment of their fire",
    "17": "thousands of jobs at one instant; an hour of a million occurrences to make up for",
    "18": "a tenant with a hundred times as much; one whose tasks all fail; one whose tasks hang",
    "19": "nodes join and leave; shards are added",
    "20": "SIGTERM, then SIGKILL while it drains",
    "21": "rows and messages that nothing can be made of",
}
