/** A rule or a condition over the releases: a bar with its ranges, and what it says in each. */

import { stringify } from "yaml";
import { Prose } from "../prose";
import { compare, isIn, type WithHistory } from "./rule";

/** What is shown of a range besides its text in the language of rules. */
const TEXTS = ["message", "feature", "text"] as const;
const SAID = new Set<string>(["vllm", ...TEXTS]);

type Range = WithHistory["releases"][number] & Partial<Record<(typeof TEXTS)[number], string>>;

/** The releases of a range: the first and the last known one. */
function ends(range: Range, releases: readonly string[]): string {
  const found = releases.filter((release) => isIn(range.vllm, release));
  const [first, last] = [found[0], found.at(-1)];
  if (first === undefined || last === undefined) return "no known release";
  const isOpen = last === releases.at(-1);
  if (first === last) return isOpen ? `from ${first} on` : first;
  return isOpen ? `from ${first} on` : `${first} to ${last}`;
}

/** What a range has besides its releases, in the rule's language. */
function textOf(range: Range): string {
  const rest = Object.entries(range).filter(([name]) => !SAID.has(name));
  return rest.length === 0 ? "" : stringify(Object.fromEntries(rest), { lineWidth: 0 }).trim();
}

export function History({ item, releases }: { readonly item: WithHistory; readonly releases: readonly string[] }) {
  const ranges: Range[] = [...item.releases].sort((one, other) => compare(lowest(one), lowest(other)));
  const place = (release: string): number => ranges.findIndex((range) => isIn(range.vllm, release));
  return (
    <>
      <ol class="timeline" aria-label="Releases">
        {releases.map((release) => {
          const at = place(release);
          return (
            <li key={release} class={at < 0 ? "" : at % 2 === 0 ? "holds" : "holds other"} title={release}>
              <span class="hidden">
                {release}: {at < 0 ? "no" : "holds"}
              </span>
            </li>
          );
        })}
      </ol>
      <p class="timeline-ends from" aria-hidden="true">
        <span>{releases[0]}</span>
        <span>{releases.at(-1)}</span>
      </p>
      <ol class="history">
        {ranges.map((range) => (
          <li key={range.vllm}>
            <p>
              <b>{ends(range, releases)}</b> <code>{range.vllm}</code>
            </p>
            {TEXTS.map((name) => {
              const text = range[name];
              return (
                text !== undefined && (
                  <p key={name}>
                    <Prose text={text} />
                  </p>
                )
              );
            })}
            {textOf(range) !== "" && <pre class="yaml">{textOf(range)}</pre>}
          </li>
        ))}
        {item.gaps?.map((gap) => (
          <li key={gap.vllm}>
            <p>
              <b>not in</b> <code>{gap.vllm}</code>
            </p>
            <p>
              <Prose text={gap.why} />
            </p>
          </li>
        ))}
      </ol>
    </>
  );
}

/** The first release in a range's text. */
function lowest(range: Range): string {
  return /[0-9][0-9.post]*/.exec(range.vllm)?.[0] ?? "0";
}
