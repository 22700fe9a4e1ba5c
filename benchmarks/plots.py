"""The plots of docs/performance.md, one for a question each, as SVG. Needs matplotlib, of the peers' environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl  # type: ignore[import-not-found]
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter  # type: ignore[import-not-found]

from benchmarks.catalogue import CAPACITY
from benchmarks.kept import Record
from benchmarks.summary import OTHER_PEERS, PEERS, PUBLISHER

OURS, THEIRS, CEILING = "#1f6f54", "#8a8f98", "#c9a227"
GROUPS = {"nodes": OURS, "postgres": "#33658a", "rabbitmq": "#c9a227"}
STYLE = {
    "svg.hashsalt": "fairbeat",  # the same figures make the same file
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.facecolor": "white",
}


def draw(records: Mapping[str, Record], folder: Path) -> Iterator[Path]:
    """Those for which there are figures."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = {
        "peers": peers,
        "latency": latency,
        "growth": growth,
        "sustained": sustained,
        "held_snapshot": held_snapshot,
    }
    with mpl.rc_context(STYLE):
        for name, plot in plots.items():
            figure = plot(records)
            if figure is None:
                continue
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
            plt.close(figure)
            yield path


def peers(records: Mapping[str, Record]) -> Any:
    """How many fires a second, side by side?"""
    bars = [("Fairbeat", records[CAPACITY].figure(), OURS)] if CAPACITY in records else []
    bars += [("bare confirmed publisher", _rate(records, PUBLISHER, "confirmed_per_s"), CEILING)]
    bars += [("bare claims in Postgres", _rate(records, "ceiling_postgres", "claimed_per_s"), CEILING)]
    bars += [(name.replace("_", " "), _rate(records, name), THEIRS) for name in (*PEERS, *OTHER_PEERS)]
    known = sorted(((name, rate, colour) for name, rate, colour in bars if rate), key=lambda bar: bar[1])
    if not known:
        return None
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(known) + 1))
    drawn = axes.barh([name for name, *_ in known], [rate for _, rate, _ in known], color=[bar[2] for bar in known])
    axes.bar_label(drawn, labels=[f" {rate:,.0f}" for _, rate, _ in known])
    axes.set_xscale("log")
    axes.set_xlim(right=max(rate for _, rate, _ in known) * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("fires a second (logarithmic)")
    return figure


def latency(records: Mapping[str, Record]) -> Any:
    """How late is a fire confirmed?"""
    cases = {"fire_path_at_500": "500 fires/s", "fire_path_at_80_percent": "80 % of capacity"}
    found = {what: _figures(records, name).get("fire_latency_ms") for name, what in cases.items()}
    known = {what: percentiles for what, percentiles in found.items() if percentiles}
    if not known:
        return None
    figure, axes = plt.subplots(figsize=(6, 3))
    names = ("p50", "p99", "p99.9")
    for place, (what, percentiles) in enumerate(known.items()):
        at = [n + 0.36 * place for n in range(len(names))]
        drawn = axes.bar(at, [percentiles[name] for name in names], 0.34, label=what, color=(OURS, "#33658a")[place])
        axes.bar_label(drawn, fmt="%g")
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set_xticks([n + 0.18 * (len(known) - 1) for n in range(len(names))], names)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("ms after its time (logarithmic)")
    axes.legend(frameon=False)
    return figure


def growth(records: Mapping[str, Record]) -> Any:
    """Does a fire cost more when more jobs rest?"""
    rows = sorted(_figures(records, "growth").get("rows", []), key=lambda row: row["at_rest"])
    if not rows:
        return None
    sizes = [row["at_rest"] for row in rows]
    figure, (cost, late) = plt.subplots(1, 2, figsize=(9, 3))
    below = [0.0] * len(rows)
    for name, colour in GROUPS.items():
        part = [(row["cpu_us_per_fire"] or {}).get(name, 0.0) for row in rows]
        cost.bar([f"{size:,}" for size in sizes], part, bottom=below, label=name, color=colour, width=0.6)
        below = [under + more for under, more in zip(below, part, strict=True)]
    cost.set_ylabel("CPU µs a fire")
    cost.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for name, line in (("p50", "-"), ("p99", "--")):
        late.plot(sizes, [row["fire_latency_ms"][name] for row in rows], line, marker="o", color=OURS, label=name)
    late.set_xscale("log")
    late.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    late.set_ylim(bottom=0)
    late.set_ylabel("ms after its time")
    late.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for axes in (cost, late):
        axes.set_xlabel("jobs at rest")
        axes.tick_params(axis="x", labelsize=8)
    figure.tight_layout()
    return figure


def sustained(records: Mapping[str, Record]) -> Any:
    """Does it keep that up?"""
    return _series({"fires a second": _figures(records, "fire_path_sustained")})


def held_snapshot(records: Mapping[str, Record]) -> Any:
    """Does a transaction that is held open slow it down?"""
    figures = _figures(records, "held_snapshot")
    return _series({"without": figures.get("free", {}), "held open": figures.get("held", {})})


def _series(runs: Mapping[str, Mapping[str, Any]]) -> Any:
    lines = {name: figures.get("series") or [] for name, figures in runs.items()}
    if not all(lines.values()):
        return None
    figure, (rate, late) = plt.subplots(2, 1, figsize=(8, 4), sharex=True)
    for (name, points), colour in zip(lines.items(), (OURS, "#b23a48"), strict=False):
        at = [point["s"] for point in points]
        rate.plot(at, [point["fires_per_s"] for point in points], color=colour, label=name)
        late.plot(at, [point["fire_latency_ms"]["p99"] for point in points], color=colour, label=name)
    rate.set_ylim(0, 1.15 * max(point["fires_per_s"] for points in lines.values() for point in points))
    rate.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    rate.set_ylabel("fires a second")
    late.set_ylim(bottom=0)
    late.set_ylabel("p99, ms")
    late.set_xlabel("seconds")
    if len(lines) > 1:
        rate.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    return figure


def _rate(records: Mapping[str, Record], name: str, figure: str = "fires_per_s") -> float | None:
    return records[name].figure(figure) if name in records else None


def _figures(records: Mapping[str, Record], name: str) -> Mapping[str, Any]:
    return (records[name].figures or {}) if name in records else {}
