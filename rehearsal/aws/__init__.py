"""The local AWS: MiniStack in one process, what it lacks registered from our side, and a registry for Helm charts."""
