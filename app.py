"""The app: `python app.py` writes the templates of one environment, as the CDK CLI asks it to."""

import gc
import json
import sys
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk

from configuration import ConfigurationError, Environment, load_environment
from configuration.environment import KUBERNETES_SUPPORT
from stacks import ClusterStack, KarpenterStack, NetworkStack, NodePoolsStack, SamplesStack, write_manifests

HERE: Final = Path(__file__).parent
DEFAULT_ENVIRONMENT: Final = "workshop"
ENVIRONMENT_TAG: Final = "eks-gpu/environment"


def new_app(outdir: Path | None = None) -> cdk.App:
    """Make an app without stacks, with the flags of cdk.json.

    Args:
        outdir: Folder for the cloud assembly; None for where the CDK CLI wants it.
    """
    return cdk.App(
        context=_context(),
        outdir=str(outdir) if outdir else None,
        analytics_reporting=False,
        auto_synth=False,
        # It takes a third of every synth and diff. The tests lint the templates of every environment instead.
        builtin_cloud_formation_validation=False,
    )


def build_app(environment: Environment, app: cdk.App | None = None) -> cdk.App:
    """Build the stacks of an environment.

    Args:
        environment: What to build.
        app: Where they go; a new one if left out.

    Returns:
        The app, not yet synthesised. It reaches for no network, no credentials and no clock: the same environment
        always gives the same bytes.
    """
    app = app or new_app()
    name = environment.cluster.name
    options = {"env": cdk.Environment(region=environment.network.region)}
    tags = {**environment.tags, ENVIRONMENT_TAG: environment.name}
    network = None
    if environment.network.vpc:
        network = NetworkStack(app, f"{name}-network", environment=environment, **options).network
    cluster = ClusterStack(app, f"{name}-cluster", environment=environment, network=network, **options)
    karpenter = KarpenterStack(
        app,
        f"{name}-karpenter",
        cluster=cluster.cluster,
        cluster_name=name,
        karpenter=environment.karpenter,
        node_groups=[group.name for group in environment.cluster.node_groups],
        buys_spot=any("spot" in pool.capacity_types() for pool in environment.pools),
        alarm_topic_arn=environment.alarms.topic_arn if environment.alarms else None,
        **options,
    )
    pools = NodePoolsStack(
        app,
        f"{name}-node-pools",
        karpenter=karpenter,
        node_classes=environment.node_classes,
        gpu_pools=environment.gpu_pools,
        cpu_pools=environment.cpu_pools,
        device_plugin=environment.device_plugin,
        dcgm_exporter=environment.dcgm_exporter,
        subnet_ids=cluster.node_subnet_ids,
        security_group_ids=cluster.node_security_group_ids,
        tags_of_nodes=tags,
        **options,
    )
    if environment.samples:
        SamplesStack(app, f"{name}-samples", pools=pools, names=environment.samples, **options)
    for name, warning in environment.warnings().items():
        cdk.Annotations.of(cluster if name == KUBERNETES_SUPPORT else pools).add_warning_v2(f"eks-gpu:{name}", warning)
    for key, value in tags.items():
        cdk.Tags.of(app).add(key, value)
    # The logs of the kubectl handler go with the cluster: `cdk destroy` leaves nothing behind.
    cdk.RemovalPolicies.of(app).destroy(apply_to_resource_types=["AWS::Logs::LogGroup"])
    return app


def synthesise(environment: Environment, app: cdk.App) -> Path:
    """Write the templates of an environment, and its Kubernetes objects as YAML for review.

    Args:
        environment: What to build.
        app: Where it goes; without stacks so far.

    Returns:
        The folder of the cloud assembly.
    """
    folder = Path(build_app(environment, app).synth().directory)
    write_manifests(folder)
    return folder


def _context() -> dict[str, Any]:
    """What the CDK CLI would pass on, so that `python app.py` and tests write the same bytes as `cdk synth`."""
    flags = json.loads((HERE / "cdk.json").read_text(encoding="utf-8"))["context"]
    return {
        **flags,
        "aws:cdk:enable-path-metadata": True,
        "aws:cdk:enable-asset-metadata": True,
        # Stack traces name temporary folders, another one in every run.
        "aws:cdk:disable-stack-trace": True,
        "aws:cdk:disable-creation-stack-traces": True,
    }


def main() -> int:
    """Synthesise the environment that `-c environment=NAME` names; return the process's exit status."""
    # A process of seconds: looking for garbage would take a tenth of them, and frees next to nothing.
    gc.disable()
    app = new_app()
    name = app.node.try_get_context("environment") or DEFAULT_ENVIRONMENT
    try:
        environment = load_environment(name, HERE / "environments")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 1
    synthesise(environment, app)
    return 0


if __name__ == "__main__":
    sys.exit(main())
