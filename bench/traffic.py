"""The measurements over HTTP: the contenders take turns in every round, and medians count.

Owns the contenders and the requests that each gets. All servers run from the first round to the last; only one is busy
at a time.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from bench import cerbos, servers
from bench.documents import documents, encode
from bench.job import SINGLE, STREAM, Job, Measurement, run_job
from policy.decision.decision import encode as encode_decision
from policy.facts.vocabulary import VARIABLE_INDEX
from policy.fastpath.request_decoder import decode_fast
from policy.request.request import read_request
from service.state.answers import today

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.servers import Server
    from policy.policy import Policy

CONSTANT: Final = "constant answer"
DIFFERENT: Final = "all different"
REPEATED: Final = "repeated"
LOGGED: Final = "all different, logged"
REPEATED_LOGGED: Final = "repeated, logged"
BATCH: Final = "NDJSON stream"
CERBOS: Final = "Cerbos"
REPEATED_DOCUMENTS: Final = 8
OTHER_RELEASES: Final = ("0.22.1", "0.25.1", "0.33.0")  # most of a fleet runs one release
FAST_FACTOR: Final = 4  # fast contenders get more requests, so that their rounds last as long as others'
SAMPLE: Final = 2000
MIN_CORE_SHARE: Final = 0.85
JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Load:
    """The amount of load: documents per round for single requests, streams and Cerbos, and the number of rounds."""

    seed: int
    rounds: int
    single: int
    stream: int
    cerbos: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents as lines of a file, and their properties.

    ``kinds`` counts those that differ in facts that their release reads; ``answer_size`` and ``fired`` are of a sample.
    """

    file: Path
    cerbos_file: Path
    count: int
    size: float
    answer_size: int
    fired: float
    kinds: int


