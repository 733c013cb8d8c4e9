/** What of a fleet is shown: the filter, and the deployment and release that are open. */

import { member } from "../member";
import { type Filter, NO_FILTER } from "./fleet_rows";

export interface View extends Filter {
  /** The place of the open deployment in the result; -1 if none is open. */
  readonly open: number;
  /** The column of the open deployment whose answer is shown; empty for the one of its worst change. */
  readonly column: string;
}
export const NO_VIEW: View = { ...NO_FILTER, open: -1, column: "" };

/** The longest text of a filter in a link; a cause has the message of an error. */
const MAX_TEXT = 4000;

/** A view as a link has it; anything else is left out. */
export function viewOf(value: unknown): View {
  if (typeof value !== "object" || value === null) return NO_VIEW;
  const found = value as Readonly<Record<string, unknown>>;
  const text = (name: string, otherwise: string): string => {
    const given = member(found, name);
    return typeof given === "string" && given.length <= MAX_TEXT ? given : otherwise;
  };
  return {
    find: text("find", ""),
    kind: text("kind", ""),
    cause: text("cause", ""),
    runs: text("runs", ""),
    release: text("release", ""),
    problems: found.problems === true,
    order: text("order", NO_VIEW.order),
    open: typeof found.open === "number" && Number.isInteger(found.open) ? found.open : -1,
    column: text("column", ""),
  };
}

/** The parts of a view that are not as at the start, so that links are short. */
export function shortened(view: View): Partial<View> {
  const start: Readonly<Record<string, unknown>> = { ...NO_VIEW };
  return Object.fromEntries(Object.entries(view).filter(([name, value]) => value !== member(start, name)));
}
