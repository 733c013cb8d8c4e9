/** What an edit means for requests to engines: the classes with another answer, each with its smallest request. */

import { useState } from "preact/hooks";
import { stringify } from "yaml";
import type { AffectedRequests } from "../api";
import { ShowMore } from "../show_more";
import { spans } from "./classes";

const SHOWN_AT_ONCE = 20;
const RUNNERS = ["v1", "v2"] as const;
const VERDICTS: ReadonlyMap<string, string> = new Map([
  ["fine", "taken"],
  ["ignored", "a parameter is ignored"],
  ["refused", "refused"],
  ["kills-engine", "ends the engine"],
]);

function Verdict({ verdict }: { readonly verdict: string }) {
  return <span class={`verdict-of ${verdict}`}>{VERDICTS.get(verdict) ?? verdict}</span>;
}

function Side({ found, runner }: { readonly found: AffectedRequests; readonly runner: (typeof RUNNERS)[number] }) {
  const [before, after] = [found.from[runner], found.to[runner]];
  const isSame = before.verdict === after.verdict;
  if (isSame && before.rules.join() === after.rules.join()) return null;
  return (
    <li>
      with {runner.toUpperCase()}: <Verdict verdict={before.verdict} />
      {isSame ? (
        ", other findings"
      ) : (
        <>
          {" "}
          <span aria-hidden="true">→</span> <span class="hidden">becomes</span> <Verdict verdict={after.verdict} />
        </>
      )}
    </li>
  );
}

export function RequestClasses(properties: {
  readonly changes: readonly AffectedRequests[];
  readonly releases: readonly string[];
}) {
  const [limit, setLimit] = useState(SHOWN_AT_ONCE);
  const { changes, releases } = properties;
  if (changes.length === 0) return <p>Nothing changes for any request, in any release. This is proved.</p>;
  return (
    <>
      <p class="counts">
        {changes.length} {changes.length === 1 ? "class" : "classes"} of requests
      </p>
      <ul class="classes">
        {changes.slice(0, limit).map((each, n) => (
          <li key={n} class="class">
            <p>
              <code>{each.rules.join(", ")}</code> <span class="from">{spans(each.releases, releases)}</span>
            </p>
            <ul class="step">
              {RUNNERS.map((runner) => (
                <Side key={runner} found={each} runner={runner} />
              ))}
            </ul>
            <pre class="yaml" tabIndex={0} aria-label="The smallest request, with the facts of its engine">
              {stringify(each.facts, { lineWidth: 0 }).trim()}
            </pre>
          </li>
        ))}
      </ul>
      <ShowMore
        left={changes.length - limit}
        onMore={() => {
          setLimit(limit + SHOWN_AT_ONCE);
        }}
      />
    </>
  );
}
