/** Where an engine of a manifest is: in the text, and in the request. Its path is the one of the answer. */

import { isMap, isNode, isSeq } from "yaml";
import { isObject } from "../member";
import { FIELDS_BESIDE_MANIFEST } from "./input";
import { jsonSpan, type Span } from "./json_places";
import { structureOf } from "./yaml";

/** The keys and indices that lead to a value. */
export type Steps = readonly (string | number)[];

/** The longest text whose structure is read for a place; in a longer one only documents and items are told apart. */
const MAX_READ = 1 << 16;

/** The steps of a path such as `items[0].spec.containers[0]` in a value; `null` if it does not lead anywhere. */
export function stepsTo(value: unknown, path: string): Steps | null {
  if (path === "") return [];
  const index = /^\[(\d+)\]\.?/.exec(path);
  if (index !== null) {
    const n = Number(index[1]);
    if (!Array.isArray(value) || n >= value.length) return null;
    const rest = stepsTo(value[n], path.slice(index[0].length));
    return rest === null ? null : [n, ...rest];
  }
  if (!isObject(value)) return null;
  // A key may have dots: the longest that fits is tried first.
  const keys = Object.keys(value).filter((key) => path.startsWith(key) && /^(?:$|[.[])/.test(path.slice(key.length)));
  for (const key of keys.sort((one, other) => other.length - one.length)) {
    const [, child] = Object.entries(value).find(([name]) => name === key) ?? [];
    const rest = stepsTo(child, path.slice(key.length).replace(/^\./, ""));
    if (rest !== null) return [key, ...rest];
  }
  return null;
}

/** The value at steps; `undefined` where there is none. */
export function valueAt(value: unknown, steps: Steps): unknown {
  return steps.reduce<unknown>((found, step) => {
    if (typeof step === "number") return Array.isArray(found) ? (found as unknown[])[step] : undefined;
    return isObject(found) && Object.hasOwn(found, step) ? new Map(Object.entries(found)).get(step) : undefined;
  }, value);
}

/** The value with another one at steps, which lead somewhere. */
export function withValueAt(value: unknown, steps: Steps, replaced: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return replaced;
  const child = withValueAt(valueAt(value, [step]), rest, replaced);
  if (typeof step === "number")
    return Array.isArray(value) ? value.map((each, n) => (n === step ? child : each)) : value;
  return isObject(value) ? { ...value, [step]: child } : value;
}

/**
 * The documents of a YAML text that have something in them, as the service counts them; also after `---` in its line.
 * One with other fields of the request is no part of the manifest.
 */
function documentSpans(text: string): Span[] {
  const found: Span[] = [];
  let start = 0;
  for (const mark of [...text.matchAll(/^(?:---|\.\.\.)(?=\s|$)/gm), null]) {
    const end = mark?.index ?? text.length;
    if (!isEmpty(text.slice(start, end))) found.push({ start, end });
    start = end + 3;
  }
  const objects = found.filter((span) => !hasOnlyFields(text.slice(span.start, span.end)));
  return objects.length === found.length - 1 ? objects : found;
}

function hasOnlyFields(document: string): boolean {
  const names = [...document.matchAll(/^([A-Za-z_]\w*)\s*:/gm)].map((found) => found[1] ?? "");
  return names.length > 0 && names.every((name) => FIELDS_BESIDE_MANIFEST.has(name));
}

/** Whether a document has nothing but comments, directives and the value null. */
function isEmpty(document: string): boolean {
  for (const [line] of document.matchAll(/[^\n]+/g)) {
    const words = line.trim();
    if (words !== "" && !words.startsWith("#") && !line.startsWith("%")) return /^(?:~|null)(?:\s+#.*)?$/i.test(words);
  }
  return true;
}

/** The items of a list under `items:`, each with its dash, as `kubectl get … -o yaml` writes them. */
function itemSpans(text: string): Span[] {
  const head = /^items:[ \t]*$/m.exec(text);
  if (head === null) return [];
  const starts: number[] = [];
  const rest = text.slice(head.index + head[0].length);
  const ends = /^[^\s#-]/m.exec(rest)?.index ?? rest.length;
  for (const dash of rest.slice(0, ends).matchAll(/^- /gm)) starts.push(head.index + head[0].length + dash.index);
  return starts.map((start, n) => ({ start, end: starts[n + 1] ?? head.index + head[0].length + ends }));
}

/** The piece of the text with the object at the beginning of a path, and what is left of the path in it. */
function pieceOf(text: string, path: string): [Span, string, "document" | "item"] | null {
  const found = /^(items)?\[(\d+)\]\.?/.exec(path);
  if (found === null) return null;
  const spans = found[1] === undefined ? documentSpans(text) : itemSpans(text);
  const span = spans.length > 1 || found[1] !== undefined ? spans[Number(found[2])] : undefined;
  return span === undefined ? null : [span, path.slice(found[0].length), found[1] === undefined ? "document" : "item"];
}

/** The object of a JSON text at the beginning of a path, also of a request that has a manifest. */
function objectSpan(text: string, path: string): Span | null {
  const found = /^(items)?\[(\d+)\]/.exec(path);
  if (found === null) return null;
  const steps = [...(found[1] === undefined ? [] : [found[1]]), Number(found[2])];
  return jsonSpan(text, steps) ?? jsonSpan(text, ["manifest", ...steps]);
}

/** The part of the text that is about the engine at a path; all of it if that cannot be said. */
export function spanOf(text: string, path: string): Span {
  const whole = { start: 0, end: text.length };
  if (path === "") return whole;
  if (text.length > MAX_READ && /^\s*[[{]/.test(text)) return objectSpan(text, path) ?? whole;
  const piece = pieceOf(text, path);
  const [span, rest] = piece ?? [whole, path];
  if (span.end - span.start > MAX_READ) return span;
  let node: unknown;
  let value: unknown;
  try {
    const document = structureOf(text.slice(span.start, span.end));
    node = document.contents;
    value = document.toJS({ maxAliasCount: 100 });
  } catch {
    return span;
  }
  const steps = stepsTo(value, piece?.[2] === "item" ? `[0].${rest}` : rest);
  if (steps === null || steps.length === 0) return span;
  for (const step of steps) node = isMap(node) || isSeq(node) ? node.get(step, true) : undefined;
  const range = isNode(node) ? node.range : null;
  return range ? { start: span.start + range[0], end: span.start + range[2] } : span;
}
