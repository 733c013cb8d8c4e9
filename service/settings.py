"""The settings, by flag or environment variable ``RUNNER_POLICY_…``; all have defaults.

Owns their names, types, bounds and defaults. Not here: variables that are not settings (``service.variables``).
"""

from __future__ import annotations

import hashlib
import json
import re
from ipaddress import ip_address, ip_network
from pathlib import Path  # noqa: TC003  # pydantic reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlunsplit

from platformdirs import user_state_path
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

PREFIX: Final = "RUNNER_POLICY_"
"""The prefix of every setting's environment variable."""
OFF: Final = "off"
NONE: Final = "none"
HOST: Final = re.compile(r"\*|(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
"""A host name in lower case, `*.` and a domain for all names below it, or `*` for any."""
SERVICE_PORT: Final = re.compile(r"([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://.*")
"""A variable that Kubernetes sets in every container for a Service, with its value, without the prefix.

https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
"""
SERVICE_LINK_REMEDY: Final = (
    "; Kubernetes sets it for a Service of this name: set `enableServiceLinks: false` in the pod"
)
STOP_RESERVE: Final = 3.0
"""Seconds at the end of ``shutdown_timeout`` reserved for the log, unless it is short."""


def fault_message(fault: ErrorDetails) -> str:
    """What is wrong with a setting."""
    return fault["msg"].removeprefix("Value error, ")


def invalid_settings(error: ValidationError) -> list[str]:
    """The invalid settings by their variables, a line each; without their values, which may be secret."""
    return [
        f"{PREFIX}{str(fault['loc'][0]).upper()}: {fault_message(fault)}"
        f"{service_link_remedy(str(fault['loc'][0]), fault['input'])}"
        for fault in error.errors()
    ]


def service_link_remedy(name: str, value: object) -> str:
    """What to do about a setting's value that Kubernetes set for a Service; empty for any other value."""
    return SERVICE_LINK_REMEDY if SERVICE_PORT.fullmatch(f"{name.upper()}={value}") else ""


OWN_PATHS: Final = frozenset(
    {"v1", "livez", "readyz", "metrics", "openapi.json", "docs", "assets", "rules", "edit", "fleet"}
)
"""The first segments of the service's own paths."""


class Settings(BaseSettings):
    """Settings of one service process; sizes are in bytes, times in seconds."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    rules: Path = Field(default_factory=default_folder, description="the rules folder")
    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="the port to listen on; 0 takes a free one")
    root_path: str = Field(
        "",
        pattern=r"^((/[A-Za-z0-9._~-]+)+)?$",
        max_length=1024,
        description="the path prefix under which proxies show the service, such as /runner-policy",
    )
    workers: int = Field(1, ge=1, le=256, description="worker processes")
    default_release: str | None = Field(None, description="the release that decides if a request names none")
    max_body: int = Field(
        1 << 20, ge=1024, le=1 << 30, description="the largest body, and the largest line of a stream"
    )
    max_batch_body: int = Field(16 << 20, ge=1024, le=1 << 30, description="the largest body of a JSON batch")
    max_batch_items: int = Field(10_000, ge=1, le=1_000_000, description="the maximum number of items in a JSON batch")
    cache_size: int = Field(512, ge=0, le=100_000, description="how many answers to repeated documents are cached")
    candidate_timeout: float = Field(
        5.0, gt=0, le=60, description="how much processor time candidate rules of a dry run may take"
    )
    candidate_concurrency: int = Field(2, ge=1, le=64, description="how many dry runs with candidate rules run at once")
    max_bodies: int = Field(
        128 << 20, ge=1 << 20, le=1 << 40, description="how many bytes of large bodies one process holds at once"
    )
    max_streams: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="how many streams of lines one process answers at once; a caller has half of them",
    )
    max_decisions: int = Field(
        10_000,
        ge=1,
        le=10_000_000,
        description="how many decisions one request may ask for; an explained one counts as 64",
    )
    max_answer: int = Field(
        64 << 20,
        ge=1 << 16,
        le=1 << 32,
        description="the largest answer to a batch, to an impact, or to candidate rules",
    )
    job_concurrency: int = Field(
        2,
        ge=1,
        le=64,
        description="how many worker processes one process has for requests that take long; small ones have one more",
    )
    job_timeout: float = Field(30.0, gt=0, le=3600, description="how long such a request may take")
    allow_anonymous: bool = Field(False, description="listen on non-loopback addresses without requiring a token")
    tokens: Path | None = Field(
        None, description="the file with the hashed tokens of callers; reloaded when it changes"
    )
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="the proxies whose X-Forwarded-For is trusted: addresses and networks, separated by commas"
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="further names allowed in a request's Host if no token is needed, separated by commas; "
        "`*.example.org` and `*` are patterns",
    )
    rate_limit: float = Field(
        0, ge=0, le=1e6, description="how many decisions a second a caller may request from one process; 0 for no limit"
    )
    tls_cert: Path | None = Field(None, description="the certificate, with its chain, to serve TLS with")
    tls_key: Path | None = Field(None, description="the certificate's key")
    tls_client_ca: Path | None = Field(None, description="CAs; a client must present a certificate of one of them")
    max_connections: int = Field(
        1000, ge=1, le=1_000_000, description="how many connections one process holds; others are refused with 503"
    )
    body_timeout: float = Field(
        20.0,
        gt=0,
        le=3600,
        description="how long a body, or the next part of a stream, may take, and an answer may wait to be read",
    )
    shutdown_timeout: float = Field(
        20.0, gt=0, le=3600, description="how long requests and the log may take to end when the service is stopped"
    )
    reload: bool = Field(True, description="load rules that change while the service runs")
    rules_git: str | None = Field(None, description="a git remote to pull the rules from")
    rules_git_branch: str = Field("main", description="its branch")
    rules_git_path: str = Field("rules", description="the rules' folder in it")
    rules_git_poll_interval: float = Field(30.0, ge=1, le=86_400, description="how often it is polled")
    rules_git_allow_rollback: bool = Field(
        False, description="accept commits that do not descend from the one whose rules were accepted last"
    )
    rules_git_allowed_signers: Path | None = Field(
        None, description="a file of allowed signers (ssh-keygen(1)); only commits signed by one of them are accepted"
    )
    log: SecretStr = Field(
        SecretStr(""),
        description="where decisions are logged: a sqlite:// or postgresql:// URL, or `off`; "
        "by default a local SQLite file",
    )
    log_required: bool = Field(
        False, description="answer only when the decision is recorded, in the store or on the disk"
    )
    log_dry_runs: bool = Field(False, description="log dry runs too")
    log_stdout: bool = Field(False, description="print each decision's record as a line of JSON")
    log_labels: Annotated[dict[str, str], NoDecode] = Field({}, description="labels of every record, as JSON")
    log_queue_size: int = Field(10_000, ge=100, le=1_000_000, description="how many decisions may wait to be recorded")
    log_timeout: float = Field(5.0, gt=0, le=600, description="how long the log's store may take for a write")
    log_spill: Path | None = Field(
        None,
        description="the folder for records that the store does not accept; "
        "by default in the user's state folder, one for each log",
    )
    log_spill_size: int = Field(1 << 30, ge=1 << 20, description="how many bytes of records it may hold")
    log_retention_days: float | None = Field(
        30, gt=0, le=36_500, description="how long records are kept; `none` for as long as there is room"
    )
    log_retention_bytes: int | None = Field(
        8 << 30, ge=1 << 20, description="about how many bytes of records are kept; `none` for no limit"
    )
    access_log: bool = Field(False, description="log each request")
    log_format: Literal["text", "json"] | None = Field(
        None, description="the format of the service's own log; by default text on a terminal, else JSON"
    )
    admission_deny: bool = Field(False, description="deny objects that vLLM would refuse to start; otherwise only warn")
    admission_set_env: Literal["off", "annotated", "always"] = Field(
        "annotated", description="which objects the mutating endpoint sets the variable in"
    )
    admission_failure_policy: Literal["open", "closed"] = Field(
        "open", description="whether an object that cannot be decided is allowed (`open`) or denied (`closed`)"
    )
    admission_timeout: float = Field(5.0, gt=0, le=30, description="how long a review may wait for its models")
    max_review: int = Field(1 << 20, ge=1 << 16, le=1 << 30, description="the largest review")
    admission_allow_anonymous: bool = Field(False, description="the API server needs no token for its reviews")
    run: Path | None = Field(None, description="the folder that the processes of one service share; `serve` makes one")
    hub: bool = Field(
        False,
        description="look for a model's config.json on the hub (HF_ENDPOINT, HF_TOKEN, HF_HOME); "
        "callers of the service can then find out about private models",
    )
    hub_timeout: float = Field(5.0, gt=0, le=60, description="how long the hub may take for one model")

    @field_validator("root_path")
    @classmethod
    def _root_path(cls, value: str) -> str:
        """Check that no path of the service begins with it."""
        if value.split("/")[1:2] and value.split("/")[1] in OWN_PATHS:
            raise ValueError(f"expected a path with which no path of the service begins, got `{value}`")
        return value

    @field_validator("log_labels", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        """Parse the JSON of an environment variable."""
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            raise ValueError('expected a JSON object such as `{"cluster": "eu-1"}`') from error

    @field_validator("log_retention_days", "log_retention_bytes", mode="before")
    @classmethod
    def _unbounded(cls, value: Any) -> Any:
        return None if value == NONE else value

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, value: Any) -> Any:
        """Check that each entry is an address or a network."""
        entries = _entries(value)
        for entry in entries:
            try:
                ip_network(entry)
            except ValueError as error:
                raise ValueError(
                    f"`{entry}`: expected an address or a network such as `10.0.0.5` or `10.0.0.0/8` ({error})"
                ) from error
        return entries

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _hosts(cls, value: Any) -> Any:
        """Check that each entry is a host name without a port, or a pattern."""
        entries = tuple(entry.lower().removesuffix(".") for entry in _entries(value))
        for entry in entries:
            if not HOST.fullmatch(entry):
                raise ValueError(f"`{entry}`: expected a host name without a port, `*.example.org` or `*`")
        return entries

    @property
    def is_local(self) -> bool:
        """Whether the address is a loopback address."""
        return self.host == "localhost" or (_address(self.host) is not None and ip_address(self.host).is_loopback)

    @property
    def request_stop_time(self) -> float:
        """Seconds of ``shutdown_timeout`` for requests; the rest is for the log, and for the processes to end."""
        return max(self.shutdown_timeout - STOP_RESERVE, self.shutdown_timeout / 2)

    @property
    def log_stop_time(self) -> float:
        """Seconds of ``shutdown_timeout`` after which the log is abandoned."""
        return (self.shutdown_timeout + self.request_stop_time) / 2

    def log_url(self) -> str | None:
        """The URL of the decision log's store; ``None`` if the log is off."""
        text = self.log.get_secret_value()
        if text == OFF:
            return None
        return text or f"sqlite:///{state_folder() / 'decisions.db'}"

    def spill_folder(self) -> Path:
        """The folder of spilled records, by default one for each log.

        User and password of a URL do not make it another log.
        """
        return self.log_spill or state_folder() / "spill" / hashlib.sha256(self._log_name().encode()).hexdigest()[:16]

    def _log_name(self) -> str:
        """The log's URL without driver, user and password."""
        text = self.log_url()
        if text is None:
            return OFF
        from sqlalchemy import make_url  # noqa: PLC0415  # it takes a quarter of a second, and is not needed without a log

        url = make_url(text)  # `urlsplit` refuses characters that SQLAlchemy accepts in a password, and shows them
        host = f"[{url.host}]" if ":" in (url.host or "") else url.host or ""
        place = host if url.port is None else f"{host}:{url.port}"
        query = text.rpartition("?")[2] if url.query else ""
        return urlunsplit((url.get_backend_name(), place, f"/{url.database}" if url.database else "", query, ""))


def state_folder() -> Path:
    """The user's folder for state that outlasts a process."""
    return user_state_path("runner-policy")


def _entries(value: Any) -> tuple[str, ...]:
    """The entries of a comma-separated list."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _address(host: str) -> str | None:
    try:
        ip_address(host)
    except ValueError:
        return None
    return host
