"""A local Kubernetes API server, on loopback.

It consists of etcd, kube-apiserver and, if it is installed, kube-controller-manager.

Owns the processes, which are ended by their ids, and the clients: `kubectl`, and plain HTTP. The programs are in the
folder that ``KUBEBUILDER_ASSETS`` names, as for controller-runtime's envtest. Without the controllers no pods are
created, and the server does not require service accounts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
from api.conftest import PATIENCE, Done
from certificates import Authority, trusting
from ports import port_of_nobody
from processes import bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Document = dict[str, Any]

ASSETS: Final = "KUBEBUILDER_ASSETS"
ADMIN, CONTROLLERS = "jane@example.com", "system:kube-controller-manager"
GROUPS: Final = {ADMIN: "ml-platform,system:masters", CONTROLLERS: ""}
EXTRA: Final = "extra"
IMPERSONATED_USER: Final = {
    "as": ADMIN,
    "as-groups": GROUPS[ADMIN].split(","),
    "as-user-extra": {"example.com/team": ["llm", "search"]},
}
"""The administrator with further attributes, which some ways to log in add."""
MATCH_CONDITIONS: Final = (1, 28)
"""The first release in which every API server reads `matchConditions`; older ones refuse or drop them."""
CONDITIONS: Final = "matchConditions"
NAME: Final = "kubernetes.io/metadata.name"
AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata"}],
    "omitStages": ["RequestReceived"],
}


def why_unavailable() -> str:
    """Why no API server can run here; empty if one can."""
    folder = os.environ.get(ASSETS)
    if not folder:
        return f"{ASSETS} is not set: it names a folder with kube-apiserver and etcd"
    missing = [name for name in ("kube-apiserver", "etcd") if not (Path(folder) / name).exists()]
    missing += ["kubectl"] if kubectl_of(Path(folder)) is None else []
    return f"{', '.join(missing)} is not in {ASSETS}" if missing else ""


def kubectl_of(assets: Path) -> str | None:
    return shutil.which("kubectl", path=f"{assets}{os.pathsep}{os.environ.get('PATH', '')}")


@dataclass(frozen=True)
class Cluster:
    """An API server that is ready."""

    url: str
    folder: Path
    authority: Authority
    token: str
    version: tuple[int, int]
    release: str
    program: str
    has_controllers: bool

    @property
    def kubeconfig(self) -> Path:
        return self.folder / f"{ADMIN}.kubeconfig"

    @property
    def has_conditions(self) -> bool:
        """Whether it evaluates `matchConditions`."""
        return self.version >= MATCH_CONDITIONS

    def client(self) -> httpx.Client:
        """A plain HTTP client of the administrator."""
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(
            base_url=self.url, timeout=PATIENCE, trust_env=False, verify=trusting(self.authority), headers=headers
        )

    def kubectl(self, *arguments: str, document: Any = None, fails: bool = False) -> Done:
        """Run the administrator's `kubectl`; ``document`` is its standard input as JSON."""
        done = self.shell([self.program, *arguments], json.dumps(document) if document is not None else "")
        assert (done.code != 0) == fails, done
        return done

    def shell(self, command: list[str], text: str = "", **variables: str) -> Done:
        """Run a command as the administrator."""
        path = f"{Path(self.program).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig), "PATH": path, **variables}
        found = subprocess.run(
            command, input=text, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return Done(found.returncode, found.stdout, found.stderr)

    def get(self, *words: str) -> Document:
        """An object as it is stored."""
        found: Document = json.loads(self.kubectl("get", *words, "-o", "json").out)
        return found

    def namespace(self, name: str) -> str:
        """A new namespace, with the label that each has from Kubernetes 1.21 on; pods can be created in it."""
        self.kubectl(
            "create",
            "-f",
            "-",
            document={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {NAME: name}}},
        )
        trial = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "trial"},
            "spec": {"containers": [{"name": "trial", "image": "trial"}]},
        }
        with self.client() as client:
            until(lambda: client.post(f"/api/v1/namespaces/{name}/pods?dryRun=All", json=trial).status_code == 201)
        return name

    def audited(self) -> list[Document]:
        """The records of the audit log so far."""
        return [json.loads(line) for line in (self.folder / "audit.log").read_text().rpartition("\n")[0].splitlines()]


