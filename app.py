"""The app: `python app.py` writes the templates of one environment, as the CDK CLI asks it to."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk

from configuration import ConfigurationError, Environment, load_environment
from stacks import ClusterStack, GpuPoolsStack, KarpenterStack, NetworkStack, write_manifests

HERE: Final = Path(__file__).parent
DEFAULT_ENVIRONMENT: Final = "workshop"
ENVIRONMENT_TAG: Final = "eks-gpu/environment"


def build_app(environment: Environment, outdir: Path | None = None) -> cdk.App:
    """Build the stacks of an environment.

    Args:
        environment: What to build.
        outdir: Folder for the templates; None for where the CDK CLI wants them.

    Returns:
        The app, not yet synthesised. It reaches for no network, no credentials and no clock: the same environment
        always gives the same bytes.
    """
    app = cdk.App(
        context=_context(),
        outdir=str(outdir) if outdir else None,
        analytics_reporting=False,
        auto_synth=False,
    )
    name = environment.cluster.name
    options = {"env": cdk.Environment(region=environment.network.region)}
    network = NetworkStack(app, f"{name}-network", environment=environment, **options)
    cluster = ClusterStack(app, f"{name}-cluster", environment=environment, vpc=network.vpc, **options)
    karpenter = KarpenterStack(app, f"{name}-karpenter", environment=environment, cluster=cluster.cluster, **options)
    tags = {ENVIRONMENT_TAG: environment.name}
    pools = GpuPoolsStack(
        app,
        f"{name}-gpu-pools",
        environment=environment,
        cluster=cluster.cluster,
        node_role_name=karpenter.node_role_name,
        tags_of_nodes=tags,
        **options,
    )
    pools.add_stack_dependency(karpenter)
    for key, value in tags.items():
        cdk.Tags.of(app).add(key, value)
    # The logs of the kubectl handler go with the cluster: `cdk destroy` leaves nothing behind.
    cdk.RemovalPolicies.of(app).destroy(apply_to_resource_types=["AWS::Logs::LogGroup"])
    return app


def synthesise(environment: Environment, outdir: Path | None = None) -> Path:
    """Write the templates of an environment, and its Kubernetes objects as YAML for review.

    Args:
        environment: What to build.
        outdir: Folder for the cloud assembly; None for where the CDK CLI wants it.

    Returns:
        The folder.
    """
    folder = Path(build_app(environment, outdir).synth().directory)
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
    name = cdk.App(auto_synth=False).node.try_get_context("environment") or DEFAULT_ENVIRONMENT
    try:
        environment = load_environment(name, HERE / "environments")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 1
    synthesise(environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
