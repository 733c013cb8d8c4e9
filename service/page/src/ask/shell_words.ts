/** The words of a command or a script, as a shell splits them. Not here: what a shell expands or runs. */

export interface Word {
  /** Without its quotes. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  /** The number of its command: those between `;`, `|`, `&`, line ends, redirections and parentheses. */
  readonly command: number;
}

/** The longest text that is split, in characters. */
const MAX_TEXT = 1 << 16;
const BLANK = /(?:[^\S\n]|\\\r?\n)+/y;
const COMMENT = /#[^\n]*/y;
const OPERATOR = /\d*[<>]+&?|[;&|()\n]+/y;
const PIECE = /([^\s'"\\;&|()<>]+)|'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])/y;

/** The words of a text; `null` for one that is too long or has a quote without an end. */
export function wordsOf(text: string): Word[] | null {
  if (text.length > MAX_TEXT) return null;
  const found: Word[] = [];
  let at = 0;
  let command = 0;
  const skips = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const isThere = pattern.test(text);
    if (isThere) at = pattern.lastIndex;
    return isThere;
  };
  while (at < text.length) {
    if (skips(BLANK) || skips(COMMENT)) continue;
    if (skips(OPERATOR)) {
      command += 1;
      continue;
    }
    const start = at;
    let word = "";
    for (let piece = pieceAt(text, at); piece !== null; piece = pieceAt(text, at)) {
      const [whole, plain, single, double, escaped] = piece;
      word += plain ?? single ?? double?.replace(/\\\n/g, "").replace(/\\(["\\$`])/g, "$1") ?? escaped ?? "";
      at += whole.length;
    }
    if (at === start) return null;
    found.push({ text: word, start, end: at, command });
  }
  return found;
}

/** The piece of a word at a place; `null` if none begins there. */
function pieceAt(text: string, at: number): RegExpExecArray | null {
  if (text.startsWith("\\\n", at)) return null;
  PIECE.lastIndex = at;
  return PIECE.exec(text);
}

/** A word as a shell reads it back. */
export function quoted(word: string): string {
  return /^[\w./:=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
