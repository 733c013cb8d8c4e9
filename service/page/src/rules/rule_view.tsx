/** The page of a rule, a rule about requests or a named condition: its texts, its history, its files and its cases. */

import { useEffect, useRef, useState } from "preact/hooks";
import {
  type Answer,
  type Condition,
  type ConditionFile,
  get,
  type RequestRule,
  type RequestRuleFile,
  type Rule,
  type RuleFile,
} from "../api";
import { ProblemView } from "../problem";
import { Prose } from "../prose";
import { useTokenChanges } from "../token";
import { CaseList, Caught, CaughtRequest } from "./case_list";
import type { Entry } from "./entry";
import { History } from "./history";

type File = RuleFile | RequestRuleFile | ConditionFile;

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

/** What a rule about requests is about, and how long. */
function RequestFacts({ rule }: { readonly rule: RequestRule }) {
  return (
    <p class="links">
      <span>
        about <code>{rule.parameter}</code>
      </span>
      <span>{rule.runner === undefined ? "with both runners" : `with ${rule.runner.toUpperCase()}`}</span>
      {rule.fixed_in !== undefined && <span>fixed in {rule.fixed_in}</span>}
    </p>
  );
}

/** The files of a rule or a condition, asked for when it is shown. */
function useFile(id: string): Answer<File> | null {
  const tokens = useTokenChanges();
  const [found, setFound] = useState<Answer<File> | null>(null);
  useEffect(() => {
    const control = new AbortController();
    setFound(null);
    get<File>(`v1/rules/${encodeURIComponent(id)}`, control.signal).then(
      (answer) => {
        if (!control.signal.aborted) setFound(answer);
      },
      () => undefined,
    );
    return () => {
      control.abort();
    };
  }, [id, tokens]);
  return found;
}

/** Why a rule is there, what helps, and where that is from. */
function Texts({ rule }: { readonly rule: Rule | RequestRule }) {
  const links = typeof rule.references === "string" ? [rule.references] : rule.references;
  return (
    <>
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
    </>
  );
}

function About({ entry }: { readonly entry: Entry }) {
  switch (entry.kind) {
    case "rule":
      return (
        <>
          <ProblemFacts rule={entry.item} />
          <HouseFacts rule={entry.item} />
          <Texts rule={entry.item} />
        </>
      );
    case "rule about requests":
      return (
        <>
          <RequestFacts rule={entry.item} />
          <Texts rule={entry.item} />
        </>
      );
    case "condition":
      return <ConditionText condition={entry.item} />;
  }
}

function ConditionText({ condition }: { readonly condition: Condition }) {
  return (
    <p>
      <Prose text={condition.why} />
    </p>
  );
}

/** The rules that use a condition. */
function Users({ ids, address }: { readonly ids: readonly string[]; readonly address: (id: string) => string }) {
  return (
    <>
      <h3>Used by</h3>
      <ul class="links used-by">
        {ids.map((id) => (
          <li key={id}>
            <a href={address(id)}>{id}</a>
          </li>
        ))}
      </ul>
    </>
  );
}

function Files({ file, kind }: { readonly file: File; readonly kind: Entry["kind"] }) {
  return (
    <>
      <h3>Files</h3>
      <details open>
        <summary>
          The {kind === "condition" ? "condition" : "rule"}, <code>{file.file}</code>
        </summary>
        <pre class="yaml source">{file.text}</pre>
      </details>
      {"cases" in file && file.cases && <CaseList cases={file.cases.items} file={file.cases.file} />}
    </>
  );
}

/** What a rule catches, by its cases. */
function Catches({ file }: { readonly file: File }) {
  if (!("cases" in file) || !file.cases) return null;
  return "parameter" in file ? <CaughtRequest cases={file.cases.items} /> : <Caught cases={file.cases.items} />;
}

export function EntryView(properties: {
  readonly entry: Entry;
  readonly releases: readonly string[];
  /** The address of the page of a rule. */
  readonly address: (id: string) => string;
}) {
  const { entry, releases, address } = properties;
  const found = useFile(entry.id);
  const article = useRef<HTMLElement>(null);
  useEffect(() => {
    const top = article.current?.getBoundingClientRect().top ?? 0;
    if (top > innerHeight) article.current?.scrollIntoView(); // where it is below the list
  }, [entry.id]);
  const file = found !== null && "value" in found && found.value.id === entry.id ? found.value : null;
  return (
    <article ref={article} class="card rule" aria-labelledby="rule">
      <h2 id="rule">{entry.title}</h2>
      <p class="links">
        <code>{entry.item.file}</code>
        <span>{entry.effect === "" ? entry.kind : entry.effect}</span>
        <a href={`edit#${encodeURIComponent(entry.id)}`}>
          Edit this {entry.kind === "condition" ? "condition" : "rule"}
        </a>
      </p>
      <About entry={entry} />
      {file !== null && "used_by" in file && <Users ids={file.used_by} address={address} />}
      <h3>Releases</h3>
      <History item={entry.item} releases={releases} />
      {found !== null && "problem" in found && <ProblemView problem={found.problem} />}
      {file !== null && (
        <>
          <Catches file={file} />
          <Files file={file} kind={entry.kind} />
        </>
      )}
    </article>
  );
}
