"""What of MiniStack's insides this package relies on, so that a new version that moves them is refused loudly.

MiniStack documents no extension points; these are the functions and tables that were read in version 1.5.33.
"""

from __future__ import annotations

import importlib
import inspect

TABLES: dict[str, tuple[str, ...]] = {
    "ministack.app": ("SERVICE_HANDLERS", "AUTH", "pin_request_origin"),
    "ministack.services.ec2": ("_ACTION_MAP", "_subnets", "_security_groups", "_tags", "_vpcs"),
    "ministack.services.eks": ("_clusters", "_access_entries", "_nodegroups", "_pod_identity_associations"),
    "ministack.services.iam": ("_IAM_HANDLERS", "_instance_profiles", "_oidc_providers", "_roles"),
    "ministack.services.tagging": ("_RESOURCE_TAG_COLLECTORS",),
    "ministack.services.ssm": ("_PUBLIC_AMI_PARAMETERS",),
    "ministack.services.cloudformation": ("_stacks", "_change_sets"),
    "ministack.services.cloudformation.provisioners": ("_RESOURCE_HANDLERS",),
}
"""Module -> names of the tables that are read or added to."""

FUNCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "ministack.core.iam_actions": {
        "extract_iam_action": ("service", "method", "path", "headers", "body", "query_params"),
        "extract_resource_arn": (
            "service",
            "method",
            "path",
            "headers",
            "body",
            "query_params",
            "region",
            "account_id",
        ),
        "access_denied_response": ("service", "action", "principal_arn", "request_id"),
    },
    "ministack.core.iam_evaluator": {
        "enforce": ("access_key_id", "iam_action", "service", "region", "resource_arn", "service_context"),
        "evaluate_trust_policy": ("trust_doc", "caller_arn", "ctx"),
        "resolve_credential": ("access_key_id", "account_id", "session_token"),
    },
    "ministack.core.responses": {
        "get_account_id": (),
        "get_region": (),
        "request_scope": ("account_id", "region"),
    },
    "ministack.core.router": {"extract_access_key_id": ("headers", "query_params")},
    "ministack.services.eks": {
        "_handle_request_sync": ("method", "path", "headers", "body_bytes", "query_params"),
        "_create_cluster": ("body", "creator_arn"),
        "_delete_cluster": ("name",),
        "_create_nodegroup": ("cluster_name", "body"),
        "_create_access_entry": ("cluster_name", "body"),
        "_delete_access_entry": ("cluster_name", "principal_arn"),
        "_get_oidc_keypair": (),
        "_verify_eks_token": ("token", "cluster_name"),
        "_decode_aws_iam_token": ("token",),
        "_schedule_access_policy_reconcile": ("cluster_name", "account_id", "region"),
        "_access_policy_rbac_objects": ("cluster_name", "account_id", "region", "namespaces"),
    },
    "ministack.services.ec2": {
        "_create_security_group": ("p",),
        "_delete_security_group": ("p",),
        "_resource_matches_tag_filters": ("resource_id", "filters"),
        "_subnet_fields_xml": ("subnet", "tag"),
    },
    "ministack.services.kms": {"_resolve_key": ("key_id_or_arn",)},
    "ministack.services.eventbridge": {"_put_events": ("data", "allow_aws_source")},
    "ministack.services.sts": {
        "_gen_session_access_key": (),
        "_role_id": ("role_arn",),
        "register_session": ("access_key", "session"),
        "_web_identity_trust_denied": ("role_arn", "params", "use_json"),
        "_web_identity_principal": ("token", "provider_id", "role_arn"),
    },
    "ministack.services.cloudformation.stacks": {"_runs_on_worker_thread": ("resource_type",)},
}
"""Module -> function -> names of its first parameters, in order."""


def breaches() -> list[str]:
    """What the installed MiniStack no longer has, one sentence each; empty where everything is in its place."""
    found: list[str] = []
    for module_name, names in TABLES.items():
        module = importlib.import_module(module_name)
        found += [f"{module_name} has no {name}" for name in names if not hasattr(module, name)]
    for module_name, functions in FUNCTIONS.items():
        module = importlib.import_module(module_name)
        for name, expected in functions.items():
            function = getattr(module, name, None)
            if function is None:
                found.append(f"{module_name} has no {name}()")
                continue
            actual = tuple(inspect.signature(function).parameters)[: len(expected)]
            if actual != expected:
                found.append(f"{module_name}.{name} takes {actual}, not {expected}")
    return found
