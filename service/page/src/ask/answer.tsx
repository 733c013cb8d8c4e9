/** A decision as people read it. */

import type { ComponentChildren } from "preact";
import type { AlternativeDecision, Change, Decision, KnownProblem, Reason, Remedy } from "../api";
import { Copies } from "./copies";
import { member } from "../member";
import { Prose } from "../prose";
import { changeText, goalText, shown } from "../remedy_text";

/** A runner's name; a platform may have one of its own, and a configuration that cannot be read has none. */
export function runnerName(decision: Pick<Decision, "runner" | "outcome">): string {
  if (decision.runner !== null) return decision.runner.toUpperCase();
  return decision.outcome === "not-applicable" ? "own runner" : "no runner";
}

/** The class of a decision's colour: its runner, or that vLLM does not start. */
export function tone(decision: Pick<Decision, "runner" | "starts">): string {
  return decision.starts ? (decision.runner ?? "own") : "stops";
}

function References({ links }: { readonly links: readonly string[] }) {
  return (
    <>
      {links.map((link) => {
        const name = link.replace(/^https:\/\/(?:github\.com\/)?/, "").replace(/\/(?:pull|issues)\//, " #");
        return /^https:\/\//.test(link) ? (
          <a key={link} href={link} rel="noreferrer noopener" target="_blank">
            {name}
          </a>
        ) : (
          <span key={link}>{link}</span>
        );
      })}
    </>
  );
}

function From({ fact }: { readonly fact: { readonly from: string } | undefined }) {
  return fact === undefined ? null : <span class="from"> from {fact.from}</span>;
}

function ReasonView({ reason, decision }: { readonly reason: Reason; readonly decision: Decision }) {
  const facts = Object.entries(reason.facts as Record<string, unknown>);
  return (
    <li class={reason.decisive ? "decisive" : ""}>
      <p class="message">
        <Prose text={reason.message} /> {reason.decisive && <span class="tag">decides</span>}
        {reason.layer === "house" && <span class="tag">house rule</span>}
      </p>
      {facts.length > 0 && (
        <ul class="facts">
          {facts.map(([name, value]) => (
            <li key={name}>
              <code>{name}</code> is <code>{shown(value)}</code>
              <From fact={member(decision.facts, name)} />
            </li>
          ))}
        </ul>
      )}
      {reason.remedy !== null && (
        <p class="remedy">
          <Prose text={reason.remedy} />
        </p>
      )}
      <p class="links">
        <a href={`rules#${encodeURIComponent(reason.rule)}`}>{reason.rule}</a>
        <References links={reason.references} />
        {reason.lifted_in && <span>ends with {reason.lifted_in}</span>}
      </p>
    </li>
  );
}

function Problems({ problems }: { readonly problems: readonly KnownProblem[] }) {
  if (problems.length === 0) return null;
  return (
    <ul class="problems">
      {problems.map((problem) => (
        <li key={problem.rule}>
          <p class="message">
            <span class={`symptom ${problem.symptom}`}>{problem.symptom}</span> <Prose text={problem.message} />
          </p>
          {problem.remedy !== null && (
            <p class="remedy">
              <Prose text={problem.remedy} />
            </p>
          )}
          <p class="links">
            <a href={`rules#${encodeURIComponent(problem.rule)}`}>{problem.rule}</a>
            <span>known by: {problem.certainty}</span>
            <span>{problem.fixed_in === null ? "not fixed yet" : `fixed in ${problem.fixed_in}`}</span>
            <References links={problem.references} />
          </p>
        </li>
      ))}
    </ul>
  );
}

