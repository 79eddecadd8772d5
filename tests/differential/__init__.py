"""The types of `configuration.api` against the real API server with Karpenter's real CRDs."""
