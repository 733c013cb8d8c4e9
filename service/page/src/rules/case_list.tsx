/** The cases of a rule, and the deployment among them that it catches. */

import { stringify } from "yaml";
import type { RuleCase } from "../api";
import { AskLink } from "../ask/ask_link";
import { Prose } from "../prose";

function Given({ case_ }: { readonly case_: RuleCase }) {
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

export function CaseList({ cases, file }: { readonly cases: readonly RuleCase[]; readonly file: string }) {
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
                {each.starts !== undefined && (each.starts ? ", starts" : ", will not start")}, {each.vllm.join(", ")}
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
