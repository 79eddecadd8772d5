"""The JSON schema of an environment file, for editors."""

import json

from configuration.environment import EnvironmentFile


def schema_text() -> str:
    """Return the text of `environments/schema.json`, by which editors complete and check a file as it is typed."""
    return json.dumps(EnvironmentFile.model_json_schema(by_alias=True), indent=2) + "\n"
