"""The role that EC2 needs to buy spot instances in an account."""

from pathlib import Path
from typing import Any, Final

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from eks_gpu.reasons import acknowledge

CODE: Final = Path(__file__).with_name("spot_role_handler.py")
RESOURCE_TYPE: Final = "Custom::EC2SpotServiceLinkedRole"
LOG_DAYS: Final = 7


class SpotServiceLinkedRole(Construct):
    """`AWSServiceRoleForEC2Spot`, created if it is absent, kept if it is there, and never deleted.

    An account has one, in whichever of its stacks it was asked for first. CloudFormation's own
    AWS::IAM::ServiceLinkedRole fails where the role exists, and tries to delete it with its stack; without the role,
    Karpenter gets AuthFailure.ServiceLinkedRoleCreationNotPermitted for every spot instance (Amazon EC2 user guide,
    service-linked-roles-spot-instance-requests). So a Lambda function asks for it. It may do that and no more.

    Args:
        scope: Parent.
        construct_id: Name within the parent.

    Attributes:
        resource: The custom resource; what buys spot instances depends on it.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        # Loaded by those who use them: they cost time at every synth.
        from aws_cdk import aws_lambda as lambda_
        from aws_cdk import aws_logs as logs

        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        role = iam.CfnRole(
            self,
            "Role",
            description="Makes the service-linked role of EC2 Spot if it is absent",
            assume_role_policy_document=_document(
                {"Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ),
        )
        function = lambda_.CfnFunction(
            self,
            "Function",
            description="Makes the service-linked role of EC2 Spot if it is absent",
            runtime="python3.13",
            handler="index.handler",
            code=lambda_.CfnFunction.CodeProperty(zip_file=CODE.read_text(encoding="utf-8")),
            role=role.attr_arn,
            timeout=60,
            memory_size=128,
        )
        acknowledge(function, "the newest Python that the local AWS of the rehearsal runs too", "L1")
        log_group = logs.CfnLogGroup(
            self, "Logs", log_group_name=f"/aws/lambda/{function.ref}", retention_in_days=LOG_DAYS
        )
        created = f"arn:{stack.partition}:iam::{stack.account}:role/aws-service-role/spot.amazonaws.com"
        policy = iam.CfnPolicy(
            self,
            "Policy",
            policy_name="CreateSpotRole",
            roles=[role.ref],
            policy_document=_document(
                {
                    "Action": "iam:CreateServiceLinkedRole",
                    "Resource": f"{created}/AWSServiceRoleForEC2Spot",
                    "Condition": {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}},
                },
                # Not CreateLogGroup: a log group that comes after its stack is gone is nobody's.
                {"Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": log_group.attr_arn},
            ),
        )
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type=RESOURCE_TYPE,
            service_token=function.attr_arn,
            service_timeout=Duration.minutes(5),
        )
        self.resource.node.add_dependency(log_group, policy)


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement} for statement in statements]}
