"""`python -m configuration` prints the JSON schema that `environments/schema.json` holds."""

from configuration.schema import schema_text

if __name__ == "__main__":
    print(schema_text(), end="")
