"""The demo: a small application on top of the scheduler, with a task of its own and the rows that it writes.

`python -m project.demo` plays it: two nodes, a worker and the web admin, on a schedule in a time-lapse where asked.

| variable | option | meaning |
|---|---|---|
| `SECONDS` | `--seconds` | ends by itself after so many real seconds, with one line of JSON last; else with Ctrl-C |
| `SPEED` | `--speed` | job seconds in a real second; other than 1, job time starts at 00:00 UTC of today |
| `JOBS` | `--jobs` | a file of jobs, as `import_jobs` reads it; the demo's own task runs for lines without one |
| `EMBEDDED` | | 1: the embedded services, even where real ones answer |

**Which database.** The embedded Postgres gets a database `fairbeat_demo`, new at each start. A `DATABASE_URL` is used
as it is, if there are no jobs in it; the demo marks it as its own then, and empties it at its next start. One that
holds jobs and no such mark is refused: the demo sets the clock of all jobs, and deletes what is there. The rows stay
there afterwards, to look at.

**Which queues.** Those with a prefix of its own, `fairbeat-demo-…`; they are removed at the end: brokers can be shared.

The logs of the processes are in `.run/demo`.
"""
