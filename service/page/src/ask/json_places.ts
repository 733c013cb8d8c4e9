/** Where a value is in a JSON text, found without reading all of it as values. */

export interface Span {
  readonly start: number;
  readonly end: number;
}

function skipBlank(text: string, at: number): number {
  let n = at;
  while (n < text.length && /\s/.test(text.charAt(n))) n += 1;
  return n;
}

/** The end of the string that begins at a place. */
export function stringEnd(text: string, at: number): number {
  for (let n = at + 1; n < text.length; n += 1) {
    const character = text.charAt(n);
    if (character === "\\") n += 1;
    else if (character === '"') return n + 1;
  }
  return text.length;
}

/** The end of the value that begins at a place. */
function valueEnd(text: string, at: number): number {
  let depth = 0;
  for (let n = at; n < text.length; n += 1) {
    const character = text.charAt(n);
    if (character === '"') {
      n = stringEnd(text, n) - 1;
      if (depth === 0) return n + 1;
    } else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") {
      if (depth <= 1) return depth === 1 ? n + 1 : n;
      depth -= 1;
    } else if (depth === 0 && (character === "," || /\s/.test(character))) return n;
  }
  return text.length;
}

/** The place of a member or an item of the value that begins at a place; `null` if it has none. */
function childStart(text: string, at: number, step: string | number): number | null {
  const open = text.charAt(at);
  if (open !== (typeof step === "string" ? "{" : "[")) return null;
  let n = skipBlank(text, at + 1);
  for (let count = 0; n < text.length && !/[\]}]/.test(text.charAt(n)); count += 1) {
    let isIt = count === step;
    if (typeof step === "string") {
      const end = stringEnd(text, n);
      isIt = text.slice(n, end) === JSON.stringify(step);
      n = skipBlank(text, skipBlank(text, end) + 1);
    }
    if (isIt) return n;
    n = skipBlank(text, valueEnd(text, n));
    if (text.charAt(n) === ",") n = skipBlank(text, n + 1);
  }
  return null;
}

/** The span of the value at steps in a JSON text; `null` if they lead nowhere. */
export function jsonSpan(text: string, steps: readonly (string | number)[]): Span | null {
  let at: number | null = skipBlank(text, 0);
  for (const step of steps) {
    at = childStart(text, at, step);
    if (at === null) return null;
  }
  return { start: at, end: valueEnd(text, at) };
}
