"""Celery beat with its own PersistentScheduler, the schedule in ``beat_schedule``.

.venv-bench/bin/python -m benchmarks.peers.celery_beat --jobs 1250 [--confirms]

What a message costs it grows with the number of entries, so it does best with just more than it can send in a second.
"""

from __future__ import annotations

import json

from benchmarks.peers.arrivals import Arrivals, parser, versions
from benchmarks.peers.beat import fires_per_s


def main() -> None:
    options = parser(__doc__, jobs=1250).parse_args()
    with Arrivals(options.amqp) as arrivals:
        figures = fires_per_s(options, arrivals, [], {"BENCH_BEAT_SCHEDULE": str(options.jobs)})
    print(json.dumps(figures | {"versions": versions("celery", "kombu", "amqp")}))


if __name__ == "__main__":
    main()
