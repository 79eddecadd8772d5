"""EC2's way of saying no: codes and messages as AWS words them, so that clients react as they would to AWS."""

from __future__ import annotations

from rehearsal.compute.ec2.ports import Denial


class Ec2Error(Exception):
    """An error that EC2 answers to its caller.

    Args:
        code: EC2's error code, for example ``InvalidInstanceID.NotFound``.
        message: the sentence beside it.
        status: HTTP status; 400 is EC2's for nearly all client errors.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class DryRunError(Ec2Error):
    """The answer to an authorised request with ``DryRun=true``: EC2 gives it as an error, HTTP 412."""

    def __init__(self) -> None:
        super().__init__("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)


class UnauthorizedError(Ec2Error):
    """The caller's policies do not allow one of the resources that the call touches, HTTP 403."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(
            "UnauthorizedOperation",
            f"You are not authorized to perform this operation. User: {denial.principal_arn} is not authorized to "
            f"perform: {denial.action} on resource: {denial.resource} {denial.because}. Encoded authorization failure "
            f"message: {denial.encoded_message()}",
            403,
        )


class NotSimulatedError(Ec2Error):
    """The request is one that AWS may grant and the rehearsal does not simulate; never answered by looking away.

    Args:
        operation: EC2's operation.
        what: the parameter, filter or value that is missing here.
    """

    def __init__(self, operation: str, what: str) -> None:
        super().__init__("UnsupportedOperation", f"The rehearsal's EC2 does not simulate {what} of {operation}.")
