"""Launch templates: create, describe, delete."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from rehearsal.compute.ec2.errors import DryRunError, Ec2Error
from rehearsal.compute.ec2.protocol import TAG_READERS, Reader, items, only, page, section, select, tag_list, tag_map
from rehearsal.compute.ec2.state import LaunchTemplate, State, new_id, partition

MAX_USER_DATA = 16384
"""Most bytes of user data before base64 (EC2 user guide, "Run commands when you launch an EC2 instance")."""

_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")


def check_user_data(data: Mapping[str, Any]) -> None:
    """Refuse user data as EC2 does.

    Raises:
        Ec2Error: ``InvalidUserData.Malformed``, for what is not base64 or is too long.
    """
    try:
        raw = base64.b64decode(data.get("UserData") or "", validate=True)
    except binascii.Error as error:
        raise Ec2Error("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from error
    if len(raw) > MAX_USER_DATA:
        raise Ec2Error("InvalidUserData.Malformed", f"User data is limited to {MAX_USER_DATA} bytes")


def tags_for(request: Mapping[str, Any], kind: str) -> dict[str, str]:
    """The tags that a request's ``TagSpecifications`` give to one resource type."""
    tags: dict[str, str] = {}
    for specification in items(request, "TagSpecifications"):
        if specification.get("ResourceType") == kind:
            tags |= tag_map(specification.get("Tags"))
    return tags


class Templates:
    """The launch-template operations over a state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """CreateLaunchTemplate."""
        only(
            "CreateLaunchTemplate",
            request,
            *("DryRun", "ClientToken", "LaunchTemplateName", "VersionDescription"),
            *("LaunchTemplateData", "TagSpecifications"),
        )
        state, gate = self._state, self._state.gate
        tags = tags_for(request, "launch-template")
        gate.ask("ec2:CreateLaunchTemplate", gate.arn("launch-template"), requested=tags)
        gate.create_tags("launch-template", tags, "CreateLaunchTemplate")
        name, data = request.get("LaunchTemplateName") or "", request.get("LaunchTemplateData")
        if not _NAME.fullmatch(name):
            raise Ec2Error("InvalidLaunchTemplateName.MalformedException", f"Invalid launch template name '{name}'.")
        if not data:
            raise Ec2Error("MissingParameter", "Launch template data is missing.")
        if any(template.name == name for template in state.templates.values()):
            raise Ec2Error("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
        check_user_data(data)
        if request.get("DryRun"):
            raise DryRunError
        template = LaunchTemplate(
            id=new_id("lt"),
            name=name,
            created_at=state.clock(),
            created_by=f"arn:{partition(state.region)}:iam::{state.account_id}:root",
            tags=tags,
            versions={1: data},
            descriptions={1: request.get("VersionDescription")},
        )
        state.templates[template.id] = template
        state.tags[template.id] = template.tags
        return {"LaunchTemplate": _describe(template)}

    def create_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """CreateLaunchTemplateVersion."""
        only(
            "CreateLaunchTemplateVersion",
            request,
            *("DryRun", "ClientToken", "LaunchTemplateId", "LaunchTemplateName", "SourceVersion"),
            *("VersionDescription", "LaunchTemplateData"),
        )
        template, gate = self._state.template(request), self._state.gate
        gate.ask("ec2:CreateLaunchTemplateVersion", gate.arn("launch-template", template.id), held=template.tags)
        data: dict[str, Any] = section(request, "LaunchTemplateData")
        if source := request.get("SourceVersion"):
            data = template.versions[template.version(source)] | data
        check_user_data(data)
        if request.get("DryRun"):
            raise DryRunError
        number = template.latest_version + 1
        template.versions[number] = data
        template.descriptions[number] = request.get("VersionDescription")
        return {"LaunchTemplateVersion": _describe_version(template, number)}

    def describe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeLaunchTemplates."""
        operation = "DescribeLaunchTemplates"
        only(
            operation,
            request,
            *("DryRun", "LaunchTemplateIds", "LaunchTemplateNames", "Filters", "NextToken", "MaxResults"),
        )
        named = [
            *({"LaunchTemplateId": wanted} for wanted in items(request, "LaunchTemplateIds")),
            *({"LaunchTemplateName": wanted} for wanted in items(request, "LaunchTemplateNames")),
        ]
        candidates = [self._state.template(spec) for spec in named] if named else self._state.templates.values()
        found = select(operation, candidates, items(request, "Filters"), _READERS)
        shown, token = page(request, found, 200)
        return {"LaunchTemplates": [_describe(template) for template in shown], "NextToken": token}

    def describe_versions(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeLaunchTemplateVersions."""
        only(
            "DescribeLaunchTemplateVersions",
            request,
            *("DryRun", "LaunchTemplateId", "LaunchTemplateName", "Versions", "NextToken", "MaxResults"),
        )
        template = self._state.template(request)
        wanted = request.get("Versions")
        numbers = [template.version(text) for text in wanted] if wanted else sorted(template.versions, reverse=True)
        shown, token = page(request, numbers, 200)
        return {
            "LaunchTemplateVersions": [_describe_version(template, number) for number in shown],
            "NextToken": token,
        }

    def delete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """DeleteLaunchTemplate."""
        only("DeleteLaunchTemplate", request, "DryRun", "LaunchTemplateId", "LaunchTemplateName")
        state = self._state
        template = state.template(request)
        state.gate.ask("ec2:DeleteLaunchTemplate", state.gate.arn("launch-template", template.id), held=template.tags)
        if request.get("DryRun"):
            raise DryRunError
        del state.templates[template.id], state.tags[template.id]
        return {"LaunchTemplate": _describe(template)}


_READERS: Mapping[str, Reader] = {
    **TAG_READERS,
    "launch-template-name": lambda template: [template.name],
}


def _describe(template: LaunchTemplate) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": template.created_at,
        "CreatedBy": template.created_by,
        "DefaultVersionNumber": template.default_version,
        "LatestVersionNumber": template.latest_version,
        "Tags": tag_list(template.tags),
    }


def _describe_version(template: LaunchTemplate, number: int) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": number,
        "VersionDescription": template.descriptions[number],
        "CreateTime": template.created_at,
        "CreatedBy": template.created_by,
        "DefaultVersion": number == template.default_version,
        "LaunchTemplateData": template.versions[number],
    }
