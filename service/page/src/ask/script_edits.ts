/** The text of a command or a script with a flag or a variable changed, where it is certain which command has it. */

import type { Change } from "../api";
import { shown } from "../remedy_text";
import { type Changed, wordEdits } from "./argument_edits";
import { quoted, type Word, wordsOf } from "./shell_words";

const UNREADABLE = "the page cannot read it as a command";
const SEVERAL = "it has several commands, and the page cannot tell which is meant";
const VARIABLE_FLAGS = new Set(["-e", "--env"]);

/** Whether a text starts vLLM, as far as it is split into words. */
export function startsVllm(text: string): boolean {
  return commandsOf(wordsOf(text) ?? []).some(isStart);
}

/** The text with a flag changed. */
export function scriptWithArgument(text: string, change: Change): Changed<string> {
  const words = wordsOf(text);
  if (words === null) return { why: UNREADABLE };
  const commands = commandsOf(words);
  const drop: Change = { ...change, to: null };
  const having = commands.filter((each) => wordEdits(textsOf(each), drop, null) !== null);
  const starts = commands.filter(isStart);
  const candidates = having.length > 0 || change.to === null ? having : starts.length > 0 ? starts : commands;
  const [command] = candidates;
  if (command === undefined) return { why: `${change.argument ?? "it"} is not a word of a command there` };
  if (candidates.length > 1) return { why: SEVERAL };
  const edits = wordEdits(textsOf(command), change, null) ?? [];
  let found = text;
  for (const { from, to, words: written } of [...edits].reverse()) {
    const start = command[from - 1]?.end ?? command[from]?.start ?? 0;
    const end = command[to - 1]?.end ?? start;
    const added = written.map((word) => ` ${quoted(word)}`).join("");
    found = found.slice(0, start) + added + found.slice(Math.max(start, end));
  }
  return { value: found };
}

/** The text with a variable changed that it sets, or in front of the command that starts vLLM. */
export function scriptWithVariable(text: string, name: string, value: unknown): Changed<string> {
  const words = wordsOf(text);
  if (words === null) return { why: UNREADABLE };
  const places = words.flatMap((word, n) => (word.text.startsWith(`${name}=`) ? [n] : []));
  const [place] = places;
  if (places.length > 1) return { why: `${name} is set several times` };
  if (place !== undefined) return { value: withAssignment(text, words, place, name, value) };
  const starts = commandsOf(words).filter(isStart);
  const first = starts[0]?.[0];
  if (value === null || first === undefined) return { why: `${name} is not set there` };
  if (starts.length > 1) return { why: SEVERAL };
  return { value: `${text.slice(0, first.start)}${name}=${quoted(shown(value))} ${text.slice(first.start)}` };
}

/** The text with another value of an assignment, or without it. */
function withAssignment(text: string, words: readonly Word[], place: number, name: string, value: unknown): string {
  const word = words[place];
  if (word === undefined) return text;
  if (value !== null) return `${text.slice(0, word.start)}${name}=${quoted(shown(value))}${text.slice(word.end)}`;
  const command = words.filter((each) => each.command === word.command);
  const before = words[place - 1]?.command === word.command ? words[place - 1] : undefined;
  if (command.length === 1 || (command.length === 2 && before?.text === "export")) {
    const start = command[0]?.start ?? word.start;
    return `${text.slice(0, start)}unset ${name}${text.slice(word.end)}`; // so that a list of commands stays one
  }
  const start = before !== undefined && VARIABLE_FLAGS.has(before.text) ? before.start : word.start;
  const next = words[place + 1];
  const end = next?.command === word.command ? next.start : word.end;
  return text.slice(0, start) + text.slice(end);
}

function commandsOf(words: readonly Word[]): Word[][] {
  const found = new Map<number, Word[]>();
  for (const word of words) {
    const command = found.get(word.command);
    if (command === undefined) found.set(word.command, [word]);
    else command.push(word);
  }
  return [...found.values()];
}

function textsOf(words: readonly Word[]): string[] {
  return words.map((word) => word.text);
}

/** Whether a command starts vLLM itself. */
function isStart(words: readonly Word[]): boolean {
  return words.some(
    ({ text }, n) =>
      (/^(?:\S*\/)?vllm$/.test(text) && words[n + 1]?.text === "serve") ||
      /^vllm\.entrypoints\.(?:\w+\.)*api_server$/.test(text),
  );
}
