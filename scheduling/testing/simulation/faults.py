"""What goes wrong in a run, and how often: drawn from its seed, until everything heals."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """Each strikes with a chance of its own, at the step that its comment names."""

    STORE_SLOW = "store_slow"  # a call of the store
    STORE_FAILS = "store_fails"  # a call, before it did anything
    STORE_REPLY_LOST = "store_reply_lost"  # a call that was carried out: its caller sees a time-out
    STORE_LATE = "store_late"  # a call that its caller gave up, and that is carried out after all
    COORDINATOR_FAILS = "coordinator_fails"  # a call of the coordinator, as those of the store
    COORDINATOR_REPLY_LOST = "coordinator_reply_lost"
    COORDINATOR_LATE = "coordinator_late"
    PARTITION = "partition"  # a node's half second: the coordinator is out of its reach
    NODE_CRASH = "node_crash"  # a node's half second
    NODE_FREEZE = "node_freeze"
    NODE_DRAIN = "node_drain"
    CONNECTION_BREAKS = "connection_breaks"  # a node's half second: of its connection to the broker
    CONNECTION_STAYS_DOWN = "connection_stays_down"  # a connection that broke
    NACK = "nack"  # a message on arrival
    MESSAGE_SLOW = "message_slow"  # a message under way
    CONFIRM_SLOW = "confirm_slow"
    MESSAGE_TWICE = "message_twice"  # a message on arrival
    QUEUE_PURGED = "queue_purged"  # a message on arrival: gone, with all that wait, though it is confirmed
    DELIVERED_AGAIN = "delivered_again"  # a message with a worker, that another gets too
    OUT_OF_ORDER = "out_of_order"  # a delivery
    WORKER_DIES = "worker_dies"  # a worker's step
    WORKER_FREEZES = "worker_freezes"
    TASK_FAILS = "task_fails"  # a run
    TASK_LONG = "task_long"
    TASK_SNOOZES = "task_snoozes"
    TASK_CANCELS = "task_cancels"  # a run, of its own accord
    TASK_GIVES_UP = "task_gives_up"  # a failure
    CHILD_DIES = "child_dies"  # a worker's step, or by its time limit: its parent lives, and says so
    REDIS_SLOW = "redis_slow"  # a call of what nodes have in common for limits and shares
    REDIS_FAILS = "redis_fails"  # a call whose answer nobody hears
    PEOPLE = "people"  # a third of a second: somebody pauses, edits, cancels, deletes, …


RATES = {  # the most that a seed may draw; it draws from a tenth of it up
    Fault.STORE_SLOW: 0.2,
    Fault.STORE_FAILS: 0.1,
    Fault.STORE_REPLY_LOST: 0.1,
    Fault.STORE_LATE: 0.1,
    Fault.COORDINATOR_FAILS: 0.5,
    Fault.COORDINATOR_REPLY_LOST: 0.3,
    Fault.COORDINATOR_LATE: 0.2,
    Fault.PARTITION: 0.1,
    Fault.NODE_CRASH: 0.1,
    Fault.NODE_FREEZE: 0.15,
    Fault.NODE_DRAIN: 0.1,
    Fault.CONNECTION_BREAKS: 0.2,
    Fault.CONNECTION_STAYS_DOWN: 0.8,
    Fault.NACK: 0.4,
    Fault.MESSAGE_SLOW: 0.3,
    Fault.CONFIRM_SLOW: 0.3,
    Fault.MESSAGE_TWICE: 0.3,
    Fault.QUEUE_PURGED: 0.1,
    Fault.DELIVERED_AGAIN: 0.3,
    Fault.OUT_OF_ORDER: 0.6,
    Fault.WORKER_DIES: 0.06,
    Fault.WORKER_FREEZES: 0.08,
    Fault.TASK_FAILS: 0.4,
    Fault.TASK_LONG: 0.2,
    Fault.TASK_SNOOZES: 0.2,
    Fault.TASK_CANCELS: 0.1,
    Fault.TASK_GIVES_UP: 0.2,
    Fault.CHILD_DIES: 0.06,
    Fault.REDIS_SLOW: 0.2,
    Fault.REDIS_FAILS: 0.2,
    Fault.PEOPLE: 0.5,
}
ENABLED = 0.4  # of the faults, in a run


class Faults:
    """Those of one run."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.struck: Counter[Fault] = Counter()
        self._chances = {
            fault: rate * random.uniform(0.1, 1.0) if random.random() < ENABLED else 0.0
            for fault, rate in RATES.items()
        }

    def strikes(self, fault: Fault) -> bool:
        """Whether it does, this time."""
        chance = self._chances[fault]
        if chance == 0.0 or self._random.random() >= chance:
            return False
        self.struck[fault] += 1
        return True

    def heal(self) -> None:
        """None strikes from now on."""
        self._chances = dict.fromkeys(RATES, 0.0)

    def __str__(self) -> str:
        return ", ".join(f"{fault} {chance:.2f}" for fault, chance in self._chances.items() if chance)
