"""Find the vLLM engines that a controller's manifest would start.

``registry`` chooses the adapter for a document. ``reading``, ``draft``, ``images``, ``mounts``, ``pods``, ``storage``
and ``quantities`` are shared; the other modules are adapters and their helpers.
"""

from policy.intake.manifests.registry import is_manifest, read_manifest, shows_engines

__all__ = ["is_manifest", "read_manifest", "shows_engines"]
