"""The vLLM engines that controllers' manifests would start.

``registry`` finds the adapter of a document. ``reading``, ``draft``, ``images``, ``pods``, ``storage`` and
``quantities`` are shared; each other module is one adapter.
"""

from policy.intake.manifests.registry import is_manifest, read_manifest

__all__ = ["is_manifest", "read_manifest"]
