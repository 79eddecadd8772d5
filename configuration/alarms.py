"""Whom to tell when something is wrong."""

from configuration.model import Model
from configuration.text import TopicArn


class Alarms(Model):
    """CloudWatch alarms, all to one topic. One so far: nobody reads the interruption queue."""

    topic_arn: TopicArn
    """SNS topic that is there already, in the cluster's Region."""
