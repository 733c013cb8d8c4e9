/** How to set the variable that a decision needs: for a shell, for a manifest, and as a JSON patch. */

import { Copy } from "../copy";

/** A container's pointer in the object of a manifest, from its path; empty if the path is not one of a container. */
function containerPointer(path: string): string {
  const found = /(?:^|\.)(spec\.(?:.*\.)?(?:initC|c)ontainers\[\d+\])$/.exec(path);
  return found?.[1] === undefined ? "" : `/${found[1].replace(/\[(\d+)\]/g, "/$1").replaceAll(".", "/")}`;
}

export function Copies({ env, path }: { readonly env: Record<string, string>; readonly path: string }) {
  const names = Object.entries(env);
  if (names.length === 0) return null;
  const pointer = containerPointer(path);
  const patch = names.map(([name, value]) => ({ op: "add", path: `${pointer}/env/-`, value: { name, value } }));
  return (
    <section class="card" aria-labelledby="to-set">
      <h2 id="to-set">To set</h2>
      <Copy label="variable" text={names.map(([name, value]) => `${name}=${value}`).join(" ")} />
      <Copy label="YAML" text={names.map(([name, value]) => `- {name: ${name}, value: "${value}"}`).join("\n")} />
      {pointer !== "" && <Copy label="JSON patch" text={JSON.stringify(patch)} />}
    </section>
  );
}
