"""The one error that a wrong environment file gives."""


class ConfigurationError(ValueError):
    """An environment cannot be built as it is written.

    Its text is meant for the person who wrote the file: where, what was given, what is allowed, what to do.
    """
