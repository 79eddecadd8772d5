"""The templates are valid CloudFormation: a wrong property, which a local AWS may ignore, is found here."""

import subprocess
import sys
from pathlib import Path

from tests.unit.assembly import Assembly


def _lint(*templates: Path) -> subprocess.CompletedProcess[str]:
    # W3005: the CDK names dependencies that references imply already.
    command = [Path(sys.executable).parent / "cfn-lint", "--regions", "us-west-2", "--ignore-checks", "W3005"]
    return subprocess.run([*command, "--template", *templates], capture_output=True, text=True, check=False)


def test_cfn_lint_finds_nothing(assembly: Assembly) -> None:
    templates = sorted(assembly.folder.glob("*.template.json"))
    assert len(templates) == 4
    found = _lint(*templates)
    assert (found.stdout, found.returncode) == ("", 0)


def test_cfn_lint_would_find_a_wrong_property(assembly: Assembly, tmp_path: Path) -> None:
    (template,) = assembly.folder.glob("*-karpenter.template.json")
    broken = tmp_path / template.name
    broken.write_text(template.read_text().replace('"MessageRetentionPeriod"', '"MessageRetention"'))
    assert "MessageRetention" in _lint(broken).stdout
