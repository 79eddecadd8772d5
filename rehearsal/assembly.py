"""A cloud assembly: what ``cdk synth`` leaves, read as far as a rehearsal needs it.

Format: ``manifest.json`` of the CDK's cloud assembly schema (aws-cdk-lib 2.275.0, ``cloud_assembly_schema``).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_ACCOUNT = "123456789012"
DEFAULT_REGION = "us-west-2"

_CLUSTER_VERSION = {
    "AWS::EKS::Cluster": ("Version",),
    "Custom::AWSCDK-EKS-Cluster": ("Config", "version"),
}
"""Resource type of a cluster -> where among its properties its Kubernetes version is."""


class AssemblyError(Exception):
    """A folder is not a cloud assembly that can be rehearsed; the message says why and what to do."""


@dataclass(frozen=True)
class Stack:
    """One stack of an assembly.

    Args:
        name: in CloudFormation.
        template: its template file.
    """

    name: str
    template: Path


@dataclass(frozen=True)
class Assembly:
    """A cloud assembly on disk.

    Args:
        folder: holds ``manifest.json``.
        account: that its stacks are for, or the rehearsal's own where they are for any.
        region: likewise.
        stacks: in the manifest's order.
    """

    folder: Path
    account: str
    region: str
    stacks: tuple[Stack, ...]

    @classmethod
    def read(cls, folder: Path) -> Assembly:
        """Read the assembly in a folder.

        Raises:
            AssemblyError: there is none, it has no stacks, or its stacks are for several accounts or regions.
        """
        file = folder / "manifest.json"
        if not file.is_file():
            raise AssemblyError(
                f"{folder} is not a cloud assembly: it has no manifest.json. Make one with `cdk synth`."
            )
        try:
            artifacts: dict[str, Any] = json.loads(file.read_text())["artifacts"]
        except (ValueError, KeyError) as error:
            raise AssemblyError(f"{file} cannot be read as a cloud assembly's manifest: {error}") from error
        stacks: list[Stack] = []
        places: set[tuple[str, str]] = set()
        for identifier, artifact in artifacts.items():
            if artifact.get("type") != "aws:cloudformation:stack":
                continue
            place = re.fullmatch(r"aws://([^/]+)/(.+)", artifact["environment"])
            if place is None:
                raise AssemblyError(f"{file}: stack {identifier} has the environment {artifact['environment']!r}")
            account, region = place.groups()
            places.add(
                (
                    DEFAULT_ACCOUNT if account == "unknown-account" else account,
                    DEFAULT_REGION if region == "unknown-region" else region,
                )
            )
            properties = artifact["properties"]
            stacks.append(Stack(properties.get("stackName", identifier), folder / properties["templateFile"]))
        if not stacks:
            raise AssemblyError(f"{folder} has no stacks. Is it the output folder of `cdk synth`?")
        if len(places) > 1:
            listed = ", ".join(f"{account}/{region}" for account, region in sorted(places))
            raise AssemblyError(
                f"{folder} deploys into several places ({listed}); a rehearsal is one account and region"
            )
        ((account, region),) = places
        return cls(folder, account, region, tuple(stacks))

    def kubernetes_version(self) -> str | None:
        """Kubernetes minor version of the cluster that its stacks make, for example ``1.36``; None where there is none.

        Read of ``AWS::EKS::Cluster`` and of the custom resource of the CDK's first EKS module.

        Raises:
            AssemblyError: a cluster does not say its version in so many words, or two clusters say different ones.
        """
        versions: set[str] = set()
        for stack in self.stacks:
            resources: dict[str, Any] = json.loads(stack.template.read_text(encoding="utf-8")).get("Resources", {})
            for name, resource in resources.items():
                if resource["Type"] not in _CLUSTER_VERSION:
                    continue
                version: Any = resource.get("Properties", {})
                for key in _CLUSTER_VERSION[resource["Type"]]:
                    version = version.get(key, {})
                if not isinstance(version, str):
                    raise AssemblyError(f"{stack.template}: cluster {name} does not say its Kubernetes version as text")
                versions.add(version)
        if len(versions) > 1:
            raise AssemblyError(
                f"{self.folder} makes clusters of several Kubernetes versions ({', '.join(sorted(versions))}); a "
                "rehearsal has one"
            )
        return versions.pop() if versions else None
