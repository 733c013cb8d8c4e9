/** The view Rules: the catalogue of the loaded rules, searched, with the releases in which each holds. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, type Problem, type Rule } from "../api";
import { knownReleases } from "../ask/strip";
import { ProblemView } from "../problem";
import { Prose } from "../prose";
import { holdsIn, textOf, topicOf } from "./rule";

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

function RuleView({ rule, releases }: { readonly rule: Rule; readonly releases: readonly string[] }) {
  const links = typeof rule.references === "string" ? [rule.references] : rule.references;
  return (
    <article class="card rule" aria-labelledby="rule">
      <h2 id="rule">{rule.title}</h2>
      <p class="links">
        <code>{rule.file}</code>
        <span>{rule.effect}</span>
        {rule.owner && <span>{rule.owner}</span>}
      </p>
      <p>
        <Prose text={rule.why} />
      </p>
      {rule.remedy && (
        <p class="remedy">
          <Prose text={rule.remedy} />
        </p>
      )}
      <h3>Releases</h3>
      <Timeline rule={rule} releases={releases} />
      <ul>
        {rule.releases.map((range) => (
          <li key={range.vllm}>
            <code>{range.vllm}</code>
          </li>
        ))}
      </ul>
      <h3>The rule</h3>
      <pre class="yaml">{textOf(rule)}</pre>
      <p class="links">
        {links.map((link) =>
          /^https:\/\//.test(link) ? (
            <a key={link} href={link} rel="noreferrer noopener" target="_blank">
              {link.replace("https://github.com/", "")}
            </a>
          ) : (
            <span key={link}>{link}</span>
          ),
        )}
      </p>
    </article>
  );
}

export function Rules() {
  const [rules, setRules] = useState<readonly Rule[]>([]);
  const [releases, setReleases] = useState<readonly string[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [query, setQuery] = useState("");
  const [layer, setLayer] = useState(ANY);
  const [effect, setEffect] = useState(ANY);
  const [topic, setTopic] = useState(ANY);
  const [release, setRelease] = useState(ANY);
  const [id, setId] = useState(decodeURIComponent(location.hash.slice(1)));
  useEffect(() => {
    const control = new AbortController();
    get<{ rules: Rule[] }>("v1/rules", control.signal).then(
      (answer) => {
        if ("value" in answer) setRules(answer.value.rules);
        else setProblem(answer.problem);
      },
      () => undefined,
    );
    knownReleases().then(setReleases, () => undefined);
    const moved = (): void => {
      setId(decodeURIComponent(location.hash.slice(1)));
    };
    addEventListener("hashchange", moved);
    return () => {
      control.abort();
      removeEventListener("hashchange", moved);
    };
  }, []);
  const found = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/);
    return rules.filter((rule) => {
      const text =
        `${rule.id} ${rule.title} ${rule.why} ${JSON.stringify(rule.releases)} ${rule.remedy ?? ""}`.toLowerCase();
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
                setQuery(event.currentTarget.value);
              }}
            />
          </label>
          <Choice name="layer" value={layer} values={different(rules.map((rule) => rule.layer))} onValue={setLayer} />
          <Choice
            name="effect"
            value={effect}
            values={different(rules.map((rule) => rule.effect))}
            onValue={setEffect}
          />
          <Choice name="topic" value={topic} values={different(rules.map(topicOf))} onValue={setTopic} />
          <Choice name="release" value={release} values={[...releases].reverse()} onValue={setRelease} />
        </div>
        <p role="status" class="from">
          {found.length} of {rules.length} rules
        </p>
        <ul class="matrix">
          {found.map((rule) => (
            <li key={rule.id}>
              <a href={`#${encodeURIComponent(rule.id)}`} aria-current={rule.id === id}>
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
