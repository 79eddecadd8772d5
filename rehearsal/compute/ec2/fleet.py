"""CreateFleet of type ``instant``: pools tried in the order of an allocation strategy until the target is met.

EC2 authorises the request itself on CreateFleet's resource types, and answers a refusal as an error of the call. The
launches then are RunInstances on the caller's behalf: what is refused there, or has no capacity, comes back as one
entry of ``Errors`` for each override that was tried (EC2 user guide, "Configure an EC2 Fleet of type instant"; the tags
of instances are authorised with the RunInstances, so their ``ec2:CreateAction`` is taken to be RunInstances here).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal.compute.ec2.catalogue import CapacityType
from rehearsal.compute.ec2.errors import DryRunError, Ec2Error, NotSimulatedError
from rehearsal.compute.ec2.launch import Launcher, merge
from rehearsal.compute.ec2.protocol import items, only, section
from rehearsal.compute.ec2.state import Instance, LaunchTemplate, State
from rehearsal.compute.ec2.templates import tags_for

_CHEAPEST = ("lowest-price", "price-capacity-optimized")
_PRIORITISED = ("prioritized", "capacity-optimized-prioritized")
STRATEGIES = (*_CHEAPEST, "capacity-optimized", *_PRIORITISED)
"""Allocation strategies that are simulated.

