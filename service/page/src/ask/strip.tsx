/** The strip of releases: what each would do with a deployment, and what comes or goes at each step. */

import { useEffect, useState } from "preact/hooks";
import { type Decision, type Engines, type Problem, get, isProblem, post } from "../api";
import { useTokenChanges } from "../token";
import { runnerName, tone } from "./answer";
import { type DecisionRequest, releaseOf } from "./input";

/** The first release with V2; those before have V1 only, and are shown on demand. */
const FIRST_WITH_V2 = "0.20.0";
let known: Promise<string[]> | null = null;

interface ReleaseList {
  readonly releases: readonly { readonly version: string }[];
}

/** The known releases, oldest first; empty if the service does not say. */
export function knownReleases(): Promise<string[]> {
  known ??= get<ReleaseList>("v1/releases", new AbortController().signal).then((answer) => {
    if ("value" in answer) return answer.value.releases.map((each) => each.version);
    known = null;
    return [];
  });
  return known;
}

type Cell = Decision | null;

/** The decision of a batch's item for the engine at a path; `null` if it has none. */
function decisionOf(item: Decision | Engines | Problem, path: string): Cell {
  if (isProblem(item)) return null;
  if ("items" in item) return item.items.find((each) => each.path === path)?.decision ?? null;
  return item;
}

function namesIn(decision: Cell): Map<string, string> {
  const reasons = decision?.reasons.map((each) => [each.rule, each.message] as const) ?? [];
  const problems =
    decision?.known_problems.map((each) => [each.rule, `${each.symptom}: ${each.message}`] as const) ?? [];
  const errors = decision?.launch_errors.map((each) => [each, each] as const) ?? [];
  return new Map([...reasons, ...problems, ...errors]);
}

function Step({ before, after, release }: { readonly before: Cell; readonly after: Cell; readonly release: string }) {
  const [had, has] = [namesIn(before), namesIn(after)];
  const came = [...has].filter(([name]) => !had.has(name));
  const went = [...had].filter(([name]) => !has.has(name));
  const line = (sign: string, [name, text]: [string, string]) => (
    <li key={sign + name}>
      <b>{sign}</b> {name !== text && <code>{name}</code>} {text}
    </li>
  );
  return (
    <div class="step" aria-live="polite">
      <p>
        <b>{release}</b>:{" "}
        {after === null ? "cannot be decided" : `${runnerName(after)}, ${after.starts ? "starts" : "will not start"}`}
        {before !== null &&
          after !== null &&
          ` (before: ${runnerName(before)}, ${before.starts ? "starts" : "will not start"})`}
      </p>
      {came.length + went.length === 0 ? (
        <p class="from">the same reasons as the release before</p>
      ) : (
        <ul>
          {came.map((each) => line("+", each))}
          {went.map((each) => line("−", each))}
        </ul>
      )}
    </div>
  );
}

/** As high as a release's cell, so that nothing moves once its decision is there. */
function PendingCell({ release }: { readonly release: string }) {
  return (
    <li>
      <button type="button" class="cell unknown" disabled>
        <span class="number">{release}</span>
        <span class="what" aria-hidden="true">
          …
        </span>
        <span class="mark" aria-hidden="true" />
      </button>
    </li>
  );
}

export function Strip(properties: {
  readonly request: DecisionRequest;
  readonly path: string;
  readonly release: string;
  /** The release whose step is shown; empty for none. */
  readonly step: string;
  readonly onStep: (release: string) => void;
  readonly onRelease: (release: string) => void;
}) {
  const { request, path, step, onStep } = properties;
  const [releases, setReleases] = useState<readonly string[]>([]);
  /** The decision of each release, as far as it is known. */
  const [cells, setCells] = useState<ReadonlyMap<string, Cell>>(new Map());
  const [isWhole, setWhole] = useState(false);
  /** What the cells are about. */
  const [shown, setShown] = useState<object | null>(null);
  const [said, setSaid] = useState("");
  const tokens = useTokenChanges();
  useEffect(() => {
    const control = new AbortController();
    const load = async (): Promise<void> => {
      const all = await knownReleases();
      const wanted = isWhole ? all : all.slice(Math.max(0, all.indexOf(FIRST_WITH_V2)));
      if (control.signal.aborted) return;
      setReleases(wanted);
      const items = wanted.map((release) => ({ ...request, ...releaseOf(request, release), explain: false }));
      const answer = await post<{ items: (Decision | Engines | Problem)[] }>(
        "v1/decisions/batch",
        { items },
        control.signal,
      );
      if (control.signal.aborted) return;
      setShown(request);
      const found = "value" in answer ? answer.value.items : [];
      setCells(new Map(found.map((item, n) => [wanted[n] ?? "", decisionOf(item, path)])));
      setSaid("problem" in answer ? answer.problem.detail : "");
    };
    load().catch(() => undefined);
    return () => {
      control.abort();
    };
  }, [request, path, isWhole, tokens]);
  const at = releases.indexOf(step);
  const cellAt = (n: number): Cell => cells.get(releases[n] ?? "") ?? null;
  return (
    <section class={shown === request ? "card strip" : "card strip busy"} aria-busy={shown !== request}>
      <h2>Releases</h2>
      {said !== "" && <p role="alert">{said}</p>}
      <ol>
        {(said === "" ? releases : []).map((release) => {
          const cell = cells.get(release);
          if (cell === undefined) return <PendingCell key={release} release={release} />;
          const problems = cell?.known_problems.length ?? 0;
          const what = cell === null ? "?" : cell.starts ? runnerName(cell) : "✕";
          const label =
            cell === null ? "cannot be decided" : `${runnerName(cell)}, ${cell.starts ? "starts" : "will not start"}`;
          return (
            <li key={release}>
              <button
                type="button"
                class={`cell ${cell === null ? "unknown" : tone(cell)}`}
                aria-pressed={release === step}
                onClick={() => {
                  onStep(release === step ? "" : release);
                }}
              >
                <span class="number">{release}</span>
                <span class="hidden">
                  : {label}
                  {problems > 0 && `, known problems: ${problems.toString()}`}
                </span>
                <span class="what" aria-hidden="true">
                  {what === "own runner" ? "own" : what}
                </span>
                <span class="mark" aria-hidden="true">
                  {problems > 0 ? "•" : ""}
                </span>
              </button>
            </li>
          );
        })}
      </ol>
      <p class="legend from">
        ✕ will not start, • known problems.{" "}
        {!isWhole && (
          <button
            type="button"
            class="plain"
            onClick={() => {
              setWhole(true);
            }}
          >
            All releases
          </button>
        )}
      </p>
      {at >= 0 && cells.has(step) && (
        <>
          <Step before={cellAt(at - 1)} after={cellAt(at)} release={step} />
          {step !== properties.release && (
            <button
              type="button"
              onClick={() => {
                properties.onRelease(step);
              }}
            >
              Ask for {step}
            </button>
          )}
        </>
      )}
    </section>
  );
}
