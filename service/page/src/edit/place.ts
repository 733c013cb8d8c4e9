/** Where a position is in a YAML text that may be incomplete: the path to it, and what is being typed there.

Reads the text in one pass: the indentation of keys and list items, and brackets. Not here: what is legal there. */

/** The steps from the root: a key, or `null` for an item of a list. */
export type Path = readonly (string | null)[];

export interface Place {
  readonly path: Path;
  /** A key, a value, either of them where an item or a line begins, or a text of several lines. */
  readonly kind: "key" | "value" | "either" | "text";
  /** Where the word before the position begins. */
  readonly from: number;
  readonly typed: string;
  /** The column in which a key would begin; `null` within brackets. */
  readonly column: number | null;
}

interface Entry {
  readonly column: number;
  readonly step: string | null;
}
interface Bracket {
  readonly isMap: boolean;
  key: string | null;
  from: number;
}

/** A key and its colon: quoted, or plain with the blanks after it, so that a long line takes linear time. */
const KEY = /^(?:("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[^\S\n]*|([^\s#'"[\]{},|>&*!%@`-][^:#]*|-[^\s:#][^:#]*)):(?=\s|$)/;
const BLOCK_TEXT = /^[|>][-+0-9]*\s*(?:#.*)?$/;

/** The place of a position in a text, which is read only up to there. */
export function placeAt(text: string, at: number): Place {
  const entries: Entry[] = [];
  const brackets: Bracket[] = [];
  let textColumn: number | null = null;
  let start = 0;
  for (;;) {
    const found = text.indexOf("\n", start);
    const isLast = found < 0 || found >= at;
    const line = text.slice(start, isLast ? at : found);
    const place = readLine(line, start, isLast);
    if (place !== null) return place;
    start = found + 1;
  }

  function readLine(line: string, offset: number, isLast: boolean): Place | null {
    if (brackets.length > 0) return readBrackets(line, 0, offset, isLast);
    let position = line.length - line.trimStart().length;
    if (textColumn !== null) {
      if (position > textColumn || (line.trim() === "" && !isLast)) return isLast ? inText(line, offset) : null;
      textColumn = null;
    }
    const rest = line.slice(position);
    if (rest === "" || rest.startsWith("#")) {
      if (!isLast) return null;
      leave(position);
      return rest === "" ? placeOf("either", offset + position, "", position) : placeOf("text", at, "", null);
    }
    while (/^-(?:\s|$)/.test(line.slice(position))) {
      leave(position, true);
      entries.push({ column: position, step: null });
      position += 1 + (/^ */.exec(line.slice(position + 1))?.[0].length ?? 0);
    }
    leave(position);
    const key = KEY.exec(line.slice(position));
    const name = key?.[1] ?? key?.[2];
    if (key === null || name === undefined) {
      if (/^[[{]/.test(line.slice(position))) return readBrackets(line, position, offset, isLast);
      return isLast ? placeOf("either", offset + position, line.slice(position), position) : null;
    }
    entries.push({ column: position, step: unquoted(name.trimEnd()) });
    const column = position;
    position += key[0].length;
    position += line.slice(position).length - line.slice(position).trimStart().length;
    const value = line.slice(position);
    if (BLOCK_TEXT.test(value)) {
      textColumn = column;
      return isLast ? placeOf("text", at, "", null) : null;
    }
    if (/^[[{]/.test(value)) return readBrackets(line, position, offset, isLast);
    return isLast ? placeOf("value", offset + position, value, column) : null;
  }

  /** Leaves what ends before an entry at a column; an item may be in the column of its list's key. */
  function leave(column: number, isItem = false): void {
    for (let last = entries.at(-1); last !== undefined; last = entries.at(-1)) {
      if (last.column < column || (isItem && last.column === column && last.step !== null)) return;
      entries.pop();
    }
  }

  function readBrackets(line: string, begin: number, offset: number, isLast: boolean): Place | null {
    let quote = "";
    for (let n = begin; n < line.length; n += 1) {
      const character = line.charAt(n);
      const top = brackets.at(-1);
      if (quote !== "") {
        if (character === "\\" && quote === '"') n += 1;
        else if (character === quote) quote = "";
      } else if ((character === '"' || character === "'") && (top === undefined || isBlank(text, top.from, offset + n)))
        quote = character;
      else if (character === "#" && /\s/.test(line.charAt(n - 1))) break;
      else if (character === "{" || character === "[")
        brackets.push({ isMap: character === "{", key: null, from: offset + n + 1 });
      else if (character === "}" || character === "]") {
        brackets.pop();
        if (brackets.length === 0) return isLast ? placeOf("text", at, "", null) : null;
      } else if (top && character === ",") {
        top.key = null;
        top.from = offset + n + 1;
      } else if (top?.isMap && top.key === null && character === ":" && /\s|^$/.test(line.charAt(n + 1))) {
        top.key = unquoted(text.slice(top.from, offset + n).trim());
        top.from = offset + n + 1;
      }
    }
    const top = brackets.at(-1);
    if (!isLast || top === undefined) return null;
    const typed = text.slice(top.from, at);
    const blanks = typed.length - typed.trimStart().length;
    return placeOf(top.isMap && top.key === null ? "key" : "value", top.from + blanks, typed.trimStart(), null);
  }

  function inText(line: string, offset: number): Place {
    return placeOf("text", offset, line, null);
  }

  function placeOf(kind: Place["kind"], from: number, typed: string, column: number | null): Place {
    const path: (string | null)[] = entries.map((each) => each.step);
    for (const each of brackets) {
      if (!each.isMap) path.push(null);
      else if (each.key !== null) path.push(each.key);
    }
    return { path, kind, from, typed, column };
  }
}

function isBlank(text: string, from: number, to: number): boolean {
  return text.slice(from, to).trim() === "";
}

function unquoted(key: string): string {
  return /^(["']).*\1$/s.test(key) ? key.slice(1, -1) : key;
}
