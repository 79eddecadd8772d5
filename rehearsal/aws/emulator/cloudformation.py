# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""CloudFormation: the resource types of :mod:`rehearsal.aws.resources`, and real waiting where AWS waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ministack import app
from ministack.services import cloudformation
from ministack.services.cloudformation import provisioners, stacks

from rehearsal.aws.emulator import eks
from rehearsal.aws.resources import Resources, ResourceType

SETTLE_S = 3.0
"""Most seconds that CloudFormation's answer is held back for."""

_WAITED_FOR = (b"Action=CreateChangeSet", b"Action=ExecuteChangeSet", b"Action=DeleteStack")


def install(resources: Resources) -> None:
    """Register our types, and make clusters and node groups wait for what stands behind them."""
    handlers: dict[str, dict[str, Any]] = provisioners._RESOURCE_HANDLERS
    types = resources.types()
    for name, resource_type in types.items():
        handlers[name] = _handlers(resource_type)
    handlers["AWS::EKS::Cluster"] = _cluster(handlers["AWS::EKS::Cluster"])
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
    services: dict[str, Any] = app.SERVICE_HANDLERS
    services["cloudformation"] = _settled(services["cloudformation"])
    on_worker = stacks._runs_on_worker_thread
    # All of these call the endpoint that this very process serves, or wait: never on its event loop.
    blocking = {*types, "AWS::EKS::Cluster", "AWS::EKS::Nodegroup"}
    stacks._runs_on_worker_thread = lambda resource_type: on_worker(resource_type) or resource_type in blocking


def _cluster(theirs: dict[str, Any]) -> dict[str, Any]:
    """MiniStack's type of clusters with the properties that it leaves out, and with EKS's refusals."""

    def create(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        eks.check_keys(properties)
        made: tuple[str, dict[str, Any]] = theirs["create"](logical_id, properties, stack)
        eks.apply_properties(made[0], properties)
        return made

    def update(physical_id: str, old: dict[str, Any], new: dict[str, Any], *rest: Any) -> tuple[str, dict[str, Any]]:
        eks.check_keys(new)
        made: tuple[str, dict[str, Any]] = theirs["update"](physical_id, old, new, *rest)
        eks.apply_properties(made[0], new)
        return made

    def delete(physical_id: str, _: dict[str, Any]) -> None:
        eks.delete_cluster(physical_id)

    return theirs | {"create": create, "update": update, "delete": delete}


def _settled(serve: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Answer an operation when its stack is done, or after a few seconds.

    The CDK CLI looks at a stack as soon as an operation is accepted, and then every five seconds. AWS is never done by
    then; here a small stack is, and would be waited for all the same.
    """

    async def handle(method: str, path: str, headers: Any, body: bytes, query_params: Any) -> Any:
        answer = await serve(method, path, headers, body, query_params)
        if any(operation in body for operation in _WAITED_FOR):
            deadline = time.monotonic() + SETTLE_S
            while _under_way() and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
        return answer

    return handle


def _under_way() -> bool:
    """Whether CloudFormation works on a stack or a change set of the account and region that is being served."""
    states = [str(stack["StackStatus"]) for stack in cloudformation._stacks.values()]
    states += [str(change_set["Status"]) for change_set in cloudformation._change_sets.values()]
    return any(state.endswith(("_IN_PROGRESS", "_PENDING")) and state != "REVIEW_IN_PROGRESS" for state in states)


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
