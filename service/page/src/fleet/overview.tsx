/** How many deployments change and how, what makes it, and what each release does with how many; each a filter. */

import { useState } from "preact/hooks";
import { Prose } from "../prose";
import { countsByCause, countsByColumn, countsByKind, type Filter, NOW, type Row } from "./fleet_rows";
import { COLUMN_TONES, COLUMN_WORDS, COLUMNS, KINDS, labelOf } from "./kinds";

const CAUSES_SHOWN = 8;

/** A number with separators between thousands. */
export function number(value: number): string {
  return value.toLocaleString("en");
}

interface Filtering {
  readonly filter: Filter;
  readonly onFilter: (part: Partial<Filter>) => void;
}

export function KindCounts({ rows, filter, onFilter }: Filtering & { readonly rows: readonly Row[] }) {
  const counts = countsByKind(rows);
  const most = Math.max(1, ...counts.map((each) => each.number));
  const known = counts.some((each) => each.kind === filter.kind);
  const shown = filter.kind === "" || known ? counts : [...counts, { kind: filter.kind, number: 0 }];
  const line = (kind: string, label: string, count: number, meaning: string) => (
    <li key={kind}>
      <button
        type="button"
        class={KINDS.get(kind)?.tone ?? "unknown"}
        aria-pressed={filter.kind === kind}
        title={meaning}
        onClick={() => {
          onFilter({ kind: filter.kind === kind ? "" : kind });
        }}
      >
        <span class="label">{label}</span>
        <span class="count">{number(count)}</span>
        {kind !== "" && <span class="bar" style={{ width: `${((100 * count) / most).toString()}%` }} />}
      </button>
    </li>
  );
  return (
    <section class="card counts">
      <h2>Changes</h2>
      <ul>
        {shown.map((each) => line(each.kind, labelOf(each.kind), each.number, KINDS.get(each.kind)?.meaning ?? ""))}
        {line("", "all", rows.length, "deployments of every kind")}
      </ul>
    </section>
  );
}

export function CauseCounts({ rows, filter, onFilter }: Filtering & { readonly rows: readonly Row[] }) {
  const [isWhole, setWhole] = useState(false);
  const causes = countsByCause(rows);
  if (causes.length === 0) return null;
  const shown = isWhole ? causes.slice(0, 500) : causes.slice(0, CAUSES_SHOWN);
  return (
    <section class="card counts causes">
      <h2>What makes the changes</h2>
      <ul>
        {shown.map(({ key, row, number: count }) => (
          <li key={key}>
            <button
              type="button"
              class={KINDS.get(row.kind)?.tone ?? "unknown"}
              aria-pressed={filter.cause === key}
              onClick={() => {
                onFilter({ cause: filter.cause === key ? "" : key });
              }}
            >
              <span class="label">
                {labelOf(row.kind)} at {row.change?.to}
              </span>
              <span class="count">{number(count)}</span>
              <span class="cause">
                <Prose text={row.cause === "" ? "no rule" : row.cause} />
              </span>
            </button>
          </li>
        ))}
      </ul>
      {causes.length > shown.length && !isWhole && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            setWhole(true);
          }}
        >
          Show all {number(causes.length)}
        </button>
      )}
      {isWhole && causes.length > shown.length && <p>and {number(causes.length - shown.length)} more</p>}
    </section>
  );
}

export function ReleaseCounts(
  properties: Filtering & { readonly rows: readonly Row[]; readonly columns: readonly string[] },
) {
  const { rows, columns, filter, onFilter } = properties;
  const counts = countsByColumn(rows, columns);
  const used = COLUMNS.filter((column) => counts.some((each) => each[column] > 0));
  return (
    <section class="card releases">
      <h2>Releases</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">release</th>
            {used.map((column) => (
              <th key={column} scope="col">
                {COLUMN_WORDS[column]}
              </th>
            ))}
            <td class="share" />
          </tr>
        </thead>
        <tbody>
          {columns.map((release, n) => {
            const found = counts[n];
            const all = found === undefined ? 0 : used.reduce((sum, column) => sum + found[column], 0);
            return (
              <tr key={release}>
                <th scope="row">{release === NOW ? "now" : release}</th>
                {used.map((column) => {
                  const value = found?.[column] ?? 0;
                  const isChosen = filter.runs === column && filter.release === release;
                  return (
                    <td key={column}>
                      {value === 0 && !isChosen ? (
                        <span class="from">0</span>
                      ) : (
                        <button
                          type="button"
                          class={`plain ${COLUMN_TONES[column]}`}
                          aria-pressed={isChosen}
                          aria-label={`${number(value)}: ${COLUMN_WORDS[column]} in ${release}`}
                          onClick={() => {
                            onFilter(isChosen ? { runs: "", release: "" } : { runs: column, release });
                          }}
                        >
                          {number(value)}
                        </button>
                      )}
                    </td>
                  );
                })}
                <td class="share" aria-hidden="true">
                  <span>
                    {used.map((column) => (
                      <i
                        key={column}
                        class={COLUMN_TONES[column]}
                        style={{ width: `${((100 * (found?.[column] ?? 0)) / Math.max(1, all)).toString()}%` }}
                      />
                    ))}
                  </span>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
