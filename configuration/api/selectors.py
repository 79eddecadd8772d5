"""By what a node class finds images, subnets, security groups, reservations and a placement group."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from configuration.api.values import (
    AMI_ID,
    CAPACITY_RESERVATION_ID,
    PLACEMENT_GROUP_ID,
    SECURITY_GROUP_ID,
    SUBNET_ID,
    AccountId,
    Items,
)
from configuration.model import Model

ALIAS_FAMILIES: Final = ("al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025")
"""Families of EKS-optimised images that an alias may name."""


def _tags(tags: dict[str, str]) -> dict[str, str]:
    if any(not key or not value for key, value in tags.items()):
        raise ValueError("a tag without a key or a value selects nothing; write '*' for any value")
    return tags


TagSelector = Annotated[dict[str, str], Field(max_length=20), AfterValidator(_tags)]
"""Tags that must be there; the value '*' stands for any."""


def _alias(alias: str) -> str:
    family, at, version = alias.partition("@")
    # CEL's `.` is any character but a line's end.
    if not at or not version or "\n" in version or family not in ALIAS_FAMILIES:
        raise ValueError(
            f"must be family@version, such as al2023@v20260714; the families are {', '.join(ALIAS_FAMILIES)}"
        )
    if family.startswith("windows") and version.split("@")[0] != "latest":
        raise ValueError(f"{family} has no releases to choose from; write {family}@latest")
    return alias


class AmiSelectorTerm(Model):
    """Images."""

    alias: Annotated[str, Field(max_length=30), AfterValidator(_alias)] | None = None
    """EKS-optimised image by family and release, such as al2023@v20260714.

    It picks the accelerated variant for GPU types by itself. al2023@latest is allowed, but then every image release
    replaces every node.
    """
    id: Annotated[str, Field(pattern=AMI_ID)] | None = None
    """The image."""
    name: str | None = None
    """Name of images, with * and ?."""
    owner: str | None = None
    """Account of images found by name or tags, or self, amazon, aws-marketplace."""
    ssm_parameter: str | None = None
    """SSM parameter, by name or ARN, that holds an image's id."""
    tags: TagSelector | None = None
    """Tags of images."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        by = ("alias", "id", "name", "ssm_parameter", "tags")
        if all(getattr(self, name) is None for name in by):
            raise ValueError("selects no image; add alias, id, name, ssmParameter or tags")
        others = ("alias", "id", "tags", "name", "owner")
        for alone in ("id", "alias"):
            beside = [name for name in others if name != alone and getattr(self, name) is not None]
            if getattr(self, alone) is not None and beside:
                raise ValueError(f"{alone}: says it all; remove {', '.join(beside)}")
        return self


def _one_alias(terms: tuple[AmiSelectorTerm, ...]) -> tuple[AmiSelectorTerm, ...]:
    if len(terms) > 1 and any(term.alias is not None for term in terms):
        raise ValueError("an alias must be the only term; remove it or the others")
    return terms


AmiSelectorTerms = Annotated[Items[AmiSelectorTerm], Field(min_length=1, max_length=30), AfterValidator(_one_alias)]


class SubnetSelectorTerm(Model):
    """Subnets."""

    id: Annotated[str, Field(pattern=SUBNET_ID)] | None = None
    """The subnet."""
    tags: TagSelector | None = None
    """Tags of subnets."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.id is None and self.tags is None:
            raise ValueError("selects no subnet; add id or tags")
        return self


def _subnets(terms: tuple[SubnetSelectorTerm, ...]) -> tuple[SubnetSelectorTerm, ...]:
    if not terms:
        raise ValueError("is empty; add a term with id or tags")
    # The CRD's rule refuses this only where every term has it.
    if all(term.id is not None and term.tags is not None for term in terms):
        raise ValueError("id: stands alone in a term; remove tags")
    return terms


SubnetSelectorTerms = Annotated[Items[SubnetSelectorTerm], Field(max_length=30), AfterValidator(_subnets)]


class SecurityGroupSelectorTerm(Model):
    """Security groups."""

    id: Annotated[str, Field(pattern=SECURITY_GROUP_ID)] | None = None
    """The group."""
    name: str | None = None
    """Name of groups."""
    tags: TagSelector | None = None
    """Tags of groups."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.id is None and self.name is None and self.tags is None:
            raise ValueError("selects no security group; add id, name or tags")
        return self


def _security_groups(terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[SecurityGroupSelectorTerm, ...]:
    if not terms:
        raise ValueError("is empty; add a term with id, name or tags")
    # The CRD's rules refuse these only where every term has it.
    if all(term.id is not None and (term.tags is not None or term.name is not None) for term in terms):
        raise ValueError("id: stands alone in a term; remove tags and name")
    if all(term.name is not None and (term.tags is not None or term.id is not None) for term in terms):
        raise ValueError("name: stands alone in a term; remove tags and id")
    return terms


SecurityGroupSelectorTerms = Annotated[
    Items[SecurityGroupSelectorTerm], Field(max_length=30), AfterValidator(_security_groups)
]


class CapacityReservationSelectorTerm(Model):
    """On-Demand Capacity Reservations and Capacity Blocks."""

    id: Annotated[str, Field(pattern=CAPACITY_RESERVATION_ID)] | None = None
    """The reservation."""
    owner_id: AccountId | None = Field(default=None, alias="ownerID")
    """Account that it belongs to."""
    instance_match_criteria: Literal["open", "targeted"] | None = None
    """How instances come into it."""
    tags: TagSelector | None = None
    """Tags of reservations."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.id is None and self.tags is None and self.instance_match_criteria is None:
            raise ValueError("selects no capacity reservation; add id, tags or instanceMatchCriteria")
        return self


def _reservations(terms: tuple[CapacityReservationSelectorTerm, ...]) -> tuple[CapacityReservationSelectorTerm, ...]:
    if not terms:
        raise ValueError("is empty; add a term with id, tags or instanceMatchCriteria, or remove the key")
    # The CRD's rule refuses this only where every term has it.
    if all(
        term.id is not None
        and (term.tags is not None or term.owner_id is not None or term.instance_match_criteria is not None)
        for term in terms
    ):
        raise ValueError("id: stands alone in a term; remove tags, ownerID and instanceMatchCriteria")
    return terms


CapacityReservationSelectorTerms = Annotated[
    Items[CapacityReservationSelectorTerm], Field(max_length=30), AfterValidator(_reservations)
]


class PlacementGroupSelector(Model):
    """A placement group."""

    id: Annotated[str, Field(pattern=PLACEMENT_GROUP_ID)] | None = None
    """The group."""
    name: str | None = Field(default=None, min_length=1)
    """Its name."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.id is None) is (self.name is None):
            raise ValueError("needs id or name, one of the two")
        return self
