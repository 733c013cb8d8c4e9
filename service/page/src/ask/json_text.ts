/** JSON as the service reads it: the last of duplicate keys counts, and numbers stay as they are written. */

import { exact, hasMark } from "../exact_number";
import { stringEnd } from "./json_places";

/** The value of a JSON text; `undefined` if the text is not JSON, or only the service can read it. */
export function readJson(text: string): unknown {
  try {
    const value = JSON.parse(text) as unknown;
    if (hasMark(text)) return undefined;
    const marked = withExactNumbers(text);
    return marked === text ? value : (JSON.parse(marked) as unknown);
  } catch {
    return undefined;
  }
}

/** The JSON text with a string for each number that JavaScript would change. */
function withExactNumbers(text: string): string {
  const pieces: string[] = [];
  const token = /"|-?\d[\d.eE+-]*/g;
  let start = 0;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    const [written] = found;
    if (written === '"') token.lastIndex = stringEnd(text, found.index);
    else if (typeof exact(written) === "string") {
      pieces.push(text.slice(start, found.index), JSON.stringify(exact(written)));
      start = token.lastIndex;
    }
  }
  return start === 0 ? text : pieces.join("") + text.slice(start);
}
