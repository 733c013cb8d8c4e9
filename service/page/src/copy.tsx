/** A text with a button that copies it. */

import { useState } from "preact/hooks";

export function Copy({ label, text }: { readonly label: string; readonly text: string }) {
  const [said, setSaid] = useState("");
  const write = async (): Promise<void> => {
    await navigator.clipboard.writeText(text); // there is no clipboard on a page from another machine without TLS
  };
  const copy = (): void => {
    write().then(
      () => {
        setSaid("copied");
      },
      () => {
        setSaid("select the text to copy it");
      },
    );
  };
  return (
    <div class="copy">
      <span class="label">{label}</span>
      <code>{text}</code>
      <button type="button" onClick={copy} aria-label={`Copy ${label}`}>
        Copy
      </button>
      <span role="status">{said}</span>
    </div>
  );
}
