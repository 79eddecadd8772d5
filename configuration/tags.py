"""Tags of the user's own, on everything."""

from collections.abc import Mapping
from typing import Final

MOST_TAGS: Final = 40
"""AWS takes 50 on a resource, and this project, EKS and Karpenter add some."""

RESERVED: Final = ("aws:", "eks:", "eks-gpu/", "karpenter.sh/", "karpenter.k8s.aws/", "kubernetes.io/")
"""Beginnings of keys whose meaning is AWS's, EKS's, Karpenter's or this project's."""


def check_tags(tags: Mapping[str, str]) -> None:
    """Refuse tags that AWS would not take, or that would change what another tag means.

    Args:
        tags: Values by key.

    Raises:
        ValueError: A key is reserved, or there are too many.
    """
    for key in tags:
        beginning = next((start for start in RESERVED if key.lower().startswith(start)), None)
        if beginning:
            raise ValueError(f"{key!r} begins with {beginning}, which is reserved; use another key")
        if key == "Name":
            raise ValueError("'Name' would give everything one name in the console; use another key")
    if len(tags) > MOST_TAGS:
        raise ValueError(f"{len(tags)} tags are too many: at most {MOST_TAGS}; remove some")
