"""The launchers: programs that start the program in their arguments, with the grammar of their words.

From the manuals and the sources of each program. Not here: `env`, `xargs`, `eval`, shells and Python, whose options
have their own modules, and what reads the words (`launcher_grammar`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.launcher_grammar import UNREAD_LAUNCHER, Meaning, launcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command.launcher_grammar import Launcher

DURATION: Final = re.compile(r"(?:[0-9]{1,32}(?:\.[0-9]{0,32})?|\.[0-9]{1,32})(?:[eE][-+]?[0-9]{1,4})?[smhd]?|inf")
MASK: Final = re.compile("(?:0[xX])?[0-9A-Fa-f,]{1,512}|[0-9][0-9,:-]{0,512}")
PRIORITY: Final = re.compile("[0-9]{1,4}")
USER: Final = re.compile("[^-].*", re.DOTALL)
NICENESS: Final = re.compile("-[-+]?[0-9]{1,9}")
"""Matches the former option of `nice`: `-5`, `--5`."""
GNU_STOPS: Final = "--help --version"
LINUX_STOPS: Final = "-h --help -V --version"

SYSTEM_LAUNCHERS: Final[dict[str, Launcher]] = {
    # https://www.gnu.org/software/coreutils/manual/coreutils.html
    "nohup": launcher(stops=GNU_STOPS),
    "nice": launcher(values="-n --adjustment", stops=GNU_STOPS, number=NICENESS),
    "timeout": launcher(
        flags="-f --foreground -p --preserve-status -v --verbose",
        values="-k --kill-after -s --signal",
        stops=GNU_STOPS,
        operands=(DURATION,),
    ),
    "stdbuf": launcher(values="-i --input -o --output -e --error", stops=GNU_STOPS),
    "time": launcher(
        flags="-a --append -p --portability -q --quiet -v --verbose",
        values="-f --format -o --output",
        stops=LINUX_STOPS,
    ),
    # https://man7.org/linux/man-pages/dir_by_project.html#util-linux
    "setsid": launcher(flags="-c --ctty -f --fork -w --wait", stops=LINUX_STOPS),
    "ionice": launcher(
        flags="-t --ignore", values="-c --class -n --classdata", stops=f"{LINUX_STOPS} -p --pid -P --pgid -u --uid"
    ),
    "chrt": launcher(
        flags="-a --all-tasks -b --batch -d --deadline -e --ext -f --fifo -i --idle -o --other -r --rr "
        "-R --reset-on-fork -v --verbose",
        values="-T --sched-runtime -P --sched-period -D --sched-deadline",
        stops=f"{LINUX_STOPS} -m --max -p --pid",
        operands=(PRIORITY,),
    ),
    "taskset": launcher(flags="-a --all-tasks -c --cpu-list", stops=f"{LINUX_STOPS} -p --pid", operands=(MASK,)),
    "prlimit": launcher(
        flags="--noheadings --raw --verbose",
        values="-o --output",
        attached="-c --core -d --data -e --nice -f --fsize -i --sigpending -l --memlock -m --rss -n --nofile "
        "-q --msgqueue -r --rtprio -s --stack -t --cpu -u --nproc -v --as -x --locks -y --rttime",
        stops=f"{LINUX_STOPS} -p --pid",
    ),
    # https://www.gnu.org/software/bash/manual/bash.html
    "exec": launcher(values="-a", clears="-c", logs_in="-l", stops="--help", abbreviates=False),
    "command": launcher(flags="-p", stops="-v -V --help", abbreviates=False),
    "builtin": launcher(stops="--help", abbreviates=False),
    # https://github.com/krallin/tini, https://github.com/Yelp/dumb-init, https://github.com/openSUSE/catatonit
    "tini": launcher(flags="-s -v -w -g", values="-p -e -R", stops="-h -l --version", abbreviates=False),
    "dumb-init": launcher(flags="-c --single-child -v --verbose", values="-r --rewrite", stops=LINUX_STOPS),
    "catatonit": launcher(flags="-g", stops="-h -L -P -V --version"),
    # https://github.com/numactl/numactl
    "numactl": launcher(
        flags="-a --all -l --localalloc -b --balancing -t --strict",
        values="-i --interleave -w --weighted-interleave -p --preferred -P --preferred-many -c --cpubind "
        "-N --cpunodebind -C --physcpubind -m --membind",
        stops="-h --help -s --show -H --hardware --version -S --shm -f --file",
    ),
    # https://github.com/tianon/gosu, https://github.com/ncopa/su-exec
    **dict.fromkeys(
        ("gosu", "su-exec"), launcher(stops=GNU_STOPS, operands=(USER,), abbreviates=False, ends_options=False)
    ),
    "catchsegv": launcher(stops="-V --help --version"),
    **dict.fromkeys(
        ("busybox", "toybox"),
        launcher(stops="--help --list --list-full --install", abbreviates=False, ends_options=False),
    ),
    # https://www.sudo.ws/docs/man/sudo.man/; its policy resets variables
    "sudo": launcher(
        flags="-A --askpass -B --bell -b --background -E -H --set-home -i --login -k --reset-timestamp -N --no-update "
        "-n --non-interactive -P --preserve-groups -S --stdin -s --shell",
        values="-C --close-from -c --login-class -D --chdir -g --group -p --prompt -R --chroot -r --role "
        "-T --command-timeout -t --type -U --other-user -u --user --host",
        attached="--preserve-env",
        stops="-e --edit --help -K --remove-timestamp -l --list -V --version -v --validate",
        assigns=True,
        changes_variables=True,
    ),
}
"""Launchers of operating systems, shells and containers."""

# https://docs.astral.sh/uv/reference/cli/
UV_FLAGS: Final = (
    "-n --no-cache --no-cache-dir --managed-python --no-managed-python --no-python-downloads --allow-python-downloads "
    "-q --quiet -v --verbose --system-certs --no-system-certs --native-tls --no-native-tls --offline --no-offline "
    "--no-progress --no-config --preview --no-preview"
)
UV_VALUES: Final = (
    "--cache-dir --color --allow-insecure-host --directory --project --config-file --python-preference "
    "--preview-features"
)
UV_START_FLAGS: Final = (
    "--isolated --no-env-file --no-index -U --upgrade --no-sources --reinstall --compile-bytecode "
    "--no-build-isolation --no-build --no-binary --refresh --require-build-hashes --no-require-build-hashes"
)
"""The flags shared by the subcommands that start a program."""
UV_START_VALUES: Final = (
    "--env-file -w --with --with-editable --with-requirements --python-platform --index --default-index -i --index-url "
    "--extra-index-url -f --find-links --index-strategy --keyring-provider -P --upgrade-package --upgrade-group "
    "--resolution --prerelease --prerelease-package --fork-strategy --exclude-newer --exclude-newer-package "
    "--no-sources-package --reinstall-package --link-mode -C --config-setting --config-settings "
    "--config-setting-package --config-settings-package --no-build-isolation-package --no-build-package "
    "--no-binary-package --refresh-package -p --python"
)
UV_TOOL: Final = launcher(
    flags=f"{UV_FLAGS} {UV_START_FLAGS} --lfs",
    values=f"{UV_VALUES} {UV_START_VALUES} --from -c --constraints --constraint -b --build-constraints "
    "--build-constraint --overrides --override --torch-backend",
    changes="--env-file",
    stops=LINUX_STOPS,
    abbreviates=False,
    variables=("UV_ENV_FILE",),
)
UV: Final = launcher(
    flags=UV_FLAGS,
    values=UV_VALUES,
    stops=LINUX_STOPS,
    abbreviates=False,
    variables=("UV_ENV_FILE",),
    commands={
        "run": launcher(
            flags=f"{UV_FLAGS} {UV_START_FLAGS} --all-extras --dev --no-dev --only-dev --no-default-groups "
            "--all-groups --editable --no-editable --exact --inexact --active --no-active --no-sync --locked --frozen "
            "--all-packages --no-project",
            values=f"{UV_VALUES} {UV_START_VALUES} --extra --no-extra --group --no-group --only-group --package "
            "--no-editable-package",
            changes="--env-file",
            files="-s --script --gui-script",
            modules="-m --module",
            stops="-h --help",
            abbreviates=False,
        ),
        "tool": launcher(
            flags=UV_FLAGS, values=UV_VALUES, stops="-h --help", abbreviates=False, commands={"run": UV_TOOL}
        ),
    },
)
# https://docs.conda.io/projects/conda/en/stable/commands/run.html, https://github.com/mamba-org/mamba
CONDA_RUN: Final = launcher(
    flags="-v --verbose -q --quiet --dev --debug-wrapper-scripts -s --no-capture-output --live-stream",
    values="-n --name -p --prefix --cwd",
    stops="-h --help",
    changes_variables=True,
)
MAMBA_RUN: Final = launcher(
    flags="-v --verbose -q --quiet -y --yes --json --offline --no-rc --no-env --dev --debug-wrapper-scripts -s "
    "--no-capture-output --live-stream -d --detach --clean-env",
    values="-n --name -p --prefix -r --root-prefix --cwd --rc-file --log-level -e --env -a --attach --label",
    stops="-h --help --version --dry-run",
    changes_variables=True,
)
MAMBA: Final = launcher(
    flags="-v --verbose -q --quiet -y --yes --no-rc --no-env --no-plugins",
    values="-n --name -p --prefix -r --root-prefix --rc-file --log-level",
    stops=LINUX_STOPS,
    commands={"run": MAMBA_RUN},
    changes_variables=True,
)
# https://pixi.prefix.dev/latest/reference/cli/pixi/run/
PIXI_FLAGS: Final = "-v --verbose -q --quiet --no-progress"
PIXI_RUN: Final = launcher(
    flags=f"{PIXI_FLAGS} -x --executable --clean-env --skip-deps --templated --no-config --run-post-link-scripts "
    "--no-symbolic-links --no-hard-links --no-ref-links --tls-no-verify --use-environment-activation-cache "
    "--no-install --frozen --locked --as-is --no-lockfile-update --force-activate --no-completions",
    values="-e --environment -p --platform -m --manifest-path -w --workspace --color --config-file --auth-file "
    "--concurrent-downloads --concurrent-solves --pinning-strategy --pypi-keyring-provider --tls-root-certs",
    stops="-h --help -n --dry-run",
    abbreviates=False,
    changes_variables=True,
)
# https://python-poetry.org/docs/cli/
POETRY_FLAGS: Final = "-q --quiet --ansi --no-ansi -n --no-interaction --no-plugins --no-cache -v -vv -vvv --verbose"
POETRY_VALUES: Final = "-P --project -C --directory"
PACKAGE_LAUNCHERS: Final[dict[str, Launcher]] = {
    "uv": UV,
    "uvx": UV_TOOL,
    "conda": launcher(
        flags="-v --verbose --no-plugins", stops=LINUX_STOPS, commands={"run": CONDA_RUN}, changes_variables=True
    ),
    **dict.fromkeys(("mamba", "micromamba"), MAMBA),
    "pixi": launcher(
        flags=PIXI_FLAGS,
        values="--color",
        stops=LINUX_STOPS,
        abbreviates=False,
        commands={"run": PIXI_RUN, "r": PIXI_RUN},
        changes_variables=True,
    ),
    "poetry": launcher(
        flags=POETRY_FLAGS,
        values=POETRY_VALUES,
        stops=LINUX_STOPS,
        abbreviates=False,
        commands={"run": launcher(flags=POETRY_FLAGS, values=POETRY_VALUES, stops="-h --help", abbreviates=False)},
    ),
    # https://pipx.pypa.io/stable/docs/
    "pipx": launcher(
        flags="-q --quiet -v --verbose --global",
        stops="-h --help --version",
        commands={
            "run": launcher(
                flags="-q --quiet -v --verbose --skip-maintenance --global --no-cache --refresh --no-path-check --path "
                "--pypackages --system-site-packages -e --editable --fetch-missing-python",
                values="--python-args --with --spec --python --fetch-python -i --index-url --pip-args --cooldown "
                "--backend",
                stops="-h --help",
            )
        },
    ),
}
"""Launchers of package managers, which may run a different vLLM than the image's."""

