/** Reads the packed form in which the report has its data: every different value stands once in a table. */

type Packed = {
  readonly shapes: readonly (readonly string[])[];
  readonly values: readonly (string | number | boolean | null | readonly number[])[];
};

/**
 * The last value of the table. A value is a scalar, or a list of numbers: the first is 0 for a list, else the place of
 * an object's names in `shapes`, from 1; the others are the places of its values, which stand before it.
 */
export function unpacked(packed: Packed): unknown {
  const found: unknown[] = new Array<unknown>(packed.values.length);
  packed.values.forEach((value, at) => {
    if (!Array.isArray(value)) {
      found[at] = value;
      return;
    }
    const [shape = 0, ...places] = value as readonly number[];
    const parts = places.map((place) => found[place]);
    found[at] =
      shape === 0 ? parts : Object.fromEntries((packed.shapes[shape - 1] ?? []).map((name, n) => [name, parts[n]]));
  });
  return found.at(-1);
}

/** The value of a packed text, compressed with gzip and written as Base64. */
export async function unpackedText(text: string): Promise<unknown> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpacked((await new Response(stream).json()) as Packed);
}
