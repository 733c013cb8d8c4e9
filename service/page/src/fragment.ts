/** The state of a view in the address's fragment, so that a link shows it and no server gets it. */

const MAX_LINK = 48_000;
/** The largest state of a link in bytes: a link of a few thousand characters can inflate to hundreds of megabytes. */
const MAX_STATE = 4_000_000;

async function piped(bytes: BlobPart, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts: BlobPart[] = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const bytes = part.value as Uint8Array<ArrayBuffer>;
    size += bytes.length;
    if (size > MAX_STATE) {
      await reader.cancel();
      throw new RangeError(`expected a state of at most ${MAX_STATE} bytes`);
    }
    parts.push(bytes);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The fragment of a state; empty if it would be too long for a link. */
export async function encoded(state: object): Promise<string> {
  const packed = await piped(JSON.stringify(state), new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of packed) text += String.fromCharCode(byte);
  const found = btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return found.length > MAX_LINK ? "" : found;
}

/** The state of a fragment; `null` if it has none that can be read. */
export async function decoded(fragment: string): Promise<unknown> {
  try {
    const text = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(await piped(bytes, new DecompressionStream("deflate-raw")))) as unknown;
  } catch {
    return null;
  }
}