# https://github.com/huggingface/accelerate/blob/main/src/accelerate/commands/launch.py
ACCELERATE: Final = launcher(
    flags="-q --quiet --cpu --multi_gpu --tpu --ipex --enable_cpu_affinity --dynamo_use_fullgraph "
    "--dynamo_use_dynamic --use_deepspeed --use_fsdp --use_megatron_lm --use_xpu --debug",
    values="--config_file --mixed_precision --num_processes --num_machines --num_cpu_threads_per_process "
    "--dynamo_backend --dynamo_mode --gpu_ids --machine_rank --main_process_ip --main_process_port -t --tee --log_dir "
    "--role --rdzv_backend --rdzv_conf --max_restarts --monitor_interval",
    modules="-m --module",
    programs="--no_python",
    stops="-h --help",
    abbreviates=False,
    starts=Meaning.FILE,
)
# https://docs.nvidia.com/nsight-systems/UserGuide/
NSYS: Final = launcher(
    values="-b --backtrace -c --capture-range --capture-range-end --clock-frequency-changes --cpu-cluster-events "
    "--cpu-core-events --cpu-core-metrics --cpu-socket-events --cpu-socket-metrics --cpuctxsw --cuda-event-trace "
    "--cuda-flush-interval --cuda-graph-trace --cuda-memory-usage --cuda-um-cpu-page-faults "
    "--cuda-um-gpu-page-faults --cudabacktrace --dask -y --delay -d --duration -e --env-var --event-sample "
    "--event-sampling-interval --export -f --force-overwrite --ftrace --gpu-metrics-device --gpu-metrics-devices "
    "--gpu-metrics-frequency --gpu-metrics-set --gpuctxsw --hotkey-capture -n --inherit-environment --kill --mpi-impl "
    "--nic-metrics -p --nvtx-capture --nvtx-domain-exclude --nvtx-domain-include --os-events --osrt-threshold "
    "-o --output --process-scope --python-backtrace --python-functions-trace --python-sampling "
    "--python-sampling-frequency --pytorch --resolve-symbols -s --sample --samples-per-backtrace "
    "--sampling-frequency --sampling-period --session --session-new -w --show-output --start-frame-index --stats "
    "-x --stop-on-exit --storage-metrics -t --trace --trace-fork-before-exec --vulkan-gpu-workload --wait",
    changes="-e --env-var -n --inherit-environment",
    stops="-h --help",
)
# https://docs.nvidia.com/nsight-compute/NsightComputeCli/
NCU: Final = launcher(
    flags="-f --force-overwrite --nvtx -q --quiet --verbose --csv --details-all",
    values="-o --export --log-file --target-processes --target-processes-filter --set --section --section-folder "
    "--metrics --rule --apply-rules -k --kernel-name --kernel-name-base --kernel-id -c --launch-count -s --launch-skip "
    "--launch-skip-before-match --nvtx-include --nvtx-exclude --replay-mode --graph-profiling --mode --page "
    "--print-units --print-summary --print-details --clock-control --cache-control --profile-from-start "
    "--import-source --source-folders --devices --chips --kill --check-exit-code --config-file --config-file-path "
    "--app-replay-buffer --app-replay-match --app-replay-mode --range-replay-options --pm-sampling-interval "
    "--warp-sampling-interval --hostname -p --port --max-connections --call-stack --call-stack-type",
    stops=f"{LINUX_STOPS} -v -i --import --list-sets --list-sections --list-rules --list-metrics --list-chips "
    "--query-metrics",
    abbreviates=False,
)
# https://opentelemetry-python-contrib.readthedocs.io; its options set variables that begin with `OTEL_`
OPENTELEMETRY: Final = launcher(
    values="--service_name --resource_attributes --traces_exporter --metrics_exporter --logs_exporter --propagators "
    "--traces_sampler --traces_sampler_arg --log_level --sdk_disabled --id_generator --tracer_provider "
    "--meter_provider --logger_provider --context --distro --configurator --disabled_instrumentations "
    "--excluded_urls --experimental_resource_detectors --log_correlation --log_format "
    "--logging_auto_instrumentation_enabled --attribute_value_length_limit --attribute_count_limit "
    "--span_attribute_count_limit --span_event_count_limit --span_link_count_limit --bsp_schedule_delay "
    "--bsp_export_timeout --bsp_max_queue_size --bsp_max_export_batch_size --metric_export_interval "
    "--metric_export_timeout --metrics_exemplar_filter --exporter_otlp_endpoint --exporter_otlp_protocol "
    "--exporter_otlp_headers --exporter_otlp_insecure --exporter_otlp_certificate --exporter_otlp_timeout "
    "--exporter_otlp_compression --exporter_otlp_traces_endpoint --exporter_otlp_traces_protocol "
    "--exporter_otlp_traces_headers --exporter_otlp_traces_insecure --exporter_otlp_metrics_endpoint "
    "--exporter_otlp_metrics_protocol --exporter_otlp_metrics_headers --exporter_otlp_metrics_insecure "
    "--exporter_otlp_logs_endpoint --exporter_otlp_logs_protocol --exporter_otlp_logs_headers "
    "--exporter_otlp_logs_insecure --exporter_prometheus_host --exporter_prometheus_port",
    stops="-h --help --version",
)
TORCHRUN_VALUES: Final = (
    "--nproc-per-node --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --max-restarts --monitor-interval "
    "--start-method --event-log-handler --log-dir --local-ranks-filter --node-rank --master-addr --master-port "
    "--local-addr --logs-specs --numa-binding --signals-to-handle"
)
TOOL_LAUNCHERS: Final[dict[str, Launcher]] = {
    # https://github.com/pytorch/pytorch/blob/main/torch/distributed/run.py
    "torchrun": launcher(
        flags="--standalone",
        values=f"--nnodes --role -r --redirects -t --tee {TORCHRUN_VALUES} "
        + TORCHRUN_VALUES.replace("-", "_").replace("__", "--"),
        files="--run-path --run_path",
        modules="-m --module",
        programs="--no-python --no_python",
        stops="-h --help",
        starts=Meaning.FILE,
    ),
    "accelerate": launcher(stops="-h --help", abbreviates=False, commands={"launch": ACCELERATE}),
    "nsys": launcher(stops="-h --help -v --version", commands={"profile": NSYS, "launch": NSYS}),
    "ncu": NCU,
    # https://github.com/ROCm/rocprofiler-sdk
    "rocprofv3": launcher(stops="-h --help -v --version -L --list-avail", separator=True),
    "opentelemetry-instrument": OPENTELEMETRY,
    # https://github.com/DataDog/dd-trace-py
    "ddtrace-run": launcher(
        flags="-d --debug -p --profiling -nc --colorless", stops="-h --help -i --info -v --version"
    ),
    # https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html; it may start programs on other machines
    "mpirun": launcher(
        flags="--allow-run-as-root -allow-run-as-root --oversubscribe -oversubscribe --tag-output -tag-output -q "
        "--quiet -v --verbose --display-map -display-map --report-bindings -report-bindings --nolocal -nolocal "
        "-genvall",
        values="-n --n -np --np -N -c -npernode --npernode -npersocket --npersocket -H -host --host -hosts -hostfile "
        "--hostfile -machinefile --machinefile -f -ppn -x -wdir --wdir -wd --wd -bind-to --bind-to -map-by --map-by "
        "-rank-by --rank-by -rf --rankfile --prefix --timeout -output-filename --output-filename -stdin --stdin",
        pairs="-mca --mca -gmca --gmca -genv -env",
        stops=LINUX_STOPS,
        abbreviates=False,
        changes_variables=True,
    ),
}
"""Launchers of distributed programs, profilers and tracers."""

UNREAD_LAUNCHERS: Final = frozenset(
    {
        *("su", "runuser", "doas", "chroot", "unshare", "nsenter", "systemd-run", "start-stop-daemon", "strace"),
        *("ltrace", "chpst", "envdir", "s6-envdir", "with-contenv", "pipenv", "dotenv", "dotenvx", "doppler", "srun"),
        *("mpiexec", "setpriv", "bwrap", "firejail"),
    }
)
"""Launchers that may change the environment, and whose words are not read."""
LAUNCHERS: Final[Mapping[str, Launcher]] = {
    **SYSTEM_LAUNCHERS,
    **PACKAGE_LAUNCHERS,
    **TOOL_LAUNCHERS,
    **dict.fromkeys(UNREAD_LAUNCHERS, UNREAD_LAUNCHER),
}
