/** A fleet's impact: counts, filters, the heat map, and the page of a deployment. The page and the report both show it. */

import { useCallback, useMemo, useRef } from "preact/hooks";
import { DeploymentView, type RuleSource } from "./deployment";
import { filtered, type Filter, NO_FILTER, type Row, type Rows, rowsOf } from "./fleet_rows";
import { Filters } from "./filters";
import { HeatMap } from "./heat_map";
import { NOT_DECIDED } from "./kinds";
import { CauseCounts, KindCounts, number, ReleaseCounts } from "./overview";
import type { FleetResult } from "./result";
import type { View } from "./view_state";
import "./fleet.css";

/** How many deployments change, in one sentence. */
function headline(rows: Rows): string {
  const changed = rows.all.filter((row) => row.change !== null).length;
  const undecided = rows.all.filter((row) => row.kind === NOT_DECIDED).length;
  const all = rows.all.length;
  const text = `${number(changed)} of ${number(all)} ${all === 1 ? "deployment" : "deployments"} ${changed === 1 ? "changes" : "change"}`;
  return undecided === 0 ? text : `${text}; ${number(undecided)} ${undecided === 1 ? "is" : "are"} not decided`;
}

export function FleetView(properties: {
  readonly result: FleetResult;
  readonly view: View;
  readonly rules: RuleSource;
  readonly onView: (change: (before: View) => View) => void;
}) {
  const { result, view, rules, onView } = properties;
  const list = useRef<HTMLElement>(null);
  const rows = useMemo(() => rowsOf(result), [result]);
  const { find, kind, cause, runs, release, problems, order } = view;
  const filter: Filter = useMemo(
    () => ({ find, kind, cause, runs, release, problems, order }),
    [find, kind, cause, runs, release, problems, order],
  );
  const { ofAnyKind, shown } = useMemo(() => filtered(rows, filter), [rows, filter]);
  const kinds = useMemo(() => [...new Set(rows.all.map((row) => row.kind))], [rows]);
  const title = useMemo(() => headline(rows), [rows]);
  const onFilter = useCallback(
    (part: Partial<Filter>) => {
      onView((before) => ({ ...before, ...part }));
    },
    [onView],
  );
  const onOpen = useCallback(
    (row: Row, column: string) => {
      onView((before) => ({ ...before, open: row.index, column }));
    },
    [onView],
  );
  const withoutCause = useMemo(
    () => (cause === "" ? shown : filtered(rows, { ...filter, cause: "" }).shown),
    [rows, filter, cause, shown],
  );
  const open = rows.all[view.open];
  const close = (): void => {
    onView((before) => ({ ...before, open: -1, column: "" }));
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>(".map")?.focus());
  };
  return (
    <main class={`fleet${open === undefined ? "" : " opened"}`}>
      <section class="list" ref={list}>
        <h1>{result.title === "" ? title : result.title}</h1>
        {result.title !== "" && <p>{title}</p>}
        {!result.complete && (
          <p role="alert" class="card problem">
            This is not the whole fleet: the run was interrupted, or a limit was reached.
          </p>
        )}
        <Filters filter={filter} columns={rows.columns} kinds={kinds} onFilter={onFilter} />
        <p role="status" class="from">
          {number(shown.length)} of {number(rows.all.length)} deployments
          {filter.cause !== "" && ", of one cause"}
        </p>
        {shown.length > 0 ? (
          <HeatMap rows={shown} columns={rows.columns} open={view.open} onOpen={onOpen} />
        ) : (
          <div class="card">
            <p>
              {rows.all.length === 0 ? "There are no deployments in it." : "No deployment is left by these filters."}
            </p>
            {rows.all.length > 0 && (
              <button
                type="button"
                onClick={() => {
                  onFilter(NO_FILTER);
                }}
              >
                Show all deployments
              </button>
            )}
          </div>
        )}
        <p class="legend from">
          <span class="heat v1">V1</span> <span class="heat v2">V2</span> <span class="heat own">own</span> runner,{" "}
          <span class="heat stops">✕</span> will not start, <span class="heat unknown">?</span> undecided,{" "}
          <span class="heat none">
            <i class="dot" />
          </span>{" "}
          known problems, <span class="heat none changed" /> something changes
        </p>
      </section>
      <section class="side">
        {open === undefined ? (
          <>
            <KindCounts rows={ofAnyKind} filter={filter} onFilter={onFilter} />
            <CauseCounts rows={withoutCause} filter={filter} onFilter={onFilter} />
            <ReleaseCounts rows={shown} columns={rows.columns} filter={filter} onFilter={onFilter} />
          </>
        ) : (
          <DeploymentView
            row={open}
            columns={rows.columns}
            column={view.column}
            rules={rules}
            onColumn={(column) => {
              onView((before) => ({ ...before, column }));
            }}
            onClose={close}
          />
        )}
      </section>
    </main>
  );
}
