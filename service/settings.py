"""What an operator can set, by flag or by an environment variable ``RUNNER_POLICY_…``; all of it has a default.

Owns the names, types, bounds and defaults of the settings.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # pydantic reads the annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from policy.folder import default_folder


class Settings(BaseSettings):
    """Settings of one service process; sizes are in bytes, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="RUNNER_POLICY_", env_ignore_empty=True, extra="ignore", frozen=True)

    rules: Path = Field(default_factory=default_folder, description="the rules folder")
    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="the port to listen on; 0 takes a free one")
    workers: int = Field(1, ge=1, le=256, description="worker processes")
    default_release: str | None = Field(None, description="the release that decides where a request names none")
    max_body: int = Field(1 << 20, ge=1024, le=1 << 30, description="the largest body, and the largest line of a stream")
    max_batch_body: int = Field(16 << 20, ge=1024, le=1 << 30, description="the largest body of a JSON batch")
    max_batch_items: int = Field(10_000, ge=1, le=1_000_000, description="the most items in a JSON batch")
    kept_answers: int = Field(512, ge=0, le=100_000, description="how many answers to repeated documents are kept")
    candidate_time: float = Field(5.0, gt=0, le=60, description="how long candidate rules of a dry run may take")
    candidate_slots: int = Field(2, ge=1, le=64, description="how many dry runs with candidate rules go on at once")
    hub: bool = Field(
        False,
        description="look for a model's config.json on the hub (HF_ENDPOINT, HF_TOKEN, HF_HOME); who may ask the service then learns of private models",
    )
    hub_time: float = Field(5.0, gt=0, le=60, description="how long the hub may take for one model")
