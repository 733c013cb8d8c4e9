"""Controllers' manifests → the vLLM engines that they would start.

``registry`` finds the adapter of a document; each other module but ``reading``, ``draft``, ``images`` and ``pods`` is one adapter.
"""

from policy.intake.manifests.registry import is_manifest, read_manifest

__all__ = ["is_manifest", "read_manifest"]
