"""The records of the last full run as Markdown tables in docs/performance.md, and as plots in docs/figures/.

    .venv-bench/bin/python -m benchmarks.report        (or make bench-report)

Only what stands between the two markers is written; where there are none, the tables go to stdout.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import kept
from benchmarks.catalogue import CAPACITY
from benchmarks.kept import Record
from benchmarks.summary import OTHER_PEERS, PEERS, PUBLISHER, ratio

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
PAGE = Path("docs/performance.md")
PLOTS = Path("docs/figures")
FIRE_PATHS = {
    CAPACITY: "capacity: more is due than it can fire",
    "fire_path_sustained": "sustained",
    "fire_path_at_80_percent": "at 80 % of capacity",
    "fire_path_at_500": "light load",
    "fire_path_one_node": "one node",
    "fire_path_four_nodes": "four nodes",
    "burst": "a burst at one instant",
}
CEILINGS = {PUBLISHER: "a bare confirmed publisher", "ceiling_postgres": "bare batched claims in Postgres"}
TABLED = {*FIRE_PATHS, *CEILINGS, *PEERS, *OTHER_PEERS, "growth", "growth_shards", "held_snapshot"}
# said once for all, plotted, or no figure
LEFT_OUT = set("settings commit_mode commit hardware versions python cpus series rates method mix pools each".split())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, default=kept.FULL)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--plots", type=Path, default=PLOTS)
    options = parser.parse_args()
    records = kept.read(options.results)
    if not records:
        raise SystemExit(f"{options.results} has no records: run make bench")
    text = tables(records)
    page = options.page.read_text()
    if BEGIN in page and END in page:
        options.page.write_text(between_markers(page, text))
    else:
        print(text)
        print(f"{options.page} has no line {BEGIN!r} with a line {END!r} after it", file=sys.stderr)
    from benchmarks.plots import draw  # matplotlib is in the peers' environment only

    for path in draw(records, options.plots):
        print(path, file=sys.stderr)


def between_markers(page: str, text: str) -> str:
    """The page with ``text`` in place of what stood between the markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def tables(records: Mapping[str, Record]) -> str:
    parts = [
        measured_on(records.values()),
        _fire_paths(records),
        _peers(records),
        _growth(records),
        _held_snapshot(records),
        _others(records),
        _not_measured(records.values()),
    ]
    return "\n\n".join(part for part in parts if part)


def measured_on(records: Iterable[Record]) -> str:
    """Hardware, versions, durability; once for each that differs, with the commits that ran there."""
    commits: dict[str, dict[str, None]] = {}
    for record in records:
        if record.on:
            commits.setdefault(_on(record), {})[_commit(record.on["revision"])] = None
    return "\n\n".join(f"{on}; {', '.join(found)}." for on, found in commits.items())


def _commit(revision: Mapping[str, Any]) -> str:
    return f"commit {revision['commit']} of {revision['date'][:10]}{' with changes' if revision['dirty'] else ''}"


