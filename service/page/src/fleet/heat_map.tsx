/** The heat map deployments × releases. Only the rows in sight are in the document, so that thousands stay usable. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { member } from "../member";
import { type Cell, NOW, type Row } from "./fleet_rows";
import { COLUMN_SIGNS, COLUMN_TONES, COLUMN_WORDS, KINDS, labelOf } from "./kinds";

const NARROW = 560;
const WIDE_ROW = 32;
const NARROW_ROW = 50;
/** Pixels of the kind and the name, of a cell with a sign, and between two written releases. */
const KIND_WIDTH = 112;
const SIGN_WIDTH = 20;
const WIDEST_CELL = 64;
const RELEASE_WIDTH = 14;
/** Rows beyond the edges that are in the document too. */
const BEYOND = 6;

interface Box {
  readonly width: number;
  readonly height: number;
}
interface Position {
  readonly row: number;
  readonly column: number;
}

/** The height of the header, in which the names of releases stand upright. */
function headerHeight(columns: readonly string[]): number {
  return 16 + 7 * Math.max(6, ...columns.map((column) => column.length));
}

function px(value: number): string {
  return `${value.toString()}px`;
}

/** What a cell is, in words for those who do not see it. */
function cellText(cell: Cell | null, column: string): string {
  if (cell === null) return `${column}: not compared`;
  const parts = [`${column === NOW ? `now ${cell.release}` : column}: ${COLUMN_WORDS[cell.column]}`];
  if (cell.problems > 0) parts.push(`known problems: ${cell.problems.toString()}`);
  if (cell.change !== null) parts.push(labelOf(cell.change.kind));
  return parts.join(", ");
}

function CellView(properties: {
  readonly cell: Cell | null;
  readonly column: string;
  readonly id: string;
  readonly isActive: boolean;
  readonly hasSign: boolean;
  readonly position: number;
}) {
  const { cell, column } = properties;
  const tone = cell === null ? "none" : COLUMN_TONES[cell.column];
  const isStep = cell?.change != null && cell.change.kind !== "reasons";
  return (
    <span
      role="gridcell"
      id={properties.id}
      aria-colindex={properties.position + 2}
      class={`heat ${tone}${isStep ? " changed" : ""}${properties.isActive ? " active" : ""}`}
      aria-label={cellText(cell, column)}
      data-column={properties.position}
    >
      {properties.hasSign && cell !== null && COLUMN_SIGNS[cell.column]}
      {cell !== null && cell.problems > 0 && <i class="dot" />}
    </span>
  );
}

/** The name without what does not fit: its end tells deployments apart, so the start is cut. */
function NameView({ name }: { readonly name: string }) {
  return (
    <span class="name">
      <bdi>{name}</bdi>
    </span>
  );
}

