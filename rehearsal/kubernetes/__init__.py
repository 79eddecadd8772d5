"""The Kubernetes control plane of one emulated EKS cluster: real etcd, API server, scheduler and controller manager."""

from rehearsal.kubernetes.control_plane import ControlPlane, ControlPlaneError, ControlPlaneSpec

__all__ = ["ControlPlane", "ControlPlaneError", "ControlPlaneSpec"]