def until(probe: Callable[[], Any], describe: Callable[[], str] = str) -> Any:
    """The value of ``probe``, once it is true."""
    ends = time.monotonic() + PATIENCE
    while not (value := probe()):
        assert time.monotonic() < ends, f"the expected state was not reached {describe()}"
        time.sleep(0.05)
    return value


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """An API server for the duration of the block, with its files in a folder."""
    assets = Path(os.environ[ASSETS])
    program = kubectl_of(assets)
    assert program is not None, why_unavailable()
    has_controllers = (assets / "kube-controller-manager").exists()
    authority, store, port = Authority(folder, "authority"), port_of_nobody(), port_of_nobody()
    tokens = {user: os.urandom(16).hex() for user in GROUPS}
    url = f"https://127.0.0.1:{port}"
    (folder / "tokens.csv").write_text(
        "".join(f'{tokens[user]},{user},{user},"{groups}"\n' for user, groups in GROUPS.items())
    )
    (folder / "audit.yaml").write_text(json.dumps(AUDIT))
    for user, token in tokens.items():
        (folder / f"{user}.kubeconfig").write_text(json.dumps(kubeconfig(url, authority.path, {"token": token})))
    (folder / f"{EXTRA}.kubeconfig").write_text(
        json.dumps(kubeconfig(url, authority.path, {"token": tokens[ADMIN], **IMPERSONATED_USER}))
    )
    with ExitStack() as stack:
        stack.enter_context(process(folder, assets / "etcd", etcd(folder, store)))
        stack.enter_context(
            process(
                folder,
                assets / "kube-apiserver",
                apiserver(folder, authority, store, port, has_controllers=has_controllers),
            )
        )
        with httpx.Client(
            base_url=url,
            trust_env=False,
            verify=trusting(authority),
            headers={"authorization": f"Bearer {tokens[ADMIN]}"},
        ) as client:
            until(lambda: answers(client, "/readyz"), lambda: log_of(folder, "kube-apiserver"))
            release = client.get("/version").json()["gitVersion"]
        if has_controllers:
            stack.enter_context(process(folder, assets / "kube-controller-manager", controllers(folder, authority)))
        major, minor = re.findall(r"\d+", release)[:2]
        yield Cluster(
            url, folder, authority, tokens[ADMIN], (int(major), int(minor)), release, program, has_controllers
        )


def answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx.TransportError:
        return False


def kubeconfig(url: str, authority: Path, user: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "own", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "own", "user": user}],
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        "current-context": "own",
    }


def etcd(folder: Path, port: int) -> list[str]:
    url = f"http://127.0.0.1:{port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",
    ]


def apiserver(folder: Path, authority: Authority, store: int, port: int, *, has_controllers: bool) -> list[str]:
    cert, key = authority.issue("kubernetes")
    account_cert, account_key = authority.issue("service-accounts")
    return [
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # it would refuse a loopback address
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--tls-cert-file={cert}",
        f"--tls-private-key-file={key}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={account_cert}",
        f"--service-account-signing-key-file={account_key}",
        f"--audit-policy-file={folder / 'audit.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        *(() if has_controllers else ("--disable-admission-plugins=ServiceAccount",)),
    ]


def controllers(folder: Path, authority: Authority) -> list[str]:
    return [
        f"--kubeconfig={folder / f'{CONTROLLERS}.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port_of_nobody()}",
        f"--cert-dir={folder / 'controllers'}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--root-ca-file={authority.path}",
    ]


@contextmanager
def process(folder: Path, program: Path, arguments: list[str]) -> Iterator[None]:
    """A process for the duration of the block."""
    env = {**os.environ, "ETCD_UNSAFE_NO_FSYNC": "true"}
    with (
        (folder / f"{program.name}.log").open("wb") as file,
        subprocess.Popen(bound([str(program), *arguments]), env=env, cwd=folder, stdout=file, stderr=file) as started,
    ):
        try:
            yield
        finally:
            started.terminate()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()


def log_of(folder: Path, name: str) -> str:
    return (folder / f"{name}.log").read_text()[-4000:]


def custom(api_version: str, kind: str, plural: str, scope: str = "Namespaced") -> Document:
    """A minimal definition of a kind, which keeps every field."""
    group, version = api_version.split("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def define(cluster: Cluster, *definitions: Document) -> None:
    """Register kinds, and wait until they are served."""
    for definition in definitions:
        cluster.kubectl("apply", "-f", "-", document=definition)
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