def _on(record: Record) -> str:
    hardware, versions, mode = record.on["hardware"], record.on["versions"], record.on["commit_mode"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    kept = ", ".join(f"{name} {value}" for name, value in mode.items())
    return (
        f"{hardware['cpu']}, {hardware['cpus']} CPUs, {hardware['memory_gib']} GiB, {hardware['system']}; {named}; "
        f"Postgres with {kept}"
    )


def _fire_paths(records: Mapping[str, Record]) -> str:
    rows = []
    for name, what in FIRE_PATHS.items():
        if (figures := _figures(records, name)) is None:
            continue
        due = f"{figures['jobs']:,} at once" if name == "burst" else f"{figures['due_per_s']:,}"
        rate = f"{figures['fires_per_s']:,}"
        if name == "burst":
            rate += f" (cleared in {figures['cleared_s']} s)"
        settings = figures.get("settings", {})
        under = f"stop {settings.get('STOP')}, {figures.get('nodes')} nodes, batch {settings.get('BATCH')}"
        rows.append([what, due, rate, *_latency(figures), *_costs(figures), under, _command(records[name])])
    head = ["the fire path", "due a second", "fires a second", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs a fire: nodes"]
    head += ["Postgres", "RabbitMQ", "WAL B a fire", "settings", "command"]
    return _table(head, rows)


def _peers(records: Mapping[str, Record]) -> str:
    """Each beside what Fairbeat did in the same run."""
    rows = []
    for name, what in CEILINGS.items():
        if (figures := _figures(records, name)) is not None:
            theirs = figures.get("confirmed_per_s") or figures.get("claimed_per_s")
            rows.append([f"ceiling: {what}", *_beside(records[name], theirs), "", _command(records[name])])
    rows += [_peer_row(records[name]) for name in (*PEERS, *OTHER_PEERS) if _figures(records, name)]
    return _table(["beside", "a second", "Fairbeat in that run", "Fairbeat ÷ it", "what it is", "command"], rows)


def _beside(record: Record, theirs: float | None) -> list[str]:
    return [_number(theirs), _number(record.ours), _number(ratio(record.ours, theirs))]


def _peer_row(record: Record) -> list[str]:
    figures = record.figures or {}
    versions = ", ".join(f"{name} {version}" for name, version in figures.get("versions", {}).items())
    said = [f"{figures['jobs']:,} jobs", versions]
    if figures.get("publisher_confirms"):
        said.insert(1, "with publisher confirms")
    if figures.get("keeps_connection"):
        said.insert(1, "CONN_MAX_AGE None")
    if "defer_per_s" in figures:
        said.insert(
            1, f"periodic deferrer; defer {figures['defer_per_s']:,}, batch_defer {figures['batch_defer_per_s']:,}"
        )
    return [record.name, *_beside(record, figures["fires_per_s"]), "; ".join(said), _command(record)]


def _growth(records: Mapping[str, Record]) -> str:
    rows, commands = [], []
    for name in ("growth", "growth_shards"):
        if (figures := _figures(records, name)) is None:
            continue
        commands.append(_command(records[name]))
        for row in figures["rows"]:
            cells = [f"{row['at_rest']:,}", str(row["shards"]), f"{row['fires_per_s']:,}", *_latency(row), *_costs(row)]
            rows.append([*cells, str(row["lease_s"]), str(row["first_fire_s"]), str(row["node_rss_mib"])])
    head = ["jobs at rest", "shards", "fires a second", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs a fire: nodes"]
    head += ["Postgres", "RabbitMQ", "WAL B a fire", "start to lease, s", "to first fire, s", "node RSS, MiB"]
    return _table(head, rows) + ("\n\n" + ", ".join(commands) if rows else "")


def _held_snapshot(records: Mapping[str, Record]) -> str:
    if (figures := _figures(records, "held_snapshot")) is None:
        return ""
    rows = []
    for name, what in (("free", "without"), ("held", "with a held snapshot")):
        case = figures[name]
        cells = [what, f"{case['seconds']:.0f}", f"{case['fires_per_s']:,}", *_latency(case), *_costs(case)]
        rows.append([*cells, f"{case['dead_rows']:,}"])
    head = ["held snapshot", "seconds", "fires a second", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs a fire: nodes"]
    head += ["Postgres", "RabbitMQ", "WAL B a fire", "dead rows"]
    return f"{_table(head, rows)}\n\nLoss: {figures['loss_percent']} %. {_command(records['held_snapshot'])}"


def _others(records: Mapping[str, Record]) -> str:
    rows = [
        [name, "; ".join(flat(record.figures)), _command(record)]
        for name, record in records.items()
        if name not in TABLED and record.figures is not None
    ]
    return _table(["beside the path", "figures", "command"], rows)


def flat(figures: Mapping[str, Any], prefix: str = "") -> list[str]:
    """``name value`` of every figure, those of a group with its name before theirs."""
    found = []
    for name, value in figures.items():
        if name in LEFT_OUT:
            continue
        said = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            found += flat(value, f"{said} ")
        elif isinstance(value, list):
            found.append(f"{said} {', '.join(_number(part) for part in value)}")
        else:
            found.append(f"{said} {_number(value)}")
    return found


def _not_measured(records: Iterable[Record]) -> str:
    lines = [f"- {record.name}: {record.reason}" for record in records if record.figures is None]
    return "\n".join(["Not measured:", "", *lines]) if lines else ""


def _figures(records: Mapping[str, Record], name: str) -> dict[str, Any] | None:
    return records[name].figures if name in records else None


def _latency(figures: Mapping[str, Any]) -> list[str]:
    found = figures.get("fire_latency_ms") or {}
    return [_number(found.get(name)) for name in ("p50", "p99", "p99.9")]


def _costs(figures: Mapping[str, Any]) -> list[str]:
    cpu = figures.get("cpu_us_per_fire") or {}
    return [_number(cpu.get(name)) for name in ("nodes", "postgres", "rabbitmq")] + [
        _number(figures.get("wal_bytes_per_fire"))
    ]


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _command(record: Record) -> str:
    return f"`{record.command}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    main()
