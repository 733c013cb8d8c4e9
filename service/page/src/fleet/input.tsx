/** Where files are dropped or chosen, and texts pasted. */

import type { TargetedDragEvent } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Source } from "./sources";

const TEXT = { name: "the text", text: "" };

/** The files that can be read, and the names of the others. */
async function readEach(files: readonly File[]): Promise<[Source[], string[]]> {
  const found: Source[] = [];
  const unreadable: string[] = [];
  for (const file of files) {
    try {
      found.push({ name: file.name, text: await file.text() });
    } catch {
      unreadable.push(file.name);
    }
  }
  return [found, unreadable];
}

export function FleetInput(properties: {
  readonly isBusy: boolean;
  /** Takes the sources, and the names of the files that cannot be read. */
  readonly onSources: (sources: readonly Source[], unreadable: readonly string[]) => void;
}) {
  const [isOver, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const take = (files: FileList | null | undefined): void => {
    const chosen = [...(files ?? [])];
    if (chosen.length === 0) return;
    readEach(chosen).then(
      ([found, unreadable]) => {
        properties.onSources(found, unreadable);
      },
      () => undefined,
    );
  };
  const takeText = (): void => {
    const text = area.current?.value ?? "";
    if (text.trim() !== "") properties.onSources([{ ...TEXT, text }], []);
  };
  const over = (event: TargetedDragEvent<HTMLDivElement>): void => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <div
      class={`drop card${isOver ? " over" : ""}`}
      onDragOver={over}
      onDragLeave={() => {
        setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        take(event.dataTransfer?.files);
      }}
    >
      <h1>What does a release change?</h1>
      <p>
        <label class="file">
          <span>Drop manifests or an impact result here, or choose files: </span>
          <input
            type="file"
            multiple
            onChange={(event) => {
              take(event.currentTarget.files);
            }}
          />
        </label>
      </p>
      <label class="paste">
        <span>Or paste a text:</span>
        <textarea
          ref={area}
          rows={8}
          spellcheck={false}
          onPaste={() => {
            setTimeout(takeText);
          }}
        />
      </label>
      <p class="row">
        <button type="button" onClick={takeText}>
          Compare
        </button>
        <span role="status" class="from">
          {properties.isBusy ? "comparing…" : ""}
        </span>
      </p>
    </div>
  );
}
