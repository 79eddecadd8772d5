"""The templates are valid CloudFormation: a wrong property, which a local AWS may ignore, is found here."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.unit.assembly import Assembly


def _lint(*templates: Path) -> subprocess.CompletedProcess[str]:
    # W3005: the CDK names dependencies that references imply already.
    command = [Path(sys.executable).parent / "cfn-lint", "--regions", "us-west-2", "--ignore-checks", "W3005"]
    return subprocess.run([*command, "--template", *templates], capture_output=True, text=True, check=False)


def test_cfn_lint_finds_a_wrong_property_and_nothing_else(
    assemblies: Mapping[str, Assembly], platform: Assembly, tmp_path: Path
) -> None:
    """One run over the templates of every environment, and of all that one can ask for: loading it is slow."""
    folders = [each.folder for each in (*assemblies.values(), platform)]
    templates = [path for folder in folders for path in sorted(folder.glob("*.template.json"))]
    assert len(templates) == 4 * len(folders)
    (queue,) = folders[0].glob("*-karpenter.template.json")
    broken = tmp_path / "broken.template.json"
    broken.write_text(queue.read_text().replace('"MessageRetentionPeriod"', '"MessageRetention"'))
    # A finding is two lines: what, and in which file.
    found = [entry.splitlines() for entry in _lint(*templates, broken).stdout.strip().split("\n\n")]
    assert [file.partition(":")[0] for _, file in found] == [str(broken)]
    assert "MessageRetention" in found[0][0]
