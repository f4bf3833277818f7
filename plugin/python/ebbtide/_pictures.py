"""What ``ebbtide.plan()`` and ``ebbtide.curve()`` return: figures, and pictures in a notebook."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACTIONS = {
    "base": "#9aa5b1",
    "kept": "#4878a8",
    "offloaded": "#7b6aa8",
    "encoded": "#5a9e8f",
    "recomputed": "#d98b4a",
}


def bytes_text(count: int | float | None) -> str:
    if count is None:
        return "unknown"
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def _new_figure(rows: int) -> Figure:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plot() draws with matplotlib, which is not installed") from None
    return pyplot.figure(figsize=(8, 4 * rows), layout="constrained")


def _png(rows: int, draw: Callable[..., None]) -> str:
    """An <img>, or nothing where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(8, 3.5 * rows), layout="constrained")
    draw(*figure.subplots(rows, squeeze=False)[:, 0])
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return f'<img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'


def _unit(largest: float) -> tuple[str, int]:
    """One in which such a number of bytes is read well, and its bytes."""
    return ("GiB", 1 << 30) if largest >= 1 << 30 else ("MiB", 1 << 20)


def _table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...] = ()) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    lines = ([row(head, "th")] if head else []) + [row(cells, "td") for cells in rows]
    return f"<table>{''.join(lines)}</table>"


