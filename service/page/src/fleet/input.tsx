/** Where files are dropped or chosen, and texts pasted. */

import type { TargetedDragEvent } from "preact";
import { useState } from "preact/hooks";

export function FleetInput(properties: {
  readonly isBusy: boolean;
  readonly onText: (text: string, name: string) => void;
}) {
  const [isOver, setOver] = useState(false);
  const take = (files: FileList | null | undefined): void => {
    const file = files?.[0];
    if (file === undefined) return;
    file.text().then(
      (text) => {
        properties.onText(text, file.name);
      },
      () => undefined,
    );
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
          <span>Drop an impact result here, or choose it: </span>
          <input
            type="file"
            onChange={(event) => {
              take(event.currentTarget.files);
            }}
          />
        </label>
      </p>
      <label class="paste">
        <span>Or paste it:</span>
        <textarea
          rows={6}
          spellcheck={false}
          placeholder='{"targets": ["0.32.0", "0.33.0"], "items": […]}'
          onInput={(event) => {
            properties.onText(event.currentTarget.value, "pasted");
          }}
        />
      </label>
      <p role="status" class="from">
        {properties.isBusy ? "reading…" : ""}
      </p>
    </div>
  );
}
