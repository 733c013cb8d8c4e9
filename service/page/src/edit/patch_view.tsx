/** The edit as a patch file: to save, to copy, to read. */

import { useState } from "preact/hooks";
import { Copy } from "../copy";
import { type FileEdit, patchOf } from "./patch";

const MAX_SHOWN = 100_000;

export function PatchView({ edits, name }: { readonly edits: readonly FileEdit[]; readonly name: string }) {
  const [folder, setFolder] = useState("rules");
  const patch = patchOf(edits, folder);
  if (patch === "") return <p>There is nothing to take yet: the texts are the loaded ones.</p>;
  const save = (): void => {
    const address = URL.createObjectURL(new Blob([patch], { type: "text/x-patch" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = `${name}.patch`;
    link.click();
    URL.revokeObjectURL(address);
  };
  return (
    <>
      <div class="row">
        <label>
          Folder of the rules in your repository{" "}
          <input
            value={folder}
            onInput={(event) => {
              setFolder(event.currentTarget.value);
            }}
          />
        </label>
        <button type="button" onClick={save}>
          Save the patch
        </button>
      </div>
      <Copy label="to apply it" text={`git apply ${name}.patch`} />
      <details>
        <summary>The patch</summary>
        <pre class="yaml" tabIndex={0} aria-label="The patch">
          {patch.slice(0, MAX_SHOWN)}
        </pre>
      </details>
    </>
  );
}
