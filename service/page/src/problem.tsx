/** A problem of the service, with every fault and where it is. */

import type { Problem } from "./api";
import { Prose } from "./prose";

const MAX_SHOWN = 50;

export function ProblemView({ problem }: { readonly problem: Problem }) {
  const faults = problem.errors ?? [];
  const needsToken = problem.status === 401 || problem.status === 403;
  return (
    <section class="card problem" role="alert">
      <h2>{problem.title}</h2>
      {faults.length === 0 && (
        <p>
          <Prose text={problem.detail} />
        </p>
      )}
      <ul>
        {faults.slice(0, MAX_SHOWN).map((fault, n) => (
          <li key={n}>
            {fault.pointer !== "" && <code>{fault.pointer}</code>} <Prose text={fault.message} />
          </li>
        ))}
      </ul>
      {faults.length > MAX_SHOWN && <p>and {faults.length - MAX_SHOWN} more</p>}
      {needsToken && <p>Give a token that may do this at “Token” above. It stays in this tab.</p>}
    </section>
  );
}