export function HeatMap(properties: {
  readonly rows: readonly Row[];
  readonly columns: readonly string[];
  readonly open: number;
  readonly onOpen: (row: Row, column: string) => void;
}) {
  const { rows, columns } = properties;
  const scroller = useRef<HTMLDivElement>(null);
  const [box, setBox] = useState<Box>({ width: 800, height: 600 });
  const [top, setTop] = useState(0);
  const [position, setPosition] = useState<Position>({ row: 0, column: -1 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const measure = (): void => {
      setBox({ width: element.clientWidth, height: element.clientHeight });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      observer.disconnect();
    };
  }, []);
  useEffect(() => {
    setPosition({ row: 0, column: -1 });
    if (scroller.current !== null) scroller.current.scrollTop = 0;
  }, [rows]);

  const header = useMemo(() => headerHeight(columns), [columns]);
  const isNarrow = box.width < NARROW;
  const height = isNarrow ? NARROW_ROW : WIDE_ROW;
  const count = Math.max(1, columns.length);
  const cellsWidth = isNarrow ? box.width : Math.min((box.width - KIND_WIDTH) * 0.65, count * WIDEST_CELL);
  const cellWidth = cellsWidth / count;
  const columnWidths = isNarrow ? {} : { gridTemplateColumns: `minmax(0, 1fr) ${px(cellsWidth)}` };
  const every = Math.max(1, Math.ceil(RELEASE_WIDTH / cellWidth));
  const active = Math.min(position.row, rows.length - 1);
  const first = Math.max(0, Math.floor((top - header) / height) - BEYOND);
  const last = Math.min(rows.length, Math.ceil((top + box.height) / height) + BEYOND);
  // a row that leaves the sight is reused for one that comes into it
  const slots = Math.max(1, last - first) + 1;
  const places = Array.from({ length: Math.max(0, last - first) }, (_, n) => first + n);
  if (active >= 0 && (active < first || active >= last)) places.push(active);

  const goTo = (row: number, column: number): void => {
    const to = Math.max(0, Math.min(rows.length - 1, row));
    setPosition({ row: to, column: Math.max(-1, Math.min(columns.length - 1, column)) });
    const element = scroller.current;
    if (element === null) return;
    const start = to * height;
    if (start < element.scrollTop) element.scrollTop = start;
    const end = start + height + header;
    if (end > element.scrollTop + element.clientHeight) element.scrollTop = end - element.clientHeight;
  };
  const openAt = (row: number, column: number): void => {
    const found = rows[row];
    if (found !== undefined) properties.onOpen(found, columns[column] ?? "");
  };
  const pressed = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor((box.height - header) / height) - 1);
    const { row, column } = { row: active, column: position.column };
    const moves: Readonly<Record<string, () => void>> = {
      ArrowDown: () => {
        goTo(row + 1, column);
      },
      ArrowUp: () => {
        goTo(row - 1, column);
      },
      ArrowRight: () => {
        goTo(row, column + 1);
      },
      ArrowLeft: () => {
        goTo(row, column - 1);
      },
      PageDown: () => {
        goTo(row + page, column);
      },
      PageUp: () => {
        goTo(row - page, column);
      },
      Home: () => {
        goTo(event.ctrlKey ? 0 : row, event.ctrlKey ? column : -1);
      },
      End: () => {
        goTo(event.ctrlKey ? rows.length - 1 : row, event.ctrlKey ? column : columns.length - 1);
      },
      Enter: () => {
        openAt(row, column);
      },
      " ": () => {
        openAt(row, column);
      },
    };
    const move = member(moves, event.key);
    if (move === undefined || event.altKey || event.metaKey) return;
    event.preventDefault();
    move();
  };
  const clicked = (event: MouseEvent): void => {
    const target = event.target instanceof Element ? event.target : null;
    const row = Number(target?.closest<HTMLElement>("[data-row]")?.dataset.row ?? "-1");
    const column = Number(target?.closest<HTMLElement>("[data-column]")?.dataset.column ?? "-1");
    if (row < 0) return;
    setPosition({ row, column });
    openAt(row, column);
  };
  const pointed = (event: MouseEvent): void => {
    const target = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>(".heat, .name") : null;
    if (target !== null) target.title = target.ariaLabel ?? target.textContent;
  };
  const idOf = (row: number, column: number): string => `cell-${row.toString()}-${column.toString()}`;
  return (
    <div
      ref={scroller}
      class={`map${isNarrow ? " narrow" : ""}`}
      role="grid"
      tabIndex={0}
      aria-label="Deployments and releases"
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length + 1}
      aria-activedescendant={active >= 0 ? idOf(active, position.column) : undefined}
      onKeyDown={pressed}
      onClick={clicked}
      onMouseOver={pointed}
      onScroll={(event) => {
        setTop(event.currentTarget.scrollTop);
      }}
    >
      <div role="row" aria-rowindex={1} class="line head" style={{ height: px(header), ...columnWidths }}>
        <span role="columnheader" aria-colindex={1} class="what">
          Deployment
        </span>
        <span role="presentation" class="cells">
          {columns.map((column, n) => (
            <span role="columnheader" aria-colindex={n + 2} key={column} class="heat">
              <span class={(columns.length - 1 - n) % every === 0 ? "upright" : "hidden"}>{column}</span>
            </span>
          ))}
        </span>
      </div>
      <div role="rowgroup" class="lines" style={{ height: px(rows.length * height) }}>
        {places.map((place) => {
          const row = rows[place];
          if (row === undefined) return null;
          const isActive = place === active;
          return (
            <div
              role="row"
              key={place < first || place >= last ? -1 : place % slots}
              aria-rowindex={place + 2}
              aria-selected={row.index === properties.open}
              data-row={place}
              class={`line${isActive ? " current" : ""}`}
              style={{ top: px(place * height), height: px(height), ...columnWidths }}
            >
              <span
                role="rowheader"
                aria-colindex={1}
                id={idOf(place, -1)}
                class={`what${isActive && position.column === -1 ? " active" : ""}`}
              >
                <span class={`kind ${KINDS.get(row.kind)?.tone ?? "unknown"}`}>{labelOf(row.kind)}</span>
                <NameView name={row.item.name} />
              </span>
              <span role="presentation" class="cells">
                {columns.map((column, n) => (
                  <CellView
                    key={column}
                    cell={row.cells[n] ?? null}
                    column={column}
                    id={idOf(place, n)}
                    isActive={isActive && position.column === n}
                    hasSign={cellWidth >= SIGN_WIDTH}
                    position={n}
                  />
                ))}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
