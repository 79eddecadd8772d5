"""Service-account tokens of a pod with a real process, as files that are renewed before they expire."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rehearsal.kubernetes.api import KubeApi, Manifest
from rehearsal.kubernetes.authority import write_private

API_LIFETIME_S = 3607
AWS_LIFETIME_S = 86400
"""Lifetimes of the two tokens, seconds: a kubelet's and EKS's pod identity webhook's own defaults."""

AWS_AUDIENCE = "sts.amazonaws.com"
_RENEW_AFTER = 0.8


@dataclass
class TokenFile:
    """One token in a file.

    Args:
        file: where it is; replaced in one step, so that readers never see half of it.
        audience: whom it is meant for; the API server when None.
        lifetime_s: seconds of validity.
        made: seconds since the epoch; 0 where it was never made.
    """

    file: Path
    audience: str | None
    lifetime_s: int
    made: float = 0.0

    def renew(self, api: KubeApi, service_account: str, pod: Manifest) -> None:
        """Write the token anew where it is missing or has lived most of its life; clients read the file again.

        Raises:
            KubeError: the service account does not exist, or the API server does not answer.
        """
        if self.made and time.time() - self.made < _RENEW_AFTER * self.lifetime_s:
            return
        text = api.service_account_token(
            service_account,
            pod["metadata"]["namespace"],
            audience=self.audience,
            lifetime_s=self.lifetime_s,
            pod=pod,
        )
        write_private(self.file.with_suffix(".new"), text.encode()).replace(self.file)
        self.made = time.time()
