# Runner Policy. Each RUN is a make target, so that the same steps run without Docker (`make image-steps`).

# The index of all platforms, by its digest: what was checked is what is built. Dependabot raises version and digest.
FROM python:3.13.15-slim-bookworm@sha256:2325bb286ec344af3e5898cc224b5844e2707ac6e26b1632516fd3edc84a5e26 AS base

FROM base AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Makefile pyproject.toml LICENSE README.md ./
COPY .ci/python .ci/sbom.py .ci/
COPY requirements requirements
COPY policy policy
COPY service service
COPY rules rules
# A virtual environment with what runs and nothing else, and the rules checked: an image with broken rules is not built.
RUN make image-install IMAGE=/app PYTHON=python3
RUN make image-check IMAGE=/app
# What is in there, with versions, hashes and licences. A package that the lock does not have stops the build.
RUN make image-sbom IMAGE=/app PYTHON=python3

FROM base
LABEL org.opencontainers.image.title="Runner Policy" org.opencontainers.image.licenses="Apache-2.0"
LABEL runner-policy.sbom="/app/sbom.cdx.json"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin runner-policy
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 RUNNER_POLICY_HOST=0.0.0.0 RUNNER_POLICY_RULES=/app/rules
# The port is reached where somebody publishes it. With a file of tokens in RUNNER_POLICY_TOKENS callers need one.
ENV RUNNER_POLICY_ALLOW_ANONYMOUS=true XDG_STATE_HOME=/var/lib
RUN mkdir /var/lib/runner-policy && chown 10001 /var/lib/runner-policy
VOLUME /var/lib/runner-policy
WORKDIR /app
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["runner-policy", "health"]
CMD ["runner-policy", "serve"]