@dataclass(frozen=True, slots=True)
class Contender:
    """A server to be measured; ``job`` returns the job for a round's number."""

    name: str
    server: Server
    module: str
    job: Callable[[int], Job]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The results: each contender's rounds and their medians.

    Also the service's resident bytes before and after, and what was left out.
    """

    corpus: Corpus
    rounds: dict[str, list[Measurement]]
    results: dict[str, Measurement]
    resident: tuple[int, int]
    skipped: list[str]

    def ratio(self, name: str, other: str) -> float:
        """How many times as fast as another a contender is, in the median of the rounds."""
        return median(one.rate / two.rate for one, two in zip(self.rounds[name], self.rounds[other], strict=True))

    def cost(self, name: str) -> float:
        """The contender's own processor time per request in seconds, the lowest of the rounds.

        Its log worker, which runs on the generator's core, is not included.
        """
        return min(each.cpu / each.count for each in self.rounds[name])

    def disturbed(self, *names: str) -> bool:
        """Whether the servers of these contenders had too little of their core in some round.

        Their figures are then not valid.
        """
        return any(each.share < MIN_CORE_SHARE for name in names for each in self.rounds[name])


def corpus(policy: Policy, load: Load, folder: Path) -> Corpus:
    """Write the documents, all different: half for the default release, the others for three more."""
    releases = policy.releases
    versions = (None,) * 3 + OTHER_RELEASES
    count = max((load.rounds + 1) * load.single, load.stream)
    chosen = list(islice(documents(load.seed, versions), count))
    bodies = [encode(document) for document in chosen]
    assert len(set(bodies)) == count  # INVARIANT: each has its own id
    requests = [decode_fast(body, releases) for body in bodies]
    kinds = {
        (
            each.release.decided_as,
            policy.ruleset(each.release.decided_as).definition.encoder.encode(each.facts.row),
            each.facts.row[VARIABLE_INDEX],
        )
        for each in requests
        if each
    }
    sample = [read_request(document, releases) for document in chosen[:SAMPLE]]
    answers = [len(encode_decision(policy.decide(request, today()))) for request in sample]
    rulesets = [(policy.ruleset(each.release.decided_as), each.facts) for each in sample]
    fired = [len(ruleset.fired(facts)) for ruleset, facts in rulesets]
    file, cerbos_file = folder / "documents.ndjson", folder / "cerbos.ndjson"
    file.write_bytes(b"\n".join([*bodies, b""]))
    cerbos_file.write_bytes(b"\n".join([*map(cerbos.request, chosen[: (load.rounds + 1) * load.cerbos]), b""]))
    return Corpus(file, cerbos_file, count, mean(map(len, bodies)), round(median(answers)), mean(fired), len(kinds))


def traffic(policy: Policy, load: Load, prepared: Corpus, report_progress: Callable[[str], None]) -> Traffic:
    """Measure all contenders.

    Raises:
        LoadFailed: a request was not answered with a 200.
        ServerFailed: the service or the constant application does not start.
    """
    skipped: list[str] = []
    with ExitStack() as stack:
        constant = stack.enter_context(servers.running(*servers.constant(prepared.answer_size)))
        plain = stack.enter_context(servers.running(*servers.service()))
        place = prepared.file.parent
        kept = {"RUNNER_POLICY_LOG": f"sqlite:///{place}/decisions.db", "RUNNER_POLICY_LOG_SPILL": str(place / "spill")}
        logging = stack.enter_context(servers.running(*servers.service(kept)))
        single = Job(constant.port, "/v1/decisions", JSON, str(prepared.file), 0, load.single)
        contenders = [
            Contender(
                CONSTANT,
                constant,
                SINGLE,
                lambda number: replace(
                    single, first=number * load.single, repeat=load.single, count=FAST_FACTOR * load.single
                ),
            ),
            Contender(
                DIFFERENT, plain, SINGLE, lambda number: replace(single, port=plain.port, first=number * load.single)
            ),
            Contender(
                REPEATED,
                plain,
                SINGLE,
                lambda _: replace(single, port=plain.port, repeat=REPEATED_DOCUMENTS, count=FAST_FACTOR * load.single),
            ),
            Contender(
                LOGGED, logging, SINGLE, lambda number: replace(single, port=logging.port, first=number * load.single)
            ),
            Contender(
                REPEATED_LOGGED,
                logging,
                SINGLE,
                lambda _: replace(
                    single, port=logging.port, repeat=REPEATED_DOCUMENTS, count=FAST_FACTOR * load.single
                ),
            ),
            Contender(BATCH, plain, STREAM, lambda number: _stream(single, plain, load, prepared, number)),
        ]
        if load.cerbos:
            release = policy.releases.known[-1]
            try:
                cerbos_server = stack.enter_context(
                    cerbos.serving(cerbos.install(), policy.ruleset(release).rules, release)
                )
            except cerbos.CerbosMissing as error:
                skipped.append(f"Cerbos is left out: {error}")
            else:
                cerbos_job = replace(
                    single, port=cerbos_server.port, path=cerbos.PATH, file=str(prepared.cerbos_file), count=load.cerbos
                )
                contenders.append(
                    Contender(
                        CERBOS, cerbos_server, SINGLE, lambda number: replace(cerbos_job, first=number * load.cerbos)
                    )
                )
        for contender in contenders:
            run_job(contender.module, contender.job(load.rounds))
        before = plain.resident
        rounds: dict[str, list[Measurement]] = {contender.name: [] for contender in contenders}
        for number in range(load.rounds):
            for contender in contenders:
                used = contender.server.cpu
                result = run_job(contender.module, contender.job(number))
                rounds[contender.name].append(replace(result, cpu=contender.server.cpu - used))
                report_progress(f"round {number + 1}: {contender.name} {result.rate:,.0f}/s")
        medians = {name: _medians(found) for name, found in rounds.items()}
        return Traffic(prepared, rounds, medians, (before, plain.resident), skipped)


def _stream(single: Job, server: Server, load: Load, prepared: Corpus, number: int) -> Job:
    first = number * load.stream % (prepared.count - load.stream + 1)
    return replace(
        single, port=server.port, path="/v1/decisions/batch", content_type=NDJSON, first=first, count=load.stream
    )


def _medians(found: Sequence[Measurement]) -> Measurement:
    """A round with the median of each figure."""
    count = found[0].count
    seconds, p50, p99, busy, cpu = (
        median(getattr(each, name) for each in found) for name in ("seconds", "p50", "p99", "busy", "cpu")
    )
    return Measurement(count, seconds, p50, p99, busy, cpu)
