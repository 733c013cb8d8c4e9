/** The filter of a fleet as a form. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Filter, NO_FILTER, NOW } from "./fleet_rows";
import { COLUMN_WORDS, COLUMNS, KIND_NAMES, labelOf } from "./kinds";

const WAIT = 120;

interface Option {
  readonly value: string;
  readonly text: string;
}

function Choice(properties: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly Option[];
  readonly onValue: (value: string) => void;
}) {
  const id = `fleet-${properties.label}`.replaceAll(" ", "-");
  return (
    <span class="field">
      <label for={id}>{properties.label}</label>{" "}
      <select
        id={id}
        value={properties.value}
        onChange={(event) => {
          properties.onValue(event.currentTarget.value);
        }}
      >
        {properties.options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.text}
          </option>
        ))}
      </select>
    </span>
  );
}

/**
 * The text that is searched for; the rows follow when the user pauses, so that typing is never slow. A value from
 * elsewhere, such as a link, replaces it, and is never replaced by an older text.
 */
function Find({ value, onValue }: { readonly value: string; readonly onValue: (value: string) => void }) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const timer = useRef(0);
  useEffect(() => {
    if (value === sent.current) return;
    clearTimeout(timer.current);
    sent.current = value;
    setText(value);
  }, [value]);
  useEffect(
    () => () => {
      clearTimeout(timer.current);
    },
    [],
  );
  const change = (found: string): void => {
    setText(found);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      sent.current = found;
      onValue(found);
    }, WAIT);
  };
  return (
    <label>
      Find{" "}
      <input
        type="search"
        value={text}
        placeholder="name, file, rule"
        onInput={(event) => {
          change(event.currentTarget.value);
        }}
      />
    </label>
  );
}

export function Filters(properties: {
  readonly filter: Filter;
  readonly columns: readonly string[];
  readonly kinds: readonly string[];
  readonly onFilter: (part: Partial<Filter>) => void;
}) {
  const { filter, columns, kinds, onFilter } = properties;
  const [onFind] = useState(() => (find: string): void => {
    onFilter({ find });
  });
  const present = KIND_NAMES.filter((kind) => kinds.includes(kind) || kind === filter.kind);
  const isSet = Object.entries(NO_FILTER).some(
    ([name, value]) => name !== "order" && filter[name as keyof Filter] !== value,
  );
  return (
    <div class="row filters" role="search">
      <Find value={filter.find} onValue={onFind} />
      <Choice
        label="change"
        value={filter.kind}
        options={[{ value: "", text: "any" }, ...present.map((kind) => ({ value: kind, text: labelOf(kind) }))]}
        onValue={(kind) => {
          onFilter({ kind });
        }}
      />
      <Choice
        label="runs"
        value={filter.runs}
        options={[
          { value: "", text: "anything" },
          ...COLUMNS.map((column) => ({ value: column, text: COLUMN_WORDS[column] })),
        ]}
        onValue={(runs) => {
          onFilter({ runs });
        }}
      />
      <Choice
        label="in"
        value={filter.release}
        options={[
          { value: "", text: "any release" },
          ...columns.map((column) => ({ value: column, text: column === NOW ? "what runs now" : column })),
        ]}
        onValue={(release) => {
          onFilter({ release });
        }}
      />
      <label>
        <input
          type="checkbox"
          checked={filter.problems}
          onChange={(event) => {
            onFilter({ problems: event.currentTarget.checked });
          }}
        />{" "}
        known problems
      </label>
      <Choice
        label="order"
        value={filter.order}
        options={[
          { value: "worst", text: "worst first" },
          { value: "name", text: "by name" },
          { value: "given", text: "as given" },
        ]}
        onValue={(order) => {
          onFilter({ order });
        }}
      />
      {isSet && (
        <button
          type="button"
          onClick={() => {
            onFilter({ ...NO_FILTER, order: filter.order });
          }}
        >
          Remove all filters
        </button>
      )}
    </div>
  );
}
