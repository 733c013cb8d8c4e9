/** The words of a command with a flag changed. Owns which words are the flag's. */

import type { Change } from "../api";
import { isObject, withMember, withoutMember } from "../member";
import { shown } from "../remedy_text";
import { isValue, mayMean, writtenFlag } from "./flag_forms";

/** A value with a change, or why the page cannot make it there. */
export type Changed<T> = { readonly value: T } | { readonly why: string };

/** Words in the place of those from one to before another. */
interface WordEdit {
  readonly from: number;
  readonly to: number;
  readonly words: readonly string[];
}

/**
 * The edits of the words that make a change, in order; `null` if what is changed is not among them. `at` is the place of
 * the flag when the change was offered, if it is known: it counts if no word names the flag and this one may mean it.
 */
export function wordEdits(words: readonly string[], change: Change, at: number | null): WordEdit[] | null {
  const [flag = "", ...path] = (change.argument ?? "").split(".");
  const places = placesOf(words, flag, change, at);
  if (path.length > 0) return memberEdits(words, places, path, change.to);
  const written = writtenAs(flag, change.to);
  if (places.length === 0) {
    return change.to === null ? null : [{ from: words.length, to: words.length, words: written }];
  }
  return places.map(({ from, to }, n) => ({ from, to, words: n === places.length - 1 ? written : [] }));
}

/** The words with edits made in them. */
export function withEdits(words: readonly string[], edits: readonly WordEdit[]): string[] {
  return [...edits]
    .reverse()
    .reduce((found, each) => found.toSpliced(each.from, each.to - each.from, ...each.words), [...words]);
}

function writtenAs(flag: string, value: unknown): string[] {
  if (value === null) return [];
  if (value === true) return [flag];
  return value === false ? [`--no-${flag.slice(2)}`] : [flag, shown(value)];
}

/** A flag among the words, with its values. */
interface FlagPlace {
  readonly from: number;
  readonly to: number;
  readonly path: readonly string[];
  /** What precedes a joined value; `null` if the value is a word of its own, or there is none. */
  readonly head: string | null;
  readonly value: string | null;
}

function placesOf(words: readonly string[], flag: string, change: Change, at: number | null): FlagPlace[] {
  const found: FlagPlace[] = [];
  const isNamed = words.some((word) => writtenFlag(word, flag) !== null);
  for (const [from, word] of words.entries()) {
    const isMeant = !isNamed && from === at && mayMean(word, flag);
    const written = isMeant ? asWritten(word) : writtenFlag(word, flag);
    if (written === null) continue;
    const { path, joined } = written;
    const most = joined !== null || written.isNegated ? 0 : path.length > 0 ? 1 : valuesOf(change.from);
    let to = from + 1;
    while (to - from <= most && isValue(words[to])) to += 1;
    const value = joined?.value ?? (most > 0 && to > from + 1 ? words[from + 1] : null) ?? null;
    found.push({ from, to, path, head: joined?.head ?? null, value });
  }
  return found;
}

/** A word that is known to be the flag, such as an abbreviation. */
function asWritten(word: string): ReturnType<typeof writtenFlag> {
  const name = word.split(/[=.]/, 1)[0] ?? word;
  return writtenFlag(word, name.replaceAll("_", "-"));
}

/** How many words a flag has after it, by its value: a boolean none, a list one for each item. */
function valuesOf(value: unknown): number {
  if (typeof value === "boolean") return 0;
  const list = typeof value === "string" && value.startsWith("[") ? parsed(value) : value;
  return Array.isArray(list) ? list.length : 1;
}

function memberEdits(
  words: readonly string[],
  places: readonly FlagPlace[],
  path: readonly string[],
  to: unknown,
): WordEdit[] | null {
  const edits: WordEdit[] = [];
  for (const place of places) {
    if (place.path.length > 0) {
      const isIt = place.path.map(underscored).join(".") === path.map(underscored).join(".");
      const head = (words[place.from] ?? "").split("=", 1);
      if (isIt) edits.push({ from: place.from, to: place.to, words: to === null ? [] : [...head, shown(to)] });
      continue;
    }
    const object = place.value === null ? null : parsed(place.value);
    if (!isObject(object)) continue;
    const json = JSON.stringify(withPath(object, path, to));
    const written = place.head === null ? [words[place.from] ?? "", json] : [place.head + json];
    edits.push({ from: place.from, to: place.to, words: written });
  }
  return edits.length === 0 ? null : edits;
}

function underscored(step: string): string {
  return step.replaceAll("-", "_");
}

/** The object with another value at a path; without the member if the value is `null`. */
export function withPath(
  object: Readonly<Record<string, unknown>>,
  path: readonly string[],
  value: unknown,
): Record<string, unknown> {
  const [name = "", ...rest] = path;
  if (rest.length > 0) {
    const found = new Map(Object.entries(object)).get(name);
    return withMember(object, name, withPath(isObject(found) ? found : {}, rest, value));
  }
  return value === null ? withoutMember(object, name) : withMember(object, name, value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
