"""What shows the hardware of an engine in manifests: names of resources, node labels, devices, runtimes, accelerators.

Each table maps names to platforms, as `environment.platform` has them, and says where the names come from. A name that
several vendors use is left out: `/dev/accel` is a Gaudi, a TPU or an NPU of a processor.
"""

from __future__ import annotations

from typing import Final

RESOURCES: Final = {
    "nvidia.com/gpu": "cuda",  # https://github.com/NVIDIA/k8s-device-plugin; also `gpu.shared`, HAMi's `gpumem`
    "nvidia.com/mig-": "cuda",  # https://docs.nvidia.com/datacenter/cloud-native/kubernetes/latest/index.html
    "aliyun.com/gpu": "cuda",  # https://github.com/AliyunContainerService/gpushare-device-plugin: gpu-mem, gpu-count
    "amd.com/gpu": "rocm",  # https://github.com/ROCm/k8s-device-plugin
    **dict.fromkeys((f"amd.com/{mode}_nps" for mode in ("spx", "dpx", "tpx", "qpx", "cpx")), "rocm"),  # its partitions
    "google.com/tpu": "tpu",  # https://cloud.google.com/kubernetes-engine/docs/how-to/tpus
    "habana.ai/gaudi": "gaudi",  # https://docs.habana.ai/en/latest/Installation_Guide/Additional_Installation
    "gpu.intel.com/": "xpu",  # https://github.com/intel/intel-device-plugins-for-kubernetes: i915, xe
    "huawei.com/ascend": "ascend",  # https://github.com/Ascend/ascend-device-plugin: Ascend910, ascend-1980, …
    "aws.amazon.com/neuron": "neuron",  # https://awsdocs-neuron.readthedocs-hosted.com: also neuroncore, neurondevice
    "ibm.com/spyre": "spyre",  # https://github.com/ibm-aiu/spyre-operator: spyre_pf, spyre_vf
    "ibm.com/aiu_": "spyre",  # https://github.com/vllm-project/vllm-spyre, before Spyre had its name
    "rebellions.ai/": "rbln",  # https://docs.rbln.ai: ATOM, REBEL, npu
    "tenstorrent.com/": "tenstorrent",  # https://github.com/tenstorrent
}
"""The beginnings of resource names in lower case. Tolerations and CDI devices (`nvidia.com/gpu=all`) use them too."""

LABELS: Final = {
    "nvidia.com/": "cuda",  # https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery
    "amd.com/gpu": "rocm",  # https://github.com/ROCm/k8s-device-plugin/tree/master/cmd/k8s-node-labeller
    "beta.amd.com/gpu": "rocm",  # its former prefix
    "feature.node.kubernetes.io/amd-gpu": "rocm",  # https://github.com/ROCm/gpu-operator
    "feature.node.kubernetes.io/pci-10de": "cuda",  # NVIDIA's vendor, of Node Feature Discovery
    "cloud.google.com/gke-tpu": "tpu",  # https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
    "gpu.intel.com/": "xpu",  # https://github.com/intel/intel-device-plugins-for-kubernetes
    "intel.feature.node.kubernetes.io/gpu": "xpu",
    "ibm.com/spyre": "spyre",
}
"""The beginnings of the keys of node labels that only nodes with the hardware have."""
LABEL_VALUES: Final = {
    "cloud.google.com/gke-accelerator": {"nvidia-": "cuda"},
    "karpenter.k8s.aws/instance-gpu-manufacturer": {"nvidia": "cuda", "amd": "rocm"},  # https://karpenter.sh
    "karpenter.k8s.aws/instance-accelerator-manufacturer": {"aws": "neuron", "habana": "gaudi"},
    "accelerator": {"huawei-ascend": "ascend", "nvidia": "cuda", "amd": "rocm"},  # of Ascend's plugin, and by custom
}
"""The keys of node labels whose value shows the hardware, each with the beginnings of the values in lower case."""
NEGATIVE_VALUES: Final = frozenset({"false", "no", "0", "none"})
"""The values of a label that say that a node does not have the hardware."""

RUNTIMES: Final = {
    "nvidia": "cuda",  # https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/index.html
    "nvidia-cdi": "cuda",
    "nvidia-legacy": "cuda",
    "amd": "rocm",  # https://github.com/ROCm/container-toolkit
    "habana": "gaudi",  # https://docs.habana.ai/en/latest/Installation_Guide/Installation_Methods/Docker_Installation.html
    "ascend": "ascend",  # https://gitcode.com/Ascend/mind-cluster: Ascend Docker Runtime
}
"""The container runtimes, as `runtimeClassName` and Compose's `runtime` name them; others serve any hardware."""
DRIVERS: Final = {"nvidia": "cuda", "amd": "rocm"}
"""The drivers of devices that Compose reserves."""

DEVICES: Final = {
    "/dev/nvidia": "cuda",
    "/dev/kfd": "rocm",  # https://rocm.docs.amd.com: for compute; `/dev/dri` alone is not enough
    "/dev/davinci": "ascend",  # https://docs.vllm.ai/projects/ascend/en/latest/installation.html
    "/dev/neuron": "neuron",  # https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers
    "/dev/tenstorrent": "tenstorrent",  # https://docs.tenstorrent.com
    "/dev/rbln": "rbln",  # https://docs.rbln.ai
}
"""The beginnings of the device files of hardware."""
GRAPHICS: Final = "/dev/dri"
"""The devices of GPUs by Intel and AMD; without `/dev/kfd` they are Intel's."""

ACCELERATORS: Final = {
    **dict.fromkeys(("tpu-", "tpu_"), "tpu"),
    **dict.fromkeys(("mi25", "mi50", "mi100", "mi2", "mi3", "mi4", "radeon", "amd"), "rocm"),
    **dict.fromkeys(("trainium", "inferentia", "aws-neuron"), "neuron"),
    **dict.fromkeys(("gaudi", "intel-gaudi"), "gaudi"),
    "intel-gpu": "xpu",
    **dict.fromkeys(("h100", "h200", "h20", "h800", "gh200", "b100", "b200", "b300", "gb200", "gb300"), "cuda"),
    **dict.fromkeys(("a100", "a800", "a10", "a16", "a2", "a30", "a40", "a4000", "a5000", "a6000"), "cuda"),
    **dict.fromkeys(("l4", "l20", "l40", "t4", "v100", "p100", "p4", "k80", "m60", "rtx", "nvidia", "quadro"), "cuda"),
    **dict.fromkeys(("tesla", "geforce", "titan"), "cuda"),
}
"""The beginnings of the names of accelerators in lower case, in SkyPilot's catalogue and Ray's `accelerator_type`.

See https://docs.skypilot.co/en/latest/compute/gpus.html and https://docs.ray.io/en/latest/ray-core/scheduling.
"""

PROFILES: Final = {
    "cpu": "cpu",
    "nvidia": "cuda",
    "google": "tpu",
    "amd": "rocm",
    "intel-i915": "xpu",
    "intel-xe": "xpu",
    "intel-gaudi": "gaudi",
}
"""The beginnings of the resource profiles of KubeAI's charts, and of ``accelerator.type`` of llm-d-modelservice.

See ``charts/kubeai/values*.yaml`` of https://github.com/kubeai-project/kubeai, and ``values.yaml`` of
https://github.com/llm-d-incubation/llm-d-modelservice.
"""


def platform_of(name: str, table: dict[str, str]) -> str | None:
    """The platform of a name by the longest beginning in the table; None if it has none."""
    lower = name.lower()
    found = max((start for start in table if lower.startswith(start)), key=len, default=None)
    return None if found is None else table[found]
