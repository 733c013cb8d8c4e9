/** The view Rules: the catalogue of the loaded rules and conditions, searched, with the releases in which each holds. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, type Problem, type RuleCatalogue } from "../api";
import { knownReleases } from "../ask/strip";
import { useTokenChanges } from "../token";
import { ProblemView } from "../problem";
import { entriesOf, type Entry, KINDS } from "./entry";
import { filtersOf, type Filters, linkOf, MAX_QUERY, NO_FILTERS } from "./link";
import { holdsIn, spansOf } from "./rule";
import { EntryView } from "./rule_view";
import "./rules.css";

const ANY = "";

function Choice(properties: {
  readonly name: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly onValue: (value: string) => void;
}) {
  return (
    <span class="field">
      <label for={`rules-${properties.name}`}>{properties.name}</label>{" "}
      <select
        id={`rules-${properties.name}`}
        value={properties.value}
        onChange={(event) => {
          properties.onValue(event.currentTarget.value);
        }}
      >
        <option value={ANY}>any</option>
        {properties.values.map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
    </span>
  );
}

/** The releases in which an entry holds. Hundreds of these are shown, so each has an element a span, not a release. */
function Timeline({ entry, releases }: { readonly entry: Entry; readonly releases: readonly string[] }) {
  return useMemo(
    () => (
      <ol class="timeline spans" aria-label="Releases">
        {spansOf(entry.item, releases).map(({ first, last, length, holds }) => {
          const name = first === last ? first : `${first} to ${last}`;
          return (
            <li key={first} class={holds ? "holds" : ""} style={{ flexGrow: length }} title={name}>
              <span class="hidden">
                {name}: {holds ? "holds" : "no"}
              </span>
            </li>
          );
        })}
      </ol>
    ),
    [entry, releases], // so that a key in a filter does not render each of them again
  );
}

/** The releases above the matrix: every twentieth, from the newest back. */
function Heading({ releases }: { readonly releases: readonly string[] }) {
  const step = 20;
  return (
    <div class="matrix-head" aria-hidden="true">
      <span />
      <span class="timeline">
        {releases.map((release, n) => (
          <span key={release}>{(releases.length - 1 - n) % step === 0 && n >= step ? <b>{release}</b> : ""}</span>
        ))}
      </span>
    </div>
  );
}

export function Rules() {
  /** Empty until the catalogue is loaded. */
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [releases, setReleases] = useState<readonly string[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const tokens = useTokenChanges();
  const [{ id, filters }, setLink] = useState(() => filtersOf(location.hash));
  useEffect(() => {
    const control = new AbortController();
    get<RuleCatalogue>("v1/rules", control.signal).then(
      (answer) => {
        if ("value" in answer) setEntries(entriesOf(answer.value));
        setProblem("problem" in answer ? answer.problem : null);
      },
      () => undefined,
    );
    knownReleases().then(setReleases, () => undefined);
    const moved = (): void => {
      setLink(filtersOf(location.hash));
    };
    addEventListener("hashchange", moved);
    return () => {
      control.abort();
      removeEventListener("hashchange", moved);
    };
  }, [tokens]);
  const filter = (part: Partial<Filters>): void => {
    const link = { id, filters: { ...filters, ...part } };
    setLink(link);
    history.replaceState(null, "", `#${linkOf(link)}`);
  };
  const { query, kind, layer, effect, topic, release } = filters;
  const found = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/);
    return entries.filter(
      (entry) =>
        words.every((word) => entry.text.includes(word)) &&
        (kind === ANY || entry.kind === kind) &&
        (layer === ANY || entry.layer === layer) &&
        (effect === ANY || entry.effect === effect) &&
        (topic === ANY || entry.topic === topic) &&
        (release === ANY || holdsIn(entry.item, release)),
    );
  }, [entries, query, kind, layer, effect, topic, release]);
  const different = (values: readonly string[]): string[] =>
    [...new Set(values)].filter((value) => value !== ANY).sort();
  const address = (to: string): string => `#${linkOf({ id: to, filters })}`;
  const shown = entries.find((entry) => entry.id === id);
  const isLoaded = entries.length > 0;
  const loading = problem === null ? "Loading the rules …" : "The rules are not loaded.";
  return (
    <main class="catalogue">
      <section>
        <h1>Rules</h1>
        {problem !== null && <ProblemView problem={problem} />}
        <div class="row filters">
          <label>
            Find{" "}
            <input
              type="search"
              value={query}
              onInput={(event) => {
                filter({ query: event.currentTarget.value.slice(0, MAX_QUERY) });
              }}
            />
          </label>
          <Choice
            name="kind"
            value={kind}
            values={KINDS}
            onValue={(value) => {
              filter({ kind: value });
            }}
          />
          <Choice
            name="layer"
            value={layer}
            values={different(entries.map((entry) => entry.layer))}
            onValue={(value) => {
              filter({ layer: value });
            }}
          />
          <Choice
            name="effect"
            value={effect}
            values={different(entries.map((entry) => entry.effect))}
            onValue={(value) => {
              filter({ effect: value });
            }}
          />
          <Choice
            name="topic"
            value={topic}
            values={different(entries.map((entry) => entry.topic))}
            onValue={(value) => {
              filter({ topic: value });
            }}
          />
          <Choice
            name="release"
            value={release}
            values={[...releases].reverse()}
            onValue={(value) => {
              filter({ release: value });
            }}
          />
        </div>
        <p role="status" class="from">
          {isLoaded ? `${found.length.toString()} of ${entries.length.toString()} rules and conditions` : loading}
          {JSON.stringify(filters) !== JSON.stringify(NO_FILTERS) && (
            <>
              {" "}
              <button
                type="button"
                class="plain"
                onClick={() => {
                  filter(NO_FILTERS);
                }}
              >
                Show all
              </button>
            </>
          )}
        </p>
        <Heading releases={releases} />
        <ul class="matrix">
          {found.map((entry) => (
            <li key={entry.id}>
              <a href={address(entry.id)} aria-current={entry.id === id}>
                <span class="name">{entry.id}</span>
                <span class="from">{entry.effect === "" ? entry.kind : entry.effect}</span>
              </a>
              <Timeline entry={entry} releases={releases} />
            </li>
          ))}
        </ul>
      </section>
      <section>
        {shown ? (
          <EntryView entry={shown} releases={releases} address={address} />
        ) : (
          (id === "" || isLoaded) && (
            <p class="card">
              {id === "" ? "Choose a rule or a condition to read it." : `There is no rule ${id} in the loaded rules.`}
            </p>
          )
        )}
      </section>
    </main>
  );
}
