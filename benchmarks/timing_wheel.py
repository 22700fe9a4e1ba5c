"""How many timers a second one core adds and fires, and what one weighs: the timing wheel beside a heap.

    python -m benchmarks.timing_wheel [--timers 500000] [--span-s 60]

Deadlines are random over the span; time moves from one ``next_deadline`` to the next, as in a node that sleeps between.
Items are None ("bare"): what a fire weighs is not the wheel's. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import random
import time
import tracemalloc

from scheduling.core.timing_wheel import TimingWheel

START = 1_767_225_600_000  # 2026-01-01 in milliseconds: deadlines as large as real ones


def wheel_seconds(deadlines: list[int]) -> tuple[float, float]:
    """Seconds to add all, and to fire all."""
    wheel: TimingWheel[object] = TimingWheel(START)
    began = time.perf_counter()
    for deadline in deadlines:
        wheel.add(deadline, None)
    added = time.perf_counter()
    fired = 0
    while (tick := wheel.next_deadline()) is not None:
        fired += len(wheel.advance(tick))
    ended = time.perf_counter()
    assert fired == len(deadlines)
    return added - began, ended - added


def heap_seconds(deadlines: list[int]) -> tuple[float, float]:
    """The same through ``heapq``, with a number that keeps the order within one tick."""
    heap: list[tuple[int, int, object]] = []
    began = time.perf_counter()
    for number, deadline in enumerate(deadlines):
        heapq.heappush(heap, (deadline, number, None))
    added = time.perf_counter()
    while heap:
        tick = heap[0][0]
        while heap and heap[0][0] <= tick:
            heapq.heappop(heap)
    return added - began, time.perf_counter() - added


def bytes_a_timer(timers: int, span_ms: int) -> float:
    """What the wheel and the deadlines weigh, without the items."""
    rng = random.Random(2)
    tracemalloc.start()
    wheel: TimingWheel[object] = TimingWheel(START)
    for _ in range(timers):
        wheel.add(START + rng.randrange(1, span_ms), None)
    weight, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return weight / timers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timers", type=int, default=500_000)
    parser.add_argument("--span-s", type=int, default=60)
    options = parser.parse_args()
    span_ms = options.span_s * 1000
    rng = random.Random(1)
    deadlines = [START + rng.randrange(1, span_ms) for _ in range(options.timers)]
    gc.collect()
    line: dict[str, object] = {"timers": options.timers, "span_s": options.span_s}
    for name, measure in (("wheel", wheel_seconds), ("heap", heap_seconds)):
        add_s, fire_s = measure(deadlines)
        line[name] = {
            "add_us": round(add_s / options.timers * 1e6, 2),
            "fire_us": round(fire_s / options.timers * 1e6, 2),
            "timers_per_s": round(options.timers / (add_s + fire_s)),
        }
    line["bytes_a_timer"] = round(bytes_a_timer(min(options.timers, 200_000), span_ms))
    print(json.dumps(line))


if __name__ == "__main__":
    main()
