/** How to set the variable that a decision needs: for a shell, for a manifest, and as a JSON patch. */

import { Copy } from "../copy";
import { isObject } from "../member";
import { stepsTo, valueAt } from "./places";

/** The place of a container in the object of a manifest, and that container; `null` if the path is not one of a container. */
function containerAt(manifest: unknown, path: string): [string, Record<string, unknown>] | null {
  const steps = stepsTo(manifest, path);
  const found = /(?:^|\.)(spec\.(?:.*\.)?(?:initC|c)ontainers\[\d+\])$/.exec(path)?.[1];
  const container = steps === null ? undefined : valueAt(manifest, steps);
  if (found === undefined || !isObject(container)) return null;
  return [`/${found.replace(/\[(\d+)\]/g, "/$1").replaceAll(".", "/")}`, container];
}

/** The patch (RFC 6902) that sets variables in a container, which has none of them but may have others. */
function patchOf(pointer: string, container: Record<string, unknown>, names: readonly [string, string][]): object[] {
  const values = names.map(([name, value]) => ({ name, value }));
  if (!Array.isArray(container.env)) return [{ op: "add", path: `${pointer}/env`, value: values }];
  return values.map((value) => ({ op: "add", path: `${pointer}/env/-`, value }));
}

export function Copies(properties: {
  readonly env: Record<string, string>;
  readonly manifest: unknown;
  readonly path: string;
}) {
  const names = Object.entries(properties.env);
  if (names.length === 0) return null;
  const found = containerAt(properties.manifest, properties.path);
  return (
    <section class="card" aria-labelledby="to-set">
      <h2 id="to-set">To set</h2>
      <Copy label="variable" text={names.map(([name, value]) => `${name}=${value}`).join(" ")} />
      <Copy label="YAML" text={names.map(([name, value]) => `- {name: ${name}, value: "${value}"}`).join("\n")} />
      {found !== null && <Copy label="JSON patch" text={JSON.stringify(patchOf(...found, names))} />}
    </section>
  );
}
