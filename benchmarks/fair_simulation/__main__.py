"""Who gets how much, in simulated time: the figures that a model can show, each beside what is expected.

    python -m benchmarks.fair_simulation [--quick] [--seed n] [--only name,name]

Tenants, nodes, round trips, the nodes' exchanges and the workers are events with seeds; the fair queue, the estimates,
the depth and the exchange between nodes are the real ones. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time

from benchmarks.fair_simulation.experiments import EXPERIMENTS, Scale, as_record


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the time, fewer tenants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=", ".join(EXPERIMENTS))
    options = parser.parse_args()
    scale = Scale(part=0.25 if options.quick else 1.0, seed=options.seed)
    record = {}
    for name in options.only.split(",") if options.only else EXPERIMENTS:
        began = time.process_time()
        figures = EXPERIMENTS[name](scale)
        print(f"{name}  ({time.process_time() - began:.1f} s)")
        for figure in figures:
            print(f"  {figure.measured:10.4f}  {figure.expected:>14}  {' ' if figure.is_kept else '!'} {figure.name}")
        record[name] = as_record(figures)
    kept = all(figure["kept"] for figures in record.values() for figure in figures.values())
    print(json.dumps({"seed": options.seed, "quick": options.quick, "all_kept": kept, "figures": record}))


if __name__ == "__main__":
    main()
