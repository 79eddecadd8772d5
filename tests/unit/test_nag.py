"""Every environment's app against cdk-nag's AwsSolutions: what a rule finds is right, or its reason is given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configuration import Environment, load_environment
from tests.unit.platform_environment import platform_content

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = sorted(path.stem for path in (ROOT / "environments").glob("*.yaml"))


def _findings(environment: Environment, outdir: Path, change: Callable[[Any], Any] | None = None) -> list[str]:
    """What cdk-nag finds and nobody gave a reason for, as rule and construct."""
    from aws_cdk import Validations  # only here: loading CDK takes seconds, which other tests need not wait for
    from cdk_nag import AwsSolutionsChecks

    from app import build_app, new_app

    app = build_app(environment, new_app(outdir))
    if change:
        change(app)
    # jsii's Python classes do not match their own interfaces for a type checker.
    checks: Any = AwsSolutionsChecks(app)
    Validations.of(app).add_plugins(checks)
    try:
        app.synth()
    except RuntimeError as error:  # what jsii raises where the CDK finds an error
        if "ValidationFailed" not in str(error):
            raise
    # Also where nothing is an error: a warning needs its reason too.
    report = json.loads((outdir / "validation-report.json").read_text())
    return [
        f"{violation['ruleName']} at {construct['constructPath']}"
        for plugin in report["pluginReports"]
        if plugin["pluginName"] == "AwsSolutions"
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_finding_in_an_environment_has_a_reason(name: str, tmp_path: Path) -> None:
    assert _findings(load_environment(name, ROOT / "environments"), tmp_path) == []


def test_every_finding_in_all_that_an_environment_can_ask_for_has_a_reason(
    content: dict[str, Any], tmp_path: Path
) -> None:
    environment = Environment.model_validate({**platform_content(content), "name": "platform"}, by_name=False)
    assert _findings(environment, tmp_path) == []


def test_a_finding_without_a_reason_is_found(environment: Environment, tmp_path: Path) -> None:
    def open_to_everybody(app: Any) -> None:
        from aws_cdk import aws_ec2 as ec2

        (stack,) = [child for child in app.node.children if child.node.id.endswith("-cluster")]
        ec2.CfnSecurityGroupIngress(
            stack, "Open", group_id="sg-1", ip_protocol="tcp", from_port=22, to_port=22, cidr_ip="0.0.0.0/0"
        )

    found = _findings(environment, tmp_path, open_to_everybody)
    assert any("EC23" in finding and "Open" in finding for finding in found), found
