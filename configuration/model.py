"""The base of every model: frozen, strict about unknown keys, camelCase in YAML as Kubernetes people expect."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A part of an environment file; unknown keys are errors, and nothing changes once it is read.

    Types are strict: YAML's `yes`, `1.33` and `"2"` are not quietly turned into what was perhaps meant.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        # In Python the names are Python's; in a file only camelCase is known (`load_environment` sees to it).
        validate_by_name=True,
        use_attribute_docstrings=True,
        # A model that is part of another need not be ready by itself: every synth would wait for it.
        defer_build=True,
    )


def check_distinct(what: str, names: list[str]) -> None:
    """Refuse two things of one name.

    Args:
        what: What the names are of, for the message.
        names: The names.

    Raises:
        ValueError: A name is there twice.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two have the name {', '.join(twice)}; give every {what} a name of its own")
