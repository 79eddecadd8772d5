"""What a user is told when a tool cannot be had."""

from __future__ import annotations


class ToolError(Exception):
    """A tool cannot be had, or this machine cannot run a rehearsal; the text is the whole message for the user."""


_HINTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("no space left on device", "enospc", "disk quota exceeded"),
        "The disk is full: free some space, or point XDG_CACHE_HOME (and GOCACHE, GOMODCACHE) at a larger disk.",
    ),
    (
        ("signal: killed", "cannot allocate memory", "out of memory", "heap limit"),
        "Memory ran out: close other programs, or build with fewer processes at once (GOMAXPROCS=1).",
    ),
    (
        ("checksum mismatch", "security error", "eintegrity", "hash mismatch", "hashes are required", "sha256"),
        "What was downloaded is not what is pinned, and nothing of it was used. Find out what stands between this "
        "machine and the package registry (a proxy, a mirror) before you try again.",
    ),
    (
        (
            "no such host",
            "dial tcp",
            "i/o timeout",
            "tls handshake timeout",
            "connection refused",
            "connection reset",
            "network is unreachable",
            "temporary failure in name resolution",
            "name or service not known",
            "dns error",
            "error sending request",
            "failed to fetch",
            "proxyconnect",
            "x509:",
            "unable_to_verify_leaf_signature",
            "self_signed_cert",
            "self-signed certificate",
            "enotfound",
            "eai_again",
            "econnrefused",
            "econnreset",
            "etimedout",
            "enetunreach",
        ),
        "The package registry could not be reached: check the network, and the proxy settings if you are behind one "
        "(HTTPS_PROXY; GOPROXY for Go, UV_DEFAULT_INDEX for Python, npm's registry setting). Then run the same command "
        "again: what is ready stays ready.",
    ),
    (
        ("404 not found", "e404", "etarget", "unknown revision", "no matching version", "no solution found"),
        "The package registry answered, but does not have the pinned version: check whether a mirror is configured "
        "that lacks it.",
    ),
)


def hint(output: str) -> str:
    """What a user can do about a failure, judged by the output of the command that failed."""
    text = output.lower()
    for signs, advice in _HINTS:
        if any(sign in text for sign in signs):
            return advice
    return "Run the same command again; if it fails again, report it with the lines above."


def tool_error(tool: str, doing: str, output: str, *, log: str = "") -> ToolError:
    """The one message about a tool that cannot be had.

    Args:
        tool: name and version, for example ``etcd 3.5.21``.
        doing: what failed, for example ``go build ended with exit code 1``.
        output: the last lines of what the command said.
        log: path of the whole output, if it was kept.
    """
    lines = [f"{tool} cannot be got ready: {doing}."]
    if output.strip():
        lines += ["", *(f"    {line}" for line in output.strip().splitlines()), ""]
    if log:
        lines.append(f"The whole output: {log}")
    lines.append(hint(output))
    return ToolError("\n".join(lines))
