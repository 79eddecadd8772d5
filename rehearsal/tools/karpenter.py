"""What the rehearsal takes out of Karpenter's Go module besides its binary: its CRDs' chart, and its price list."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

from rehearsal.tools.cache import Build, Entry
from rehearsal.tools.commands import follow
from rehearsal.tools.errors import ToolError
from rehearsal.tools.golang import KARPENTER, go_environment, module_hashes

CHART = "charts/karpenter-crd"
"""Folder of the chart in the module, and in the cache."""

PRICES = "on-demand-prices.json"
PRICE_SOURCE = "pkg/providers/pricing/zz_generated.pricing_aws.go"
PRICE_VARIABLE = "var InitialOnDemandPricesAWS = map[string]map[ec2types.InstanceType]float64{"
PRICE_REGION = "us-east-1"
"""The only region whose prices Karpenter 1.14.1 ships; it uses them wherever the Pricing API does not answer."""

LEAST_PRICES = 500
"""A list shorter than this is not the whole list: Karpenter 1.14.1 ships prices of more than a thousand types."""


def entry(go: Path | None) -> Entry:
    """Chart and prices as an entry of the cache.

    Args:
        go: the ``go`` command, which knows where the module is; only needed to build.
    """
    return Entry(
        name="karpenter-data",
        version=KARPENTER.version,
        title=f"Karpenter's CRDs and prices {KARPENTER.version}",
        doing="unpacking",
        inputs=module_hashes(KARPENTER) | {"form": "1"},
        files=(f"{CHART}/Chart.yaml", f"{CHART}/templates", PRICES),
        recipe=partial(_unpack, go),
    )


def _unpack(go: Path | None, build: Build) -> None:
    compiler = go or Path("go")
    title = f"Karpenter's CRDs and prices {KARPENTER.version}"
    lines: list[str] = []
    download = [compiler, "mod", "download", "-json", KARPENTER.source]
    follow(title, download, log=build.log, on_line=lines.append, cwd=KARPENTER.folder, env=go_environment())
    found = re.search(r'^\s*"Dir": "(.+)"', "\n".join(lines), re.MULTILINE)
    if not found:
        raise ToolError(f"{title} cannot be got ready: `go mod download -json` did not say where the module is.")
    module = Path(found[1])
    source = module / PRICE_SOURCE
    if not source.is_file() or not (module / CHART / "Chart.yaml").is_file():
        raise ToolError(f"{title} cannot be got ready: the module has no {CHART} or no {PRICE_SOURCE}.")
    prices = on_demand_prices(source.read_text(encoding="utf-8"))
    (build.folder / PRICES).write_text(json.dumps(prices, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    copy_writable(module / CHART, build.folder / CHART)


def on_demand_prices(source: str, *, least: int = LEAST_PRICES) -> dict[str, float]:
    """The on-demand prices in Karpenter's generated Go file.

    Args:
        source: text of ``zz_generated.pricing_aws.go``.
        least: fewer prices than this are taken for a file of another form.

    Returns:
        Instance type -> USD per hour, Linux, in :data:`PRICE_REGION`.

    Raises:
        ToolError: the file does not have the form that Karpenter 1.14.1's has.
    """
    _, variable, rest = source.partition(PRICE_VARIABLE)
    if not variable:
        raise _other_form(f"`{PRICE_VARIABLE}` is not in it")
    block = re.search(rf'^\t"{re.escape(PRICE_REGION)}": \{{\n(.*?)^\t\}},$', rest, re.MULTILINE | re.DOTALL)
    if not block:
        raise _other_form(f"there is no region {PRICE_REGION}")
    text = re.sub(r"//.*", "", block[1])
    price = re.compile(r'"([a-z0-9-]+\.[a-z0-9-]+)":\s*(\d+\.\d+),')
    left_over = price.sub("", text).strip()
    if left_over:
        raise _other_form(f"this is no price: {left_over[:60]!r}")
    found = price.findall(text)
    prices = {name: float(value) for name, value in found}
    if len(prices) != len(found):
        raise _other_form("an instance type is priced twice")
    if len(prices) < least:
        raise _other_form(f"there are {len(prices)} prices, and {least} were expected at least")
    if min(prices.values(), default=1) <= 0:
        raise _other_form("a price is not above zero")
    return prices


def _other_form(what: str) -> ToolError:
    return ToolError(
        f"Karpenter's price list ({PRICE_SOURCE}) does not have the form that is known: {what}. "
        "Was Karpenter's version changed? Then rehearsal/tools/karpenter.py must learn the new form."
    )


def copy_writable(source: Path, target: Path) -> None:
    """Copy a folder out of Go's module cache, where everything is read-only, with ordinary permissions."""
    target.mkdir(parents=True)
    for child in sorted(source.iterdir()):
        if child.is_dir():
            copy_writable(child, target / child.name)
        else:
            shutil.copyfile(child, target / child.name)
