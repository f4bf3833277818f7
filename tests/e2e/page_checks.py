"""What assistive technology and eyes need of a page: test_page_access.py."""

from pathlib import Path

from browser import Page

SCRIPT = Path(__file__).with_suffix(".js").read_text()

CONTROLS = {"button", "combobox", "checkbox", "slider", "searchbox", "textbox", "listbox", "option"}


def structure(page: Page) -> list[str]:
    return page.evaluate(f"(() => {{ {SCRIPT}\nreturn structure(); }})()")


def contrast(page: Page) -> list[str]:
    return page.evaluate(f"(() => {{ {SCRIPT}\nreturn contrast(); }})()")


def nameless(nodes: list[dict]) -> list[str]:
    """Roles in the accessibility tree that need a name and have none."""
    return [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] in CONTROLS | {"link", "region", "img"}
        and not node.get("name", {}).get("value")
    ]


# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
SIGHT = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}

Colour = tuple[float, float, float]


def simulated(hexadecimal: str, sight: str) -> Colour:
    """Linear RGB of "#rrggbb" as eyes of that kind see it."""
    parts = [int(hexadecimal.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    rows = (sum(a * b for a, b in zip(row, linear, strict=True)) for row in SIGHT[sight])
    red, green, blue = (min(1.0, max(0.0, value)) for value in rows)
    return red, green, blue


def difference(one: Colour, other: Colour) -> float:
    """Distance in CIE Lab (1976), white point D65."""
    return sum((a - b) ** 2 for a, b in zip(lab(one), lab(other), strict=True)) ** 0.5


def lab(linear: Colour) -> Colour:
    red, green, blue = linear
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
