"""Draws live bytes along one training step, plain and budgeted, as an SVG of its own."""

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 64, 52
MIB = 1024 * 1024

_STYLE = """
  .page { fill: #ffffff } .text { fill: #24292f } .faint { fill: #57606a }
  .grid { stroke: #d0d7de } .plain { stroke: #8c959f } .plain-area { fill: #8c959f }
  .kept { stroke: #0969da } .kept-area { fill: #0969da } .budget { stroke: #cf222e }
  .budget-text { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #9198a1 }
    .grid { stroke: #30363d } .plain { stroke: #768390 } .plain-area { fill: #768390 }
    .kept { stroke: #4493f8 } .kept-area { fill: #4493f8 } .budget { stroke: #f85149 }
    .budget-text { fill: #f85149 }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
"""


@dataclass(frozen=True)
class Curve:
    """Live bytes from each moment (seconds from the step's start) to the next one."""

    label: str
    style: str
    seconds: list[float]
    live_bytes: list[int]


def draw(title: str, curves: list[Curve], budget_bytes: int) -> str:
    last = max(curve.seconds[-1] for curve in curves)
    most = max(budget_bytes, *(max(curve.live_bytes) for curve in curves)) / MIB
    x_ticks, y_ticks = _ticks(last), _ticks(most * 1.05)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(seconds: float) -> float:
        return LEFT + seconds / last * width

    def y(mib: float) -> float:
        return TOP + height - mib / y_ticks[-1] * height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="text title" x="{LEFT}" y="26">{escape(title)}</text>',
    ]
    for tick in y_ticks:
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}h{width}"/>')
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:,.0f}", "faint", "end"))
    for tick in x_ticks:
        if tick <= last:
            parts.append(_text(x(tick), TOP + height + 20, f"{tick:g}", "faint", "middle"))
    middle = TOP + height / 2
    parts.append(_text(LEFT + width / 2, HEIGHT - 10, "seconds of one step", "faint", "middle"))
    parts.append(
        f'<text class="faint" text-anchor="middle" transform="translate(18 {middle}) rotate(-90)">'
        "live bytes, MiB</text>"
    )
    for curve in curves:
        path = _path([(x(s), y(b / MIB)) for s, b in _thinned(curve, width, last)])
        parts.append(
            f'<path class="{curve.style}-area" fill-opacity="0.12" '
            f'd="{path}V{y(0):.1f}H{x(curve.seconds[0]):.1f}Z"/>'
        )
        parts.append(f'<path class="{curve.style}" fill="none" stroke-width="1.8" d="{path}"/>')
    level = y(budget_bytes / MIB)
    parts.append(
        '<path class="budget" stroke-width="1.6" stroke-dasharray="7 4" '
        f'd="M{LEFT} {level:.1f}h{width}"/>'
    )
    label = f"budget {budget_bytes / MIB:,.0f} MiB"
    parts.append(_text(LEFT + width - 4, level - 6, label, "budget-text", "end"))
    at = LEFT
    for curve in curves:
        label = f"{curve.label} (peak {max(curve.live_bytes) / MIB:,.0f} MiB)"
        parts.append(f'<path class="{curve.style}" stroke-width="3" d="M{at} 46h24"/>')
        parts.append(_text(at + 32, 50, label, "text", "start"))
        at += 60 + 7 * len(label)
    parts.append("</svg>\n")
    return "\n".join(parts)


def _text(x: float, y: float, text: str, style: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{style}" {place}>{escape(text)}</text>'


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to the first one at or above `most`, about five of them."""
    rough = most / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [step * index for index in range(math.ceil(most / step - 1e-9) + 1)]


def _thinned(curve: Curve, columns: int, last: float) -> list[tuple[float, int]]:
    """At most the lowest and the highest point of each pixel column, so peaks stay."""
    groups: dict[int, list[tuple[float, int]]] = {}
    for point in zip(curve.seconds, curve.live_bytes, strict=True):
        groups.setdefault(int(point[0] / last * columns), []).append(point)
    kept: list[tuple[float, int]] = []
    for group in groups.values():
        extremes = {min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1]), group[-1]}
        kept += sorted(extremes)
    return kept


def _path(points: list[tuple[float, float]]) -> str:
    """A staircase: each level holds until the next point."""
    (x, y), *rest = points
    return f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
