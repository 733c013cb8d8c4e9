/** The results of the cases: those that fail with what happened instead, and what is missing. */

import type { CaseOutcome } from "../api";
import { Prose } from "../prose";

export function Cases({
  results,
  missing,
  onLine,
}: {
  readonly results: readonly CaseOutcome[];
  readonly missing: readonly string[];
  readonly onLine: (line: number) => void;
}) {
  const failed = results.filter((each) => !each.passed).length;
  const cases = new Map<number, CaseOutcome[]>();
  for (const each of results) cases.set(each.line, [...(cases.get(each.line) ?? []), each]);
  return (
    <>
      <p class={failed > 0 ? "failed" : "passed"}>
        {results.length - failed} passed, {failed} failed
      </p>
      {missing.map((each) => (
        <p key={each} class="failed">
          <Prose text={each} />
        </p>
      ))}
      <ul class="case-list">
        {[...cases].map(([line, found]) => {
          const failures = found.filter((each) => !each.passed);
          return (
            <li key={line}>
              <button
                type="button"
                class="plain"
                onClick={() => {
                  onLine(line);
                }}
              >
                <span class={failures.length > 0 ? "failed" : "passed"}>{failures.length > 0 ? "✕" : "✓"}</span>{" "}
                <span class="hidden">{failures.length > 0 ? "failed: " : "passed: "}</span>
                {found[0]?.name}
              </button>{" "}
              <span class="from">
                {found[0]?.fires ? "fires" : "does not fire"}, {found.map((each) => each.vllm_version).join(", ")}
              </span>
              {failures.map((each) => (
                <p key={each.vllm_version}>
                  {each.vllm_version}: <Prose text={each.found ?? ""} />
                </p>
              ))}
            </li>
          );
        })}
      </ul>
    </>
  );
}
