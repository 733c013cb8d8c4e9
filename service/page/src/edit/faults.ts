/** The faults of a text: those that its schema finds at once, and those of the service, as places in the text. */

import { type OutputUnit, type Schema as ValidatorSchema, Validator } from "@cfworker/json-schema";
import { type Document, isMap, isNode, isPair, parseDocument } from "yaml";
import type { Problem } from "../api";
import type { Schema } from "./schema";

export interface Fault {
  /** From 1; the column in UTF-16 units, as the editor counts. */
  readonly line: number;
  readonly column: number;
  /** How many units it has; 0 for a place. */
  readonly length: number;
  readonly message: string;
}

const MAX_SHOWN = 100;
/** Keywords whose faults are said by those below them. */
const HOLDERS = new Set(["properties", "items", "$ref", "allOf", "if", "then", "else", "anyOf", "oneOf"]);
const validators = new WeakMap<Schema, Validator>();

/** What the schema finds in a text. */
export function schemaFaults(text: string, schema: Schema): Fault[] {
  const document = parseDocument(text, { logLevel: "silent", prettyErrors: false, uniqueKeys: true });
  const [error] = document.errors; // the others mostly follow from the first
  if (error !== undefined) return [faultAt(text, error.pos[0], error.pos[1], `not YAML: ${error.message}`)];
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch {
    return [faultAt(text, 0, 0, "the text has too many aliases")];
  }
  if (value === null) return [];
  let validator = validators.get(schema);
  if (validator === undefined) {
    validator = new Validator(schema as ValidatorSchema, "2020-12", false);
    validators.set(schema, validator);
  }
  const said = new Map<string, Fault>();
  for (const error of relevant(validator.validate(value).errors)) {
    const path = error.instanceLocation.slice(2).split("/").filter(Boolean).map(unescaped);
    const [from, to] = rangeOf(document, path, error);
    const message = worded(error, path);
    said.set(`${from.toString()} ${message}`, faultAt(text, from, to, message));
  }
  return [...said.values()].slice(0, MAX_SHOWN);
}

/** The faults of a problem in a file that was sent, by the names that the service gives it. */
export function serviceFaults(text: string, problem: Problem, files: readonly string[]): Fault[] {
  return (problem.errors ?? [])
    .filter((each) => each.file !== undefined && files.includes(each.file))
    .map((each) => {
      const from = offsetOf(text, each.line ?? 1, each.column ?? 1);
      return faultAt(text, from, wordEnd(text, from), each.message);
    });
}

/** The faults of a problem that are in none of the files. */
export function otherFaults(problem: Problem, files: readonly string[]): string[] {
  return (problem.errors ?? [])
    .filter((each) => each.file === undefined || !files.includes(each.file))
    .map((each) => (each.file === undefined ? each.message : `${each.file}: ${each.message}`));
}

function faultAt(text: string, from: number, to: number, message: string): Fault {
  const before = text.slice(0, from);
  const line = before.split("\n").length;
  return { line, column: from - before.lastIndexOf("\n"), length: Math.max(0, to - from), message };
}

function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let n = 1; n < line; n += 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  // Columns count characters, offsets count UTF-16 units.
  const end = text.indexOf("\n", start);
  const characters = [...text.slice(start, end < 0 ? text.length : end)].slice(0, column - 1).join("");
  return start + characters.length;
}

function wordEnd(text: string, from: number): number {
  return from + (/^(?:"[^"\n]*"|'[^'\n]*'|[^\s:,[\]{}]+)/.exec(text.slice(from, from + 200))?.[0].length ?? 0);
}

function unescaped(step: string): string {
  return decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
}

/** The errors that name something a reader can mend: of alternatives that all fail, the deepest, else the choice. */
function relevant(errors: readonly OutputUnit[]): OutputUnit[] {
  const choices = errors.filter((error) => error.keyword === "anyOf" || error.keyword === "oneOf");
  const within = (error: OutputUnit, choice: OutputUnit): boolean =>
    error !== choice && error.keywordLocation.startsWith(`${choice.keywordLocation}/`);
  const shown = errors.filter(
    (error) => !HOLDERS.has(error.keyword) && !choices.some((choice) => within(error, choice)),
  );
  for (const choice of choices) {
    if (choices.some((other) => within(choice, other))) continue;
    const below = errors.filter((error) => within(error, choice) && !HOLDERS.has(error.keyword));
    const depth = Math.max(0, ...below.map((error) => error.instanceLocation.length));
    const deeper = below.filter((error) => error.instanceLocation.length === depth);
    shown.push(...(depth > choice.instanceLocation.length ? deeper : [choice]));
  }
  return shown;
}

function worded(error: OutputUnit, path: readonly string[]): string {
  const name = path.at(-1) ?? "the text";
  const quoted = /"([^"]*)"/.exec(error.error)?.[1] ?? "";
  switch (error.keyword) {
    case "required":
      return `\`${quoted}\` is missing; add it`;
    case "additionalProperties":
      return `unknown field \`${quoted}\``;
    case "false":
      return `\`${name}\` is not legal here`;
    case "not":
      return "a field is both in the rule and in each of its ranges; leave one out";
    case "enum": {
      const legal = error.error.slice(error.error.indexOf("[") + 1, -2).replaceAll('"', "");
      return `expected one of ${legal.split(",").join(", ").slice(0, 400)}`;
    }
    case "anyOf":
    case "oneOf":
      return `\`${name}\` has none of the forms that are legal here`;
    default:
      return `\`${name}\`: ${error.error.replace(/^Instance /, "").replace(/\.$/, "")}`;
  }
}

/** The characters of a value, or of its key where the key is wrong. */
function rangeOf(document: Document, path: readonly string[], error: OutputUnit): [number, number] {
  const isKey = error.keyword === "false" || error.keyword === "additionalProperties";
  const unknown = error.keyword === "additionalProperties" ? /"([^"]*)"/.exec(error.error)?.[1] : undefined;
  const whole = unknown === undefined ? path : [...path, unknown];
  if (isKey) {
    const holder = document.getIn(whole.slice(0, -1), true) as unknown;
    const items = isMap(holder) ? holder.items : isMap(document.contents) ? document.contents.items : [];
    const pair = items.find((each) => isPair(each) && isNode(each.key) && each.key.toString() === whole.at(-1));
    if (pair && isNode(pair.key) && pair.key.range) return [pair.key.range[0], pair.key.range[1]];
  }
  const node = path.length === 0 ? document.contents : (document.getIn(path, true) as unknown);
  const range = isNode(node) ? node.range : null;
  if (!range) return [0, 0];
  return isMap(node) ? [range[0], range[0]] : [range[0], range[1]];
}
