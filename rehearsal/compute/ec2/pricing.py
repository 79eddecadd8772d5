"""GetProducts of the AWS Price List API, as far as EC2's on-demand prices go.

Karpenter v1.14.1 asks it for all Linux prices of its region (``pkg/providers/pricing/pricing.go``): shared tenancy and
the family "Compute Instance" for virtual machines, dedicated tenancy and "Compute Instance (bare metal)" for the rest.
The endpoint serves every region, so the prices of each are asked for here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

MAX_RESULTS = 100
"""Most products of one page, which is AWS's limit too."""


class PriceListError(Exception):
    """An error of the Price List API, answered with HTTP 400 and ``__type`` set to :attr:`code`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def get_products(request: Mapping[str, Any], prices: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Answer ``AWSPriceListService.GetProducts``.

    Args:
        request: the JSON body: ``ServiceCode``, ``Filters``, ``MaxResults``, ``NextToken``.
        prices: region to instance type to on-demand price, USD an hour.

    Returns:
        The JSON answer: ``PriceList`` is a list of JSON texts, one a product.

    Raises:
        PriceListError: a service, filter or token that is not known here.
    """
    if request.get("ServiceCode") != "AmazonEC2":
        raise PriceListError("NotFoundException", "The rehearsal has prices of AmazonEC2 alone.")
    wanted: dict[str, str] = {}
    rules: list[Mapping[str, str]] = request.get("Filters") or []
    for rule in rules:
        if rule["Type"] != "TERM_MATCH" or rule["Field"] not in _attributes("", ""):
            raise PriceListError(
                "InvalidParameterException", f"The rehearsal has no filter {rule['Type']} on {rule['Field']}."
            )
        wanted[rule["Field"]] = rule["Value"]
    products = [
        (attributes, price)
        for region, types in sorted(prices.items())
        for instance_type, price in sorted(types.items())
        for attributes in [_attributes(region, instance_type)]
        if all(attributes[name] == value for name, value in wanted.items())
    ]
    try:
        start = int(base64.urlsafe_b64decode(request.get("NextToken") or b"MA=="))
    except ValueError as error:
        raise PriceListError("InvalidNextTokenException", "The token is invalid.") from error
    end = start + min(request.get("MaxResults") or MAX_RESULTS, MAX_RESULTS)
    answer: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(_product(attributes, price)) for attributes, price in products[start:end]],
    }
    if end < len(products):
        answer["NextToken"] = base64.urlsafe_b64encode(str(end).encode()).decode()
    return answer


def _attributes(region: str, instance_type: str) -> dict[str, str]:
    metal = ".metal" in instance_type
    return {
        "servicecode": "AmazonEC2",
        "serviceCode": "AmazonEC2",
        "regionCode": region,
        "instanceType": instance_type,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": "Dedicated" if metal else "Shared",
        "productFamily": "Compute Instance (bare metal)" if metal else "Compute Instance",
    }


def _product(attributes: Mapping[str, str], price: float) -> dict[str, Any]:
    sku = hashlib.sha256(f"{attributes['regionCode']}/{attributes['instanceType']}".encode()).hexdigest()[:16].upper()
    # The offer term and rate codes are AWS's for an hour on demand.
    term, rate = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    return {
        "serviceCode": "AmazonEC2",
        "product": {
            "sku": sku,
            "productFamily": attributes["productFamily"],
            "attributes": {
                name: value for name, value in attributes.items() if name not in ("productFamily", "serviceCode")
            },
        },
        "terms": {
            "OnDemand": {
                term: {
                    "sku": sku,
                    "offerTermCode": "JRTCKXETXF",
                    "priceDimensions": {
                        rate: {"rateCode": rate, "unit": "Hrs", "pricePerUnit": {"USD": f"{price:.10f}"}}
                    },
                }
            }
        },
    }
