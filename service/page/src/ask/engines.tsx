/** The engines of a manifest as a list, a part at a time, so that thousands stay usable. */

import { useState } from "preact/hooks";
import type { Engine, Engines } from "../api";
import { ShowMore } from "../show_more";
import { runnerName, tone } from "./answer";

const SHOWN_AT_ONCE = 100;

function nameOf(engine: Engine): string {
  const named = [engine.namespace, engine.kind, engine.name].filter((part) => part !== null).join("/");
  return named === "" ? engine.path : named;
}

/** What is said of a manifest with a single engine, which is no list. */
export function BesideEngine({ engines: { ignored = [], warnings = [] } }: { readonly engines: Engines }) {
  if (ignored.length + warnings.length === 0) return null;
  return (
    <section class="card engines">
      {ignored.length > 0 && <p class="from">other objects: {ignored.length}</p>}
      <Warnings texts={warnings} />
    </section>
  );
}

function Warnings({ texts }: { readonly texts: readonly string[] }) {
  return (
    <>
      {texts.map((text, n) => (
        <p key={n}>{text}</p>
      ))}
    </>
  );
}

export function EngineList(properties: {
  readonly engines: Engines;
  readonly selected: string;
  readonly onSelect: (path: string) => void;
}) {
  const [limit, setLimit] = useState(SHOWN_AT_ONCE);
  const [query, setQuery] = useState("");
  const { items, ignored = [], warnings = [] } = properties.engines;
  const wanted = query.toLowerCase();
  const found = items.filter((item) => `${nameOf(item)} ${item.path}`.toLowerCase().includes(wanted));
  const count = (test: (item: Engine) => boolean): string => items.filter(test).length.toString();
  return (
    <section class="card engines">
      <h2>
        {items.length} {items.length === 1 ? "engine" : "engines"}
      </h2>
      <p class="from">
        V2: {count((item) => item.decision?.runner === "v2")}, V1: {count((item) => item.decision?.runner === "v1")},
        will not start: {count((item) => item.decision?.starts === false)}, not decided:{" "}
        {count((item) => item.problem !== undefined)}
        {ignored.length > 0 && `, other objects: ${ignored.length.toString()}`}
      </p>
      <Warnings texts={warnings} />
      {items.length > SHOWN_AT_ONCE && (
        <label>
          Find{" "}
          <input
            type="search"
            value={query}
            onInput={(event) => {
              setQuery(event.currentTarget.value);
              setLimit(SHOWN_AT_ONCE);
            }}
          />
        </label>
      )}
      <ul>
        {found.slice(0, limit).map((item) => (
          <li key={item.path}>
            <button
              type="button"
              aria-pressed={item.path === properties.selected}
              onClick={() => {
                properties.onSelect(item.path);
              }}
            >
              <span class={`badge ${item.decision ? tone(item.decision) : "unknown"}`}>
                {item.decision ? runnerName(item.decision) : "?"}
              </span>
              <span class="name">{nameOf(item)}</span>
              {(item.problem !== undefined || nameOf(item) !== item.path) && (
                <span class="from">{item.problem?.title ?? item.path}</span>
              )}
            </button>
          </li>
        ))}
      </ul>
      <ShowMore
        left={found.length - limit}
        onMore={() => {
          setLimit(limit + SHOWN_AT_ONCE);
        }}
      />
    </section>
  );
}
