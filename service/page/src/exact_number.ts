/**
 * Numbers that JavaScript would change, such as `1.0` or one of twenty digits: kept as they are written until they are
 * sent. Owns their form meanwhile, a string that begins with half of a surrogate pair, as no text of the service does.
 */

const MARK = "\udfff";
/** The mark in JSON, where it is escaped. */
const SENT = /"\\udfff(-?\d[\d.eE+-]*)"/g;
/** A text that has the mark itself, also escaped. */
const TAKEN = /"(?:\\u[dD][fF]{3}|\udfff)/;

/** A number as it is written in JSON: itself if JavaScript writes it so that the service reads the same, else marked. */
export function exact(written: string): number | string {
  const value = Number(written);
  const isHeld = /[.e]/i.test(written)
    ? !Number.isInteger(value) && Number.isFinite(value)
    : Number.isSafeInteger(value);
  return isHeld ? value : MARK + written;
}

/** Whether a value is a text, and no number that is kept as it is written. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && !value.startsWith(MARK);
}

/** A value as JSON, with the numbers as they were written. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value).replace(SENT, "$1");
}

/** Whether a JSON text has a string that looks as a kept number does. */
export function hasMark(text: string): boolean {
  return TAKEN.test(text);
}
