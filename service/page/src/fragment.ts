/** The state of a view in the address's fragment, so that a link shows it and no server gets it. */

const MAX_LINK = 48_000;

async function piped(bytes: BlobPart, stream: CompressionStream | DecompressionStream): Promise<ArrayBuffer> {
  return new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer();
}

/** The fragment of a state; empty if it would be too long for a link. */
export async function encoded(state: object): Promise<string> {
  const packed = await piped(JSON.stringify(state), new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of new Uint8Array(packed)) text += String.fromCharCode(byte);
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
