"""Find the vLLM engines that a controller's manifest would start.

``registry`` chooses the adapter for a document. ``reading``, ``draft``, ``shell_arguments``, ``images``, ``mounts``,
``pods``, ``storage`` and ``quantities`` are shared; the other modules are adapters and their helpers. The package
``request`` imports ``registry`` for the first document that may be a manifest: `decide` of a request takes 25 ms less
of processor time without the adapters and the shell that they read.
"""
