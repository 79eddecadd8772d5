# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""CloudFormation: the resource types of :mod:`rehearsal.aws.resources`, and real waiting where AWS waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.services.cloudformation import provisioners, stacks

from rehearsal.aws.resources import Resources, ResourceType


def install(resources: Resources) -> None:
    """Register our types, and make clusters and node groups wait for what stands behind them."""
    handlers: dict[str, dict[str, Any]] = provisioners._RESOURCE_HANDLERS
    types = resources.types()
    for name, resource_type in types.items():
        handlers[name] = _handlers(resource_type)
    group = handlers["AWS::EKS::Nodegroup"]
    handlers["AWS::EKS::Nodegroup"] = group | {
        "create": _then(
            group["create"],
            lambda made, _, properties, __: resources.await_node_group(properties["ClusterName"], made[0]),
        ),
        "delete": _then(
            group["delete"],
            lambda _, physical_id, properties: resources.await_no_node_group(properties["ClusterName"], physical_id),
        ),
    }
    on_worker = stacks._runs_on_worker_thread
    # All of these call the endpoint that this very process serves, or wait: never on its event loop.
    blocking = {*types, "AWS::EKS::Cluster", "AWS::EKS::Nodegroup"}
    stacks._runs_on_worker_thread = lambda resource_type: on_worker(resource_type) or resource_type in blocking


def _then(first: Callable[..., Any], after: Callable[..., None]) -> Callable[..., Any]:
    def both(*arguments: Any) -> Any:
        result = first(*arguments)
        after(result, *arguments)
        return result

    return both


def _handlers(resource_type: ResourceType) -> dict[str, Any]:
    def create(_: str, properties: dict[str, Any], __: str) -> tuple[str, dict[str, Any]]:
        return resource_type.create(properties)

    def delete(physical_id: str, properties: dict[str, Any]) -> None:
        resource_type.delete(physical_id, properties)

    def update(physical_id: str, old: dict[str, Any], new: dict[str, Any], _: str) -> tuple[str, dict[str, Any]]:
        if resource_type.update is not None:
            return resource_type.update(physical_id, old, new)
        made = resource_type.create(new)
        resource_type.delete(physical_id, old)
        return made

    return {"create": create, "delete": delete, "update": update}
