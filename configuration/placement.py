"""Where pools meet node classes and Karpenter: what fits each, and not together."""

from collections.abc import Iterator, Mapping, Sequence

from configuration.api import unknown_to
from configuration.karpenter import Karpenter
from configuration.pools import NodeClass, Pool


def check_pools(
    pools: Mapping[str, Sequence[Pool]], node_classes: Mapping[str, NodeClass], karpenter: Karpenter
) -> None:
    """Refuse pools and node classes that do not fit each other or Karpenter's release.

    Args:
        pools: By the key of the environment file that they stand under, such as `gpuPools`.
        node_classes: By name.
        karpenter: The controller.

    Raises:
        ValueError: What does not fit, beginning with the key to change.
    """
    names: set[str] = set()
    for where, pool in _placed(pools):
        if pool.name in names:
            raise ValueError(f"{where}.name: two pools have the name {pool.name}; give every pool a name of its own")
        names.add(pool.name)
        node_class = node_classes.get(pool.node_class)
        if node_class is None:
            raise ValueError(
                f"{where}.nodeClass: nobody defines {pool.node_class!r}; "
                f"use one of {', '.join(sorted(node_classes))}, or add it under nodeClasses"
            )
        if node_class.capacity_reservation_selector_terms and "reserved" not in pool.capacity_types():
            raise ValueError(
                f"{where}.requirements: node class {pool.node_class} selects capacity reservations, and the pool may "
                f"buy no reserved capacity, so that they are paid for and never used; add reserved to the values of "
                f"karpenter.sh/capacity-type"
            )
        if pool.replicas is not None and not karpenter.feature_gates.static_capacity:
            raise ValueError(
                f"{where}.replicas: Karpenter keeps a fixed number of nodes only with karpenter.featureGates."
                f"staticCapacity: true; set it or remove replicas"
            )
        for reason in unknown_to(karpenter.version, pool.spec()):
            raise ValueError(f"{where}: {reason}")
    for name, node_class in node_classes.items():
        for reason in unknown_to(karpenter.version, node_class):
            raise ValueError(f"nodeClasses.{name}: {reason}")


def _placed(pools: Mapping[str, Sequence[Pool]]) -> Iterator[tuple[str, Pool]]:
    for key, listed in pools.items():
        for index, pool in enumerate(listed):
            yield f"{key}[{index}]", pool
