"""How many timers a second one core adds and fires: the timing wheel, and the timers that Python people use today.

    python -m benchmarks.timing_wheel [--timers 1000000] [--large 10000000] [--span-s 3600] [--quick]

Every timer is added, and every timer fires: its item, the ``__next__`` of a counter, is called, and the counter must
have reached the number of timers. Deadlines are random over ``--span-s``, whole milliseconds, the same for all. An
hour is hard for the wheel (a timer is moved twice, and at a million most have a tick of their own) and all the same to
a heap; ``in_the_window`` is the second that a node claims ahead. The wheel of ``--large`` timers is measured over the
same span, and over one that is longer by as much as it is larger (``as_dense``): each tick then holds as few.

The wheel goes from one ``next_deadline`` to the next, as a node does that sleeps between. Its peers are measured as
suits them: time is past every deadline when they fire, so none of them waits, polls, or asks a selector for each tick.

Each figure comes from a fresh process, so that one's memory does not slow the next, with the garbage collector as
Python sets it; seconds are CPU of that process. ``bytes_per_timer`` is what tracemalloc sees of a wheel of
``--timers``, deadlines included, items not (``benchmarks.memory`` weighs these). The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import heapq
import json
import platform
import random
import sched
import subprocess
import sys
import time
import tracemalloc
from array import array
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from scheduling.core.timing_wheel import TimingWheel

START = 1_767_225_600_000  # 2026-01-01 in milliseconds: deadlines as large as real ones
WINDOW_S = 1.0  # what a node claims ahead by default

Item = Callable[[], object]
Fire = Callable[[], object]  # fires all that was added


def add_to_wheel(deadlines: Sequence[int], item: Item) -> Fire:
    wheel: TimingWheel[Item] = TimingWheel(START)
    for deadline in deadlines:
        wheel.add(deadline, item)

    def fire() -> None:
        while (tick := wheel.next_deadline()) is not None:
            for due in wheel.advance(tick):
                due()

    return fire


def add_to_heap(deadlines: Sequence[int], item: Item) -> Fire:
    """With a number, which keeps the order within a tick, and keeps items from being compared."""
    heap: list[tuple[int, int, Item]] = []
    for number, deadline in enumerate(deadlines):
        heapq.heappush(heap, (deadline, number, item))
    end = max(deadlines)

    def fire() -> None:
        while heap and heap[0][0] <= end:
            heapq.heappop(heap)[2]()

    return fire


def add_to_sched(deadlines: Sequence[int], item: Item) -> Fire:
    end = max(deadlines) / 1000
    scheduler = sched.scheduler(timefunc=lambda: end, delayfunc=lambda _: None)
    for deadline in deadlines:
        scheduler.enterabs(deadline / 1000, 0, item)
    return scheduler.run


def add_to_asyncio(deadlines: Sequence[int], item: Item) -> Fire:
    end = max(deadlines) / 1000

    class Loop(asyncio.SelectorEventLoop):
        now = START / 1000

        def time(self) -> float:
            return self.now

    loop = Loop()
    for deadline in deadlines:
        loop.call_at(deadline / 1000, item)

    def fire() -> None:
        loop.now = end + 1  # it fires what is before now
        loop.call_at(end, loop.stop)
        loop.run_forever()
        loop.close()

    return fire


def add_to_kombu(deadlines: Sequence[int], item: Item) -> Fire:
    from kombu.asynchronous.timer import Timer

    end = max(deadlines) / 1000
    timer = Timer()
    for deadline in deadlines:
        timer.call_at(deadline / 1000, item)

    def fire() -> None:
        for _, entry in timer.__iter__(nowfun=lambda: end):  # type: ignore[call-arg]
            if entry is None:
                return
            entry()

    return fire


PEERS = {"heapq": add_to_heap, "sched": add_to_sched, "asyncio": add_to_asyncio, "kombu": add_to_kombu}
ADD = PEERS | {"wheel": add_to_wheel}


def deadlines(timers: int, span_s: float) -> list[int]:
    rng, span_ms = random.Random(1), round(span_s * 1000)
    return [START + 1 + int(rng.random() * span_ms) for _ in range(timers)]


def seconds(name: str, timers: int, span_s: float) -> list[float]:
    """CPU seconds to add all, and to fire all."""
    due = deadlines(timers, span_s)
    fired = count()
    gc.collect()
    began = time.process_time()
    fire = ADD[name](due, fired.__next__)
    added = time.process_time()
    fire()
    ended = time.process_time()
    if (calls := next(fired)) != timers:
        raise SystemExit(f"{name}: {timers} timers were added, and {calls} fired")
    return [added - began, ended - added]


def bytes_a_timer(timers: int, span_s: float) -> float:
    """What the wheel and its deadlines weigh. These are made as they are added: none is there before."""
    due = array("q", deadlines(timers, span_s))
    tracemalloc.start()
    wheel: TimingWheel[None] = TimingWheel(START)
    for deadline in due:
        wheel.add(deadline, None)
    weight, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return weight / timers


def in_a_fresh_process(name: str, timers: int, span_s: float) -> Any:
    """``seconds``, or ``bytes_a_timer`` where the name is "bytes"."""
    command = [sys.executable, "-m", "benchmarks.timing_wheel", "--measure", name]
    command += ["--timers", str(timers), "--span-s", str(span_s)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def per_s(name: str, timers: int, span_s: float) -> int:
    add_s, fire_s = in_a_fresh_process(name, timers, span_s)
    rate: float = timers / (add_s + fire_s)
    microseconds = f"{add_s / timers * 1e6:5.2f} us to add, {fire_s / timers * 1e6:5.2f} to fire"
    print(f"{name:8} {timers:11,} timers over {span_s:7,g} s  {microseconds}  {rate:10,.0f} a second", flush=True)
    return round(rate)


def compare(timers: int, large: int, span_s: float) -> dict[str, Any]:
    wheel = per_s("wheel", timers, span_s)
    peers = {name: per_s(name, timers, span_s) for name in PEERS}
    return {
        "span_s": span_s,
        "wheel_per_s": wheel,
        "at_10m_per_s": per_s("wheel", large, span_s),
        "peers_per_s": peers,
        "ratio": {name: round(wheel / peer, 2) for name, peer in peers.items()},
    }


def measure(timers: int, large: int, span_s: float) -> dict[str, Any]:
    return {
        "timers": timers,
        "large": large,
        **compare(timers, large, span_s),
        "at_10m_as_dense_per_s": per_s("wheel", large, span_s * large / timers),
        "in_the_window": compare(timers, large, WINDOW_S),
        "bytes_per_timer": round(in_a_fresh_process("bytes", timers, span_s)),
        "python": platform.python_version(),
        "gc_threshold": gc.get_threshold(),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--timers", type=int, default=1_000_000)
    arguments.add_argument("--large", type=int, default=10_000_000, help="timers of the larger wheel")
    arguments.add_argument("--span-s", type=float, default=3600.0, help="deadlines lie within")
    arguments.add_argument("--quick", action="store_true", help="a tenth of each")
    arguments.add_argument("--measure", choices=[*ADD, "bytes"], help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.measure:
        of = bytes_a_timer if options.measure == "bytes" else lambda *given: seconds(options.measure, *given)
        print(json.dumps(of(options.timers, options.span_s)))
    elif options.quick:
        print(json.dumps(measure(options.timers // 10, options.large // 10, options.span_s)))
    else:
        print(json.dumps(measure(options.timers, options.large, options.span_s)))


if __name__ == "__main__":
    main()