class Plan:
    """The plan in force: what is kept, computed again, offloaded. ``data`` is /v1/plan's answer."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def exists(self) -> bool:
        """False where no plan is needed, or none has been made yet."""
        return self.data["plan"] is not None

    @property
    def predicted_peak_bytes(self) -> int | None:
        return self.data["plan"]["predicted_peak_bytes"] if self.exists else None

    @property
    def overhead_ratio(self) -> float | None:
        """Time that the plan adds to a step, as it foresees it, over that of a step without it."""
        return self.data["plan"]["overhead_ratio"] if self.exists else None

    def _rows(self) -> list[tuple[str, str]]:
        plan = self.data["plan"]
        return [
            ("planner", str(plan["planner"])),
            ("peak without it", bytes_text(plan.get("plain_peak_bytes"))),
            ("predicted peak", bytes_text(plan["predicted_peak_bytes"])),
            ("more time", f"+{100 * plan['overhead_ratio']:.1f} %"),
            ("ops computed again", str(plan["recomputed_ops"])),
            ("offloaded", bytes_text(plan["offloaded_bytes"])),
            ("in use since step", str(plan["active_from_step"] or "none yet")),
        ]

    def __repr__(self) -> str:
        if not self.exists:
            return "<ebbtide.Plan: none>"
        lines = [f"  {name}: {value}" for name, value in self._rows()]
        lines += [f"  {op} x {ops}: {time}" for op, ops, time, _ in self._recomputed()]
        return "\n".join(["<ebbtide.Plan", *lines, ">"])

    def _recomputed(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                entry["op"],
                str(entry["ops"]),
                seconds_text(entry["seconds"]),
                bytes_text(entry["freed_bytes"]),
            )
            for entry in self.data.get("recomputed") or []
        ]

    def _repr_html_(self) -> str:
        if not self.exists:
            return "<p>Ebbtide: no plan is in force.</p>"
        image = _png(2, self._draw) if self._has_picture() else ""
        again = self._recomputed()
        heads = ("computed again", "ops", "a step", "bytes freed")
        return _table(self._rows()) + image + (_table(again, heads) if again else "")

    def _has_picture(self) -> bool:
        return bool(self.data.get("areas") or self.data.get("timeline"))

    def plot(self, axes: Iterable[Axes] | None = None) -> tuple[Axes, Axes]:
        """Two pictures, since their times differ: live bytes along a step as the plan foresees
        them, by what is done with them; and what the last recorded step held, and what was mapped.
        """
        if not self._has_picture():
            raise RuntimeError("there is no plan and no recorded step to draw yet")
        predicted, measured = _new_figure(2).subplots(2) if axes is None else axes
        self._draw(predicted, measured)
        return predicted, measured

    def _draw(self, predicted: Axes, measured: Axes) -> None:
        timeline = self.data.get("timeline") or {}
        areas = self.data.get("areas") or []
        budget = timeline.get("budget_bytes")
        drawn = [timeline.get("live_bytes"), timeline.get("mapped_bytes"), [budget or 0]]
        drawn += [area["live_bytes"] for area in areas]
        name, unit = _unit(max(max(counts) for counts in drawn if counts))
        self._draw_predicted(predicted, areas, unit)
        self._draw_measured(measured, timeline, unit)
        for axes in (predicted, measured):
            if budget is not None:
                axes.axhline(budget / unit, color="#b03030", linestyle="--", label="budget")
            axes.set_ylabel(name)
            axes.set_ylim(bottom=0)
            if axes.get_legend_handles_labels()[0]:  # there may be twenty: beside the picture
                axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))

    def _draw_predicted(self, axes: Axes, areas: list[dict[str, Any]], unit: int) -> None:
        axes.set_title("predicted" if areas else "predicted: no plan is in force")
        axes.set_xlabel("seconds of a step under the plan")
        if not areas:
            return
        axes.stackplot(
            self.data["area_seconds"],
            *[[live / unit for live in area["live_bytes"]] for area in areas],
            labels=[f"{area['label']} ({area['action']})" for area in areas],
            colors=[_ACTIONS.get(area["action"], "#bbbbbb") for area in areas],
            edgecolor="white",
            linewidth=0.3,
        )

    def _draw_measured(self, axes: Axes, timeline: dict[str, Any], unit: int) -> None:
        axes.set_title("measured" if timeline else "measured: no step has been recorded yet")
        axes.set_xlabel("seconds of the last recorded step")
        for kind, color in (("live", "black"), ("mapped", "#888888")):
            counts = timeline.get(f"{kind}_bytes")
            if counts:
                held = [count / unit for count in counts]
                axes.plot(timeline["seconds"], held, color=color, linewidth=1, label=kind)


class Curve:
    """Time against memory: what a step would take under other budgets. ``data`` is /v1/curve's."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def state(self) -> str:
        """Whether it is "ready", "computing", or "none"; ``data["why"]`` says why there is none."""
        return self.data["state"]

    @property
    def points(self) -> list[dict[str, Any]]:
        return self.data["points"]

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        if not self.points:
            return f"<ebbtide.Curve: {self.state}>"
        lines = [f"  {' | '.join(row)}" for row in self._rows()]
        return "\n".join(["<ebbtide.Curve", *lines, ">"])

    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (
                bytes_text(point["budget_bytes"]),
                seconds_text(point["step_seconds"]),
                f"+{100 * point['overhead_ratio']:.1f} %",
            )
            for point in self.points
        ]

    def _repr_html_(self) -> str:
        if not self.points:
            return f"<p>Ebbtide: the curve is {html.escape(self.state)}.</p>"
        return _png(1, self._draw) + _table(self._rows(), ("budget", "step", "more time"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """A step's seconds over the budget, and where the run is now."""
        if not self.points:
            raise RuntimeError(f"there is no curve to draw: it is {self.state}")
        axes = _new_figure(1).subplots() if ax is None else ax
        self._draw(axes)
        return axes

    def _draw(self, axes: Axes) -> None:
        name, unit = _unit(max(point["budget_bytes"] for point in self.points))
        budgets = [point["budget_bytes"] / unit for point in self.points]
        seconds = [point["step_seconds"] for point in self.points]
        axes.plot(budgets, seconds, marker="o", label="predicted")
        present = self.data.get("present")
        if present:
            at = present["budget_bytes"] or present["peak_bytes"]
            axes.plot([at / unit], [present["step_seconds"]], "s", color="#b03030", label="now")
        axes.legend(fontsize="x-small")
        axes.set_xlabel(f"budget in {name}")
        axes.set_ylabel("seconds a step")
