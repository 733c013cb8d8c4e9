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
  /** Goes to the line of a case; `null` where the cases are those of other rules. */
  readonly onLine: ((line: number) => void) | null;
}) {
  const failed = results.filter((each) => !each.passed).length;
  const cases = new Map<string, CaseOutcome[]>();
  for (const each of results) {
    const place = `${each.file} ${each.line.toString()}`;
    cases.set(place, [...(cases.get(place) ?? []), each]);
  }
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
        {[...cases].map(([place, found]) => {
          const failures = found.filter((each) => !each.passed);
          const title = (
            <>
              <span class={failures.length > 0 ? "failed" : "passed"}>{failures.length > 0 ? "✕" : "✓"}</span>{" "}
              <span class="hidden">{failures.length > 0 ? "failed: " : "passed: "}</span>
              {onLine === null && <code>{found[0]?.rule}</code>} {found[0]?.name}
            </>
          );
          return (
            <li key={place}>
              {onLine === null ? (
                <span>{title}</span>
              ) : (
                <button
                  type="button"
                  class="plain"
                  onClick={() => {
                    onLine(found[0]?.line ?? 1);
                  }}
                >
                  {title}
                </button>
              )}{" "}
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
