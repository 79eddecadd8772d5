"""How Karpenter hears that EC2 is about to take an instance away."""

from typing import Any, Final

from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs
from constructs import Construct

MESSAGE_RETENTION_SECONDS: Final = 300
"""A spot interruption warning is worth nothing after its two minutes."""

RULES: Final = {
    "ScheduledChangeRule": ("aws.health", "AWS Health Event"),
    "SpotInterruptionRule": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "RebalanceRule": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChangeRule": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruptionRule": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""(source, detail-type) of each rule's events."""


class InterruptionQueue(Construct):
    """A queue that EventBridge puts EC2's warnings into, and that Karpenter reads.

    Source: karpenter-provider-aws v1.14.1, getting-started cloudformation.yaml. The rules are not narrowed to instances
    of this cluster, since the events do not say: Karpenter drops what is not its own.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster_name: Name of the cluster, and so of the queue.

    Attributes:
        queue: The queue.
    """

    def __init__(self, scope: Construct, construct_id: str, *, cluster_name: str) -> None:
        super().__init__(scope, construct_id)
        self.queue = sqs.CfnQueue(
            self,
            "Queue",
            queue_name=cluster_name,
            message_retention_period=MESSAGE_RETENTION_SECONDS,
            sqs_managed_sse_enabled=True,
        )
        sqs.CfnQueuePolicy(self, "QueuePolicy", queues=[self.queue.ref], policy_document=self._policy())
        for name, (source, detail_type) in RULES.items():
            events.CfnRule(
                self,
                name,
                event_pattern={"source": [source], "detail-type": [detail_type]},
                targets=[events.CfnRule.TargetProperty(id="KarpenterInterruptionQueueTarget", arn=self.queue.attr_arn)],
            )

    def _policy(self) -> dict[str, Any]:
        return {
            "Version": "2012-10-17",
            "Id": "EC2InterruptionPolicy",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                    "Action": "sqs:SendMessage",
                    "Resource": self.queue.attr_arn,
                },
                {
                    "Sid": "DenyHTTP",
                    "Effect": "Deny",
                    "Principal": "*",
                    "Action": "sqs:*",
                    "Resource": self.queue.attr_arn,
                    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                },
            ],
        }
