"""The options of `docker run`, `podman run`, `nerdctl run` and `docker service create`, and whether they take a value.

https://docs.docker.com/reference/cli/docker/container/run/ (read at 28.3), podman-run(1) (read at 5.6) and
https://github.com/containerd/nerdctl/blob/main/docs/command-reference.md (read at 2.1). An option of one program is
accepted for the others too.
"""

from __future__ import annotations

from typing import Final

FLAGS: Final = frozenset(
    {
        *("--bypass4netns", "--detach", "--disable-content-trust", "--env-host", "--http-proxy", "--init"),
        *("--interactive", "--no-healthcheck", "--no-hostname", "--no-hosts", "--oom-kill-disable", "--passwd"),
        *("--privileged", "--publish-all", "--quiet", "--read-only", "--read-only-tmpfs", "--replace", "--rm", "--rmi"),
        *("--rootfs", "--sig-proxy", "--tls-verify", "--tty", "--unsetenv-all", "--use-api-socket"),
        *("--debug", "--debug-full", "--experimental", "--insecure-registry", "--noout", "--remote", "--syslog"),
        *("--trace", "--transient-store", "--no-resolve-image", "--with-registry-auth"),
    }
)
"""The options that never take the next word as a value. The last two lines are global options and those of services."""
VALUE_OPTIONS: Final = frozenset(
    {
        *("--add-host", "--annotation", "--arch", "--attach", "--authfile", "--blkio-weight", "--blkio-weight-device"),
        *("--cap-add", "--cap-drop", "--cert-dir", "--cgroup-conf", "--cgroup-parent", "--cgroupns", "--cgroups"),
        *("--chrootdirs", "--cidfile", "--conmon-pidfile", "--cosign-certificate-identity"),
        *("--cosign-certificate-identity-regexp", "--cosign-certificate-oidc-issuer"),
        *("--cosign-certificate-oidc-issuer-regexp", "--cosign-key", "--cpu-count", "--cpu-percent", "--cpu-period"),
        *("--cpu-quota", "--cpu-rt-period", "--cpu-rt-runtime", "--cpu-shares", "--cpus", "--cpuset-cpus"),
        *("--cpuset-mems", "--creds", "--decryption-key", "--detach-keys", "--device", "--device-cgroup-rule"),
        *("--device-read-bps", "--device-read-iops", "--device-write-bps", "--device-write-iops", "--dns", "--dns-opt"),
        *("--dns-option", "--dns-search", "--domainname", "--entrypoint", "--env", "--env-file", "--env-merge"),
        *("--expose", "--gidmap", "--gpus", "--group-add", "--group-entry", "--health-cmd", "--health-interval"),
        *("--health-log-destination", "--health-max-log-count", "--health-max-log-size", "--health-on-failure"),
        *("--health-retries", "--health-start-interval", "--health-start-period", "--health-startup-cmd"),
        *("--health-startup-interval", "--health-startup-retries", "--health-startup-success"),
        *("--health-startup-timeout", "--health-timeout", "--hostname", "--hosts-file", "--hostuser", "--image-volume"),
        *("--init-ctr", "--init-path", "--io-maxbandwidth", "--io-maxiops", "--ip", "--ip6", "--ipc", "--ipfs-address"),
        *("--isolation", "--kernel-memory", "--label", "--label-file", "--link", "--link-local-ip", "--log-driver"),
        *("--log-opt", "--mac-address", "--memory", "--memory-reservation", "--memory-swap", "--memory-swappiness"),
        *("--mount", "--name", "--net", "--net-alias", "--network", "--network-alias", "--oom-score-adj", "--os"),
        *("--passwd-entry", "--personality", "--pid", "--pidfile", "--pids-limit", "--platform", "--pod"),
        *("--pod-id-file", "--preserve-fd", "--preserve-fds", "--publish", "--pull", "--rdt-class", "--requires"),
        *("--restart", "--retry", "--retry-delay", "--runtime", "--sdnotify", "--seccomp-policy", "--secret"),
        *("--security-opt", "--shm-size", "--shm-size-systemd", "--stop-signal", "--stop-timeout", "--storage-opt"),
        *("--subgidname", "--subuidname", "--sysctl", "--systemd", "--timeout", "--tmpfs", "--tz", "--uidmap"),
        *("--ulimit", "--umask", "--unsetenv", "--user", "--userns", "--uts", "--variant", "--verify", "--volume"),
        *("--volume-driver", "--volumes-from", "--workdir"),
        *("--address", "--cdi-spec-dir", "--cgroup-manager", "--config", "--conmon", "--connection", "--data-root"),
        *("--events-backend", "--hooks-dir", "--identity", "--imagestore", "--log-level", "--module", "--namespace"),
        *("--network-cmd-path", "--network-config-dir", "--out", "--root", "--runroot", "--runtime-flag"),
        *("--snapshotter", "--ssh", "--storage-driver", "--tmpdir", "--url", "--volumepath"),
        *("--constraint", "--container-label", "--credential-spec", "--endpoint-mode", "--generic-resource", "--group"),
        *("--host", "--limit-cpu", "--limit-memory", "--limit-pids", "--max-concurrent", "--mode", "--placement-pref"),
        *("--replicas", "--replicas-max-per-node", "--reserve-cpu", "--reserve-memory", "--restart-condition"),
        *("--restart-delay", "--restart-max-attempts", "--restart-window", "--stop-grace-period"),
        *(f"--{change}-{name}" for change in ("update", "rollback") for name in ("delay", "failure-action", "order")),
        *(f"--{change}-{name}" for change in ("update", "rollback") for name in ("max-failure-ratio", "monitor")),
        *(f"--{change}-parallelism" for change in ("update", "rollback")),
    }
)
FLAG_LETTERS: Final = frozenset("diPqt")
VALUE_LETTERS: Final = frozenset("acehlmpuvw")
HELP: Final = "--help"
PRINT_OPTIONS: Final = frozenset({HELP, "-h", "--version", "-v"})
"""The options before `run` with which a program only prints something."""


def is_known(option: str) -> bool:
    """Whether a word is an option of `run`, or several letters with the value of the last one."""
    if option.startswith("--"):
        name = option.partition("=")[0]
        return name in FLAGS or name in VALUE_OPTIONS
    letters = option[1:].lstrip("".join(FLAG_LETTERS))
    return not letters or letters[0] in VALUE_LETTERS or letters[0] == "="


def takes_next_word(option: str) -> bool:
    """Whether the value of an option is the next word."""
    if option.startswith("--"):
        return "=" not in option and option not in FLAGS
    return len(option[1:].lstrip("".join(FLAG_LETTERS))) == 1
