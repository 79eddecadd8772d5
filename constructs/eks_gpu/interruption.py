"""How Karpenter hears that EC2 is about to take an instance away."""

from typing import Any, Final

from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from configuration.releases import numbers
from eks_gpu.reasons import acknowledge

MESSAGE_RETENTION_SECONDS: Final = 300
"""A spot interruption warning is worth nothing after its two minutes."""

UNREAD_SECONDS: Final = 120
"""A message this old has not been read in the time that a spot interruption warning leaves."""

RULES: Final = {
    "ScheduledChangeRule": ("aws.health", "AWS Health Event"),
    "SpotInterruptionRule": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "RebalanceRule": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChangeRule": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruptionRule": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""(source, detail-type) of each rule's events."""

CAPACITY_RESERVATIONS_SINCE: Final = (1, 10)
"""The release of Karpenter that first understands the last of them."""


class InterruptionQueue(Construct):
    """A queue that EventBridge puts EC2's warnings into, and that Karpenter reads.

    Source: karpenter-provider-aws v1.8.8 to v1.14.1, getting-started cloudformation.yaml. The rules are not
    narrowed to instances of this cluster, since the events do not say: Karpenter drops what is not its own.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster_name: Name of the cluster, and so of the queue; may be a CDK token.
        release: Karpenter's release, which decides what it understands, such as 1.14.1.
        alarm_topic_arn: SNS topic to tell when nobody reads the queue; None for no alarm.

    Attributes:
        queue: The queue.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        release: str,
        alarm_topic_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.queue = sqs.CfnQueue(
            self,
            "Queue",
            queue_name=cluster_name,
            message_retention_period=MESSAGE_RETENTION_SECONDS,
            sqs_managed_sse_enabled=True,
        )
        sqs.CfnQueuePolicy(self, "QueuePolicy", queues=[self.queue.ref], policy_document=self._policy())
        acknowledge(self.queue, "a message is worth nothing after minutes, so there is nothing to keep it for", "SQS3")
        for name, (source, detail_type) in RULES.items():
            if name == "CapacityReservationInterruptionRule" and numbers(release) < CAPACITY_RESERVATIONS_SINCE:
                continue
            events.CfnRule(
                self,
                name,
                event_pattern={"source": [source], "detail-type": [detail_type]},
                targets=[events.CfnRule.TargetProperty(id="KarpenterInterruptionQueueTarget", arn=self.queue.attr_arn)],
            )

        if alarm_topic_arn:
            self._add_alarm(cluster_name, alarm_topic_arn)

    def _add_alarm(self, cluster_name: str, topic_arn: str) -> None:
        """Tell somebody when messages grow old, since then Karpenter does not run or may not read."""
        from aws_cdk import aws_cloudwatch as cloudwatch  # loaded by those who use it: it costs time at every synth

        cloudwatch.CfnAlarm(
            self,
            "Unread",
            alarm_description=(
                f"Nobody reads the interruption queue of the EKS cluster {cluster_name}: Karpenter will lose spot "
                f"nodes without draining them. Look at Karpenter's pods and at their role."
            ),
            namespace="AWS/SQS",
            metric_name="ApproximateAgeOfOldestMessage",
            dimensions=[
                cloudwatch.CfnAlarm.DimensionProperty(name="QueueName", value=self.queue.attr_queue_name),
            ],
            statistic="Maximum",
            period=60,
            evaluation_periods=2,
            comparison_operator="GreaterThanThreshold",
            threshold=UNREAD_SECONDS,
            # An empty queue has no oldest message.
            treat_missing_data="notBreaching",
            alarm_actions=[topic_arn],
            ok_actions=[topic_arn],
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
