"""What is asked of a deployed platform, as manifests that a user could apply."""

from importlib import resources
from typing import Any

import yaml


def pod(name: str) -> dict[str, Any]:
    """The pod of a scenario, as a manifest.

    Args:
        name: of the scenario's file, without its suffix.

    Raises:
        FileNotFoundError: there is no such scenario.
    """
    manifest: dict[str, Any] = yaml.safe_load((resources.files(__name__) / f"{name}.yaml").read_text("utf-8"))
    return manifest
