"""The measurements over HTTP: the contenders take turns, round after round, and medians are kept.

Owns who the contenders are and what each is sent. All servers are up from the first round to the last;
only one is busy at a time.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from bench import cerbos, servers
from bench.documents import documents, encode
from bench.job import SINGLE, STREAM, Job, Measured, measured
from policy.decision.decision import encode as encode_decision
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
FEW: Final = 8
OTHERS: Final = ("0.22.1", "0.25.1", "0.33.0")  # a fleet runs a few releases at a time, most of it one
LONGER: Final = 4  # the quick contenders are asked more, so that a round of theirs lasts as long as the others'
SAMPLE: Final = 2000
UNDISTURBED: Final = 0.85
JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Load:
    """The amount of load: documents a round for single requests, streams and Cerbos, and the number of rounds."""

    seed: int
    rounds: int
    single: int
    stream: int
    cerbos: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents as lines of a file, and their properties.

    ``kinds`` counts those that differ in what their release reads; ``answer_size`` and ``fired`` are those of a sample.
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
    """A server to be measured: ``job`` gives the job of a round by its number."""

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
    rounds: dict[str, list[Measured]]
    results: dict[str, Measured]
    resident: tuple[int, int]
    skipped: list[str]

    def ratio(self, name: str, other: str) -> float:
        """How many times as fast as another a contender is, in the median of the rounds."""
        return median(one.rate / two.rate for one, two in zip(self.rounds[name], self.rounds[other], strict=True))

    def cost(self, name: str) -> float:
        """The contender's own processor time for a request in seconds, the least of the rounds.

        The process that writes its log runs beside the generator.
        """
        return min(each.cpu / each.count for each in self.rounds[name])

    def disturbed(self, *names: str) -> bool:
        """Whether the servers of these contenders had too little of their core in some round.

        Their figures then cannot be believed.
        """
        return any(each.share < UNDISTURBED for name in names for each in self.rounds[name])


def corpus(policy: Policy, load: Load, folder: Path) -> Corpus:
    """Write the documents, all different: half for the default release, the others for three more."""
    releases = policy.releases
    versions = (None,) * 3 + OTHERS
    count = max((load.rounds + 1) * load.single, load.stream)
    asked = list(islice(documents(load.seed, versions), count))
    bodies = [encode(document) for document in asked]
    assert len(set(bodies)) == count  # INVARIANT: each has an id of its own
    requests = [decode_fast(body, releases) for body in bodies]
    kinds = {
        (each.release.decided_as, policy.ruleset(each.release.decided_as).definition.encoder.encode(each.facts.row))
        for each in requests
        if each
    }
    sample = [read_request(document, releases) for document in asked[:SAMPLE]]
    answers = [len(encode_decision(policy.decide(request, today()))) for request in sample]
    rulesets = [(policy.ruleset(each.release.decided_as), each.facts) for each in sample]
    fired = [len(ruleset.fired(facts)) for ruleset, facts in rulesets]
    file, cerbos_file = folder / "documents.ndjson", folder / "cerbos.ndjson"
    file.write_bytes(b"\n".join([*bodies, b""]))
    cerbos_file.write_bytes(b"\n".join([*map(cerbos.request, asked[: (load.rounds + 1) * load.cerbos]), b""]))
    return Corpus(file, cerbos_file, count, mean(map(len, bodies)), round(median(answers)), mean(fired), len(kinds))


def traffic(policy: Policy, load: Load, posed: Corpus, tell: Callable[[str], None]) -> Traffic:
    """Measure all contenders.

    Raises:
        LoadFailed: a request was not answered as it should be.
        ServerFailed: the service or the constant application does not start.
    """
    skipped: list[str] = []
    with ExitStack() as stack:
        limit = stack.enter_context(servers.running(*servers.constant(posed.answer_size)))
        ours = stack.enter_context(servers.running(*servers.service()))
        place = posed.file.parent
        kept = {"RUNNER_POLICY_LOG": f"sqlite:///{place}/decisions.db", "RUNNER_POLICY_LOG_SPILL": str(place / "spill")}
        logging = stack.enter_context(servers.running(*servers.service(kept)))
        single = Job(limit.port, "/v1/decisions", JSON, str(posed.file), 0, load.single)
        contenders = [
            Contender(
                CONSTANT,
                limit,
                SINGLE,
                lambda number: replace(
                    single, first=number * load.single, repeat=load.single, count=LONGER * load.single
                ),
            ),
            Contender(
                DIFFERENT, ours, SINGLE, lambda number: replace(single, port=ours.port, first=number * load.single)
            ),
            Contender(
                REPEATED,
                ours,
                SINGLE,
                lambda _: replace(single, port=ours.port, repeat=FEW, count=LONGER * load.single),
            ),
            Contender(
                LOGGED, logging, SINGLE, lambda number: replace(single, port=logging.port, first=number * load.single)
            ),
            Contender(
                REPEATED_LOGGED,
                logging,
                SINGLE,
                lambda _: replace(single, port=logging.port, repeat=FEW, count=LONGER * load.single),
            ),
            Contender(BATCH, ours, STREAM, lambda number: _stream(single, ours, load, posed, number)),
        ]
        if load.cerbos:
            release = policy.releases.known[-1]
            try:
                rival = stack.enter_context(cerbos.serving(cerbos.installed(), policy.ruleset(release).rules, release))
            except cerbos.CerbosMissing as error:
                skipped.append(f"Cerbos is left out: {error}")
            else:
                asked = replace(
                    single, port=rival.port, path=cerbos.PATH, file=str(posed.cerbos_file), count=load.cerbos
                )
                contenders.append(
                    Contender(CERBOS, rival, SINGLE, lambda number: replace(asked, first=number * load.cerbos))
                )
        for contender in contenders:
            measured(contender.module, contender.job(load.rounds))
        before = ours.resident
        rounds: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
        for number in range(load.rounds):
            for contender in contenders:
                used = contender.server.cpu
                result = measured(contender.module, contender.job(number))
                rounds[contender.name].append(replace(result, cpu=contender.server.cpu - used))
                tell(f"round {number + 1}: {contender.name} {result.rate:,.0f}/s")
        medians = {name: _medians(found) for name, found in rounds.items()}
        return Traffic(posed, rounds, medians, (before, ours.resident), skipped)


def _stream(single: Job, server: Server, load: Load, posed: Corpus, number: int) -> Job:
    first = number * load.stream % (posed.count - load.stream + 1)
    return replace(
        single, port=server.port, path="/v1/decisions/batch", content_type=NDJSON, first=first, count=load.stream
    )


def _medians(found: Sequence[Measured]) -> Measured:
    """A round with the median of each figure."""
    count = found[0].count
    seconds, p50, p99, busy, cpu = (
        median(getattr(each, name) for each in found) for name in ("seconds", "p50", "p99", "busy", "cpu")
    )
    return Measured(count, seconds, p50, p99, busy, cpu)
