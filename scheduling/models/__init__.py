"""The tables, as Django sees them."""

from scheduling.models.calendar import Calendar
from scheduling.models.code_entry import CodeEntry
from scheduling.models.dead_letter import DeadLetter, DeathReason, Redrive
from scheduling.models.entry import Entry
from scheduling.models.fire import Fire
from scheduling.models.hold import Hold
from scheduling.models.job import Job
from scheduling.models.job_clock import JobClock
from scheduling.models.job_run import JobRun
from scheduling.models.shard import Node, Shard, ShardProgress
from scheduling.models.slot import Slot
from scheduling.models.step import Step
from scheduling.models.worker_task import WorkerTask
from scheduling.models.zone_data import ZoneData

__all__ = [
    "Calendar",
    "CodeEntry",
    "DeadLetter",
    "DeathReason",
    "Entry",
    "Fire",
    "Hold",
    "Job",
    "JobClock",
    "JobRun",
    "Node",
    "Redrive",
    "Shard",
    "ShardProgress",
    "Slot",
    "Step",
    "WorkerTask",
    "ZoneData",
]
