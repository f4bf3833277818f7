"""The pictures of docs/page.md, taken into a temporary folder. To take them anew:

EBBTIDE_PICTURES=docs pytest tests/e2e/test_page_pictures.py
"""

import os
import struct
import zlib
from pathlib import Path

import pytest
from browser import Page
from page_serving import Serve, opened
from processes import ROOT

pytestmark = pytest.mark.quick

WIDTH, HEIGHT = 1440, 1130
DOCS = ROOT / "docs"


def size(picture: Path) -> tuple[int, ...]:
    return struct.unpack(">II", picture.read_bytes()[16:24])


def bytes_of_rows(picture: Path) -> bytes:
    """What a picture's IDAT chunks hold, unpacked."""
    data, at, packed = picture.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return zlib.decompress(packed)


@pytest.mark.parametrize("name", ["page-light", "page-dark"])
def test_pictures_of_the_documentation(page: Page, serve: Serve, tmp_path: Path, name: str) -> None:
    server = serve(64, "--job-id", "gpt")
    node = server.json("/v1/node")
    page.answer("/v1/node", node | {"host": "node-17"})
    page.resize(WIDTH, HEIGHT)
    page.dark(name == "page-dark", reduced_motion=True)
    opened(page, server, "#rank=6")
    page.wait("!document.getElementById('gantt-card').hidden")
    if name == "page-dark":
        page.evaluate("byId('detail').scrollTop = 1e6")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
    folder = Path(os.environ.get("EBBTIDE_PICTURES", tmp_path))
    picture = (ROOT / folder if not folder.is_absolute() else folder) / f"{name}.png"
    page.screenshot(picture)
    assert size(picture) == size(DOCS / picture.name) == (WIDTH, HEIGHT)
    assert len(set(bytes_of_rows(picture))) > 100  # no empty window
    assert page.console == []
