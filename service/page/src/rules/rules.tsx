/** The view Rules: the catalogue of the loaded rules, searched, with the releases in which each holds. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, isProblem, type Problem, type Rule, type RuleFile } from "../api";
import { knownReleases } from "../ask/strip";
import { useTokenChanges } from "../token";
import { ProblemView } from "../problem";
import { Prose } from "../prose";
import { CaseList, Caught } from "./case_list";
import { History } from "./history";
import { filtersOf, type Filters, linkOf, NO_FILTERS } from "./link";
import { holdsIn, topicOf } from "./rule";
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

function Timeline({ rule, releases }: { readonly rule: Rule; readonly releases: readonly string[] }) {
  return (
    <ol class="timeline" aria-label="Releases">
      {releases.map((release) => {
        const holds = holdsIn(rule, release);
        return (
          <li key={release} class={holds ? "holds" : ""} title={release}>
            <span class="hidden">
              {release}: {holds ? "holds" : "no"}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** What is known of a known problem. */
function ProblemFacts({ rule }: { readonly rule: Rule }) {
  if (rule.symptom === undefined) return null;
  return (
    <p class="links">
      <span class={`symptom ${rule.symptom}`}>{rule.symptom}</span>
      {rule.runner !== undefined && <span>with {rule.runner.toUpperCase()}</span>}
      {rule.certainty !== undefined && <span>known by: {rule.certainty}</span>}
      <span>{rule.fixed_in === undefined ? "not fixed yet" : `fixed in ${rule.fixed_in}`}</span>
    </p>
  );
}

/** What a house rule waits for, and when it is reviewed or ends. */
function HouseFacts({ rule }: { readonly rule: Rule }) {
  if (rule.owner === undefined) return null;
  return (
    <p class="links">
      <span>{rule.owner}</span>
      {rule.review_by !== undefined && <span>to be reviewed by {rule.review_by}</span>}
      {rule.until !== undefined && <span>until {rule.until}</span>}
      {rule.blocked_by !== undefined && <Reference link={rule.blocked_by} prefix="waits for " />}
    </p>
  );
}

function Reference({ link, prefix = "" }: { readonly link: string; readonly prefix?: string }) {
  if (!/^https:\/\//.test(link)) return <span>{prefix + link}</span>;
  return (
    <a href={link} rel="noreferrer noopener" target="_blank">
      {prefix + link.replace("https://github.com/", "").replace(/\/(?:pull|issues)\//, " #")}
    </a>
  );
}

/** The files of a rule, asked for when it is shown. */
function useRuleFile(id: string): RuleFile | Problem | null {
  const tokens = useTokenChanges();
  const [found, setFound] = useState<RuleFile | Problem | null>(null);
  useEffect(() => {
    const control = new AbortController();
    setFound(null);
    get<RuleFile>(`v1/rules/${encodeURIComponent(id)}`, control.signal).then(
      (answer) => {
        if (!control.signal.aborted) setFound("value" in answer ? answer.value : answer.problem);
      },
      () => undefined,
    );
    return () => {
      control.abort();
    };
  }, [id, tokens]);
  return found;
}

function RuleView({ rule, releases }: { readonly rule: Rule; readonly releases: readonly string[] }) {
  const links = typeof rule.references === "string" ? [rule.references] : rule.references;
  const found = useRuleFile(rule.id);
  const article = useRef<HTMLElement>(null);
  useEffect(() => {
    const top = article.current?.getBoundingClientRect().top ?? 0;
    if (top > innerHeight) article.current?.scrollIntoView(); // where it is below the list
  }, [rule.id]);
  const file = found !== null && !isProblem(found) && found.id === rule.id ? found : null;
  return (
    <article ref={article} class="card rule" aria-labelledby="rule">
      <h2 id="rule">{rule.title}</h2>
      <p class="links">
        <code>{rule.file}</code>
        <span>{rule.effect}</span>
        <a href={`edit#${encodeURIComponent(rule.id)}`}>Edit this rule</a>
      </p>
      <ProblemFacts rule={rule} />
      <HouseFacts rule={rule} />
      <p>
        <Prose text={rule.why} />
      </p>
      {rule.remedy && (
        <p class="remedy">
          <Prose text={rule.remedy} />
        </p>
      )}
      <p class="links">
        {links.map((link) => (
          <Reference key={link} link={link} />
        ))}
      </p>
      <h3>Releases</h3>
      <History rule={rule} releases={releases} />
      {found !== null && isProblem(found) && <ProblemView problem={found} />}
      {file?.cases && <Caught cases={file.cases.items} />}
      {file !== null && (
        <>
          <h3>Files</h3>
          <details open>
            <summary>
              The rule, <code>{file.file}</code>
            </summary>
            <pre class="yaml source">{file.text}</pre>
          </details>
          {file.cases && <CaseList cases={file.cases.items} file={file.cases.file} />}
        </>
      )}
    </article>
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
  const [rules, setRules] = useState<readonly Rule[]>([]);
  const [releases, setReleases] = useState<readonly string[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const tokens = useTokenChanges();
  const [{ id, filters }, setLink] = useState(() => filtersOf(location.hash));
  useEffect(() => {
    const control = new AbortController();
    get<{ rules: Rule[] }>("v1/rules", control.signal).then(
      (answer) => {
        if ("value" in answer) setRules(answer.value.rules);
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
  const { query, layer, effect, topic, release } = filters;
  const found = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/);
    return rules.filter((rule) => {
      const text = `${rule.id} ${rule.title} ${rule.why} ${JSON.stringify(rule)}`.toLowerCase();
      return (
        words.every((word) => text.includes(word)) &&
        (layer === ANY || rule.layer === layer) &&
        (effect === ANY || rule.effect === effect) &&
        (topic === ANY || topicOf(rule) === topic) &&
        (release === ANY || holdsIn(rule, release))
      );
    });
  }, [rules, query, layer, effect, topic, release]);
  const different = (values: readonly string[]): string[] => [...new Set(values)].sort();
  const shown = rules.find((rule) => rule.id === id);
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
                filter({ query: event.currentTarget.value });
              }}
            />
          </label>
          <Choice
            name="layer"
            value={layer}
            values={different(rules.map((rule) => rule.layer))}
            onValue={(value) => {
              filter({ layer: value });
            }}
          />
          <Choice
            name="effect"
            value={effect}
            values={different(rules.map((rule) => rule.effect))}
            onValue={(value) => {
              filter({ effect: value });
            }}
          />
          <Choice
            name="topic"
            value={topic}
            values={different(rules.map(topicOf))}
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
          {found.length} of {rules.length} rules
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
          {found.map((rule) => (
            <li key={rule.id}>
              <a href={`#${linkOf({ id: rule.id, filters })}`} aria-current={rule.id === id}>
                <span class="name">{rule.id}</span>
                <span class="from">{rule.effect}</span>
              </a>
              <Timeline rule={rule} releases={releases} />
            </li>
          ))}
        </ul>
      </section>
      <section>
        {shown ? (
          <RuleView rule={shown} releases={releases} />
        ) : (
          <p class="card">{id === "" ? "Choose a rule to read it." : `There is no rule ${id} in the loaded rules.`}</p>
        )}
      </section>
    </main>
  );
}
