"""Who may meet whom, and what becomes of the second of two.

Of a pair that the tables do not name the second goes on at once, and does all that it does when it is alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from tests.store.pair_actors import ACTORS, Actor, Role
from tests.store.pair_world import Kind


class Manner(Enum):
    GOES_ON = "goes on at once, and does all that it does alone"
    PASSES_OVER = "goes on at once, and leaves what the first holds to its next time"
    WAITS = "waits, and then does all that it does alone"
    FINDS_LESS = "waits, and then finds some or all of it done, or gone"
    IS_REFUSED = "waits, and is told that it may not"


PASSES_OVER, WAITS, FINDS_LESS, IS_REFUSED = list(Manner)[1:]

PEOPLE = "pause resume save update delete run_now backfill"
WORKERS = "acquire acquire_kept complete commit fail heartbeat"
ENDS = "give_up lose begin_step"
ACTORS_OF = {
    Kind.ROWS: f"claim release settle record hold reap take_over {WORKERS} {ENDS} {PEOPLE} cancel expire look",
    Kind.ENTRIES: f"claim reap promote take_over {PEOPLE} expire look",
    Kind.POLLED: f"poll confirm adopt acquire complete fail heartbeat {PEOPLE} expire look",
    Kind.FINISHED: "claim reap take_over acquire acquire_kept complete heartbeat pause resume delete backfill expire",
}
MEET_ENDS = "reap take_over complete commit fail heartbeat delete"
MEET_CANCEL = "claim reap acquire complete fail heartbeat"
# What only reads, or is refused where all has ended, holds nothing.
HOLDS_NOTHING = {
    Kind.ROWS: "look",
    Kind.ENTRIES: "look",
    Kind.POLLED: "look",
    Kind.FINISHED: "acquire acquire_kept complete heartbeat",
}


def may_meet(kind: Kind, first: Actor, second: Actor) -> bool:
    """False where they never do, or where others have shown it."""
    roles = {first.role, second.role}
    if first.name in HOLDS_NOTHING[kind].split():
        return False
    if kind is Kind.FINISHED:  # is about the end of a day's history
        return Role.JANITOR in roles
    if first.role is Role.JANITOR:  # where something is unfinished it lets go of the day at once
        return False
    if "hold" in (first.name, second.name) and Role.TAKER not in roles:
        return False  # nobody else has to do with holds
    if roles == {Role.OWNER}:  # an owner does one thing at a time with its shard
        return False
    if second.name == "commit" and first.name in ("complete", "commit", "fail", "give_up"):  # one attempt ends once
        return False
    if "cancel" in (first.name, second.name) and not {first.name, second.name} <= {"cancel", *MEET_CANCEL.split()}:
        return False  # with others it does as a pause
    ending = {first.name, second.name} & set(ENDS.split())
    if ending and not {first.name, second.name} - ending <= set(MEET_ENDS.split()):  # with others they do as ``fail``
        return False
    # who meets neither a node nor an entry does the same there as where the jobs are in their rows
    return kind is Kind.ROWS or bool(roles & {Role.OWNER, Role.TAKER, Role.POLLER, Role.READER})


CUT = {
    Kind.ROWS: "claim release settle record hold reap take_over",
    Kind.ENTRIES: "claim promote take_over",
}
"""They write under an epoch, and are also cut off at their commit, for all those in whose way they are."""

CROSSING = [
    pair
    for node in "take_over release settle confirm adopt".split()
    for person in ("pause", "delete")
    for pair in ((node, person), (person, node))
] + [("confirm", "adopt"), ("adopt", "confirm"), ("take_over", "cancel"), ("cancel", "take_over")]
"""They lock many fires, of several jobs; what else does so holds the jobs, the shard, or waits for nobody."""


def pairs(firsts: Mapping[Kind, str] = ACTORS_OF) -> Iterator[tuple[Kind, Actor, Actor]]:
    for kind, names in firsts.items():
        actors = [ACTORS[name] for name in ACTORS_OF[kind].split()]
        for first in names.split():
            yield from ((kind, ACTORS[first], actor) for actor in actors if may_meet(kind, ACTORS[first], actor))


def expected(kind: Kind, first: Actor, second: Actor) -> Manner:
    manners = EXPECTED[kind].get(first.name, {})
    return next((manner for manner, names in manners.items() if second.name in names.split()), Manner.GOES_ON)


EXPECTED: dict[Kind, dict[str, dict[Manner, str]]] = {
    Kind.ROWS: {
        "claim": {WAITS: "take_over pause resume save update delete cancel run_now backfill"},
        "release": {PASSES_OVER: "complete commit fail", WAITS: "take_over pause delete cancel"},
        "settle": {WAITS: "pause delete cancel", FINDS_LESS: "take_over", IS_REFUSED: "acquire acquire_kept"},
        "record": {FINDS_LESS: "take_over"},
        "hold": {WAITS: "take_over"},
        "reap": {
            PASSES_OVER: "heartbeat",
            WAITS: "take_over pause save update delete cancel run_now backfill",
            FINDS_LESS: "resume lose",
            IS_REFUSED: "complete commit fail give_up begin_step",
        },
        "take_over": {
            WAITS: "take_over pause delete cancel",
            IS_REFUSED: "claim release settle record hold reap acquire acquire_kept",
        },
        "acquire": {
            WAITS: "resume cancel",
            FINDS_LESS: "settle take_over pause delete",
            IS_REFUSED: "acquire acquire_kept",
        },
        "acquire_kept": {
            WAITS: "resume",
            FINDS_LESS: "settle take_over pause delete",
            IS_REFUSED: "acquire acquire_kept",
        },
        "complete": {
            PASSES_OVER: "reap heartbeat",
            WAITS: "release pause delete",
            FINDS_LESS: "complete fail give_up lose cancel",
            IS_REFUSED: "begin_step",
        },
        "commit": {
            PASSES_OVER: "reap heartbeat",
            WAITS: "release pause delete",
            FINDS_LESS: "complete fail give_up lose cancel",
            IS_REFUSED: "begin_step",
        },
        "fail": {
            PASSES_OVER: "reap heartbeat",
            WAITS: "release pause delete cancel",
            FINDS_LESS: "fail give_up lose",
            IS_REFUSED: "complete begin_step",
        },
        "give_up": {
            PASSES_OVER: "reap heartbeat",
            WAITS: "delete",
            FINDS_LESS: "fail give_up lose",
            IS_REFUSED: "complete begin_step",
        },
        "lose": {
            PASSES_OVER: "reap heartbeat",
            WAITS: "delete",
            FINDS_LESS: "lose",
            IS_REFUSED: "complete commit fail give_up begin_step",
        },
        "begin_step": {PASSES_OVER: "reap heartbeat", WAITS: "complete commit fail give_up lose begin_step"},
        "heartbeat": {
            PASSES_OVER: "reap heartbeat",
            WAITS: "complete commit fail give_up lose begin_step cancel",
        },
        "pause": {
            PASSES_OVER: "claim reap complete commit fail",
            WAITS: "save update run_now backfill",
            FINDS_LESS: "release settle take_over pause resume delete",
            IS_REFUSED: "acquire acquire_kept",
        },
        "resume": {
            PASSES_OVER: "claim reap",
            WAITS: "acquire acquire_kept pause save update delete run_now backfill",
            FINDS_LESS: "resume",
        },
        "save": {PASSES_OVER: "claim reap", WAITS: "pause resume save update delete run_now", FINDS_LESS: "backfill"},
        "update": {PASSES_OVER: "claim reap", WAITS: "pause resume save update delete run_now", FINDS_LESS: "backfill"},
        "delete": {
            PASSES_OVER: "claim reap complete commit fail give_up lose",
            WAITS: "save update",
            FINDS_LESS: "release settle take_over pause resume delete cancel",
            IS_REFUSED: "acquire acquire_kept run_now backfill",
        },
        "cancel": {
            PASSES_OVER: "claim reap heartbeat",
            FINDS_LESS: "release settle take_over complete commit fail delete cancel",
            IS_REFUSED: "acquire",
        },
        "run_now": {
            PASSES_OVER: "claim reap",
            WAITS: "pause resume save update delete backfill",
            FINDS_LESS: "run_now",
        },
        "backfill": {
            PASSES_OVER: "claim reap",
            WAITS: "pause resume save update delete run_now",
            FINDS_LESS: "backfill",
        },
    },
    Kind.ENTRIES: {
        "claim": {WAITS: "take_over pause resume save update delete run_now backfill"},
        "reap": {WAITS: "take_over pause save update delete run_now backfill", FINDS_LESS: "resume"},
        "promote": {WAITS: "take_over"},
        "take_over": {WAITS: "take_over pause delete", IS_REFUSED: "claim reap promote"},
        "pause": {PASSES_OVER: "claim reap", FINDS_LESS: "take_over"},
        "resume": {PASSES_OVER: "claim reap"},
        "save": {PASSES_OVER: "claim reap"},
        "update": {PASSES_OVER: "claim reap"},
        "delete": {PASSES_OVER: "claim reap", FINDS_LESS: "take_over"},
        "run_now": {PASSES_OVER: "claim reap"},
        "backfill": {PASSES_OVER: "claim reap"},
    },
    Kind.POLLED: {
        "poll": {
            PASSES_OVER: "poll heartbeat",
            WAITS: "acquire pause save update delete run_now backfill",
            FINDS_LESS: "confirm resume",
            IS_REFUSED: "complete fail",
        },
        "confirm": {PASSES_OVER: "poll", WAITS: "confirm pause delete", FINDS_LESS: "adopt"},
        "adopt": {WAITS: "confirm pause delete", FINDS_LESS: "adopt"},
        "acquire": {PASSES_OVER: "poll"},
        "complete": {PASSES_OVER: "poll"},
        "fail": {PASSES_OVER: "poll"},
        "heartbeat": {PASSES_OVER: "poll"},
        "pause": {PASSES_OVER: "poll", WAITS: "confirm", FINDS_LESS: "adopt"},
        "resume": {PASSES_OVER: "poll"},
        "save": {PASSES_OVER: "poll"},
        "update": {PASSES_OVER: "poll"},
        "delete": {PASSES_OVER: "poll", WAITS: "confirm", FINDS_LESS: "adopt"},
        "run_now": {PASSES_OVER: "poll"},
        "backfill": {PASSES_OVER: "poll"},
    },
    Kind.FINISHED: {
        "claim": {WAITS: "expire"},
        "reap": {WAITS: "expire"},
        "pause": {WAITS: "expire"},
        "resume": {WAITS: "expire"},
        "delete": {WAITS: "expire"},
        "backfill": {WAITS: "expire"},
        "take_over": {WAITS: "expire"},
        "expire": {
            WAITS: "claim take_over heartbeat pause resume delete backfill expire",
            FINDS_LESS: "reap",
            IS_REFUSED: "acquire acquire_kept complete",
        },
    },
}
