/** The configurations of models that are missing: asked for in place, pasted, chosen or dropped. */

import type { TargetedDragEvent } from "preact";
import { useId, useState } from "preact/hooks";
import type { Problem } from "../api";
import { isObject } from "../member";
import type { LooseConfig } from "./files";

const NEEDED = /the config\.json of `([^`]+)` is needed/g;

/** The models whose configuration the problems ask for. */
export function neededModels(problems: readonly Problem[]): string[] {
  const messages = problems.flatMap((problem) => problem.errors?.map((fault) => fault.message) ?? [problem.detail]);
  return [...new Set(messages.flatMap((message) => [...message.matchAll(NEEDED)].map((match) => match[1] ?? "")))];
}

export function ModelConfigs(properties: {
  readonly models: readonly string[];
  /** Files that came with others, of which it is not known whose they are. */
  readonly loose?: readonly LooseConfig[];
  readonly onConfig: (model: string, config: Record<string, unknown>) => void;
}) {
  return (
    <section class="card ask-config">
      <h2>The config.json of {properties.models.length === 1 ? "the model" : "each model"} is needed</h2>
      <p>It is in the model's repository, beside the weights. Paste it, choose the file, or drop it here.</p>
      {properties.models.map((model) => (
        <ModelConfig key={model} model={model} loose={properties.loose ?? []} onConfig={properties.onConfig} />
      ))}
    </section>
  );
}

function ModelConfig({
  model,
  loose,
  onConfig,
}: {
  readonly model: string;
  readonly loose: readonly LooseConfig[];
  readonly onConfig: (model: string, config: Record<string, unknown>) => void;
}) {
  const [fault, setFault] = useState("");
  const [isOver, setOver] = useState(false);
  const id = useId();
  const read = (text: string): void => {
    setFault("");
    if (text.trim() === "") return;
    try {
      const found = JSON.parse(text) as unknown;
      if (isObject(found)) onConfig(model, found);
      else setFault(`expected an object, got ${text.trim().slice(0, 40)}`);
    } catch (error) {
      setFault(`this is not JSON: ${error instanceof Error ? error.message : "it cannot be read"}`);
    }
  };
  const take = (file: File | undefined): void => {
    file?.text().then(read, () => {
      setFault("the file cannot be read");
    });
  };
  const dropped = (event: TargetedDragEvent<HTMLDivElement>): void => {
    setOver(false);
    const files = event.dataTransfer?.files;
    if (files === undefined || files.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    if (files.length > 1) setFault("expected one file, got several");
    else take(files[0]);
  };
  return (
    <div
      class={isOver ? "model over" : "model"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => {
        setOver(false);
      }}
      onDrop={dropped}
    >
      <label>
        <code id={id}>{model}</code>
        <textarea
          rows={3}
          spellcheck={false}
          placeholder={'{"architectures": [ … ], "model_type": … }'}
          onInput={(event) => {
            read(event.currentTarget.value);
          }}
        />
      </label>
      <p class="row">
        <label class="file">
          or as a file{" "}
          <input
            type="file"
            aria-describedby={id}
            accept=".json,application/json"
            onChange={(event) => {
              take(event.currentTarget.files?.[0]);
            }}
          />
        </label>
        {loose.slice(0, 5).map(({ path, config }) => (
          <button
            key={path}
            type="button"
            onClick={() => {
              onConfig(model, config);
            }}
          >
            Use {path}
          </button>
        ))}
      </p>
      {fault !== "" && <p role="alert">{fault}</p>}
    </div>
  );
}
