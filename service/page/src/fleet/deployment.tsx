/** The page of a deployment: its releases, what changes at each step and what makes it, and what a release does. */

import { useEffect, useRef } from "preact/hooks";
import { member } from "../member";
import { Prose } from "../prose";
import { changeText, goalText } from "../remedy_text";
import { type Cell, NOW, type Row } from "./fleet_rows";
import { causesOf, COLUMN_SIGNS, COLUMN_TONES, COLUMN_WORDS, KINDS, labelOf, stepText } from "./kinds";
import type { DecidedAnswer, Difference, ItemProblem, Place, ReleaseChange, Remedy, RuleText } from "./result";

/** What is known of rules: their texts, and the address of a rule's page if there is one. */
export interface RuleSource {
  readonly texts: ReadonlyMap<string, RuleText>;
  readonly address: ((id: string) => string) | null;
}

function linkName(link: string): string {
  return link.replace(/^https:\/\/(?:github\.com\/)?/, "").replace(/\/(?:pull|issues)\//, " #");
}

/** A rule by its name, with why it is there, its remedy and its references to unfold. */
function RuleName({ id, rules }: { readonly id: string; readonly rules: RuleSource }) {
  const text = rules.texts.get(id);
  const name = rules.address === null ? <code>{id}</code> : <a href={rules.address(id)}>{id}</a>;
  if (text === undefined) return name;
  const links = typeof text.references === "string" ? [text.references] : text.references;
  return (
    <details class="why">
      <summary>
        <code>{id}</code> <span>{text.title}</span>
      </summary>
      <p>
        <Prose text={text.why} />
      </p>
      {text.remedy && (
        <p class="remedy">
          <Prose text={text.remedy} />
        </p>
      )}
      <p class="links">
        {rules.address !== null && <a href={rules.address(id)}>the rule {id}</a>}
        {links.map((link) =>
          link.startsWith("https://") ? (
            <a key={link} href={link} rel="noreferrer noopener" target="_blank">
              {linkName(link)}
            </a>
          ) : (
            <span key={link}>{link}</span>
          ),
        )}
      </p>
    </details>
  );
}

function placeText(place: Place): string {
  const position = place.line ? `:${place.line.toString()}${place.column ? `:${place.column.toString()}` : ""}` : "";
  return `${place.file}${position}${place.path ? ` ${place.path}` : ""}`;
}

function variables(env: Readonly<Record<string, string>> | undefined): string {
  const found = Object.entries(env ?? {}).map(([name, value]) => `${name}=${value}`);
  return found.length > 0 ? found.join(" ") : "no variable";
}

function ProblemText({ problem }: { readonly problem: ItemProblem }) {
  const faults = problem.errors ?? [];
  return (
    <>
      <p>
        <b>{problem.title}</b>
      </p>
      {faults.length === 0 && (
        <p>
          <Prose text={problem.detail} />
        </p>
      )}
      <ul>
        {faults.map((fault, n) => (
          <li key={n}>
            {fault.pointer !== "" && <code>{fault.pointer}</code>} <Prose text={fault.message} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Lines(properties: {
  readonly title: string;
  readonly difference: Difference;
  readonly rules: RuleSource | null;
}) {
  const { title, difference, rules } = properties;
  if (difference.new.length + difference.gone.length === 0) return null;
  const line = (sign: string, what: string, text: string) => (
    <li key={sign + text}>
      <b aria-label={what}>{sign}</b>{" "}
      <div>{rules === null ? <Prose text={text} /> : <RuleName id={text} rules={rules} />}</div>
    </li>
  );
  return (
    <>
      <h4>{title}</h4>
      <ul class="differences">
        {difference.new.map((each) => line("+", "new:", each))}
        {difference.gone.map((each) => line("−", "gone:", each))}
      </ul>
    </>
  );
}

/** What is only in one of two lists, without what is said already. */
function others(difference: Difference, said: readonly string[]): Difference {
  const isOther = (each: string): boolean => !said.includes(each);
  return { new: difference.new.filter(isOther), gone: difference.gone.filter(isOther) };
}

function ChangeView({ change, rules }: { readonly change: ReleaseChange; readonly rules: RuleSource }) {
  const kind = KINDS.get(change.kind);
  const problems = change.known_problems;
  const all = [...problems.new, ...problems.gone];
  const [before, after] = change.set_env.map(variables);
  return (
    <li class="step-card">
      <h3>
        {change.from} → {change.to}
      </h3>
      <p>
        <span class={`kind ${kind?.tone ?? "unknown"}`}>{labelOf(change.kind)}</span> <b>{stepText(change)}</b>
        {kind !== undefined && <span class="from"> {kind.meaning}</span>}
      </p>
      {before !== after && (
        <p>
          to set: <code>{before}</code> → <code>{after}</code>
        </p>
      )}
      <Lines title="Launch errors" difference={change.launch_errors} rules={null} />
      <Lines title="Start-up errors" difference={change.startup_errors} rules={null} />
      <Lines title="Known problems" difference={problems} rules={rules} />
      <Lines title="Rules" difference={others(change.reasons, all)} rules={rules} />
      {change.rules.length > 0 && <p class="from">made by {causesOf(change).join(", ")}</p>}
    </li>
  );
}

function AnswerText({ answer, rules }: { readonly answer: DecidedAnswer; readonly rules: RuleSource }) {
  const errors = [...answer.launch_errors, ...answer.startup_errors];
  return (
    <>
      {errors.map((error) => (
        <p key={error} class="symptom wrap">
          <Prose text={error} />
        </p>
      ))}
      {Object.keys(answer.set_env).length > 0 && (
        <p>
          to set: <code>{variables(answer.set_env)}</code>
        </p>
      )}
      {answer.known_problems.length > 0 && (
        <>
          <h3>Known problems</h3>
          <ul class="reasons">
            {answer.known_problems.map((each) => (
              <li key={each.rule}>
                <p>
                  <span class={`symptom ${each.symptom}`}>{each.symptom}</span>{" "}
                  {each.certainty !== "" && <span class="tag">{each.certainty}</span>}
                </p>
                <RuleName id={each.rule} rules={rules} />
              </li>
            ))}
          </ul>
        </>
      )}
      {answer.reasons.length > 0 && (
        <>
          <h3>Reasons</h3>
          <ul class="reasons">
            {answer.reasons.map((each) => (
              <li key={each.rule} class={each.decisive ? "decisive" : ""}>
                <p class="message">
                  <Prose text={each.message} /> {each.decisive && <span class="tag">decides</span>}
                </p>
                <RuleName id={each.rule} rules={rules} />
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Remedies({ remedies, release }: { readonly remedies: readonly Remedy[]; readonly release: string }) {
  return (
    <section class="card">
      <h2>What helps in {release}</h2>
      {remedies.length === 0 && <p>No change was found.</p>}
      <ul>
        {remedies.map((remedy, n) => (
          <li key={n}>
            {remedy.change.map(changeText).join(", and ")}{" "}
            <span class="from">
              {goalText(remedy.for)} → {remedy.runner?.toUpperCase() ?? "own runner"}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The column that is shown at first: the one of the worst change, else the last. */
function firstColumn(row: Row, columns: readonly string[]): string {
  const to = row.change?.to;
  return to !== undefined && columns.includes(to) ? to : (columns.at(-1) ?? "");
}

function StripCell(properties: {
  readonly cell: Cell;
  readonly column: string;
  readonly isShown: boolean;
  readonly onColumn: (column: string) => void;
}) {
  const { cell, column } = properties;
  return (
    <li>
      <button
        type="button"
        class={`cell ${COLUMN_TONES[cell.column]}`}
        aria-pressed={properties.isShown}
        onClick={() => {
          properties.onColumn(column);
        }}
      >
        <span class="number">
          {column === NOW && "now "}
          {cell.release}
        </span>
        <span class="hidden">
          : {COLUMN_WORDS[cell.column]}
          {cell.problems > 0 && `, known problems: ${cell.problems.toString()}`}
        </span>
        <span class="what" aria-hidden="true">
          {COLUMN_SIGNS[cell.column]}
        </span>
        <span class="mark" aria-hidden="true">
          {cell.problems > 0 ? "•" : ""}
        </span>
      </button>
    </li>
  );
}

export function DeploymentView(properties: {
  readonly row: Row;
  readonly columns: readonly string[];
  readonly column: string;
  readonly rules: RuleSource;
  readonly onColumn: (column: string) => void;
  readonly onClose: () => void;
}) {
  const { row, columns, rules } = properties;
  const { item } = row;
  const place = item.place === null ? "" : placeText(item.place);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    heading.current?.focus();
  }, [row]);
  const column = columns.includes(properties.column) ? properties.column : firstColumn(row, columns);
  const cell = row.cells[columns.indexOf(column)] ?? null;
  const remedies = cell === null ? undefined : member(item.remedies ?? {}, cell.release);
  return (
    <article
      class="deployment"
      aria-labelledby="deployment"
      onKeyDown={(event) => {
        if (event.key === "Escape") properties.onClose();
      }}
    >
      <section class="card">
        <button type="button" class="plain" onClick={properties.onClose}>
          ← All deployments
        </button>
        <h2 id="deployment" ref={heading} tabIndex={-1}>
          {item.name}
        </h2>
        <p class="links">
          <span class={`kind ${KINDS.get(row.kind)?.tone ?? "unknown"}`}>{labelOf(row.kind)}</span>
          {item.request_id !== null && item.request_id !== item.name && <span>request {item.request_id}</span>}
          {place !== "" && place !== item.name && <span>{place}</span>}
        </p>
        {item.problem !== undefined && <ProblemText problem={item.problem} />}
        {item.problem === undefined && (
          <div class="strip">
            <ol aria-label="Releases">
              {columns.map((each, n) => {
                const found = row.cells[n];
                if (found === null || found === undefined) return null;
                return (
                  <StripCell
                    key={each}
                    cell={found}
                    column={each}
                    isShown={each === column}
                    onColumn={properties.onColumn}
                  />
                );
              })}
            </ol>
            <p class="legend from">✕ will not start, • known problems</p>
          </div>
        )}
      </section>
      {cell !== null && (
        <section class="card" aria-live="polite">
          <h2>
            {cell.release}: {COLUMN_WORDS[cell.column]}
          </h2>
          {"problem" in cell.answer ? (
            <ProblemText problem={cell.answer.problem} />
          ) : (
            <AnswerText answer={cell.answer} rules={rules} />
          )}
        </section>
      )}
      {remedies !== undefined && <Remedies remedies={remedies} release={cell?.release ?? ""} />}
      {item.problem === undefined && (
        <section class="card">
          <h2>What changes</h2>
          {item.changes.length === 0 && <p>Nothing.</p>}
          <ol class="steps">
            {item.changes.map((change) => (
              <ChangeView key={`${change.from} ${change.to}`} change={change} rules={rules} />
            ))}
          </ol>
        </section>
      )}
    </article>
  );
}
