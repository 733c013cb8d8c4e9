/** What an edit means: the classes of deployments whose decision changes, the worst first, each with its smallest. */

import { useState } from "preact/hooks";
import { stringify } from "yaml";
import type { AffectedClass } from "../api";
import { runnerName, tone } from "../ask/answer";
import { AskLink } from "../ask/ask_link";
import { ShowMore } from "../show_more";

const SHOWN_AT_ONCE = 20;
const KINDS = [
  "no longer starts",
  "another runner",
  "starts now",
  "decided otherwise by vLLM alone",
  "other reasons",
] as const;
type Kind = (typeof KINDS)[number];
type Side = AffectedClass["from"];

function kindOf({ from, to }: AffectedClass): Kind {
  if (from.starts && !to.starts) return "no longer starts";
  if (!from.starts && to.starts) return "starts now";
  if (from.runner !== to.runner || from.outcome !== to.outcome) return "another runner";
  return to.upstream === undefined ? "other reasons" : "decided otherwise by vLLM alone";
}

/** Releases as ranges of the known ones: `0.22.0–0.24.0, 0.26.0`. */
export function spans(releases: readonly string[], known: readonly string[]): string {
  const places = releases.map((release) => known.indexOf(release)).sort((one, other) => one - other);
  const parts: [number, number][] = [];
  for (const place of places) {
    const last = parts.at(-1);
    if (last?.[1] === place - 1) last[1] = place;
    else parts.push([place, place]);
  }
  const name = (place: number): string => known[place] ?? "?";
  return parts.map(([first, last]) => (first === last ? name(first) : `${name(first)}–${name(last)}`)).join(", ");
}

function Outcome({ side }: { readonly side: Side }) {
  return (
    <span class={`badge ${tone(side)}`}>
      {outcomeText(side)}
      {side.upstream && ` (vLLM alone: ${outcomeText(side.upstream)})`}
    </span>
  );
}

function outcomeText(side: Side): string {
  return `${runnerName(side)}${side.starts ? "" : ", will not start"}`;
}

/** The reasons of a side by their rules; of vLLM alone if it is its decision that changes. */
function reasonsOf(side: Side) {
  return new Map((side.upstream ?? side).reasons.map((each) => [each.rule, each]));
}

function ClassView({ found, releases }: { readonly found: AffectedClass; readonly releases: readonly string[] }) {
  const before = reasonsOf(found.from);
  const after = reasonsOf(found.to);
  const went = [...before].filter(([rule]) => !after.has(rule));
  const came = [...after].filter(([rule]) => !before.has(rule));
  const first = found.releases[0] ?? "";
  return (
    <li class="class">
      <p class="outcomes">
        <Outcome side={found.from} /> <span aria-hidden="true">→</span>
        <span class="hidden">becomes</span> <Outcome side={found.to} />
        <span class="from">
          {spans(found.releases, releases)}
          {found.since && `, from ${found.since} on`}
        </span>
      </p>
      <ul class="step">
        {went.map(([rule, each]) => (
          <li key={rule}>
            <b>−</b> <code>{rule}</code> <span class="from">{each.effect}</span>
          </li>
        ))}
        {came.map(([rule, each]) => (
          <li key={rule}>
            <b>+</b> <code>{rule}</code> <span class="from">{each.effect}</span>
          </li>
        ))}
      </ul>
      <pre class="yaml" aria-label="The smallest deployment">
        {stringify(found.facts, { lineWidth: 0 }).trim()}
      </pre>
      <p class="links">
        <AskLink request={{ vllm_version: first, facts: found.facts }} name={`Ask about it in ${first}`} />
      </p>
    </li>
  );
}

export function Classes({
  changes,
  problems,
  releases,
}: {
  readonly changes: readonly AffectedClass[];
  /** The known problems of which answers show another symptom, certainty or fix. */
  readonly problems: readonly string[];
  readonly releases: readonly string[];
}) {
  const [limit, setLimit] = useState(SHOWN_AT_ONCE);
  const ordered = KINDS.map((kind) => [kind, changes.filter((each) => kindOf(each) === kind)] as const).filter(
    ([, found]) => found.length > 0,
  );
  const described = problems.length > 0 && (
    <p>Answers with these known problems show another symptom, certainty or fix: {problems.join(", ")}.</p>
  );
  if (changes.length === 0) {
    const what = problems.length === 0 ? "Nothing changes for any deployment" : "No runner, start or reason changes";
    return (
      <>
        <p>{what}, in any release. This is proved.</p>
        {described}
      </>
    );
  }
  let left = limit;
  return (
    <>
      {described}
      <p class="counts">
        {changes.length} {changes.length === 1 ? "class" : "classes"} of deployments:{" "}
        {ordered.map(([kind, found]) => `${kind}: ${found.length.toString()}`).join(", ")}
      </p>
      {ordered.map(([kind, found]) => {
        const shown = found.slice(0, Math.max(0, left));
        left -= shown.length;
        return (
          shown.length > 0 && (
            <section key={kind}>
              <h3>{kind}</h3>
              <ul class="classes">
                {shown.map((each, n) => (
                  <ClassView key={n} found={each} releases={releases} />
                ))}
              </ul>
            </section>
          )
        );
      })}
      <ShowMore
        left={changes.length - limit}
        onMore={() => {
          setLimit(limit + SHOWN_AT_ONCE);
        }}
      />
    </>
  );
}
