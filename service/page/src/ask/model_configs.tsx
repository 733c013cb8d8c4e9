/** The configurations of models that are missing: asked for in place, pasted or dropped. */

import type { TargetedDragEvent } from "preact";
import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { isObject } from "./input";

const NEEDED = /the config\.json of `([^`]+)` is needed/g;

/** The models whose configuration the problems ask for. */
export function neededModels(problems: readonly Problem[]): string[] {
  const messages = problems.flatMap((problem) => problem.errors?.map((fault) => fault.message) ?? [problem.detail]);
  return [...new Set(messages.flatMap((message) => [...message.matchAll(NEEDED)].map((match) => match[1] ?? "")))];
}

export function ModelConfigs(properties: {
  readonly models: readonly string[];
  readonly onConfig: (model: string, config: Record<string, unknown>) => void;
}) {
  return (
    <section class="card ask-config">
      <h2>The config.json of {properties.models.length === 1 ? "the model" : "each model"} is needed</h2>
      <p>Paste it, or drop the file here. It is in the model's repository, beside the weights.</p>
      {properties.models.map((model) => (
        <ModelConfig key={model} model={model} onConfig={properties.onConfig} />
      ))}
    </section>
  );
}

function ModelConfig({
  model,
  onConfig,
}: {
  readonly model: string;
  readonly onConfig: (model: string, config: Record<string, unknown>) => void;
}) {
  const [fault, setFault] = useState("");
  const read = (text: string): void => {
    if (text.trim() === "") return;
    try {
      const found = JSON.parse(text) as unknown;
      if (isObject(found)) onConfig(model, found);
      else setFault(`expected an object, got ${text.trim().slice(0, 40)}`);
    } catch (error) {
      setFault(`this is not JSON: ${error instanceof Error ? error.message : "it cannot be read"}`);
    }
  };
  const dropped = (event: TargetedDragEvent<HTMLTextAreaElement>): void => {
    const file = event.dataTransfer?.files[0];
    if (file === undefined) return;
    event.preventDefault();
    file.text().then(read, () => {
      setFault("the file cannot be read");
    });
  };
  return (
    <label>
      <code>{model}</code>
      <textarea
        rows={3}
        spellcheck={false}
        onDrop={dropped}
        onInput={(event) => {
          read(event.currentTarget.value);
        }}
      />
      {fault !== "" && <span role="alert">{fault}</span>}
    </label>
  );
}