function Card({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section class="card">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Remedies(properties: {
  readonly remedies: readonly Remedy[];
  /** Why changes cannot be tried; empty if they can. */
  readonly whyNot: (change: readonly Change[]) => string;
  readonly onTry: (change: readonly Change[]) => void;
}) {
  return (
    <Card title="What would help">
      <ul>
        {properties.remedies.map((remedy, n) => {
          const why = properties.whyNot(remedy.change);
          return (
            <li key={n} class="remedies">
              <span>
                {remedy.change.map(changeText).join(", and ")}{" "}
                <span class="from">
                  {goalText(remedy.for)}
                  {" → "}
                  {remedy.runner?.toUpperCase() ?? "own runner"}
                  {remedy.starts ? "" : ", does not start"}
                  {why !== "" && (
                    <>
                      . It cannot be tried here: <Prose text={why} />
                    </>
                  )}
                </span>
              </span>
              {why === "" && (
                <button
                  type="button"
                  onClick={() => {
                    properties.onTry(remedy.change);
                  }}
                >
                  Try
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

/** What an assumption's other value would give. */
function Otherwise({ value, other }: { readonly value: string; readonly other: AlternativeDecision }) {
  return (
    <span class={`otherwise ${tone(other)}`}>
      <code>{value}</code> → {other.runner?.toUpperCase() ?? "own runner"}
      {other.starts ? "" : ", does not start"}
    </span>
  );
}

function Assumptions({ decision }: { readonly decision: Decision }) {
  const found = decision.assumptions ?? [];
  const weighty = found.filter((each) => Object.keys(each.would_change).length > 0);
  const others = found.filter((each) => Object.keys(each.would_change).length === 0);
  if (found.length === 0) return null;
  return (
    <Card title="What was assumed">
      {weighty.length > 0 && <p>Another value of these would change the answer:</p>}
      <ul class="assumptions">
        {weighty.map((each) => (
          <li key={each.fact}>
            <p>
              <code>{each.fact}</code> is <code>{shown(each.assumed)}</code> <span class="from">{each.why}</span>
            </p>
            <p class="otherwises">
              {Object.entries(each.would_change).map(([value, other]) => (
                <Otherwise key={value} value={value} other={other} />
              ))}
            </p>
          </li>
        ))}
      </ul>
      {others.length > 0 && (
        <details>
          <summary>
            {others.length} facts were not stated{weighty.length > 0 ? ", where" : "; "} no other value changes the
            answer
          </summary>
          <ul class="unweighty">
            {others.map((each) => (
              <li key={each.fact}>
                <code>{each.fact}</code> is <code>{shown(each.assumed)}</code>
              </li>
            ))}
          </ul>
        </details>
      )}
    </Card>
  );
}

/** The decision: runner, start and sentence first, then why, then what else is known. */
export function AnswerView(properties: {
  readonly decision: Decision;
  /** The manifest that has the engine, and the engine's path in it; `null` for a request that is none. */
  readonly manifest: unknown;
  readonly path: string;
  readonly children: ComponentChildren;
  /** Why changes cannot be tried; empty if they can. */
  readonly whyNot: (change: readonly Change[]) => string;
  readonly onTry: (change: readonly Change[]) => void;
}) {
  const { decision } = properties;
  const { alternative, upstream } = decision;
  const errors = [...decision.launch_errors, ...decision.startup_errors];
  const differs = upstream.runner !== decision.runner || upstream.starts !== decision.starts;
  return (
    <div class="answer">
      <section class={`verdict ${tone(decision)}`} aria-live="polite">
        <p class="runner">{runnerName(decision)}</p>
        <div>
          <p class="starts">{decision.starts ? "vLLM starts" : "vLLM will not start"}</p>
          <p>
            <Prose text={decision.summary} />
          </p>
          <p class="from">
            vLLM {decision.release.decided_as}
            {decision.release.defaulted ? " (the default release)" : decision.release.verified ? "" : " (not verified)"}
          </p>
        </div>
      </section>
      {properties.children}
      {errors.length > 0 && (
        <Card title="vLLM ends with">
          <ul>
            {errors.map((error, n) => (
              <li key={n}>
                <code class="wrap">{error}</code>
              </li>
            ))}
          </ul>
        </Card>
      )}
      <Copies env={decision.set_env} manifest={properties.manifest} path={properties.path} />
      {decision.reasons.length > 0 && (
        <Card title="Why">
          <ul class="reasons">
            {decision.reasons.map((reason, n) => (
              <ReasonView key={n} reason={reason} decision={decision} />
            ))}
          </ul>
        </Card>
      )}
      {decision.known_problems.length > 0 && (
        <Card title="Known problems">
          <Problems problems={decision.known_problems} />
        </Card>
      )}
      {(decision.remedies?.length ?? 0) > 0 && (
        <Remedies remedies={decision.remedies ?? []} whyNot={properties.whyNot} onTry={properties.onTry} />
      )}
      {alternative && (
        <Card title={`The other runner: ${alternative.runner.toUpperCase()}`}>
          <p>{alternative.starts ? "vLLM would start with it." : "vLLM would not start with it."}</p>
          {alternative.startup_errors.map((error, n) => (
            <p key={n}>
              <code class="wrap">{error}</code>
            </p>
          ))}
          {alternative.unsupported_features.length > 0 && (
            <p>It does not support: {alternative.unsupported_features.join(", ")}.</p>
          )}
          <Problems problems={alternative.known_problems} />
        </Card>
      )}
      <Card title="vLLM alone">
        <p>
          {differs ? "Without the house rules: " : "The same: "}
          {runnerName(upstream)}, {upstream.starts ? "starts" : "does not start"}.
        </p>
      </Card>
      <Assumptions decision={decision} />
      {decision.warnings.length > 0 && (
        <Card title="Notes">
          <ul>
            {decision.warnings.map((warning, n) => (
              <li key={n}>
                <Prose text={warning} />
              </li>
            ))}
          </ul>
        </Card>
      )}
    </div>
  );
}
