"""Names with the same 32-bit FNV-1a hash, which the engine uses to identify a name.

They were found once, by a search that meets in the middle: it takes a second for all. The tests that use them check the
hashes.
"""

from __future__ import annotations

from typing import Final

COLLISIONS: Final = {
    "id": ("TGTbVx", "2wyczp", "YXfcW8", "DOeeia"),
    "sid": ("bmZaay", "Q1yb2k", "fgffg6", "MwKfHy"),
    "$s": ("YXfcbG", "E8DsHg", "J4ZurP", "FAAyGc"),
    "a": ("s6Kh2k", "Rq7k5u", "lhJqT0", "iDouIg"),
    "b": ("s6Kh2h", "Rq7k5v", "lhJqT3", "iDouId"),
    "_0": ("gfYfX3", "SHfsxe", "9X8vGm", "uAwBXX"),
    "g0": ("CTudnq", "DOeec5", "IHlg78", "nv1l4Z"),
    "c0": ("IHlg38", "9X8vKu", "K0kEVj", "oUbIqA"),
    "is_moe": ("8gac2Q", "tFuijZ", "As7k4f", "NF8lpt"),
    "model_config.is_moe": ("Z8DbBR", "cDaf1W", "mUfoS6", "ebbAZt"),
    "env.VLLM_USE_V2_MODEL_RUNNER": ("tzIdxa", "xnMlnW", "ZkyoGl", "RfHsE4"),
    "facts": ("3ZygR6", "aiEtp6", "LlhCsQ", "f0HLzC"),
    "vllm_version": ("Pk5a94", "f5spH4", "F7lp7B", "4rgrWv"),
    "k32728": ("k261234",),
}
"""Names that the engine, the rules or a request use, and one that nothing uses; others with the hash of each."""
