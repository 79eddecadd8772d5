"""What the tools are made from: Go modules, Karpenter's price list, the CDK layer, the npm package."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal.tools import cdk as cdk_cli
from rehearsal.tools import golang, karpenter, layer, npm
from rehearsal.tools.cache import Cache, Entry
from rehearsal.tools.errors import ToolError
from rehearsal.tools.everything import missing_tools
from rehearsal.tools.progress import ConsoleProgress, duration

PRICES = """package pricing

var InitialOnDemandPricesAWS = map[string]map[ec2types.InstanceType]float64{
\t// us-east-1
\t"us-east-1": {
\t\t// g5 family
\t\t"g5.12xlarge": 5.672000, "g5.xlarge": 1.006000,
\t\t"u-6tb1.56xlarge": 46.403910,
\t},
\t// elsewhere
\t"us-west-2": {
\t\t"g5.xlarge": 2.000000,
\t},
}
"""


def a_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# Karpenter's price list


def test_prices_are_those_of_us_east_1() -> None:
    assert karpenter.on_demand_prices(PRICES, least=3) == {
        "g5.12xlarge": 5.672,
        "g5.xlarge": 1.006,
        "u-6tb1.56xlarge": 46.40391,
    }


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("InitialOnDemandPricesAWS", "Prices", "is not in it"),
        ('"us-east-1": {', '"eu-west-1": {', "no region us-east-1"),
        ('"g5.12xlarge": 5.672000,', '"g5.12xlarge": price(5.672),', 'this is no price: \'"g5.12xlarge": price'),
        ('"g5.12xlarge": 5.672000,', '"g5.xlarge": 5.672000,', "priced twice"),
        ('"g5.12xlarge": 5.672000,', '"g5.12xlarge": 0.000000,', "not above zero"),
        ('"g5.12xlarge": 5.672000,', "", "there are 2 prices, and 3"),
    ],
)
def test_a_price_list_of_another_form_is_refused(old: str, new: str, reason: str) -> None:
    assert old in PRICES
    with pytest.raises(ToolError, match=re.escape(reason)):
        karpenter.on_demand_prices(PRICES.replace(old, new, 1), least=3)


def test_a_folder_out_of_the_module_cache_becomes_writable(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "templates").mkdir(parents=True)
    (source / "templates" / "crd.yaml").write_text("kind: CustomResourceDefinition\n", encoding="utf-8")
    (source / "templates" / "crd.yaml").chmod(0o444)
    (source / "templates").chmod(0o555)
    karpenter.copy_writable(source, tmp_path / "target")
    copied = tmp_path / "target" / "templates"
    assert (copied / "crd.yaml").read_text(encoding="utf-8") == "kind: CustomResourceDefinition\n"
    assert copied.stat().st_mode & stat.S_IWUSR
    assert (copied / "crd.yaml").stat().st_mode & stat.S_IWUSR


# Go modules


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("go version go1.26.8 linux/amd64\n", (1, 26, 8)),
        ("go version go1.27 linux/arm64\n", (1, 27, 0)),
        ("go version go1.27.3-X:nodwarf5 linux/amd64\n", None),
        ("go version go1.27rc1 linux/amd64\n", None),
        ("go version devel go1.28-abcdef linux/amd64\n", None),
        ("", None),
    ],
)
def test_go_version_is_read(output: str, version: golang.Version | None) -> None:
    assert golang.go_version(output) == version


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ("echo go version go1.26.6 linux/amd64", True),
        ("echo go version go1.27.0 linux/amd64", True),
        ("echo go version go1.26.5 linux/amd64", False),
        ("echo go version go1.9.9 linux/amd64", False),
        ("echo broken >&2; exit 1", False),
    ],
)
def test_go_on_path_is_taken_when_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, taken: bool
) -> None:
    go = a_script(tmp_path / "go", answer)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert golang.go_on_path((1, 26, 6)) == (go if taken else None)


def test_no_go_on_path_is_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert golang.go_on_path((1, 20, 0)) is None


def test_the_pinned_toolchain_is_new_enough_for_every_module() -> None:
    pinned = golang.go_version(f"go version go{golang.toolchain_entry().version} ")
    assert pinned is not None
    assert pinned >= golang.needed_go()


def test_users_go_settings_stay_but_for_what_would_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOFLAGS", "-v")
    monkeypatch.setenv("GOOS", "plan9")
    environment = golang.go_environment()
    assert (environment["GOPROXY"], environment["GOFLAGS"]) == ("off", "-v")
    assert "GOOS" not in environment
    assert (environment["GOTOOLCHAIN"], environment["CGO_ENABLED"]) == ("local", "0")


ALL_GO_TOOLS = {tool.title: tool for minor in golang.kubernetes_minors() for tool in golang.go_tools(minor)}


@pytest.mark.parametrize("tool", ALL_GO_TOOLS.values(), ids=ALL_GO_TOOLS)
def test_every_binary_is_a_tool_of_its_module_and_checksummed(tool: golang.GoTool) -> None:
    go_mod = (tool.folder / "go.mod").read_text(encoding="utf-8")
    go_sum = (tool.folder / "go.sum").read_text(encoding="utf-8")
    for package in tool.packages.values():
        assert re.search(rf"^(tool |\t){re.escape(package)}$", go_mod, re.MULTILINE)
    assert f"{tool.source} v{tool.version} h1:" in go_sum
    assert "replace" not in go_mod


def test_versions_come_from_go_mod() -> None:
    go_mod = "module x\n\ngo 1.24.0\n\nrequire (\n\tk8s.io/kubernetes v1.33.13 // indirect\n\tk8s.io/api v0.33.13\n)\n"
    assert golang.required_version(go_mod, "k8s.io/kubernetes") == "1.33.13"
    assert golang.required_go(go_mod) == (1, 24, 0)
    with pytest.raises(ToolError, match=r"must require k8s\.io/kubelet once"):
        golang.required_version(go_mod, "k8s.io/kubelet")


def test_binaries_report_their_version() -> None:
    for minor in ("1.33", "1.36"):
        flags = golang.kubernetes(minor).linker_flags
        assert f"-X k8s.io/component-base/version.gitVersion=v{minor}." in flags
        assert f"-X k8s.io/component-base/version.gitMinor={minor[2:]}" in flags
    assert f"operator.Version={golang.KARPENTER.version}" in golang.KARPENTER.linker_flags


@pytest.mark.parametrize("changed", ["go.mod", "go.sum"])
def test_a_changed_module_is_another_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = {golang.entry(tool, None).key for tool in ALL_GO_TOOLS.values()} | {karpenter.entry(None).key}
    shutil.copytree(golang.MODULES, tmp_path / "go")
    monkeypatch.setattr(golang, "MODULES", tmp_path / "go")
    for path in (tmp_path / "go").glob(f"*/{changed}"):
        path.write_text(path.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
    after = {golang.entry(tool, None).key for tool in ALL_GO_TOOLS.values()} | {karpenter.entry(None).key}
    assert len(before) == len(after) == 7
    assert not before & after


def test_changed_stamps_are_another_tool() -> None:
    assert (
        golang.entry(replace(golang.KWOK, stamps={"main.version": "{version}"}), None).key
        != golang.entry(golang.KWOK, None).key
    )


def test_the_compiler_decides_nothing_about_where_a_tool_is() -> None:
    assert golang.entry(golang.KWOK, Path("/usr/bin/go")).folder_name == golang.entry(golang.KWOK, None).folder_name


def test_the_installer_is_the_uv_that_runs_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = a_script(tmp_path / "uv", "")
    other = a_script(tmp_path / "path" / "uv", "")
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setenv("UV", str(uv))
    assert golang.installer()[0] == str(uv)
    monkeypatch.delenv("UV")
    assert golang.installer()[0] == str(other)


def test_without_uv_and_pip_a_user_hears_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setattr(sys, "executable", str(a_script(tmp_path / "python", "exit 1")))
    with pytest.raises(ToolError, match=r"(?s)neither uv nor pip.*put Go 1\.\d+\.\d+ or newer on PATH"):
        golang.installer()


# kubectl and helm


def elf(machine: int) -> io.BytesIO:
    return io.BytesIO(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little"))


def test_the_layer_of_another_processor_is_refused() -> None:
    layer.check_machine("kubectl", elf(62), "x86_64")
    layer.check_machine("kubectl", elf(183), "aarch64")
    with pytest.raises(ToolError, match="kubectl is built for Linux x86_64, and this machine is aarch64"):
        layer.check_machine("kubectl", elf(62), "aarch64")
    with pytest.raises(ToolError, match="something else"):
        layer.check_machine("kubectl", io.BytesIO(b"#!/bin/sh"), "x86_64")


def test_the_layer_is_known_by_the_hash_of_its_archive() -> None:
    assert len(layer.entry().inputs["archive"]) > 40


def test_each_pinned_kubernetes_has_a_layer_of_its_own() -> None:
    entries = {minor: layer.entry(minor) for minor in golang.kubernetes_minors()}
    assert len({entry.key for entry in entries.values()}) == len(entries)
    assert "v36" in entries["1.36"].title


def a_layer(file: Path, kubectl: bytes) -> Path:
    with zipfile.ZipFile(file, "w") as content:
        content.writestr("kubectl/kubectl", kubectl)
        content.writestr("helm/helm", kubectl)
    return file


def test_kubectl_and_helm_are_those_of_the_layer_that_is_deployed(tmp_path: Path) -> None:
    assembly = tmp_path / "cdk.out"
    assembly.mkdir()
    assert layer.find_archive(assembly) is None
    with zipfile.ZipFile(assembly / "asset.aaaa.zip", "w") as other:
        other.writestr("index.py", "")
    program = Path(sys.executable).resolve().read_bytes()[:64]
    archive = a_layer(assembly / "asset.bbbb.zip", program)
    assert layer.find_archive(assembly) == archive
    entry = layer.entry_of(archive)
    folder = Cache(tmp_path / "tools").get(entry, ConsoleProgress(Console(quiet=True)))
    assert (folder / "kubectl").read_bytes() == program
    assert os.access(folder / "helm", os.X_OK)
    assert entry.key != layer.entry_of(archive.with_name("asset.cccc.zip")).key


# The CDK command line


def test_the_lock_file_pins_what_package_json_asks_for_and_names_no_server() -> None:
    wanted = json.loads((npm.CLONE / "package.json").read_text(encoding="utf-8"))["dependencies"]["aws-cdk"]
    text = (npm.CLONE / "package-lock.json").read_text(encoding="utf-8")
    assert npm.locked_version(npm.CLONE / "package-lock.json") == wanted
    assert "resolved" not in text, "write it with `npm install --package-lock-only --omit-lockfile-registry-resolved`"
    assert json.loads(text)["packages"][npm.PACKAGE]["integrity"].startswith("sha512-")


def test_another_lock_file_is_another_command_line(tmp_path: Path) -> None:
    for name in npm.MANIFESTS:
        (tmp_path / name).write_text((npm.CLONE / name).read_text(encoding="utf-8"), encoding="utf-8")
    assert npm.entry(tmp_path).key == npm.entry().key
    lock = tmp_path / "package-lock.json"
    lock.write_text(lock.read_text(encoding="utf-8").replace("2.1148.1", "2.1148.2"), encoding="utf-8")
    assert npm.entry(tmp_path).key != npm.entry().key


@pytest.mark.parametrize("content", ["", "{}", '{"packages": {}}'])
def test_a_lock_file_without_the_cdk_is_said_as_such(tmp_path: Path, content: str) -> None:
    (tmp_path / "package-lock.json").write_text(content, encoding="utf-8")
    with pytest.raises(ToolError, match="does not pin aws-cdk"):
        npm.locked_version(tmp_path / "package-lock.json")


def test_cdk_is_run_by_pinned_node(tmp_path: Path) -> None:
    command = cdk_cli.cdk_command(tmp_path)
    assert command == [str(npm.node()), str(tmp_path / "bin" / "cdk")]
    assert Path(command[0]).read_bytes()[:4] == b"\x7fELF"


def test_cdk_finds_this_python_first_and_what_the_user_set_wins() -> None:
    scripts = str(Path(sys.executable).parent)
    environment = cdk_cli.cdk_environment({"PATH": f"/usr/bin:{scripts}", "CDK_DISABLE_CLI_TELEMETRY": "false"})
    assert environment["PATH"] == f"{scripts}:/usr/bin"
    assert environment["CDK_DISABLE_CLI_TELEMETRY"] == "false"
    assert environment["CDK_DISABLE_VERSION_CHECK"] == "1"


def test_uv_run_cdk_becomes_the_command_line_with_all_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []

    def execve(program: str, command: list[str], environment: dict[str, str]) -> None:
        assert program == command[0]
        assert "PATH" in environment
        became.append(command)

    def get(self: Cache, entry: Entry, *_: object) -> Path:
        assert entry.name == "aws-cdk"
        return tmp_path

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(Cache, "get", get)
    monkeypatch.setattr(sys, "argv", ["cdk", "synth", "-c", "environment=workshop"])
    cdk_cli.main()
    expected = [str(npm.node()), str(tmp_path / npm.PACKAGE / "bin/cdk"), "synth", "-c", "environment=workshop"]
    assert became == [expected]


def test_uv_run_cdk_says_why_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*_: object) -> Path:
        raise ToolError("The CDK command line cannot be got ready.")

    monkeypatch.setattr(Cache, "get", get)
    with pytest.raises(SystemExit, match="cannot be got ready"):
        cdk_cli.main()


# Everything


def test_with_an_empty_cache_all_is_missing_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen", None)
    names = [entry.name for entry in missing_tools(Cache(tmp_path))]
    assert names == ["aws-cdk", "kubectl-helm", "karpenter-data", "kubernetes", "etcd", "karpenter", "kwok"]


def test_only_the_control_plane_that_is_asked_for_is_got_ready(tmp_path: Path) -> None:
    for minor in golang.kubernetes_minors():
        (found,) = [entry for entry in missing_tools(Cache(tmp_path), minor) if entry.name == "kubernetes"]
        assert found.version.startswith(f"{minor}.")


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_a_kubernetes_that_is_not_pinned_is_named_with_those_that_are(version: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=rf"Kubernetes {version} cannot be rehearsed.*1\.33 and 1\.36"):
        missing_tools(Cache(tmp_path), version)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4 s"), (12, "12 s"), (59.9, "1 min 00 s"), (185, "3 min 05 s")]
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text
