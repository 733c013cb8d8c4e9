/** The cases of a rule, and the deployment or request among them that it catches. */

import { stringify } from "yaml";
import type { RequestRuleCase, RuleCase } from "../api";
import { AskLink } from "../ask/ask_link";
import { Prose } from "../prose";

type Case = RuleCase | RequestRuleCase;

function Given({ case_ }: { readonly case_: Case }) {
  return <pre class="yaml">{stringify(case_.given, { lineWidth: 0 }).trim()}</pre>;
}

/** The first deployment for which the rule fires, in the newest release for which a case says so. */
export function Caught({ cases }: { readonly cases: readonly RuleCase[] }) {
  const found = cases.find((each) => each.fires);
  const release = found?.vllm.at(-1);
  if (found === undefined || release === undefined) return null;
  return (
    <>
      <h3>A deployment that it catches</h3>
      <Given case_={found} />
      <p class="links">
        <AskLink request={{ vllm_version: release, facts: found.given }} name={`Ask about it in ${release}`} />
      </p>
    </>
  );
}

/** The first request for which a rule about requests fires, with what it says. */
export function CaughtRequest({ cases }: { readonly cases: readonly RequestRuleCase[] }) {
  const found = cases.find((each) => each.fires);
  if (found === undefined) return null;
  return (
    <>
      <h3>A request that it catches</h3>
      <Given case_={found} />
      <p class="from">
        with {found.runner.toUpperCase()} in {found.vllm.join(", ")}
      </p>
      {found.message !== undefined && (
        <p class="remedy">
          <Prose text={found.message} />
        </p>
      )}
    </>
  );
}

export function CaseList({ cases, file }: { readonly cases: readonly Case[]; readonly file: string }) {
  return (
    <details>
      <summary>
        {cases.length} cases, in <code>{file}</code>
      </summary>
      <ul class="rule-cases">
        {cases.map((each, n) => (
          <li key={n}>
            <p>
              {each.name}{" "}
              <span class="from">
                {each.fires ? "fires" : "does not fire"}
                {"runner" in each && `, ${each.runner.toUpperCase()}`}
                {"starts" in each && (each.starts ? ", starts" : ", will not start")}, {each.vllm.join(", ")}
              </span>
            </p>
            {each.message !== undefined && (
              <p class="remedy">
                <Prose text={each.message} />
              </p>
            )}
            <Given case_={each} />
          </li>
        ))}
      </ul>
    </details>
  );
}
