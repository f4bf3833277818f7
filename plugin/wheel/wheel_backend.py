"""The build backend: scikit-build-core, told which torch the wheel is for.

The metadata of a wheel pins the minor version of that torch, and the wheel's version names it, as
`0.1.0+torch2.11`: wheels for several minors can lie in one folder. A source archive has neither.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from environment_torch import Torch, TorchNotFound, find_torch

_ROOT = "cmake.define.EBBTIDE_TORCH_ROOT"
_SOURCES = Path(__file__).resolve().parents[2]
_NEEDS = "What the build needs: docs/install.md; on Debian `./dev setup` installs it."

Settings = dict[str, Any]

_torch: Torch | None = None  # of the hook that runs


def _scikit_build_core() -> Any:
    try:
        import scikit_build_core.build
    except ImportError:
        wanted = re.search(r"scikit-build-core[^\"]*", (_SOURCES / "pyproject.toml").read_text())
        raise SystemExit(
            "ebbtide: scikit-build-core is not in this environment, and --no-build-isolation needs"
            f" it there: pip install {wanted[0] if wanted else 'scikit-build-core'}"
        ) from None
    return scikit_build_core.build


def _for_torch(settings: Settings | None) -> Settings:
    """The settings with the torch that CMake has to take."""
    global _torch
    settings = dict(settings or {})
    try:
        _torch = find_torch(settings.get(_ROOT))
    except TorchNotFound as problem:
        raise SystemExit(f"ebbtide: {problem}") from None
    return settings | {_ROOT: os.fspath(_torch.folder)}


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    return _scikit_build_core().get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    return _scikit_build_core().get_requires_for_build_editable(config_settings)


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:
    return _scikit_build_core().get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings | None = None
) -> str:
    backend = _scikit_build_core()
    return backend.prepare_metadata_for_build_wheel(metadata_directory, _for_torch(config_settings))


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings | None = None
) -> str:
    backend = _scikit_build_core()
    return backend.prepare_metadata_for_build_editable(
        metadata_directory, _for_torch(config_settings)
    )


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    return _scikit_build_core().build_sdist(sdist_directory, config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    return _built("build_wheel", wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    return _built("build_editable", wheel_directory, config_settings, metadata_directory)


def _built(hook: str, directory: str, settings: Settings | None, metadata: str | None) -> str:
    build = getattr(_scikit_build_core(), hook)
    settings = _for_torch(settings)
    try:
        return build(directory, settings, metadata)
    except SystemExit as failed:  # CMake or the compiler has said why
        raise SystemExit(f"ebbtide: the wheel was not built. {_NEEDS}") from failed


class Metadata:
    """Provider of the dynamic fields `version` and `dependencies` (pyproject.toml)."""

    def __init__(self) -> None:
        self._of_archive = False

    def build_state(self, build_state: str) -> None:
        self._of_archive = build_state == "sdist"

    def dynamic_wheel(self, settings: Mapping[str, Any]) -> dict[str, bool]:
        return {"dependencies": True}

    def dynamic_metadata(
        self, settings: Mapping[str, Any], project: Mapping[str, Any]
    ) -> dict[str, Any]:
        text = (_SOURCES / "plugin/python/ebbtide/__init__.py").read_text()
        version = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
        assert version is not None
        if self._of_archive:
            return {"version": version[1], "dependencies": ["torch>=2.11"]}
        assert _torch is not None
        return {
            "version": f"{version[1]}+torch{_torch.minor}",
            "dependencies": [f"torch=={_torch.minor}.*"],
        }