EC2 weighs how deep each spot pool is; here every pool that is not marked as empty is equally and endlessly deep, so
that ``price-capacity-optimized`` takes the cheapest, ``capacity-optimized`` the first of the request, and the two
prioritised strategies the lowest ``Priority``. Pools of equal rank are taken in the order of the request.
"""

_OVERRIDE = ("InstanceType", "SubnetId", "AvailabilityZone", "AvailabilityZoneId", "ImageId", "Priority")


@dataclass(frozen=True)
class _Pool:
    """One override with the launch template it stands under; ``zone`` is ``None`` where its subnet does not exist."""

    template: LaunchTemplate
    version: int
    override: Mapping[str, Any]
    zone: str | None

    @property
    def data(self) -> Mapping[str, Any]:
        return self.template.versions[self.version]

    @property
    def instance_type(self) -> str:
        return self.override.get("InstanceType") or self.data.get("InstanceType") or ""

    @property
    def image_id(self) -> str | None:
        return self.override.get("ImageId") or self.data.get("ImageId")

    @property
    def subnet_id(self) -> str | None:
        return _subnet_id(self.override, self.data)

    def answer(self) -> dict[str, Any]:
        """The ``LaunchTemplateAndOverrides`` of answers and errors, with what the template filled in."""
        return {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": self.template.id,
                "LaunchTemplateName": self.template.name,
                "Version": str(self.version),
            },
            "Overrides": {
                **self.override,
                "InstanceType": self.instance_type,
                "ImageId": self.image_id,
                "SubnetId": self.subnet_id,
                "AvailabilityZone": self.zone or self.override.get("AvailabilityZone"),
            },
        }


def _subnet_id(override: Mapping[str, Any], data: Mapping[str, Any]) -> str | None:
    interfaces: Sequence[Mapping[str, Any]] = data.get("NetworkInterfaces") or [{}]
    return override.get("SubnetId") or interfaces[0].get("SubnetId")


class Fleets:
    """The fleet operations over a state."""

    def __init__(self, state: State, launcher: Launcher) -> None:
        self._state = state
        self._launcher = launcher

    def create(self, request: Mapping[str, Any], fleet_id: str) -> tuple[dict[str, Any], list[Instance]]:
        """CreateFleet.

        Returns:
            The answer, and the instances bought.
        """
        _check(request)
        pools = self._pools(request)
        targets = _targets(request)
        self._authorise(request, pools)
        if request.get("DryRun"):
            raise DryRunError
        self._state.tags[fleet_id] = tags_for(request, "fleet")
        bought: list[Instance] = []
        answers: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for capacity, target in targets.items():
            left = target
            for pool in self._ranked(request, pools, capacity):
                if left == 0:
                    break
                try:
                    instances = self._launch(request, pool, capacity, left, fleet_id)
                except Ec2Error as error:
                    errors.append(_error(pool, capacity, error))
                    continue
                left -= len(instances)
                bought += instances
                answers.append(
                    {
                        "LaunchTemplateAndOverrides": pool.answer(),
                        "Lifecycle": capacity,
                        "InstanceIds": [instance.id for instance in instances],
                        "InstanceType": pool.instance_type,
                        "AvailabilityZone": instances[0].subnet.zone,
                        "AvailabilityZoneId": instances[0].subnet.zone_id,
                        "SubnetId": instances[0].subnet.id,
                    }
                )
        return {"FleetId": fleet_id, "Instances": answers, "Errors": errors}, bought

    def _pools(self, request: Mapping[str, Any]) -> list[_Pool]:
        pools: list[_Pool] = []
        for config in items(request, "LaunchTemplateConfigs"):
            specification = section(config, "LaunchTemplateSpecification")
            template = self._state.template(specification)
            version = template.version(specification.get("Version"))
            overrides: list[dict[str, Any]] = config.get("Overrides") or [{}]
            for override in overrides:
                only("CreateFleet's LaunchTemplateConfigs[].Overrides", override, *_OVERRIDE)
                subnet = self._state.network.subnet(_subnet_id(override, template.versions[version]) or "")
                pools.append(_Pool(template, version, override, subnet.zone if subnet else None))
        if not pools:
            raise Ec2Error("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
        return pools

    def _authorise(self, request: Mapping[str, Any], pools: Sequence[_Pool]) -> None:
        gate, action = self._state.gate, "ec2:CreateFleet"
        fleet_tags = tags_for(request, "fleet")
        gate.ask(action, gate.arn("fleet"), requested=fleet_tags)
        for pool in pools:
            gate.ask(action, gate.arn("launch-template", pool.template.id), held=pool.template.tags)
            if pool.image_id:
                gate.ask(action, gate.arn("image", pool.image_id), ImageID=pool.image_id)
            subnet = self._state.network.subnet(pool.subnet_id or "")
            if subnet is not None:
                gate.ask(action, gate.arn("subnet", subnet.id), held=subnet.tags, AvailabilityZone=subnet.zone)
            instance_tags = tags_for(pool.data, "instance") | tags_for(request, "instance")
            gate.ask(action, gate.arn("instance"), requested=instance_tags, InstanceType=pool.instance_type)
            volume_tags = tags_for(pool.data, "volume") | tags_for(request, "volume")
            gate.ask(action, gate.arn("volume"), requested=volume_tags)
        gate.create_tags("fleet", fleet_tags, "CreateFleet")

    def _ranked(self, request: Mapping[str, Any], pools: Sequence[_Pool], capacity: CapacityType) -> list[_Pool]:
        strategy = _strategy(request, capacity)

        def rank(pool: _Pool) -> float:
            if strategy in _CHEAPEST:
                price = None
                if pool.zone and pool.instance_type in self._state.catalogue.types:
                    price = self._state.catalogue.price(pool.instance_type, pool.zone, capacity)
                return float("inf") if price is None else price
            if strategy in _PRIORITISED:
                return pool.override.get("Priority", float("inf"))
            return 0.0

        return sorted(pools, key=rank)

    def _launch(
        self, request: Mapping[str, Any], pool: _Pool, capacity: CapacityType, count: int, fleet_id: str
    ) -> list[Instance]:
        zone = pool.override.get("AvailabilityZone")
        if zone and pool.zone and zone != pool.zone:
            raise Ec2Error(
                "InvalidFleetConfiguration",
                f"The subnet {pool.subnet_id} is in the Availability Zone {pool.zone}, not in {zone}.",
            )
        tags = [tag for tag in items(request, "TagSpecifications") if tag.get("ResourceType") != "fleet"]
        over = {"InstanceType": pool.instance_type, "TagSpecifications": tags}
        if pool.image_id:
            over["ImageId"] = pool.image_id
        if pool.override.get("SubnetId"):
            over["SubnetId"] = pool.override["SubnetId"]
        launch = self._launcher.resolve("CreateFleet", merge(pool.data, over), (pool.template, pool.version), capacity)
        self._launcher.authorise(launch)
        return self._launcher.carry_out(launch, count, fleet_id=fleet_id)


def _error(pool: _Pool, capacity: CapacityType, error: Ec2Error) -> dict[str, Any]:
    # What RunInstances calls Unsupported because of the zone, a fleet calls a wrong configuration.
    in_zone = error.code == "Unsupported" and "requested Availability Zone" in error.message
    return {
        "LaunchTemplateAndOverrides": pool.answer(),
        "Lifecycle": capacity,
        "ErrorCode": "InvalidFleetConfiguration" if in_zone else error.code,
        "ErrorMessage": error.message,
    }


def _check(request: Mapping[str, Any]) -> None:
    operation = "CreateFleet"
    only(
        operation,
        request,
        *("DryRun", "ClientToken", "Type", "SpotOptions", "OnDemandOptions", "LaunchTemplateConfigs"),
        *("TargetCapacitySpecification", "TagSpecifications"),
    )
    if request.get("Type", "maintain") != "instant":
        raise NotSimulatedError(operation, f"the type {request.get('Type', 'maintain')}")
    only("CreateFleet's SpotOptions", section(request, "SpotOptions"), "AllocationStrategy")
    only("CreateFleet's OnDemandOptions", section(request, "OnDemandOptions"), "AllocationStrategy")
    for tags in items(request, "TagSpecifications"):
        if tags.get("ResourceType") not in ("fleet", "instance", "volume", "network-interface"):
            raise Ec2Error(
                "InvalidParameterValue",
                f"'{tags.get('ResourceType')}' is not a valid taggable resource type for this operation.",
            )


def _strategy(request: Mapping[str, Any], capacity: CapacityType) -> str:
    options = section(request, "SpotOptions" if capacity == "spot" else "OnDemandOptions")
    strategy: str = options.get("AllocationStrategy") or "lowest-price"
    if strategy not in STRATEGIES:
        raise NotSimulatedError("CreateFleet", f"the allocation strategy {strategy}")
    return strategy


def _targets(request: Mapping[str, Any]) -> dict[CapacityType, int]:
    wanted = section(request, "TargetCapacitySpecification")
    only(
        "CreateFleet's TargetCapacitySpecification",
        wanted,
        *("TotalTargetCapacity", "OnDemandTargetCapacity", "SpotTargetCapacity", "DefaultTargetCapacityType"),
    )
    default = wanted.get("DefaultTargetCapacityType") or "on-demand"
    if default not in ("on-demand", "spot"):
        raise NotSimulatedError("CreateFleet", f"the target capacity type {default}")
    targets: dict[CapacityType, int] = {
        "on-demand": wanted.get("OnDemandTargetCapacity") or 0,
        "spot": wanted.get("SpotTargetCapacity") or 0,
    }
    rest = wanted.get("TotalTargetCapacity", 0) - sum(targets.values())
    if rest < 0:
        raise Ec2Error("InvalidTargetCapacitySpecification", "The parts are greater than the TotalTargetCapacity.")
    targets["spot" if default == "spot" else "on-demand"] += rest
    return targets
