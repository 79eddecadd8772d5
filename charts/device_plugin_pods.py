"""What runs on a GPU node: the device plugin, GPU feature discovery, the MPS control daemon. One image, three programs.

Source: NVIDIA/k8s-device-plugin v0.18.2, deployments/helm/nvidia-device-plugin/templates/daemonset-*.yml, rendered
without a configuration of sharing.
"""

from typing import Any, Final

_MPS_ROOT: Final = "/run/nvidia/mps"
"""Where MPS keeps its pipes, its logs and its shared memory on the node."""

_FEATURES: Final = "/etc/kubernetes/node-feature-discovery/features.d"
"""Where node feature discovery looks for what others have found out about the node."""

_MPS_VOLUMES: Final = [
    {"name": "mps-root", "hostPath": {"path": _MPS_ROOT, "type": "DirectoryOrCreate"}},
    {"name": "mps-shm", "hostPath": {"path": f"{_MPS_ROOT}/shm"}},
]
_MPS_MOUNTS: Final = [
    {"name": "mps-shm", "mountPath": "/dev/shm"},  # noqa: S108 - where both programs look for it
    {"name": "mps-root", "mountPath": "/mps"},
]
_ALL_GPUS: Final = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
]


def plugin(image: str) -> dict[str, Any]:
    """Return what the device plugin's pod has of its own: it registers the node's GPUs with its kubelet."""
    kubelet = "/var/lib/kubelet/device-plugins"
    return {
        "containers": [
            {
                **_container("nvidia-device-plugin-ctr", "nvidia-device-plugin", image),
                "env": [{"name": "MPS_ROOT", "value": _MPS_ROOT}, *_ALL_GPUS],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": "kubelet-device-plugins-dir", "mountPath": kubelet},
                    *_MPS_MOUNTS,
                    {"name": "cdi-root", "mountPath": "/var/run/cdi"},
                ],
            }
        ],
        "volumes": [
            {"name": "kubelet-device-plugins-dir", "hostPath": {"path": kubelet, "type": "Directory"}},
            *_MPS_VOLUMES,
            {"name": "cdi-root", "hostPath": {"path": "/var/run/cdi", "type": "DirectoryOrCreate"}},
        ],
    }


def gpu_feature_discovery(image: str) -> dict[str, Any]:
    """Return what GPU feature discovery's pod has of its own: it writes down what the node's GPUs are."""
    return {
        "containers": [
            {
                **_container("gpu-feature-discovery-ctr", "gpu-feature-discovery", image),
                "env": [
                    _field("NODE_NAME", "spec.nodeName"),
                    _field("NAMESPACE", "metadata.namespace"),
                    # It writes a file, which node feature discovery reads.
                    {"name": "GFD_USE_NODE_FEATURE_API", "value": "false"},
                ],
                "securityContext": {"privileged": True},
                "volumeMounts": [
                    {"name": "output-dir", "mountPath": _FEATURES},
                    {"name": "host-sys", "mountPath": "/sys"},
                    {"name": "config", "mountPath": "/config"},
                ],
            }
        ],
        "volumes": [
            {"name": "output-dir", "hostPath": {"path": _FEATURES, "type": "DirectoryOrCreate"}},
            {"name": "host-sys", "hostPath": {"path": "/sys", "type": "Directory"}},
            {"name": "driver-root", "hostPath": {"path": "/", "type": "Directory"}},
            {"name": "config", "emptyDir": {}},
        ],
    }


def mps_control_daemon(image: str) -> dict[str, Any]:
    """Return what the MPS control daemon's pod has of its own: it runs where a label says that MPS shares the GPUs."""
    node_name = _field("NODE_NAME", "spec.nodeName")
    node_name["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    return {
        "hostPID": True,
        "initContainers": [
            {
                "name": "mps-control-daemon-mounts",
                "image": image,
                "command": ["mps-control-daemon", "mount-shm"],
                "securityContext": {"privileged": True},
                "volumeMounts": [{"name": "mps-root", "mountPath": "/mps", "mountPropagation": "Bidirectional"}],
            }
        ],
        "containers": [
            {
                **_container("mps-control-daemon-ctr", "mps-control-daemon", image),
                "env": [node_name, *_ALL_GPUS],
                "securityContext": {"privileged": True},
                "volumeMounts": list(_MPS_MOUNTS),
            }
        ],
        "volumes": list(_MPS_VOLUMES),
        "nodeSelector": {"nvidia.com/mps.capable": "true"},
    }


def _container(name: str, program: str, image: str) -> dict[str, Any]:
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": [program]}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
