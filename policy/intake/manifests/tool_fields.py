"""The fields of tools' files that are read or change no container.

Such a file may have other fields, of the user's own or for another program. Only those count whose names suggest that
they change a container, so only fields with such names are here.
"""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import open_fields

BENCHMARK_ROLE: Final = open_fields(
    "args command dnsConfig env envFrom ephemeralStorage extraEnvVars image imagePullPolicy imagePullSecrets "
    "initContainers volumeDevices volumeMounts volumes"
)
BENCHMARK_COMMON: Final = open_fields("ephemeralStorage flags volumeMounts volumes")
SKYPILOT_TASK: Final = open_fields("envs file_mounts setup volumes")
SKYPILOT_RESOURCES: Final = open_fields("_docker_login_config accelerator_args image_id")
SKYPILOT_CHOICE: Final = open_fields("accelerator_args")
DSTACK_RUN: Final = open_fields("commands entrypoint env image volumes")
TRUSS: Final = open_fields(
    "apply_library_patches base_image build_commands bundled_packages_dir environment_variables system_packages weights"
)
TRUSS_SERVER: Final = open_fields("start_command")
NOMAD_TASK: Final = open_fields("CSIPluginConfig Config Env LogConfig VolumeMounts")
NOMAD_DRIVER: Final = open_fields(
    "args command entrypoint extra_hosts image image_pull_timeout init mount mounts storage_opt volume_driver volumes"
)
