import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

function hashOf(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/**
 * One HTML file with its script, its style and their hashes in the content security policy. `runner-policy impact`
 * puts the data in the place of `%DATA%`.
 */
function singleFile() {
  return {
    name: "single-file",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "";
      let style = "";
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === "chunk") script += file.code;
        else if (name.endsWith(".css")) style += file.source.toString();
        else throw new Error(`expected scripts and styles only, got ${name}`);
        Reflect.deleteProperty(bundle, name);
      }
      script = script.trim();
      if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error("a text would end the element");
      const policy =
        `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(style)}; img-src data:; ` +
        "base-uri 'none'; form-action 'none'";
      const parts = { POLICY: policy, STYLE: style, SCRIPT: script, DATA: "%DATA%" };
      const source = readFileSync("report.html", "utf8").replace(
        /\s*%([A-Z]+)%\s*/g,
        (_whole, name) => parts[name] ?? "",
      );
      if (source.split("%DATA%").length !== 2) throw new Error("expected one place for the data");
      this.emitFile({ type: "asset", fileName: "impact_report.html", source });
    },
  };
}

export default defineConfig({
  plugins: [singleFile()],
  build: {
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    rollupOptions: { input: "src/fleet/report.tsx", output: { format: "iife" } },
  },
});
